"""Undocumented parts of uvicorn and litestar that the server uses: if one is gone, a test names it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from packaging.specifiers import SpecifierSet
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.supervisors.multiprocess import Multiprocess

import memoranda
from memoranda.server.http_protocol import HttpProtocol

ROOT = Path(__file__).parents[2]
PRIVATE = {("_Application", "_get_default_plugins")}
"""Private methods of other packages that a class of ours overrides."""
USED = {
    HttpToolsProtocol: {
        *("cycle", "flow", "headers", "loop", "parser", "pipeline", "scope", "transport", "url"),
        *("connection_lost", "connection_made", "data_received", "eof_received", "on_header", "on_headers_complete"),
        *("on_message_begin", "on_message_complete", "send_400_response"),
    },
    RequestResponseCycle: {"disconnected", "keep_alive", "message_event", "response_complete", "response_started"},
    Multiprocess: {"signal_queue"},
    Litestar: {"_get_default_plugins", "asgi_handler"},
}


def names_in(kind: type) -> set[str]:
    """Return the methods of a class, and the attributes that it sets on itself."""
    return {*dir(kind), *re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(kind))}


@pytest.mark.parametrize("kind", USED)
def test_what_is_used_is_there(kind: type) -> None:
    missing = USED[kind] - names_in(kind)
    assert missing == set(), (
        f"{kind.__module__}.{kind.__name__} has no {', '.join(sorted(missing))} any more: adapt "
        "server/http_protocol.py, server/launcher.py or server/app.py, then raise the upper bound in pyproject.toml"
    )
    assert "no_such_name" not in names_in(kind)


def test_what_a_connection_uses_is_named_here() -> None:
    source = inspect.getsource(HttpProtocol)
    own = set(vars(HttpProtocol)) | set(re.findall(r"self\.(_\w+)(?:: [^=\n]+)? = ", source))
    assert set(re.findall(r"(?:self|super\(\))\.(\w+)", source)) - own - {"cycle"} <= USED[HttpToolsProtocol] | {
        "__init__"
    }
    assert set(re.findall(r"self\.cycle\.(\w+)", source)) == USED[RequestResponseCycle]
    overridden = {name for name, value in vars(HttpProtocol).items() if inspect.isfunction(value)}
    assert {name for name in overridden if not name.startswith("_")} <= USED[HttpToolsProtocol]


@pytest.mark.parametrize("package", ["litestar", "uvicorn"])
def test_no_version_is_installed_that_was_not_tested(package: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    [allowed] = [line.removeprefix(package) for line in extras["server"] if line.startswith(package)]
    [pinned] = re.findall(
        rf"^{package}==(\d+)\.(\d+)\.\d+$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
    major, minor = map(int, pinned)
    assert f"{major}.{minor}.0" in SpecifierSet(allowed)
    assert f"{major}.{minor + 1}.0" not in SpecifierSet(allowed)


def private_overrides(kinds: Iterator[type]) -> set[tuple[str, str]]:
    """Return (class, name) for each private name of another package that one of these classes defines anew."""
    return {
        (kind.__name__, name)
        for kind in kinds
        for name in vars(kind)
        if re.match("_(?!_|abc_)", name)
        for base in kind.__mro__[1:]
        if base.__module__.partition(".")[0] not in {"memoranda", *sys.stdlib_module_names} and name in vars(base)
    }


def own_classes() -> Iterator[type]:
    """Yield every class of the package."""
    for module in pkgutil.walk_packages(memoranda.__path__, "memoranda."):
        if not module.name.endswith("__main__") and not module.name.startswith("memoranda.testing"):
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if kind.__module__.startswith("memoranda."):
                    yield kind


def test_no_other_private_method_is_overridden() -> None:
    assert private_overrides(own_classes()) == PRIVATE


def test_an_override_of_a_private_method_is_seen() -> None:
    class Loud(HttpProtocol):
        def _unsupported_upgrade_warning(self) -> None: ...

    assert private_overrides(iter([Loud])) == {("Loud", "_unsupported_upgrade_warning")}


def test_the_application_loads_neither_pydantic_nor_attrs() -> None:
    program = """
import sys
from memoranda.server.app import create_app
from memoranda.server.settings import Settings
create_app(Settings(db=":memory:")).state.memory.close()
print("pydantic" in sys.modules, "attr" in sys.modules)
import litestar
litestar.Litestar()
print("pydantic" in sys.modules, "attr" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True True"]
