"""`memoranda run`: a chat on a terminal and over a pipe, messages, JSON, and memory that outlives the process."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run_process

HOTEL = Path(__file__).parents[2] / "examples" / "abl" / "hotel"

DOORMAN = """\
AGENT: Doorman
GOAL: "Know the guests"
MEMORY:
  session:
    - knocks
      TYPE: number
      INITIAL: 0
      INPUT: true
    - known_here
      TYPE: boolean
  persistent:
    - user.name
    - project.house
      DEFAULT: "Inn"
  remember:
    - WHEN: called IS SET
      STORE: called -> user.name
TOOLS:
  open_door(times: number) -> {open: boolean}
FLOW:
  hall:
    REASONING: false
    RESPOND: "{{project.house}}: good day, {{COALESCE(user.name, 'stranger')}}."
    ON_INPUT:
      - IF: input startsWith "I am "
        SET: called = REPLACE(input, "I am ", "")
        RESPOND: "Noted, {{called}}."
      - IF: input == "knock"
        SET: knocks = knocks + 1
        RESPOND: "Knock {{knocks}}."
      - IF: input == "open"
        CALL: open_door(knocks)
        ON_SUCCESS:
          RESPOND: "Open: {{call_result.open}}."
        ON_FAIL:
          RESPOND: "Stuck."
      - IF: input == "porter"
        THEN: HANDOFF Porter
      - IF: input == "police"
        THEN: ESCALATE
      - ELSE:
        RESPOND: "Goodbye."
        THEN: COMPLETE
"""
PORTER = """\
AGENT: Porter
GOAL: "Carry"
FLOW:
  carry:
    REASONING: false
    RESPOND: "Your bags?"
    ON_INPUT:
      - ELSE:
        RESPOND: "Heavy: {{input}}."
