"""The real command, as a process of its own: exit codes, signals, pipes and terminals.

What only prepares a test, or repeats what a real start has shown, is forked (`process`).
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

from processes import run_process

COMMAND = [sys.executable, "-m", "memoranda.cli"]

# Tests may run in the background, where a shell has SIGINT ignored.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from memoranda.cli import main
main()
"""


def test_the_main_path(started):
    assert started("facts", "set", "profile.language", "en", "--user", "ada").code == 0
    assert started("facts", "get", "profile.language", "--user", "ada").out == "en\n"
    assert started("facts", "list", "--user", "ada", "--json").json[0]["value"] == "en"
    assert started("remember", "She takes two sugars", "--collection", "notes", "--user", "ada").code == 0
    recalled = started("recall", "How much sugar?", "--collection", "notes", "--user", "ada", "--why")
    assert "She takes two sugars" in recalled.out
    assert started("ledger", "verify").code == 0
    assert started("export", "all.jsonl").code == 0
    assert started("import", "-", "--db", "two.db", input=Path("all.jsonl").read_text()).code == 0
    assert started("doctor", "--db", "two.db").code == 0
    assert started("erase", "--user", "ada", "--yes", "--json").json["removed"]["facts"] == 1
    assert started("facts", "get", "profile.language", "--user", "ada").code == 1


def test_a_broken_ledger_fails_verify_and_doctor(started, process, tamper):
    for number in range(3):
        process("facts", "set", f"k{number}", "v")
    assert (process("ledger", "verify").code, process("doctor").code) == (0, 0)
    tamper("memory.db", 2)
    verified = started("ledger", "verify")
    assert verified.code == 1
    assert "position 2" in verified.out
    examined = started("doctor")
    assert examined.code == 1
    assert "position 2" in examined.out


def test_version_and_help(started, process):
    assert started("--version").out.startswith("memoranda ")
    assert "Commands:" in started("--help").out
    assert "--ttl" in process("facts", "set", "-h").out
    bare = started()
    assert (bare.code, bare.out) == (2, "")
    assert "Usage: memoranda" in bare.err
    assert process("facts").code == 2


def test_usage_errors_look_like_the_others(started, process):
    done = started("facts", "set", "k")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error[usage_error]: Missing argument 'VALUE'\nhint: Try `memoranda facts set --help`\n"
    assert process("facts", "set", "k", "--json").error["code"] == "usage_error"
    assert process("facts", "get", "k", "--colour").code == 2
    assert "Did you mean 'facts'?" in process("fact").err
    assert process("nonsense", "--json").error["message"] == "No such command 'nonsense'"


def test_errors_of_the_disk_have_no_traceback(started, folder):
    Path("garbage.db").write_bytes(b"x" * 5000)
    for arguments in (["facts", "set", "k", "v", "--db", "garbage.db"], ["facts", "set", "k", "v", "--db", "no/x.db"]):
        done = started(*arguments)
        assert done.code == 1
        assert done.err.startswith("error[")
        assert "Traceback" not in done.err


def test_arguments_that_are_not_utf8_are_refused_in_words(started):
    for key, value, code in (("\udcff", "v", "invalid_key"), ("k", "\udcff", "invalid_value")):
        done = started("facts", "set", key, value, "--json")
        assert (done.code, done.error["code"]) == (2, code)
    assert started("facts", "set", "\udcff", "v").code == 2


def test_json_is_utf8_and_text_survives_a_poor_terminal(started, process):
    process("facts", "set", "k", "naïve ☃")
    poor = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert started("facts", "get", "k", "--json", env=poor).json["value"] == "naïve ☃"
    assert started("facts", "get", "k", env=poor).out == "na\\xefve \\u2603\n"
    assert started("facts", "list", env=poor).code == 0


def test_output_that_nobody_reads_ends_quietly(process):
    process("facts", "set", "k", "-", input="v" * 200_000)
    for arguments in (["facts", "get", "k"], ["facts", "list", "--json"], ["facts", "list"]):
        with run_process([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.close()
            _, errors = running.communicate(timeout=60)
            assert errors == ""


def on_terminal(*arguments: str, answer: str | signal.Signals = "") -> tuple[int, str]:
    """Run a command on a terminal of its own, answer its question, and return its exit code and all it showed."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    with run_process(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as running:
        os.close(slave)
        shown = b""
        while True:
            ready, _, _ = select.select([master], [], [], 60)
            assert ready, shown
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            if answer and b"[y/N]" in shown:
                if isinstance(answer, signal.Signals):
                    running.send_signal(answer)
                else:
                    os.write(master, answer.encode())
                answer = ""
        os.close(master)
        return running.wait(timeout=60), shown.decode()


def test_a_person_is_asked_and_may_say_no(process):
    process("facts", "set", "k", "v", "--user", "ada")
    code, shown = on_terminal("erase", "--user", "ada", answer="n\n")
    assert code == 1, shown
    assert "Nothing was changed." in shown
    assert process("facts", "get", "k", "--user", "ada").code == 0
    code, shown = on_terminal("erase", "--user", "ada", answer="y\n")
    assert code == 0, shown
    assert "1 fact" in shown
    assert process("facts", "get", "k", "--user", "ada").code == 1


def test_ctrl_c_leaves_with_130_and_no_words(process):
    process("facts", "set", "k", "v", "--user", "ada")
    code, shown = on_terminal("erase", "--user", "ada", answer=signal.SIGINT)
    assert code == 130, shown
    assert shown.endswith("[y/N] \r\n"), "the line is ended, for the prompt of the shell"
    assert process("facts", "get", "k", "--user", "ada").code == 0


def test_a_move_shows_its_progress_in_one_line(process):
    process("facts", "set", "k", "v")
    code, shown = on_terminal("migrate", "memory.db", "moved.db")
    assert code == 0, shown
    assert "100%" in shown and "Moved" in shown
    assert process("facts", "get", "k", "--db", "moved.db").out == "v\n"


def test_a_terminal_gets_colour_context_and_no_control_characters(process):
    process("facts", "set", "k", "a\x1b[2Jb")
    _, shown = on_terminal("facts", "get", "k")
    assert "a\\x1b[2Jb" in shown
    assert "(version 1, set just now by owner through cli)" in shown
    code, shown = on_terminal("facts", "get", "nothing")
    assert code == 1, shown
    assert "\x1b[1;31merror[not_found]:\x1b[0m" in shown


def test_json_has_no_colour_even_on_a_terminal(process):
    process("facts", "set", "k", "v")
    code, shown = on_terminal("facts", "get", "k", "--json")
    assert code == 0, shown
    assert "\x1b" not in shown
    assert json.loads(shown)["value"] == "v"


def test_progress_is_shown_on_a_terminal_only(process):
    process("facts", "set", "k", "v")
    process("export", "all.jsonl")
    _, shown = on_terminal("ledger", "verify")
    assert "Verifying the ledger" in shown
    _, shown = on_terminal("import", "all.jsonl", "--db", "two.db")
    assert "Importing" in shown
    assert process("ledger", "verify").err == ""
    Path("notes.txt").write_text("Water the roses.")
    ingest = ("ingest", "notes.txt", "--collection", "notes", "--embedder", "hashing:64")
    assert process(*ingest, "--namespace", "quiet").err == ""
    _, shown = on_terminal(*ingest)
    assert "Remembering" in shown
    assert "1/1" in shown
    reembed = ("collections", "reembed", "notes", "--to", "hashing:32")
    _, shown = on_terminal(*reembed)
    assert "Embedding" in shown
    assert "2/2" in shown
