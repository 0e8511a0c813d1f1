"""The package itself: the sync client is the async one, httpx is needed only here, and nothing else is pulled in."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.client import generate


def test_the_client_without_asyncio_is_as_it_is_made() -> None:
    assert generate.differences() == [], "run `python -m memoranda.client.generate`"


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "SYNC", tmp_path)
    # What is written stays as it is here, so each file is made once, not at each of the six calls.
    monkeypatch.setattr(generate, "sync_source", cache(generate.sync_source))
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "facts.py").write_text("edited by hand", encoding="utf-8")
    (tmp_path / "stray.py").write_text("left behind", encoding="utf-8")
    assert generate.differences() == ["facts.py", "stray.py"]
    assert generate.main([]) == 0
    assert generate.differences() == [] and not (tmp_path / "stray.py").exists()
    assert generate.main(["--chekc"]) == 2


def test_words_that_have_no_twin_are_refused() -> None:
    made = generate.sync_source("async def f(c):\n    async with c:\n        await c.aclose()\n", "x.py")
    assert made.splitlines()[1:] == ["def f(c):", "    with c:", "        c.close()"]
    with pytest.raises(SystemExit, match="asyncio"):
        generate.sync_source("async def f():\n    await asyncio.gather()\n", "x.py")


def _calls(made: Any) -> dict[str, str]:
    """Return every public call of a client with its parameters."""
    desks = {f"{name}.": type(desk) for name, desk in vars(made).items() if name[0] != "_" and name != "url"}
    return {
        f"{desk}{call}": re.sub(r"Async| at 0x[0-9a-f]+", "", str(inspect.signature(one)))
        for desk, kind in {"": type(made), **desks}.items()
        for call, one in vars(kind).items()
        if call[0] != "_"
    }


def test_both_clients_have_the_same_calls() -> None:
    made = memoranda.AsyncClient("http://127.0.0.1:1", "mk_x")
    written = _calls(made)
    with memoranda.Client("http://127.0.0.1:1", "mk_x") as client:
        assert {**_calls(client), "aclose": written["aclose"]} == {**written, "close": written["aclose"]}
    assert {"memory.update", "facts.set", "collections.recall", "chat", "ledger.verify", "erase"} <= written.keys()


def test_every_public_call_says_what_it_does() -> None:
    made = memoranda.AsyncClient("http://127.0.0.1:1", "mk_x")
    desks = [getattr(made, name) for name in vars(made) if not name.startswith("_") and name != "url"]
    calls = [one for desk in (made, *desks) for name, one in inspect.getmembers(desk, callable) if name[0] != "_"]
    assert len(calls) > 30
    assert [one for one in calls if not one.__doc__] == []


def test_both_are_context_managers_that_close() -> None:
    with memoranda.Client("http://127.0.0.1:1", "mk_x", retries=0) as client:
        pass
    with pytest.raises(memoranda.Unavailable, match="closed"):
        client.memory.list()

    async def use() -> None:
        async with memoranda.AsyncClient("http://127.0.0.1:1", "mk_x", retries=0) as client:
            pass
        with pytest.raises(memoranda.Unavailable, match="closed"):
            await client.memory.list()

    import asyncio

    asyncio.run(use())


def test_importing_memoranda_does_not_import_httpx_and_the_client_no_server() -> None:
    script = """
        import sys, memoranda
        assert "httpx" not in sys.modules and "memoranda.client" not in sys.modules
        memoranda.Client("http://127.0.0.1:1", "mk_x").close()
        assert "httpx" in sys.modules
        late = {"litestar", "uvicorn", "jwt", "pydantic_ai", "numpy"} & set(sys.modules)
        assert not late, late
        assert not [name for name in sys.modules if name.startswith("memoranda.server")]
    """
    _run(script)


def test_without_httpx_the_client_says_what_to_install() -> None:
    script = """
        import sys
        sys.modules["httpx"] = None
        import memoranda
        for name in ("Client", "AsyncClient"):
            try:
                getattr(memoranda, name)
            except memoranda.UsageError as error:
                assert "memoranda[client]" in str(error), error
            else:
                raise SystemExit("it was there")
        assert not hasattr(memoranda, "Clinet")
    """
    _run(script)


def _run(script: str) -> None:
    import textwrap

    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_client_imports_only_what_travels() -> None:
    """What it imports of ours: wire, model, errors, and itself."""
    import ast

    folder = Path(generate.HERE)
    imported = {
        node.module
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("memoranda")
    }
    parts = {name.split(".")[1] for name in imported}
    assert parts == {"client", "errors", "model", "wire"}