"""
TOOLS = "def open_door(times):\n    return {'open': times > 1}\n"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("doorman.abl").write_text(DOORMAN)
    Path("porter.abl").write_text(PORTER)
    Path("tools.py").write_text(TOOLS)


def test_a_fact_of_one_process_greets_in_the_next_and_no_stranger(process):
    first = process("run", "doorman.abl", "--user", "ada", "--message", "I am Ada")
    assert (first.code, first.out) == (0, "Inn: good day, stranger.\nNoted, Ada.\n")
    second = process("run", "doorman.abl", "--user", "ada", "--message", "bye")
    assert second.out == "Inn: good day, Ada.\nGoodbye.\n"
    stranger = process("run", "doorman.abl", "--user", "bob", "-m", "I am Bob")
    assert stranger.out == "Inn: good day, stranger.\nNoted, Bob.\n"
    assert process("facts", "get", "name", "--user", "ada").out == "Ada\n"
    assert process("facts", "get", "name", "--user", "bob").out == "Bob\n"
    assert process("ledger", "verify").code == 0
    assert Path("memory.db").exists()


def test_facts_of_other_doors_are_seen(process):
    process("facts", "set", "name", "Ada", "--user", "ada")
    process("facts", "set", "house", "Ritz", "--project", "grand")
    done = process("run", "doorman.abl", "--user", "ada", "--project", "grand", "-m", "bye")
    assert done.out == "Ritz: good day, Ada.\nGoodbye.\n"
    assert process("run", "doorman.abl", "--user", "ada", "-m", "bye").out.startswith("Inn:")


def test_a_session_goes_on_in_another_process(process):
    process("run", "doorman.abl", "--session", "s1", "-m", "knock", "-m", "knock")
    done = process("run", "doorman.abl", "--session", "s1", "-m", "knock")
    assert (done.out, done.err) == ("Knock 3.\n", no_function() + "To continue: --session s1\n")
    other = process("run", "doorman.abl", "--session", "s2", "-m", "knock", "--tools", "tools.py")
    assert (other.out, other.err) == ("Inn: good day, stranger.\nKnock 1.\n", "To continue: --session s2\n")


def test_nobody_goes_on_with_the_session_of_somebody_else(cli):
    cli("run", "doorman.abl", "--session", "s1", "--user", "ada", "-m", "knock")
    for options in (("--user", "bob"), ("--project", "grand"), ("--vars", '{"knocks": 7}')):
        refused = cli("run", "doorman.abl", "--session", "s1", *options, "-m", "I am Bob")
        assert refused.code == 2, options
        assert f"Remove {options[0]} to resume it" in refused.err
    assert cli("facts", "get", "name", "--user", "ada").code == 1
    assert cli("run", "doorman.abl", "--session", "s1", "--user", "ada", "-m", "knock").out == "Knock 2.\n"


def no_function() -> str:
    return "No function was given for open_door: --tools names a file that has them, such as tools.py.\n"


def test_without_an_id_the_session_says_how_to_go_on(cli):
    done = cli("run", "doorman.abl", "-m", "knock", "--tools", "tools.py")
    id = done.err.removeprefix("To continue: --session ").strip()
    assert cli("run", "doorman.abl", "--session", id, "-m", "knock", "--tools", "tools.py").out == "Knock 2.\n"


def test_an_ended_session_cannot_be_taken_up(cli):
    cli("run", "doorman.abl", "--session", "s1", "-m", "knock")
    assert cli("sessions", "end", "s1").code == 0
    done = cli("run", "doorman.abl", "--session", "s1", "-m", "knock")
    assert done.code == 1
    assert "error[scope_ended]" in done.err


def test_tools_come_from_a_python_file(cli):
    said = ("-m", "knock", "-m", "knock", "-m", "open")
    assert cli("run", "doorman.abl", *said, "--tools", "tools.py").out.endswith("Open: true.\n")
    without = cli("run", "doorman.abl", *said)
    assert without.out.endswith("Stuck.\n")
    assert no_function() in without.err
    Path("tools.py").rename("elsewhere.py")
    assert "--tools names a file that has them.\n" in cli("run", "doorman.abl", *said).err
    Path("broken.py").write_text("1 / 0\n")
    done = cli("run", "doorman.abl", *said, "--tools", "broken.py")
    assert done.code == 2
    assert "ZeroDivisionError" in done.err
    assert cli("run", "doorman.abl", *said, "--tools", "none.py").code == 2


def test_agents_hand_over_where_they_are_given(cli):
    said = ("-m", "porter", "-m", "two trunks")
    done = cli("run", "doorman.abl", *said, "--agents", "porter.abl", "--tools", "tools.py")
    assert done.out == "Inn: good day, stranger.\nYour bags?\nHeavy: two trunks.\n"
    assert "(Porter speaks now)" in done.err
    alone = cli("run", "doorman.abl", *said, "--tools", "tools.py")
    assert alone.out == "Inn: good day, stranger.\n"
    assert "not loaded; --agents names its file" in alone.err


def test_variables_can_be_given(cli):
    done = cli("run", "doorman.abl", "--vars", '{"knocks": 7}', "-m", "knock")
    assert done.out.endswith("Knock 8.\n")
    for wrong in ("[]", "{", "seven"):
        done = cli("run", "doorman.abl", "--vars", wrong, "-m", "knock")
        assert done.code == 2
        assert "in --vars is not a JSON object" in done.err
    assert cli("run", "doorman.abl", "--vars", '{"user_id": "eve"}', "-m", "knock").code == 2


def test_only_inputs_of_their_type_can_be_given(cli):
    for wrong, said in (
        ('{"knocks": 7, "known_here": true}', "`known_here` is not declared as input of `Doorman`"),
        ('{"knoks": 7}', "Did you mean `knocks`? Inputs are knocks"),
        ('{"knocks": "7"}', "`knocks` of `Doorman` needs number"),
        ('{"turn_count": 7}', "`turn_count` is set by the runtime"),
    ):
        done = cli("run", "doorman.abl", "--vars", wrong, "--session", "s1", "-m", "knock")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error[invalid_input]:") and said in " ".join(done.err.split())
    # The id is still free: nothing was begun.
    done = cli("run", "doorman.abl", "--vars", '{"knocks": 7}', "--session", "s1", "-m", "knock")
    assert done.out.endswith("Knock 8.\n")


def test_a_fact_in_the_scope_of_a_session_is_not_one_of_its_variables(cli):
    begun = cli("run", "doorman.abl", "--session", "s2", "-m", "knock")
    assert begun.out.endswith("Knock 1.\n")
    assert cli("facts", "set", "knocks", "40", "--session", "s2").code == 0
    assert cli("run", "doorman.abl", "--session", "s2", "-m", "knock").out.endswith("Knock 2.\n")


def test_json_is_one_object_a_turn(cli):
    done = cli("run", "doorman.abl", "--user", "ada", "-m", "I am Ada", "-m", "bye", "--json")
    assert done.err == ""
    turns = [json.loads(line) for line in done.out.splitlines()]
    assert [(turn["turn"], turn["said"], turn["messages"], turn["status"]) for turn in turns] == [
        (0, None, ["Inn: good day, stranger."], "waiting"),
        (1, "I am Ada", ["Noted, Ada."], "waiting"),
        (2, "bye", ["Goodbye."], "completed"),
    ]
    assert [turn["step"] for turn in turns] == ["hall", "hall", None]
    assert {turn["agent"] for turn in turns} == {"Doorman"}
    [remembered] = [event for event in turns[1]["events"] if event["kind"] == "remembered"]
    assert remembered["about"] == "user.name"
    assert any("remembered user.name" in line for line in turns[1]["trace"])
    resumed = cli("run", "doorman.abl", "--session", turns[0]["session"], "-m", "hello", "--json")
    assert [json.loads(line)["turn"] for line in resumed.out.splitlines()] == [3]


def test_lines_of_stdin_are_messages(process):
    done = process("run", "doorman.abl", "--user", "ada", "--tools", "tools.py", input="knock\n\n  knock  \n")
    assert done.out == "Inn: good day, stranger.\nKnock 1.\nKnock 2.\n"
    piped = process("run", "doorman.abl", "--user", "ada", "--json", input="knock\n:vars\n")
    assert [json.loads(line)["said"] for line in piped.out.splitlines()] == [None, "knock", ":vars"]
    assert process("run", "doorman.abl", input="").out == "Inn: good day, stranger.\n"


def test_a_look_behind_the_words(cli):
    lines = "knock\n:vars\n:step\n:trace\n:facts\nI am Ada\n:facts\n:help\n:nonsense\n:quit\nknock\n"
    done = cli("run", "doorman.abl", "--user", "ada", "--tools", "tools.py", input=lines)
    assert done.code == 0
    assert "knocks  1" in done.out
    assert "Doorman, hall, waiting" in done.out
    assert 'chosen input == "knock"' in done.out
    assert "user:ada  name" in done.out
    assert all(word in done.out for word in (":vars", ":facts", ":trace", ":step", ":help", ":quit"))
    assert "There is no :nonsense" in done.err
    assert "There are no facts." in done.err
    assert "Knock 2." not in done.out


WARNED = """AGENT: Doorman
GOAL: "Count"
CONSTRAINTS:
  always:
    - WARN LENGTH(input) < 5
      ON_FAIL: "A long message."
