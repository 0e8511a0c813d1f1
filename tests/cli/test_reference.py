"""The commands, the index, the help and docs/cli.md say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from every_command import ALL

import memoranda
from memoranda.api.memory import DEFAULT_EMBEDDER
from memoranda.cli import command as options
from memoranda.cli.index import COMMANDS
from memoranda.model.scope import KINDS
from memoranda.server import environment as settings

DOCS = Path(__file__).parents[2].joinpath("docs", "cli.md").read_text(encoding="utf-8")


def flags(command: Any) -> list[str]:
    return [flag for parameter in command.params if parameter.param_type_name == "option" for flag in parameter.opts]


def section(name: str) -> str:
    """Return what docs/cli.md says under the heading of a command."""
    match = re.search(rf"^#+ `memoranda {re.escape(name)}[ `].*?(?=^#|\Z)", DOCS, re.DOTALL | re.MULTILINE)
    assert match, f"docs/cli.md has no heading for `memoranda {name}`"
    return match[0]


def test_the_walk_finds_every_command():
    assert len(ALL) >= 38
    assert {name.split()[0] for name in ALL} == set(COMMANDS)


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_and_an_example_of_itself(name):
    command = ALL[name]
    assert command.help and len(command.help.splitlines()[0]) <= 120
    assert command.epilog and f"memoranda {name}" in command.epilog
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{parameter.name} of {name} has no help"


@pytest.mark.parametrize("name", ALL)
def test_every_command_is_in_the_docs_with_all_its_own_options(name):
    text = section(name)
    common = {f"--{kind}" for kind in KINDS}
    common |= {"--scope", "--db", "--tenant", "--actor", "--json", "--embedder", "--origin", "--epoch"}
    own = {("definitions", "--scope"), ("keys", "--origin"), ("mcp", "--origin")}
    for flag in flags(ALL[name]):
        if flag.startswith("--") and (flag not in common or (name.split()[0], flag) in own):
            assert flag in text, f"docs/cli.md does not name {flag} of {name}"


@pytest.mark.parametrize("name", sorted(set(ALL) - {"tour"}))  # which has a memory of its own
def test_every_command_takes_the_common_options(name):
    assert {"--json", "--db", "--tenant", "--actor"} <= set(flags(ALL[name]))


def test_docs_name_no_command_that_does_not_exist():
    named = set(re.findall(r"^#+ `memoranda ([a-z ]+?)(?: [A-Z\[].*)?`", DOCS, re.MULTILINE))
    assert named == set(ALL)


@pytest.mark.parametrize("group", [name for name in COMMANDS if name not in ALL])
def test_every_group_has_an_example_in_the_docs(group):
    assert re.search(rf"^\$ memoranda {group} ", DOCS, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in ALL if name in COMMANDS])
def test_the_index_says_what_the_command_says(name):
    assert ALL[name].help.splitlines()[0] == COMMANDS[name].help


def test_scope_options_are_the_kinds_of_scope():
    assert sorted(options.KINDS) == sorted(KINDS)


def test_the_default_embedder_is_that_of_the_library():
    assert settings.resolve()["embedder"] == DEFAULT_EMBEDDER


def test_docs_name_every_variable():
    # What each means is in docs/reference/settings.md, which tests/docs compares with the code.
    for name, variable in settings.VARIABLES.items():
        assert re.search(rf"\b{variable}\b", DOCS), name


def test_help_imports_no_more_than_it_needs():
    code = (
        "import sys; from memoranda.cli.app import run; run(['--help']); print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stderr.split())
    assert not {name for name in loaded if name.partition(".")[0] in ("rich", "numpy", "wordllama")}
    assert not loaded & {f"memoranda.cli.{entry.module}" for entry in COMMANDS.values()}


LANGUAGES = {"abl", "mashin", "workflow"}
FILES = {
    "porter.abl": 'AGENT: Porter\nGOAL: "x"\nFLOW:\n  a:\n    REASONING: false\n    RESPOND: "Hi."\n',
    "one.mashin": "machine one\n  implements\n    compute a\n      1\n",
    "say.yaml": "defs:\n  s: {kind: task, action: send_text_message, inputs: {text: Hi.}}\nflow:\n  - do: s\n",
}
LOADED = """
import sys
from memoranda.cli.app import run
assert run(sys.argv[1:]) == 0
print(*{name.split(".")[1] for name in sys.modules if name.startswith("memoranda.")}, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "languages"),
    [
        ("run porter.abl -m hi", {"abl"}),
        ("run one.mashin", {"mashin"}),
        ("run say.yaml --user ada", {"workflow"}),
        ("check porter.abl", {"abl"}),
        ("check one.mashin", {"mashin"}),
        ("check say.yaml", {"workflow"}),
        ("format one.mashin", {"mashin"}),
        ("runs --db runs.db", set[str]()),
        ("facts set k v", set[str]()),
    ],
)
def test_a_command_loads_no_language_but_that_of_its_file(command, languages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    memoranda.open("runs.db").close()
    done = subprocess.run([sys.executable, "-c", LOADED, *command.split()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.splitlines()[-1].split()) & LANGUAGES == languages
