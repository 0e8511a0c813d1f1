"""What a `Hint` names exists: its command on the command line, its route in REST, its call in Python."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import memoranda
from memoranda.cli.app import app
from memoranda.cli.hints import CLI_WORDS
from memoranda.errors import PYTHON_WORDS, Hint, Words, render_hint
from memoranda.mcp.server import MCP_WORDS
from memoranda.server.app import PREFIX, create_app
from memoranda.server.openapi import document
from memoranda.server.problems import REST_WORDS
from memoranda.server.settings import Settings

PACKAGE = Path(memoranda.__file__).parent
TESTED = ("list", "command", "approve", "grant", "load", "split")
"""Actions whose words name a command, a route or a call."""
COMMAND = re.compile(r"\bmemoranda ((?:[a-z]|'[^']*')[^`]*)")
ROUTE = re.compile(r"\b(GET|POST|PUT|DELETE) (/[\w/{}-]*)")
CALL = re.compile(r"\bmemory\.([\w.]+)\(")


def _text(node: ast.expr) -> str:
    """Return a text with `x` for each value that is known only when it runs."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "x"


def _hints() -> Iterator[tuple[str, Hint]]:
    """Yield the hints that the package makes, with their places."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hint" and node.args:
                given: dict[str, Any] = {one.arg or "": _text(one.value) for one in node.keywords}
                hint = Hint(*(_text(one) for one in node.args), **given)  # pyright: ignore[reportArgumentType]
                yield f"{file.relative_to(PACKAGE).as_posix()}:{node.lineno}", hint


FOUND = [(place, hint) for place, hint in _hints() if hint.action in TESTED]
HINTS = list(dict.fromkeys(hint for _, hint in FOUND))


@cache
def _commands() -> Any:
    return get_command(app)


def _missing_command(words: list[str]) -> str:
    """Return what of a command does not exist, or nothing."""
    command = _commands()
    while hasattr(command, "commands") or command is _commands():
        found = command.get_command(None, words[0]) if words else None
        if found is None:
            return f"command {' '.join(words[:1]) or '(none)'}"
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return ", ".join(word for word in words if word.startswith("--") and word not in known)


@cache
def _routes() -> dict[str, Any]:
    with memoranda.open(":memory:") as memory:
        return msgspec.json.decode(document(create_app(Settings(), memory)))["paths"]


def _is_route(method: str, path: str) -> bool:
    asked = f"{PREFIX}{path}".split("/")
    for known, operations in _routes().items():
        parts = known.split("/")
        same = len(parts) == len(asked) and all(
            one == other or one.startswith("{") for one, other in zip(parts, asked, strict=True)
        )
        if same and method.lower() in operations:
            return True
    return False


def _is_call(path: str) -> bool:
    with memoranda.open(":memory:") as memory:
        found: object = memory
        for name in path.split("."):
            found = getattr(found, name, None)
        return callable(found)


def test_hints_are_found() -> None:
    assert len(FOUND) > 15, "hints are no longer found where they are made"
    assert {hint.action for hint in HINTS} == set(TESTED)


@pytest.mark.parametrize(
    "words", [PYTHON_WORDS, CLI_WORDS, REST_WORDS, MCP_WORDS], ids=["Python", "CLI", "REST", "MCP"]
)
def test_what_a_hint_names_exists(words: Words) -> None:
    wrong: list[str] = []
    for place, hint in FOUND:
        said = render_hint(hint, words)
        wrong += [f"{place}: {said}" for found in COMMAND.findall(said) if _missing_command(shlex.split(found))]
        wrong += [f"{place}: {said}" for found in ROUTE.findall(said) if not _is_route(*found)]
        wrong += [f"{place}: {said}" for found in CALL.findall(said) if not _is_call(found)]
    assert wrong == []


@pytest.mark.parametrize("hint", [hint for hint in HINTS if hint.action == "list"], ids=lambda hint: hint.target)
def test_what_can_be_listed_can_be_listed_everywhere(hint: Hint) -> None:
    assert COMMAND.search(render_hint(hint, CLI_WORDS))
    assert ROUTE.search(render_hint(hint, REST_WORDS))
    assert CALL.search(render_hint(hint, PYTHON_WORDS))


def test_the_check_notices_what_does_not_exist() -> None:
    assert _missing_command(["runs", "show", "r1"]) == ""
    assert _missing_command(["runs", "begin"]) == "command begin"
    assert _missing_command(["collections", "reembed", "notes", "--undo"]) == "--undo"
    assert _is_route("POST", "/approvals/approval_1/approve") and not _is_route("GET", "/definitions")
    assert _is_call("runs.list") and not _is_call("keys.list")