FLOW:
  hall:
    REASONING: false
    ON_INPUT:
      - ELSE:
        RESPOND: "Well."
"""


def test_warnings_and_traces_of_an_agent_are_shown_beside_its_answers(cli, tmp_path):
    (tmp_path / "warned.abl").write_text(WARNED)
    plain = cli("run", str(tmp_path / "warned.abl"), "-m", "hello there")
    assert (plain.out, "(warning A long message.: rule WARN LENGTH(input) < 5)" in plain.err) == ("Well.\n", True)
    traced = cli("run", str(tmp_path / "warned.abl"), "-m", "hi", "--trace")
    assert traced.out == "Well.\n"
    assert "input hi\n" in traced.err and "chosen ELSE" in traced.err and "warning" not in traced.err


def test_who_is_nobody_is_told_so(cli):
    assert "Without --user" in cli("run", "doorman.abl", input="").err
    assert "Nobody" not in cli("run", "doorman.abl", "--user", "ada", input="").err
    cli("run", "doorman.abl", "-m", "I am Ada")
    assert cli("facts", "list", "--json").json == []


def test_a_person_takes_over(cli):
    done = cli("run", "doorman.abl", "--tools", "tools.py", "-m", "police", "-m", "knock")
    assert done.out == "Inn: good day, stranger.\n"
    assert done.err.count("(escalated: a person has the conversation now)") == 2


def test_a_faulty_agent_is_shown_with_all_its_faults(cli):
    Path("bad.abl").write_text(DOORMAN.replace("RESPOND", "RESPONT", 1).replace("THEN: COMPLETE", "THEN: nowhere"))
    done = cli("run", "bad.abl", "-m", "hi")
    assert (done.code, done.out) == (1, "")
    assert "Did you mean `RESPOND`?" in done.err
    assert "nowhere" in done.err
    failed = cli("run", "bad.abl", "-m", "hi", "--json")
    assert failed.code == 1
    assert len(failed.error["details"]["diagnostics"]) == 2


def test_what_is_no_agent_is_refused_and_no_database_made(cli):
    for name in ("notes.txt", "doorman.tests.yaml", "robot.machine"):
        done = cli("run", name, "-m", "hi")
        assert done.code == 2
        assert f"`{name}` is not a program that this command supports" in done.err
        assert ".abl, .agent.yaml" in done.err
        assert ("this is a file of tests" in done.err) == name.endswith(".yaml")
    assert cli("run", "missing.abl", "-m", "hi").code == 2
    assert cli("run", "doorman.abl", "--agents", "missing.abl", "-m", "hi").code == 2
    assert not Path("memory.db").exists()


def test_words_of_an_agent_cannot_steer_the_terminal(cli):
    done = cli("run", "doorman.abl", "--user", "ada", "-m", "I am \x1b[2JAda")
    assert "\x1b" not in done.out
    assert "\\x1b[2JAda" in done.out


# on a terminal

INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from memoranda.cli import main
main()
"""


