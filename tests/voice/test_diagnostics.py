"""The same mistake in the three languages: shown in the same layout, under the same code where it is the same fault.

One small program is written in each language. A mistake is an edit of it, marked `«right¦wrong»`: without the edit
nothing is wrong, with it `memoranda check` shows the place, the line, a caret under the fault, and a way out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from memoranda.cli.app import app

PROGRAMS = {
    "tuner.abl": """\
AGENT: Tuner
GOAL: "Look after pianos"

MEMORY:
  session:
    - visits
      TYPE: number
      INITIAL: 0
  persistent:
    - user.piano
  remember:
    - WHEN: visits > 3
      STORE: visits -> user.piano
      TTL: 30d

FLOW:
  greet:
    REASONING: false
    SET: visits = ABS(2)
    RESPOND: "Good day."
    THEN: part
  part:
    REASONING: false
    RESPOND: "Until next year."
    THEN: COMPLETE
""",
    "tuner.mashin": """\
machine tuner
  accepts
    visits as number, is required
  responds with
    tuned as number
  ensures
    permissions
      allowed to
        memory
  implements
    remember keep
      content: "The piano was tuned"
      collection: "pianos"
      ttl: "30d"
    compute reply
      {
        tuned: Math.abs(input.visits)
      }
""",
    "tuner.yaml": """\
defs:
  greet:
    kind: task
    action: send_text_message
    inputs:
      text: "='Visit ' & $abs($input.visits)"
    settings:
      timeout_ms: 2000
  part:
    kind: task
    action: send_text_message
    inputs:
      text: "Until next year."
flow:
  - do: greet
  - do: part
