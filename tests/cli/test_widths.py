"""Output fits the terminal: no line is wider, nothing needed is cut, and no colour leaks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest
from every_command import ALL
from processes import run_process
from typer.testing import CliRunner

import memoranda
from memoranda.cli import text_layout
from memoranda.cli.app import app
from memoranda.cli.index import COMMANDS
from memoranda.server.auth.keys import create_key

HELP = [[], *([name] for name in COMMANDS if name not in ALL), *(name.split() for name in ALL)]
FAMILY = "👩‍👧 und 日本語のノート"
LONG_KEY = "settings.of.the.greenhouse.on.the.roof.and.its.many.windows.opening_time"


def widest(text: str) -> int:
    return max(text_layout.cells(line) for line in text.splitlines())


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_no_line_of_help_is_wider_than_the_terminal(command: list[str]):
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).stdout
    assert "Usage: memoranda" in shown
    assert widest(shown) <= 80
    # The list of commands says whole sentences, and the usage shows a FILE as it is typed.
    assert "..." not in shown.replace("[ARGS]...", "").replace("FILE...", "")
    assert "{" not in shown.splitlines()[0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with wide content: long keys, labels and texts, double-width characters, many rows."""
    file = str(tmp_path_factory.mktemp("filled") / "greenhouse.db")
    with memoranda.open(file, embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.set(LONG_KEY, "half past seven in summer, " * 4)
        ada.set("profile.name", FAMILY)
        ada.set("beds", [{"plant": "tomato", "row": row} for row in range(20)], ttl="30d")
        for row in range(30):
            ada.set(f"rows.r{row:02}", row)
        ada.remember(f"The vents stick when it rains. {FAMILY} " * 3, collection="notes", metadata={"by": "ben" * 20})
        ada.remember("Shut the door\nat night", collection="notes", namespace="evening", ttl="30d")
        ada.blocks.update("core", "- Sows in March\n" * 20, expected_updated_at=None)
        memory.definitions.create(
            name="A greenhouse with a long name " * 3, slug="greenhouse", schema={"type": "object"}
        )
        memory.permissions.grant("agent:the-gardener-of-the-house", "memory.write", level="approve")
        create_key(
            memory,
            tenant="default",
            user="ada.of.the.long.names@example.org",
            role="reader",
            label=("word " * 20).strip(),
        )
        gardener = memory.acting_as("agent:the-gardener-of-the-house")
        with pytest.raises(memoranda.ApprovalRequired):
            gardener.scope(user="ada").set(LONG_KEY, "later")
    return file


# A column that has to be whole, as it is in JSON, where there is one.
TABLES = {
    "facts list --user ada": "",
    f"facts history {LONG_KEY} --user ada": "",
    "entries -c notes --user ada": "id",
    "recall vents -c notes --user ada --embedder hashing:64": "",
    "recall vents -c notes --user ada --embedder hashing:64 --why": "",
    "blocks list --user ada": "",
    "blocks history core --user ada": "",
    "definitions list": "slug",
    "definitions show greenhouse": "",
    "collections list": "name",
    "permissions list": "id",
    "approvals list": "id",
    "keys list": "id",
    "ledger tail": "",
    "ledger show 3": "",
    "runs list": "",
    "sleep list": "",
    "config show": "",
}


@pytest.mark.parametrize("width", ["40", "80", "160"])
@pytest.mark.parametrize("command", TABLES)
def test_no_line_of_a_table_is_wider_than_the_terminal(command: str, width: str, filled: str, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    done = cli(*command.split(), "--db", filled)
    assert done.code == 0
    assert done.out or command in ("runs list", "sleep list")
    if done.out:
        assert not re.search(" $", done.out, re.MULTILINE)
        if "--why" not in command:  # which shows what was remembered as it is, so that it can be copied
            assert widest(done.out) <= int(width)
    field = TABLES[command]
    if field and width != "40":
        for row in cli(*command.split(), "--db", filled, "--json").json:
            assert row[field] in done.out


def test_an_id_is_never_broken_in_two(filled: str, cli, monkeypatch):
    grant = cli("permissions", "list", "--db", filled, "--json").json[0]["id"]
    monkeypatch.setenv("COLUMNS", "400")
    wide = cli("ledger", "tail", "-n", "100", "--db", filled).out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = cli("ledger", "tail", "-n", "100", "--db", filled).out
    assert grant in wide
    assert grant not in narrow
    assert re.search(rf"{grant[:12]}\w*…$", narrow, re.MULTILINE)
    assert not re.search(r"^ +[0-9a-f]+$", narrow, re.MULTILINE)  # the rest of an id used to wrap onto the next line


def test_what_happened_to_a_run_names_it_once(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    machine = tmp_path / "twice.mashin"
    machine.write_text("machine twice\n  accepts\n    n as integer\n  implements\n    compute it\n      input.n * 2\n")
    file = str(tmp_path / "runs.db")
    run = cli("run", str(machine), "--input", '{"n": 2}', "--db", file, "--json").json["run"]
    events = [line for line in cli("ledger", "tail", "--db", file).out.splitlines() if "exec_" in line]
    assert events
    assert all(line.count(run) == 1 for line in events)


def on_terminal(width: int, *arguments: str, typed: str = "", interrupted_at: str = "", **variables: str) -> str:
    """Return a command's output on a terminal of this width, with text typed, or interrupted once it shows a text."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    with run_process(
        [sys.executable, "-m", "memoranda.cli", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**kept, "TERM": "xterm-256color", **variables},
        lifetime=120,
    ) as running:
        os.close(slave)
        os.write(master, typed.encode())
        shown, waited_for = b"", interrupted_at.encode()
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            if waited_for and waited_for in shown:
                running.send_signal(signal.SIGINT)
                waited_for = b""
        os.close(master)
        running.wait(timeout=60)
    return shown.decode().replace("\r\n", "\n")


def test_colour_is_for_terminals_that_have_it(filled: str):
    table = ("facts", "list", "--user", "ada", "--db", filled)
    assert "\x1b[1mkey" in on_terminal(80, *table)
    missing = ("facts", "get", "nothing", "--user", "ada", "--db", filled)
    assert "\x1b[1;31merror[not_found]:\x1b[0m" in on_terminal(80, *missing)
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for command in (table, missing):
            assert "\x1b" not in on_terminal(80, *command, **plain)


def test_errors_and_remarks_are_broken_between_words_on_a_terminal_only(filled: str, cli):
    command = ("facts", "get", "no.such.fact.anywhere.at.all", "--db", filled)
    shown = on_terminal(60, *command, NO_COLOR="1")
    assert widest(shown) <= 60
    lines = shown.splitlines()
    assert len(lines) > 2
    assert all(line.startswith(("error[", "hint: ", "  ")) for line in lines)
    piped = cli(*command).err
    assert len(piped.splitlines()) == 2
    assert " ".join(shown.split()) == " ".join(piped.split())


def test_a_pipe_is_as_wide_as_need_be(filled: str):
    # No width is set: lines are not cut, so that grep finds its text.
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "memoranda.cli", "facts", "list", "--user", "ada", "--db", filled]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=kept)
    assert done.returncode == 0
    [row] = [line for line in done.stdout.splitlines() if line.startswith(LONG_KEY)]
    assert "half past seven in summer, " * 4 in row


def shown(columns: tuple[str, ...], rows: list[tuple[str, ...]], **options) -> list[str]:
    return [line.names + line.text for line in text_layout.table(columns, rows, **options)]


def test_the_widest_column_gives_way_first():
    rows = [("k", "x" * 100, "y" * 20)]
    lines = shown(("key", "value", "by"), rows, width=50)
    assert lines[2] == "k    " + "x" * 22 + "…  " + "y" * 20
    assert shown(("key", "value", "by"), rows, width=None)[2] == "k    " + "x" * 100 + "  " + "y" * 20


def test_columns_without_a_value_go_before_anything_is_cut():
    rows = [("k", "", "x" * 40)]
    assert shown(("key", "used", "value"), rows, width=80)[0] == "key  used  value"
    assert shown(("key", "used", "value"), rows, width=46) == ["key  value", "─" * 45, "k    " + "x" * 40]


def test_rows_that_cannot_fit_are_paragraphs():
    rows = [("i" * 32, "a" * 30, "word " * 10), ("j" * 32, "b", "")]
    lines = shown(("id", "name", "label"), rows, width=40, whole=("id", "name"), folded=("label",))
    assert lines == [
        "id     " + "i" * 32,
        "name   " + "a" * 30,
        "label  word word word word word word",
        "       word word word word",
        "",
        "id    " + "j" * 32,
        "name  b",
    ]


def test_what_goes_on_in_the_next_line_is_all_there():
    rows = [("garden.house.window", "open " * 5)]
    lines = shown(("key", "value"), rows, width=30, folded=("key", "value"))
    assert lines == ["key             value", "─" * 30, "garden.house.   open open open", "window          open open"]


def test_long_words_are_broken_at_their_joints():
    lines = text_layout.pairs([("file", "/srv/greenhouse/roof-2026/memory.db, 3.1 MB")], width=28)
    assert [line.names + line.text for line in lines] == [
        "file  /srv/greenhouse/",
        "      roof-2026/memory.db,",
        "      3.1 MB",
    ]
    lines = text_layout.pairs([("by", "the-gardener-of-the-house@example.org/mail")], width=26)
    assert [line.text for line in lines] == ["the-gardener-of-the-", "house@example.org/mail"]
    hash = "sha256:" + "0f" * 32
    lines = text_layout.pairs([("hash", hash)], width=40)
    assert "".join(line.text for line in lines) == hash
    assert max(len(line.names + line.text) for line in lines) == 40


def test_signs_that_take_two_places_keep_the_columns_straight():
    rows = [("日本", "1"), ("ab", "2"), ("🐝🐝🐝🐝🐝🐝🐝🐝", "3")]
    lines = shown(("what", "n"), rows, width=15)
    assert lines[2:] == ["日本          1", "ab            2", "🐝🐝🐝🐝🐝…   3"]


def test_a_terminal_of_ascii_gets_ascii():
    lines = shown(("what", "n"), [("x" * 40, "1")], width=30, only_ascii=True)
    assert lines == ["what" + " " * 25 + "n", "-" * 30, "x" * 24 + "...  1"]


def test_a_command_in_a_hint_stays_on_one_line():
    text = "hint: Ask for it with `memoranda keys create --user ada`, or wait"
    assert text_layout.wrap(text, 40, indent="  ").splitlines() == [
        "hint: Ask for it with",
        "  `memoranda keys create --user ada`, or",
        "  wait",
    ]
    assert text_layout.wrap(text, 400) == text
    assert text_layout.wrap("x" * 50, 10) == "x" * 50
    bare = "hint: If that is meant: memoranda approve run_01a1 settle"
    assert text_layout.wrap(bare, 40, indent="  ").splitlines() == [
        "hint: If that is meant:",
        "  memoranda approve run_01a1 settle",
    ]


def test_blanks_alone_are_an_empty_line():
    assert text_layout.wrap(f"one{' ' * 40}\n{' ' * 40}\ntwo", 20) == "one\n\ntwo"


def test_what_is_quoted_and_does_not_fit_is_broken_unless_it_is_a_command():
    said = "after `I want a room for two nights in Lisbon`"
    assert text_layout.wrap(said, 24).splitlines() == ["after `I want a room for", "two nights in Lisbon`"]
    command = "Ask with `memoranda keys create --user ada --role member`"
    assert text_layout.wrap(command, 30).splitlines() == ["Ask with", command.removeprefix("Ask with ")]


def test_what_is_listed_goes_on_below_its_first_word():
    assert text_layout.wrap("  + Likes trains along the coast  (core)", 24).splitlines() == [
        "  + Likes trains along",
        "    the coast  (core)",
    ]


FAULTY = """\
machine lend
  accepts
    book as text, is required

  implements
    compute said
      { first: input.book, second: input.book, third: input.book, fourth: input.book, fifth: input.bok }
"""


def test_the_caret_stays_below_the_fault(tmp_path):
    (tmp_path / "lend.mashin").write_text(FAULTY)
    for command in (("check", "lend.mashin"), ("run", "lend.mashin", "--input", "{}")):
        shown = on_terminal(60, *command).splitlines()
        [at] = [number for number, line in enumerate(shown) if line.startswith("  7 | ")]
        assert shown[at].endswith("input.bok }")
        assert shown[at - 1].startswith("  "), "what is said of the fault goes on further in"
        caret = shown[at + 1]
        assert shown[at][caret.index("^") : caret.rindex("^") + 1] == "input.bok"


def test_what_is_said_of_a_fault_fits_beside_its_excerpt(tmp_path):
    (tmp_path / "words.abl").write_text("these are only words\n")
    shown = on_terminal(60, "check", "words.abl")
    assert widest(shown) <= 60
    [hint] = re.findall(r"^    = Expected .*\n((?:      \w.*\n)+)", shown, re.MULTILINE)
    assert "GOAL" in hint


def test_the_name_of_a_test_goes_on_below_itself(tmp_path):
    name = "every book that somebody lends comes back before the summer is over"
    tests = f'\n  verifies\n    test "{name}"\n      given {{ book: "x" }}\n      expect {{ first: "x" }}\n'
    (tmp_path / "lend.mashin").write_text(FAULTY.replace("input.bok }", "input.book }") + tests)
    shown = on_terminal(60, "test", "lend.mashin", NO_COLOR="1")
    assert "\n  ok      every book that somebody lends comes back before\n          the summer is over\n1 test" in shown
    expected = "another book, which is so thick that nobody has read it to its end"
    (tmp_path / "lend.mashin").write_text(
        (tmp_path / "lend.mashin").read_text().replace('{ first: "x"', f'{{ first: "{expected}"')
    )
    shown = on_terminal(60, "test", "lend.mashin", NO_COLOR="1").splitlines()
    [at] = [number for number, line in enumerate(shown) if line.lstrip().startswith("expected  ")]
    assert shown[at + 1].index(shown[at + 1].split()[0]) == shown[at].index('"another')


def test_a_step_of_a_trace_goes_on_below_what_is_told_of_it(tmp_path):
    (tmp_path / "keep.mashin").write_text(
        "machine keep\n  ensures\n    permissions\n      allowed to memory\n\n"
        '  implements\n    remember kept\n      content: "A book"\n      collection: "books"\n'
    )
    shown = on_terminal(
        60, "run", "keep.mashin", "--input", "{}", "--trace", NO_COLOR="1", MEMORANDA_EMBEDDER="hashing:64"
    )
    [(head, margin)] = re.findall(r"(   3  kept  memory  )collection=.*\n( +)id=entry_", shown)
    assert len(margin) == len(head)


def test_what_was_recalled_goes_on_behind_its_number(filled: str):
    recall = ("recall", "vents", "-c", "notes", "--user", "ada", "--embedder", "hashing:64", "--why", "--db", filled)
    first, second, *_ = on_terminal(60, *recall).splitlines()
    assert first.startswith("1. The vents") and second.startswith("   ")


def test_a_command_of_the_tour_goes_on_further_in():
    shown = on_terminal(80, "tour", "--all", NO_COLOR="1").splitlines()
    [at] = [number for number, line in enumerate(shown) if line.startswith("$ memoranda definitions create")]
    assert shown[at + 1].startswith("    '{")


def test_a_question_fits_the_terminal(filled: str):
    shown = on_terminal(60, "collections", "delete", "notes", "--db", filled, typed="n\n")
    assert "This cannot be undone. [y/N] " in " ".join(shown.split("\n"))
    assert widest(shown) <= 60
    assert shown.endswith("Nothing was changed.\n")


def test_an_interruption_ends_its_line(filled: str):
    waiting = "Waiting for an MCP client to speak over stdin; Ctrl-C ends it.\n"
    assert on_terminal(80, "mcp", "--user", "ada", "--db", filled, interrupted_at="ends it.\r\n") == waiting + "\n"


def test_a_server_says_where_to_look_and_how_to_stop_it():
    shown = on_terminal(80, "serve", "--port", "0", interrupted_at="startup complete", NO_COLOR="1")
    [address] = re.findall(r"^Memoranda listens on (\S+)$", shown, re.MULTILINE)
    assert f"pages   {address}/admin\nroutes  {address}/docs\nstop    Ctrl-C\n" in shown


def test_a_hash_beside_its_name_is_not_broken_for_one_sign():
    hash = "sha256:" + "0f" * 32
    lines = text_layout.pairs([("previous", hash), ("at", "noon")], width=80)
    assert [line.names + line.text for line in lines] == [f"previous {hash}", "at       noon"]
    assert len(text_layout.pairs([("previous", hash)], width=79)) == 2
    assert text_layout.pairs([("previous", hash)], width=81)[0].names == "previous  "
