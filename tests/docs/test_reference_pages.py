"""The pages of reference say what the code says, and every public name is on them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import memoranda
from memoranda.errors import MemorandaError


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "memoranda_reference", Path(__file__).parents[2] / "tools" / "reference.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _generator()


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_gives(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.PAGES[name](), "run `python tools/reference.py`"


def test_a_setting_that_says_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(reference.server_settings)
    assert reference._meanings()["workers"] == "Number of server processes."
    silent = source.replace('    """Number of server processes."""\n', "")
    assert silent != source
    monkeypatch.setattr(reference.inspect, "getsource", lambda _: silent)
    with pytest.raises(AssertionError, match="`workers` does not say"):
        reference._meanings()


def test_every_route_is_on_the_page_once() -> None:
    import json

    document = json.loads((reference.ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    routes = [f"{verb.upper()} {path}" for path, calls in document["paths"].items() for verb in calls]
    shown = re.findall(r"^### `([A-Z]+ /[^`]*)`$", reference.rest_page(), re.MULTILINE)
    assert len(routes) > 60 and sorted(shown) == sorted(routes)


# what is public


def public(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", reference.MODULES)
def test_what_is_public_is_there_sorted_and_says_what_it_is(module: str) -> None:
    names = public(module)
    assert names and len(set(names)) == len(names)
    # Constants, then classes, then functions: the order that ruff gives.
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    things = {name: getattr(importlib.import_module(module), name) for name in names}
    silent = [
        name for name, thing in things.items() if (inspect.isclass(thing) or callable(thing)) and not thing.__doc__
    ]
    assert silent == []


@pytest.mark.parametrize("module", reference.MODULES)
def test_nothing_visible_is_left_out_of_what_is_public(module: str) -> None:
    """A name without an underscore in a package's own text is public, or a module below it."""
    package = importlib.import_module(module)
    below = {name for _, name, _ in pkgutil.iter_modules(package.__path__)}
    languages = (
        {"TYPE_CHECKING", "Any", "import_module", "UsageError"} if module != "memoranda" else {"TYPE_CHECKING", "Any"}
    )
    visible = {name for name in vars(package) if not name.startswith("_")}
    assert visible - below - set(package.__all__) - languages == set()


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_is_on_the_page(module: str) -> None:
    page = (reference.FOLDER / "python.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^### ([\w.]+)$", page, re.MULTILINE))
    package = importlib.import_module(module)
    elsewhere = {"AsyncClient"} | (set(memoranda.__all__) if module == "memoranda.client" else set())
    wanted = {
        f"{module}.{name}"
        for name in package.__all__
        if name not in elsewhere
        if not inspect.ismodule(thing := getattr(package, name))
        if not (inspect.isclass(thing) and issubclass(thing, MemorandaError))
    }
    assert wanted or module == "memoranda.client"
    assert sorted(wanted - shown) == []


# Its examples need a server: docs/client.md has them, and they are run there.
_SHOWN_ELSEWHERE = {"Client", "AsyncClient"}


def _examples(thing: object) -> str:
    lines = (inspect.getdoc(thing) or "").splitlines()
    return "\n".join(line for line in lines if line.lstrip().startswith((">>>", "...")))


def _is_value(thing: object) -> bool:
    """Say whether something is a value or what calls return: examples of those calls show it."""
    if not inspect.isclass(thing):
        return not callable(thing)
    fields = ("__struct_fields__", "__dataclass_fields__", "_fields")
    return issubclass(thing, Exception) or any(hasattr(thing, name) for name in fields)


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_call_has_an_example_that_is_run(module: str) -> None:
    package = importlib.import_module(module)
    shown = _examples(package)
    silent: list[str] = []
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.ismodule(thing) or _is_value(thing) or name in _SHOWN_ELSEWHERE | reference._MADE_BY_CALLS:
            continue
        own = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
        if not any(_examples(one) for one in own) and not re.search(rf"\b{name}\(", shown):
            silent.append(name)
    assert silent == []
