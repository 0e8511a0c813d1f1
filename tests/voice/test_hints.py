"""A hint that only one surface can follow is a `Hint`, so that each surface says it in its own words, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hints import COMMANDS, ON_THE_COMMAND_LINE, PYTHON

import memoranda
from memoranda.cli.hints import CLI_WORDS
from memoranda.errors import NEUTRAL_WORDS, PYTHON_WORDS, Action, Hint, NotFound, Words, render_error, render_hint
from memoranda.mcp.server import MCP_WORDS
from memoranda.server.problems import REST_WORDS

PACKAGE = Path(memoranda.__file__).parent
OWN_WORDS = ("cli", "client", "errors.py", "mcp", "server/environment.py", "server/launcher.py", "testing")
"""Where errors are read by the users of one surface only, and where the words of surfaces are defined."""
HINTS = [
    Hint("approve", "approval_1"),
    Hint("command", "doctor"),
    Hint("embedder"),
    Hint("grant", "memory.read", actor="agent:mail", scope="user:ada"),
    Hint("install", "llm"),
    Hint("list", "definitions"),
    *(Hint("load", target) for target in ("actions", "machines", "model", "workflows")),
    Hint("policy"),
    Hint("python", "Pass owner=…"),
    Hint("read"),
    Hint("set", "SHELF_KEY"),
    Hint("split"),
    Hint("withdraw", "rejection_1", scope="user:ada"),
]


class Module:
    """The expressions of a module whose values can become hints."""

    def __init__(self, file: Path) -> None:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        self._values: dict[str, list[ast.expr]] = {}
        self._hints: list[ast.expr] = []
        self._places: dict[str, int] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                self._see_function(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._see_call(node)
            elif isinstance(node, ast.Assign):
                self._see_assignment(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._see_assignment(node.target, node.value)

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield the line and text of each plain hint, also of those that come by way of a variable."""
        left, seen = [*self._hints], set[str]()
        while left:
            one = left.pop()
            if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Hint":
                continue
            if isinstance(one, ast.Name) and one.id not in seen:
                seen.add(one.id)
                left += self._values.get(one.id, [])
            elif isinstance(one, ast.JoinedStr):
                parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in one.values)
                yield one.lineno, "".join(parts)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.lineno, one.value
            else:
                left += [child for child in ast.iter_child_nodes(one) if isinstance(child, ast.expr)]

    def _see_function(self, node: ast.FunctionDef) -> None:
        names = [one.arg for one in node.args.args]
        if "hint" in names:
            self._places[node.name] = names.index("hint") - (names[0] == "self")
        if "hint" in node.name:
            self._hints += [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]

    def _see_call(self, node: ast.Call) -> None:
        self._hints += [one.value for one in node.keywords if one.arg in ("hint", "otherwise")]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        place = self._places.get(name, len(node.args))
        self._hints += node.args[place : place + 1]

    def _see_assignment(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, part in zip(target.elts, value.elts, strict=False):  # a star takes several
                self._see_assignment(one, part)


def test_no_plain_hint_is_for_one_surface_alone() -> None:
    seen, found = 0, list[str]()
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        if place.startswith(OWN_WORDS):
            continue
        for line, text in Module(file).texts():
            seen += 1
            said = ON_THE_COMMAND_LINE.sub("", text)
            # No surface but the command line shows the hints of a store; the server replaces them.
            if PYTHON.search(said) or (COMMANDS.search(said) and not place.startswith("store/")):
                found.append(f"{place}:{line}: {text}")
    assert found == []
    assert seen > 900, "hints are no longer found where they are given"


@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: f"{hint.action}-{hint.target}")
def test_every_surface_says_a_hint_in_its_own_words(hint: Hint) -> None:
    said = {name: render_hint(hint, words) for name, words in SURFACES.items()}
    assert said["Python"]
    for name in ("command line", "REST", "MCP", "neutral"):
        assert not PYTHON.search(said[name]), name
    assert not ON_THE_COMMAND_LINE.search(said["command line"])
    assert not COMMANDS.search(said["REST"].partition("Ask the operator")[0])


SURFACES: dict[str, Words] = {
    "Python": PYTHON_WORDS,
    "command line": CLI_WORDS,
    "REST": REST_WORDS,
    "MCP": MCP_WORDS,
    "neutral": NEUTRAL_WORDS,
}


def test_there_is_an_example_of_every_action() -> None:
    assert {hint.action for hint in HINTS} == set(get_args(Action))


def test_a_surface_leaves_out_what_it_cannot_do() -> None:
    error = NotFound("unknown fact `tea`", hint=("Write it first", Hint("python", "Pass default=…")))
    assert str(error) == "unknown fact `tea`. Write it first, or pass default=…"
    assert error.hint == "Write it first, or pass default=…"
    assert render_error(error, REST_WORDS) == "unknown fact `tea`. Write it first"
    assert render_hint(Hint("python", "Pass default=…"), CLI_WORDS) == ""


GRANT = Hint("grant", "memory.read", actor="the mail", scope="user:ada")
SAID = {
    "Python": "Grant it with memory.permissions.grant('the mail', 'memory.read', scope=memory.at('user:ada').scope)",
    "command line": "Grant it with `memoranda permissions grant 'the mail' memory.read --scope user:ada`",
    "REST": "Ask an administrator of the tenant to grant `memory.read` to `the mail` in `user:ada`",
    "MCP": "Ask the user to grant `memory.read` to `the mail` in `user:ada`",
    "neutral": "Ask for a grant of `memory.read` to `the mail` in `user:ada`",
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_grant_is_asked_for_where_it_can_be_given(surface: str) -> None:
    assert render_hint(GRANT, SURFACES[surface]) == SAID[surface]
