"""What is imported when: storing facts loads two packages, and each other package is loaded when it is first used.

Only declared dependencies may be imported: a package that is installed by chance may be gone tomorrow.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "memoranda"

CORE = {"apsw", "msgspec"}
OPTIONAL_BELOW = {"typing_extensions"}
"""What these two import themselves, where it is there."""
LAYERS = {"api", "engine", "errors", "governance", "model", "store"}
LATER = {"asyncio", "concurrent", "dataclasses", "email", "http", "json", "logging", "multiprocessing", "socket"}
LATER |= {"sqlite3", "ssl", "subprocess", "tempfile", "unittest", "xml", "zipfile"}
"""Parts of the standard library that take long, or that a memory in a file has no use for."""

LOADED = """
import sys
before = set(sys.modules)
import {}
new = [name for name in sys.modules if name not in before]
import json
print(json.dumps(new))
"""


def loaded_by(module: str) -> list[str]:
    """Return the modules that an import loads in a fresh process."""
    done = subprocess.run([sys.executable, "-c", LOADED.format(module)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def packages(modules: list[str]) -> set[str]:
    """Return the packages, other than ours, that modules are of, without those of the standard library."""
    tops = {name.partition(".")[0] for name in modules}
    # What Cython and the build of Python leave there belongs to no package.
    made = {top for top in tops if re.match("_?cython|_sysconfigdata", top)}
    return tops - sys.stdlib_module_names - made - OPTIONAL_BELOW - {"memoranda"}


def test_importing_it_loads_two_packages_and_the_layers_below_the_doors() -> None:
    modules = loaded_by("memoranda")
    assert packages(modules) == CORE
    assert {name.split(".")[1] for name in modules if name.startswith("memoranda.")} == LAYERS
    assert {name.partition(".")[0] for name in modules} & LATER == set()
    assert len(modules) <= 202


@pytest.mark.parametrize(
    ("module", "also"),
    [
        ("memoranda.chat", set[str]()),
        ("memoranda.sleep", set[str]()),
        ("memoranda.client", set[str]()),
        ("memoranda.mcp.tools", set[str]()),
        ("memoranda.server", set[str]()),
        ("memoranda.abl.agent", set[str]()),
        ("memoranda.mashin.loader", set[str]()),
        ("memoranda.workflow.loader", {"jsonata", "yaml"}),
        ("memoranda.retrieval.embed.hashing", {"numpy"}),
    ],
)
def test_a_door_loads_what_it_needs_and_no_more(module: str, also: set[str]) -> None:
    modules = loaded_by(module)
    assert module in modules
    assert packages(modules) == CORE | also


# what would reach the network

HTTP = {"aiohttp", "httpcore", "httpcore2", "httpx", "httpx2", "huggingface_hub", "requests", "tokenizers", "urllib3"}
"""Packages that are an HTTP library, or that bring one."""
NETWORK = HTTP | {"asyncio", "ftplib", "http", "http.client", "smtplib", "socket", "ssl", "urllib.request"}

OFFLINE = """
import json, sys
reached = []
sys.addaudithook(lambda event, _: reached.append(event) if event.partition(".")[0] in ("socket", "urllib") else None)
import memoranda
with memoranda.open(sys.argv[1]) as memory:
    ola = memory.scope(user="ola")
    ola.set("seat", "C4")
    ola.remember("The balcony is closed", collection="notes")
    ola.remember_many([{"content": "Programmes are sold out"}, {"content": "Doors open at seven"}], collection="notes")
    found = ola.recall("may I sit on the balcony", collection="notes").results[0].content
loaded, opened = list(sys.modules), list(reached)
import socket, urllib.request
socket.socket().close()
print(json.dumps({"found": found, "loaded": loaded, "opened": opened, "control": [reached, list(sys.modules)]}))
"""


def test_remembering_and_recalling_load_no_http_library_and_open_no_socket(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OFFLINE, str(tmp_path / "memory.db")]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert said["found"] == "The balcony is closed"
    assert "numpy" in said["loaded"]  # so the default embedder has worked
    assert NETWORK & set(said["loaded"]) == set()
    assert said["opened"] == []
    # The hook sees a socket, and the list of modules what was imported, once there is something to see.
    reached, modules = said["control"]
    assert "socket.__new__" in reached
    assert {"socket", "http.client", "urllib.request"} <= set(modules)


# what is declared


def declared() -> dict[str, set[str]]:
    """Return the packages that pyproject.toml names: those of the core under `""`, and those of each extra."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: {_name_in(line) for line in lines} for extra, lines in wanted.items() if extra != "all"}


