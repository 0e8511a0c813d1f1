"""Expressions reach nothing: no Python object, no file, no socket, no memory; and a replay sees what the run saw."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.errors import Conflict, InvalidValue, SourceError
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.mashin.expression.compiler import compile_expression, evaluate
from memoranda.mashin.expression.functions import FUNCTIONS, GLOBALS, NAMESPACES
from memoranda.mashin.expression.methods import METHODS
from memoranda.testing.fakes import CountingIds, FakeClock

PRIVATE = ["__class__", "__dict__", "__init__", "__globals__", "__subclasses__", "_closure", "call", "append", "pop"]


@pytest.mark.parametrize("name", PRIVATE)
def test_attributes_of_python_are_missing_fields(name: str) -> None:
    for value in ("'text'", "1", "[1]", "{a: 1}", "true", "now()"):
        assert evaluate(f"{value}.{name}", {}) is None
    assert evaluate(f"(x => x).{name}", {}) is None
    assert evaluate(f"{{{name}: 'own'}}.{name}", {}) == "own"


@pytest.mark.parametrize("name", PRIVATE)
def test_attributes_of_python_cannot_be_called_nor_indexed(name: str) -> None:
    with pytest.raises(SourceError):
        evaluate(f"'a'.{name}()", {})
    assert evaluate(f"'a'['{name}']", {}) is None
    assert evaluate("'a'['length']", {}) == 1


@pytest.mark.parametrize("name", ["open", "eval", "exec", "import", "print", "getattr", "remember", "recall", "fetch"])
def test_no_builtin_of_python_and_no_effect_can_be_called(name: str) -> None:
    with pytest.raises(SourceError) as caught:
        compile_expression(f"{name}('x')")
    assert caught.value.diagnostics[0].code == "unknown_function"
    assert compile_expression("String('x')").value({}) == "x"


def test_an_object_of_python_in_the_scope_gives_away_nothing() -> None:
    class Secret:
        password = "hidden"

    assert evaluate("s.password", {"s": Secret()}) is None
    assert evaluate("s.password", {"s": {"password": "shown"}}) == "shown"
    assert evaluate("[s, s].unique().length", {"s": {1}}) == 1
    assert evaluate("s == t", {"s": Secret(), "t": Secret()}) is False
    assert evaluate("s ? 1 : 2", {"s": Secret()}) == 1
    with pytest.raises(InvalidValue):
        evaluate("'${s}'", {"s": Secret()})


def test_what_can_be_called_is_a_closed_list() -> None:
    assert set(GLOBALS) == {"now", "String", "Number", "Boolean"}
    assert set(NAMESPACES) == {
        "Math", "DateTime", "JSON", "Object", "Set", "UUID", "Intl", "Result", "Option", "String", "form",
    }  # fmt: skip
    assert all(NAMESPACES.values())
    assert {name.partition(".")[0] for name in FUNCTIONS if name != ".."} == {*GLOBALS, *NAMESPACES}
    assert {kind for method in METHODS.values() for kind in method.on} == {list, str, dict, int, float, bool}


def test_expressions_load_no_store_and_no_door_and_are_not_loaded_unasked() -> None:
    code = (
        "import sys, memoranda\n"
        "assert not [name for name in sys.modules if name.startswith('memoranda.mashin')]\n"
        "before = set(sys.modules)\n"
        "import memoranda.mashin.expression.compiler\n"
        "new = set(sys.modules) - before\n"
        "print(sorted(name for name in new if name.startswith(('memoranda.', 'socket', 'http', 'apsw', 'numpy'))))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded: list[str] = literal_eval(out)
    assert "memoranda.mashin.expression.compiler" in loaded
    assert [name for name in loaded if not name.startswith(("memoranda.mashin", "memoranda.lang"))] == []


def test_the_values_in_a_scope_are_never_changed() -> None:
    scope: dict[str, Any] = {"a": [3, 1, 2], "m": {"x": 1}}
    text = "[a.sort(), a.reverse(), a.concat(4), a + [5], Object.merge(m, {y: 2}), a.flat()]"
    assert evaluate(text, scope)[0] == [1, 2, 3]
    assert scope == {"a": [3, 1, 2], "m": {"x": 1}}


def test_the_time_comes_from_the_clock_as_text_in_utc() -> None:
    clock = FakeClock(datetime(2026, 4, 30, 16, 20, tzinfo=UTC))
    assert evaluate("now()", {}, clock=clock) == "2026-04-30T16:20:00.000Z"
    assert evaluate("DateTime.now()", {}, clock=clock) == "2026-04-30T16:20:00.000Z"


def test_chance_and_ids_come_from_the_source_of_ids() -> None:
    text = "[Math.random(), Math.random(), UUID.generate()]"
    first, second, made = evaluate(text, {}, ids=CountingIds())
    assert evaluate(text, {}, ids=CountingIds()) == [first, second, made]
    assert first != second
    assert 0 <= first < 1 and 0 <= second < 1
    assert evaluate("UUID.isValid(id)", {"id": made}) is True
    assert evaluate("UUID.generate() == UUID.generate()", {}) is False


def test_a_replay_gives_what_the_run_has_drawn() -> None:
    program = compile_expression("[now(), Math.random(), UUID.generate(), [1, 2].map(x => Math.random())]")
    run = ExpressionRun(clock=FakeClock())
    was = program.value({}, run)
    assert [kind for kind, _ in run.drawn] == ["now", "random", "uuid", "random", "random"]
    again = ExpressionRun(recorded=run.drawn)
    assert program.value({}, again) == was
    assert again.drawn == run.drawn
    assert program.value({}, ExpressionRun()) != was


def test_a_replay_of_another_program_is_refused() -> None:
    run = ExpressionRun()
    compile_expression("now()").value({}, run)
    with pytest.raises(Conflict, match="asks for random where now was recorded"):
        compile_expression("Math.random()").value({}, ExpressionRun(recorded=run.drawn))
    with pytest.raises(Conflict, match="where nothing was recorded"):
        compile_expression("[now(), now()]").value({}, ExpressionRun(recorded=run.drawn))