def on_terminal(*arguments: str, lines: list[str | bytes | signal.Signals | Callable[[], str]]) -> tuple[int, str]:
    """Chat on a terminal of its own: each line is typed when a prompt waits for it."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    with run_process(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as running:
        os.close(slave)
        shown, prompts = b"", 0
        interrupt: signal.Signals | None = None
        while True:
            ready, _, _ = select.select([master], [], [], 60 if interrupt is None else 1)
            if not ready and interrupt is not None:
                # It came just before the line was read; a person presses the key again.
                running.send_signal(interrupt)
                continue
            assert ready, shown
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            while lines and shown.count(b"> ") > prompts:
                prompts += 1
                line = lines.pop(0)
                line = line() if callable(line) else line
                if isinstance(line, signal.Signals):
                    interrupt = line
                    running.send_signal(line)
                else:
                    os.write(master, line if isinstance(line, bytes) else f"{line}\n".encode())
        os.close(master)
        return running.wait(timeout=60), shown.decode()


def test_a_chat_on_a_terminal_has_a_prompt_and_ctrl_d_leaves(process):
    chat = ["knock", ":step", b"\x04"]
    code, shown = on_terminal("run", "doorman.abl", "--user", "ada", "--tools", "tools.py", lines=chat)
    assert code == 0, shown
    assert "Knock 1." in shown
    assert "Doorman, hall, waiting" in shown
    assert shown.count("> ") == 3
    assert "\x1b[2mTo continue: --session session_" in shown


def test_a_person_whose_turn_was_not_kept_says_it_again(process):
    def meanwhile() -> str:
        assert process("run", "doorman.abl", "--session", "s1", "-m", "knock").out == "Knock 2.\n"
        return "knock"

    chat = ["knock", meanwhile, "knock", ":quit"]
    code, shown = on_terminal("run", "doorman.abl", "--session", "s1", lines=chat)
    assert code == 0, shown
    assert "error[conflict]:" in shown
    assert "Knock 3." in shown
    assert shown.index("Knock 1.") < shown.index("error[conflict]:") < shown.index("Knock 3.")
    assert process("run", "doorman.abl", "--session", "s1", input="x" * 20_001 + "\n").code == 2


def test_ctrl_c_leaves_with_130_and_keeps_what_was_said(process):
    chat = ["I am Ada", signal.SIGINT]
    code, shown = on_terminal("run", "doorman.abl", "--user", "ada", "--session", "s1", lines=chat)
    assert code == 130, shown
    assert "Traceback" not in shown
    assert process("facts", "get", "name", "--user", "ada").out == "Ada\n"
    assert process("run", "doorman.abl", "--session", "s1", "-m", "knock").out == "Knock 1.\n"


# the example

CHAT = """\
My name is Ada
Lisbon, 12 May to 15 May, 2 guests
2
Portuguese
yes
a sea view
no
"""


def test_the_hotel_example_books_a_room_and_knows_the_guest_again(process):
    hotel = (str(HOTEL / "hotel.abl"), "--agents", str(HOTEL / "concierge.abl"), "--tools", str(HOTEL / "tools.py"))
    first = process("run", *hotel, "--user", "ada", "--db", "hotel.db", input=CHAT)
    assert first.code == 0, first.err
    assert "dear guest" in first.out
    assert "It is booked, Ada. Your number is LIS-2-" in first.out
    assert "Thank you, and until soon!" in first.out
    second = process("run", *hotel, "--user", "ada", "--db", "hotel.db", "-m", "my bookings")
    assert "Welcome to Quay Hotels, Ada!" in second.out
    assert "1. Lisbon from" in second.out
    other = process("run", *hotel, "--user", "bob", "--db", "hotel.db", "-m", "my bookings")
    assert "dear guest" in other.out
    assert "You have no booking with us" in other.out
    assert "Ada" not in other.out
