"""`import memoranda` exports exactly the names it declares."""

from __future__ import annotations

import inspect
import subprocess
import sys

import memoranda
from memoranda import errors
from memoranda.api.blocks import Blocks
from memoranda.api.tenant import TenantHandle


def test_all_is_what_is_visible() -> None:
    visible = {
        name
        for name, member in vars(memoranda).items()
        if not name.startswith("_") and not inspect.ismodule(member) and name not in ("TYPE_CHECKING", "Any")
    }
    classes = {"AsyncClient", "AsyncMemory", "AsyncScopedMemory", "Client", "Recording"}
    classes |= {"MoveProgress", "Moved", "MovedTable", "migrate"}
    later = classes | {"abl", "chat", "mashin", "sleep", "testing", "workflow"}
    assert sorted(visible | later) == sorted(memoranda.__all__)
    for name in memoranda.__all__:
        assert getattr(memoranda, name).__doc__


def test_a_prompt_completes_what_is_public_and_nothing_else() -> None:
    script = "import memoranda; print(*[name for name in dir(memoranda) if name[0] != '_'])"
    names = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert names == sorted(memoranda.__all__)


WITHOUT_EXAMPLE = {"Memory.close": "a `with` block does it", "Runs.decision": "a run has to wait for it first"}


def examples_of(kind: type) -> str:
    """Return all examples in the docstrings of a class and its members."""
    said = [kind.__doc__, *(member.__doc__ for member in vars(kind).values())]
    return "\n".join(line for text in said for line in (text or "").splitlines() if line.strip()[:3] in (">>>", "..."))


def test_every_call_of_a_handle_is_shown_in_an_example() -> None:
    kinds = [memoranda.Memory, memoranda.ScopedMemory, memoranda.Batch, Blocks, *TenantHandle.__subclasses__()]
    calls = [
        (f"{kind.__name__}.{name}", f".{name}(" in examples_of(kind))
        for kind in kinds
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]
    assert len(calls) > 60
    assert {name for name, shown in calls if not shown} == set(WITHOUT_EXAMPLE)


def test_every_error_is_exported_with_a_code_of_its_own() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MemorandaError)
    ]
    assert {kind.__name__ for kind in kinds} <= set(memoranda.__all__)
    assert len({kind.code for kind in kinds}) == len(kinds) > 20


def test_the_drawn_tree_of_errors_is_the_real_one() -> None:
    drawn = errors.__doc__ or ""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.MemorandaError):
            assert kind.__name__ in drawn, f"{kind.__name__} is missing from the picture"


def test_importing_it_loads_no_extra_and_no_command_line() -> None:
    script = "import sys, memoranda; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "memoranda" in loaded and "apsw" in loaded
    extras = {"asyncio", "typer", "rich", "litestar", "httpx", "pydantic", "psycopg", "hypothesis", "pytest"}
    not_yet = {"numpy", "jsonschema_rs"}
    assert not (extras | not_yet) & set(loaded)
