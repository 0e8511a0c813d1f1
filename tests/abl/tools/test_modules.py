"""Where tools come from: a mapping, a module, a Python file, or the name of a module."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda.abl.tools.toolbox import functions_of
from memoranda.errors import UsageError

SOURCE = """
    from __future__ import annotations
    from dataclasses import dataclass
    from json import dumps
    from rates import RATE

    @dataclass
    class Room:
        number: int

    def price(nights: int) -> int:
        return nights * RATE

    async def room() -> Room:
        return Room(_first())

    def _first() -> int:
        return 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tools.py").write_text(textwrap.dedent(SOURCE))
    (tmp_path / "rates.py").write_text("RATE = 90\n")
    yield tmp_path
    sys.modules.pop("rates", None)


@pytest.mark.parametrize("kind", [str, Path])
def test_the_public_functions_of_a_file_are_tools(make_box, folder, kind):
    box = make_box(tools=kind(folder / "tools.py"))
    assert box.call("price", [3], {}).value == 270
    assert box.call("room", [], {}).value == {"number": 7}
    assert [name for name in ("price", "room", "_first", "dumps", "dataclass", "Room") if box.knows(name)] == [
        "price",
        "room",
    ]
    assert str(folder) not in sys.path


def test_two_files_of_the_same_name_stay_apart(tmp_path):
    for city in ("porto", "faro"):
        (tmp_path / city).mkdir()
        (tmp_path / city / "tools.py").write_text(f"def where():\n    return {city!r}\n")
    found = [functions_of(tmp_path / city / "tools.py")["where"] for city in ("porto", "faro")]
    assert [function() for function in found] == ["porto", "faro"]


def test_a_module_and_its_name_give_the_same(monkeypatch):
    module = types.ModuleType("some_tools")
    exec("def one():\n    return 1\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "some_tools", module)
    assert functions_of(module) == functions_of("some_tools") == {"one": module.one}


def test_a_module_may_list_what_it_offers(monkeypatch):
    module = types.ModuleType("some_tools")
    exec("from textwrap import dedent\n__all__ = ['dedent']\ndef two(): pass\n", module.__dict__)
    assert list(functions_of(module)) == ["dedent"]


def test_nothing_gives_no_tools():
    assert functions_of(None) == {} == functions_of({})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("absent.py", None, "does not exist"),
        ("empty.py", "x = 1\n", "has no public function"),
        ("broken.py", "def (:\n", "SyntaxError"),
        ("failing.py", "1 / 0\n", "ZeroDivisionError: division by zero"),
        ("needy.py", "import surely_nobody_has_this\n", "surely_nobody_has_this"),
    ],
)
def test_a_file_that_gives_no_tools_is_an_error_that_says_why(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said) as raised:
        functions_of(tmp_path / name)
    assert raised.value.hint
    assert (
        not [module for module in sys.modules if module.startswith(f"_memoranda_tools_{name[:-3]}_")]
        or text == "x = 1\n"
    )
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("surely_nobody_has_this", "the module `surely_nobody_has_this` does not exist"),
        ("json.nothing_there", "the module `json.nothing_there` does not exist"),
        ("", "cannot be loaded"),
        ({"x": 5}, "the tool `x` is `5`"),
        ({5: print}, "the tool `5`"),
        ([print], "does not provide tools"),
    ],
)
def test_what_gives_no_tools_is_refused(tools, said):
    with pytest.raises(UsageError, match=said):
        functions_of(tools)