def _name_in(requirement: str) -> str:
    return _plain(re.split(r"[\[<>=;~! (]", requirement)[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


BROUGHT_BY = {"anyio": "litestar", "cryptography": "pyjwt", "httpcore": "httpx"}
"""Packages that are part of what another one offers: its event loop, its algorithms, its connections."""


_IMPORT = re.compile(r'^ *(?:from (\w+)[\w.]* import |import (\w+))|import_module\("(\w+)', re.MULTILINE)


def imported() -> dict[str, set[str]]:
    """Return every package that the source imports, wherever in a file, with the files that do."""
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for match in _IMPORT.finditer(file.read_text(encoding="utf-8")):
            found.setdefault(match[match.lastindex or 0], set()).add(file.relative_to(SOURCE).as_posix())
    return {name: files for name, files in found.items() if name not in {*sys.stdlib_module_names, "memoranda"}}


def test_every_package_that_is_imported_is_declared() -> None:
    known = set[str]().union(*declared().values())
    for part, whole in BROUGHT_BY.items():
        assert whole in known
        assert part in {_name_in(line) for line in importlib.metadata.requires(whole) or ()}
    homes = importlib.metadata.packages_distributions()
    undeclared = {
        name: files
        for name, files in imported().items()
        if not {_plain(home) for home in homes.get(name, [])} & {*known, *BROUGHT_BY}
    }
    # The shipped test suites are there for those who write tests, and so have pytest.
    beside = {name: files for name, files in undeclared.items() if not all(one.startswith("testing/") for one in files)}
    assert beside == {}
    assert {"apsw", "numpy", "typer", "httpx", "litestar"} <= set(imported())


def test_what_the_core_needs_is_used() -> None:
    homes = importlib.metadata.packages_distributions()
    used = {_plain(home) for name in imported() for home in homes.get(name, [])}
    assert declared()[""] - used == set()


def installed_with(*names: str) -> set[str]:
    """Return these packages and all that pip installs with them on this machine, as their metadata says."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            needed = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [_plain(one.name) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def test_the_core_brings_no_http_library() -> None:
    http = {_plain(name) for name in HTTP}
    assert installed_with(*declared()[""]) & http == set()
    assert {"tokenizers", "huggingface-hub"} <= installed_with(*declared()["onnx"]) & http
    assert "httpx" in installed_with(*declared()["client"]) & http


def test_the_page_about_installing_names_every_package_of_the_core() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| ([\w-]+) \| [\d.]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(named) == sorted(installed_with(*declared()[""]) | {"memoranda"})
    said = re.search(r"It installs (\d+)\s+packages, (\d+) MiB", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert said and int(said[1]) == len(named) and f"It takes about {said[2]} MiB" in page


def test_the_page_about_installing_names_every_extra_and_what_it_brings() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*) \| \d+ MiB \|$", page, re.MULTILINE))
    assert set(rows) == {*declared(), "all"} - {""}
    assert [
        (extra, name) for extra, names in declared().items() for name in names if extra and name not in rows[extra]
    ] == []


def _imports_from_own_package(file: Path, text: str) -> list[str]:
    """Return the imports of a module that take a module from a package around it which imports its modules itself."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        folder = SOURCE.parent.joinpath(*(node.module or "").split(".")) if isinstance(node, ast.ImportFrom) else None
        if folder is None or folder == SOURCE or folder not in file.parents or not (folder / "__init__.py").exists():
            continue
        begins = ast.parse((folder / "__init__.py").read_text()).body
        if any(isinstance(one, ast.ImportFrom) and (one.module or "").startswith("memoranda") for one in begins):
            found.append(f"{file.relative_to(SOURCE)}: {ast.unparse(node)}")
    return found


def test_no_module_takes_another_from_a_package_that_is_being_imported() -> None:
    """Two threads that import two modules of the package at once would get one that is only half there."""
    files = [file for file in SOURCE.rglob("*.py") if file.name != "__init__.py"]
    assert [line for file in files for line in _imports_from_own_package(file, file.read_text())] == []
    wrong = "from memoranda.sleep import jobs"
    assert _imports_from_own_package(SOURCE / "sleep" / "undo.py", wrong) == [f"sleep/undo.py: {wrong}"]