""",
}


class Edit(NamedTuple):
    """The right text, the wrong text that replaces it, and the word that the caret must mark, mostly the wrong one."""

    right: str
    wrong: str
    at: str
    code: str
    hint: str


MISTAKES: dict[str, dict[str, Edit]] = {
    "a misspelt word": {
        "tuner.abl": Edit('RESPOND: "Good', 'RESPONT: "Good', "RESPONT", "unknown_keyword", "Did you mean `RESPOND`?"),
        "tuner.mashin": Edit(
            "is required", "is requird", "is requird", "unknown_modifier", "Did you mean `is required`?"
        ),
        "tuner.yaml": Edit(
            'inputs:\n      text: "=', 'inptus:\n      text: "=', "inptus", "unknown_key", "Did you mean `inputs`?"
        ),
    },
    "a misspelt section": {
        "tuner.abl": Edit("FLOW:", "FLWO:", "FLWO", "unknown_keyword", "Did you mean `FLOW`?"),
        "tuner.mashin": Edit("implements", "implments", "implments", "unknown_keyword", "Did you mean `implements`?"),
        "tuner.yaml": Edit("flow:", "flwo:", "flwo", "unknown_key", "Did you mean `flow`?"),
    },
    "a tab in the indentation": {
        "tuner.abl": Edit("    SET", "\tSET", "\t", "mixed_indentation", "Indent every line with spaces"),
        "tuner.mashin": Edit(
            "      content", "\t\tcontent", "\t\t", "mixed_indentation", "Indent every line with spaces"
        ),
        "tuner.yaml": Edit("    settings", "\tsettings", "\t", "mixed_indentation", "Indent every line with spaces"),
    },
    "a line out of its column": {
        "tuner.abl": Edit(
            '    RESPOND: "Until',
            '   RESPOND: "Until',
            'RESPOND: "Until next year."',
            "indentation",
            "in the same column",
        ),
        "tuner.mashin": Edit(
            "      collection", "     collection", 'collection: "pianos"', "indentation", "in the same column"
        ),
        "tuner.yaml": Edit("    settings", "   settings", "settings:", "indentation", "in the same column"),
    },
    "something that is not there": {
        "tuner.abl": Edit("THEN: part", "THEN: prat", "prat", "unknown_step", "Did you mean `part`?"),
        "tuner.mashin": Edit("input.visits", "input.visist", "input.visist", "unknown_input", "Did you mean `visits`?"),
        "tuner.yaml": Edit("do: part", "do: prat", "prat", "unknown_task", "Did you mean `part`?"),
    },
    "a value of another type": {
        "tuner.abl": Edit("INITIAL: 0", 'INITIAL: "none"', '"none"', "wrong_type", "Change one of them"),
        "tuner.mashin": Edit("is required", 'default: "none"', '"none"', "wrong_type", "of the type number"),
        "tuner.yaml": Edit("timeout_ms: 2000", "timeout_ms: [2]", "[", "wrong_type", "Write a number"),
    },
    "a missing colon": {
        "tuner.abl": Edit(
            "REASONING: false\n    SET",
            "REASONING false\n    SET",
            "REASONING",
            "missing_colon",
            "Write it as `REASONING: …`",
        ),
        "tuner.mashin": Edit("content:", "content", "content", "missing_colon", "Write it as `content: …`"),
        "tuner.yaml": Edit(
            'action: send_text_message\n    inputs:\n      text: "U',
            'action send_text_message\n    inputs:\n      text: "U',
            "action",
            "missing_colon",
            "Write it as `action: …`",
        ),
    },
    "a name twice": {
        "tuner.abl": Edit("  part:", "  greet:", "greet", "duplicate", "Keep one of them"),
        "tuner.mashin": Edit("compute reply", "compute keep", "keep", "duplicate", "Give each step a name of its own"),
        "tuner.yaml": Edit("  part:", "  greet:", "greet", "duplicate", "Keep one of them"),
    },
    "a word twice": {
        "tuner.abl": Edit("    SET", "    REASONING: true\n    SET", "REASONING", "duplicate", "Keep one of them"),
        "tuner.mashin": Edit("      ttl", '      content: "b"\n      ttl', "content", "duplicate", "Keep one of them"),
        "tuner.yaml": Edit("    settings", "    kind: task\n    settings", "kind", "duplicate", "Keep one of them"),
    },
    "a function that is not there": {
        "tuner.abl": Edit("ABS(", "ABSS(", "ABSS", "unknown_function", "Did you mean `ABS`?"),
        "tuner.mashin": Edit("Math.abs", "Math.bas", "bas", "unknown_function", "Did you mean `abs`?"),
        "tuner.yaml": Edit("$abs(", "$abz(", "$abz", "unknown_function", "Did you mean `$abs`?"),
    },
    "a quote without its end": {
        "tuner.abl": Edit('"Good day."', '"Good day.', '"', "unclosed_quote", 'End the text with " on the same line'),
        "tuner.mashin": Edit('"pianos"', '"pianos', '"', "unclosed_quote", 'End the text with " on the same line'),
        "tuner.yaml": Edit(
            "\"='Visit ' & $abs($input.visits)\"",
            "\"='Visit ' & $abs($input.visits)",
            '"',
            "unclosed_quote",
            'End the text with " on the same line',
        ),
    },
    "a quote without its end in an expression": {
        "tuner.abl": Edit("ABS(2)", "ABS('2)", "'", "unclosed_quote", "End the text with '"),
        "tuner.mashin": Edit("Math.abs(input", "Math.abs('input", "'", "unclosed_quote", "End the text with '"),
        "tuner.yaml": Edit("$abs($input", "$abs('$input", "'", "unclosed_quote", "End the text with '"),
    },
    "a word that is none of those that may stand there": {
        "tuner.abl": Edit("TYPE: number", "TYPE: nubmer", "nubmer", "wrong_value", "Did you mean `number`?"),
        "tuner.mashin": Edit(
            "visits as number", "visits as nubmer", "nubmer", "unknown_type", "Did you mean `number`?"
        ),
        "tuner.yaml": Edit(
            "  greet:\n    kind: task", "  greet:\n    kind: taks", "taks", "unknown_word", "Did you mean `task`?"
        ),
    },
    "a key without its value": {
        "tuner.abl": Edit("    THEN: part", "    THEN:", "THEN", "wrong_value", "Where to go next"),
        "tuner.mashin": Edit('ttl: "30d"', "ttl:", "ttl:", "missing", "Write it as `ttl: …`"),
        "tuner.yaml": Edit("timeout_ms: 2000", "timeout_ms:", "timeout_ms", "wrong_type", "Write a number"),
    },
    "a comment of another language": {
        "tuner.abl": Edit("FLOW:", "// The way\nFLOW:", "// The way", "foreign_comment", "Write `#` before it"),
        "tuner.mashin": Edit(
            "  implements", "  # The way\n  implements", "# The way", "foreign_comment", "Write `//` before it"
        ),
        "tuner.yaml": Edit("flow:", "// The way\nflow:", "// The way", "foreign_comment", "Write `#` before it"),
    },
    "a duration that is none": {
        "tuner.abl": Edit("30d", "30 days", "30 days", "wrong_value", "Did you mean `30d`?"),
        "tuner.mashin": Edit('"30d"', '"30 days"', '"30 days"', "wrong_value", "Did you mean `30d`?"),
        "tuner.yaml": Edit(
            "timeout_ms: 2000", "timeout_ms: 2 seconds", "2 seconds", "wrong_type", "Did you mean `2000`?"
        ),
    },
}
"""Where the codes of a row differ, each names what it is that the language calls so: a step, an input, a task."""

EMPTY = {
    "tuner.abl": ("the file declares no agent", "Begin it with `AGENT: Name`", "# nothing yet\n"),
    "tuner.mashin": ("the file declares no machine", "Begin it with `machine name`", "// nothing yet\n"),
    "tuner.yaml": ("the file declares no workflow", "Begin it with `defs:` and `flow:`", "# nothing yet\n"),
}
CASES = [(name, file) for name, row in MISTAKES.items() for file in row]
HEAD = re.compile(r"(\S+?):(\d+):(\d+): (error|warning|note)\[([a-z_]+)\]: (\S.*)")
FIELDS = ["file", "line", "column", "end_line", "end_column", "severity", "code", "message", "hint", "path"]


class Shown(NamedTuple):
    """One diagnostic as it was printed."""

    file: str
    line: int
    column: int
    severity: str
    code: str
    message: str
    written: str
    caret: str
    hint: str


def check(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.stderr == ""
    return done.exit_code, done.stdout


def read(printed: str) -> tuple[list[Shown], str]:
    """Take what was printed apart, which is possible only where it has the one layout; the last line sums up."""
    *lines, last = printed.splitlines()
    found: list[Shown] = []
    while lines:
        head = HEAD.fullmatch(lines.pop(0))
        assert head is not None, printed
        gutter = f"  {' ' * len(head[2])} "
        assert lines[0].startswith(f"  {head[2]} |") and lines[1].startswith(f"{gutter}| "), printed
        written, caret = lines.pop(0)[len(gutter) + 2 :], lines.pop(0)[len(gutter) + 2 :]
        assert re.fullmatch(r" *\^+", caret), printed
        hint = lines.pop(0)[len(gutter) + 2 :] if lines and lines[0].startswith(f"{gutter}= ") else ""
        found.append(Shown(head[1], int(head[2]), int(head[3]), head[4], head[5], head[6], written, caret, hint))
    return found, last


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in PROGRAMS.items():
        Path(name).write_text(text, encoding="utf-8")


def test_every_kind_of_mistake_is_made_in_every_language() -> None:
    assert {name: set(row) for name, row in MISTAKES.items()} == {name: set(PROGRAMS) for name in MISTAKES}


def test_nothing_is_wrong_with_the_three_programs() -> None:
    assert check(*PROGRAMS, "--strict") == (0, "3 files: no problems\n")


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_mistake_is_shown_with_place_line_caret_and_a_way_out(name: str, file: str) -> None:
    edit, program = MISTAKES[name][file], PROGRAMS[file]
    assert program.count(edit.right) == 1
    text = program.replace(edit.right, edit.wrong)
    Path(file).write_text(text, encoding="utf-8")
    code, printed = check(file)
    shown, summary = read(printed)
    [one] = [each for each in shown if each.code == edit.code]
    assert (code, one.file, one.severity) == (1, file, "error")
    assert edit.hint in one.hint
    # The fault begins where it was made, and the caret is below it, with tabs four columns wide.
    start = text.index(edit.at, program.index(edit.right))
    before = text[:start].rpartition("\n")[2]
    assert (one.line, one.column) == (text.count("\n", 0, start) + 1, len(before) + 1)
    assert one.caret == " " * len(before.expandtabs(4)) + "^" * len(edit.at.expandtabs(4))
    assert one.written == text.splitlines()[one.line - 1].replace("\t", "    ")
    errors = sum(each.severity == "error" for each in shown)
    assert summary.startswith(f"1 file: {errors} error{'s' if errors > 1 else ''}")


@pytest.mark.parametrize("name", MISTAKES)
def test_json_has_the_same_fields_in_every_language(name: str) -> None:
    for file, edit in MISTAKES[name].items():
        Path(file).write_text(PROGRAMS[file].replace(edit.right, edit.wrong), encoding="utf-8")
    code, printed = check(*PROGRAMS, "--json")
    found: list[dict[str, Any]] = json.loads(printed)
    assert code == 1
    assert {tuple(one) for one in found} == {tuple(FIELDS)}
    shown, _ = read(check(*PROGRAMS)[1])
    assert [(one["file"], one["line"], one["column"], one["code"], one["message"], one["hint"]) for one in found] == [
        (one.file, one.line, one.column, one.code, one.message, one.hint) for one in shown
    ]
    assert {one["file"] for one in found} == set(PROGRAMS)


@pytest.mark.parametrize("file", EMPTY)
def test_a_file_that_says_nothing_is_told_how_to_begin(file: str) -> None:
    message, hint, comment = EMPTY[file]
    for text in ("", "\n\n", comment):
        Path(file).write_text(text, encoding="utf-8")
        code, printed = check(file)
        [one], summary = read(printed)
        assert (code, summary) == (1, "1 file: 1 error")
        assert (one.line, one.column, one.caret, one.code) == (1, 1, "^", "missing")
        assert (one.message, one.hint) == (message, hint)


def test_the_first_fault_is_the_error_of_every_loader() -> None:
    import memoranda

    with memoranda.open(":memory:") as memory:
        for language, file in (
            (memoranda.abl, "tuner.abl"),
            (memoranda.mashin, "tuner.mashin"),
            (memoranda.workflow, "tuner.yaml"),
        ):
            edit = MISTAKES["a name twice"][file]
            text = PROGRAMS[file].replace(edit.right, edit.wrong)
            with pytest.raises(memoranda.SourceError) as raised:
                language.load(text, memory=memory)
            assert [one.code for one in raised.value.diagnostics if one.code == "duplicate"] == ["duplicate"]
            assert re.match(r"[\w. ]+:\d+:\d+: \S", raised.value.message)
            read(f"{raised.value.report}\n-")
            assert language.load(PROGRAMS[file], memory=memory) is not None
