"""`memoranda tour`: the whole product in two minutes, on a memory that is gone afterwards, and without a network."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill, indent
from typing import Annotated, NamedTuple

from memoranda.cli.command import flag, group
from memoranda.cli.output import Output

app = group()

_WIDTH = 80


@app.command("tour", epilog="\b\nExample:\n  memoranda tour --all | less")
def tour(
    straight: Annotated[bool, flag("Show everything without pauses.", "--all")] = False,
) -> None:
    """Show the whole product in two minutes, with a temporary memory.

    Each command is shown and really run, in a folder that is deleted at the end. On a terminal the tour pauses after
    each chapter.
    """
    out = Output(json=False)
    stops = not straight and sys.stdin.isatty() and out.on_terminal
    with empty_folder():
        for number, chapter in enumerate(CHAPTERS, 1):
            out.say(f"\n{number} of {len(CHAPTERS)} · {chapter.title}", style="bold")
            _show(out, chapter)
            if stops and number < len(CHAPTERS) and not _goes_on():
                break
    out.say("")
    out.say("The memory of this tour is deleted. Begin your own with `memoranda facts set KEY VALUE`")
    out.say("Start a server: `memoranda serve`; from a clone, with sample data: `make serve`")
    out.say("Help for a command: `memoranda COMMAND --help`")


@contextmanager
def empty_folder() -> Generator[None]:
    """Change into a temporary folder, without Memoranda's environment variables."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MEMORANDA_")}
    with TemporaryDirectory(prefix="memoranda-tour-") as folder, chdir(folder):
        for name in before:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(before)


def _show(out: Output, chapter: Chapter) -> None:
    out.say(fill(chapter.words, _WIDTH))
    for name, text in chapter.files:
        Path(name).write_text(text, encoding="utf-8")
        out.say("")
        out.say(f"{name}\n{indent(text.rstrip(), '  ')}", style="dim")
    for command in chapter.commands:
        if "{run}" in command:
            command = command.replace("{run}", _newest_run())
        out.say("")
        out.say(f"$ memoranda {command}", style="bold", indent="    ")
        _carry_out(shlex.split(command))


def _carry_out(arguments: list[str]) -> int:
    from memoranda.cli.app import run

    return run(arguments)


def _newest_run() -> str:
    import memoranda

    with memoranda.open("memory.db") as memory:
        return memory.runs.list(limit=1)[0].id


def _goes_on() -> bool:
    try:
        return not input("\n(Enter to continue, q to quit) ").strip()
    except EOFError:
        return False


class Chapter(NamedTuple):
    """One chapter of the tour."""

    title: str
    words: str
    """What the commands show, and why it matters."""
    commands: tuple[str, ...]
    """Without `memoranda`; `{run}` is the newest run."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that are written and shown first."""


_AGENT = """\
AGENT: Porter
GOAL: "Know the guests of a small hotel"

MEMORY:
  persistent:
    - user.name
    - profile.city
  remember:
    - WHEN: guest_name IS SET
      STORE: guest_name -> user.name
      TTL: 90d

FLOW:
  door:
    REASONING: false
    RESPOND: |
      Good day, {{COALESCE(user.name, 'stranger')}}.
      How is {{COALESCE(profile.city, 'your city')}}?
    THEN: ask
  ask:
    REASONING: false
    WHEN: user.name IS NOT SET
    GATHER:
      - guest_name:
        prompt: "Who are you?"
    THEN: COMPLETE
"""

_MACHINE = """\
machine lost_and_found "Keep what somebody found"
  accepts
    thing as text, is required

  ensures
    permissions
      allowed to memory.read
      requires approval for memory.write

  implements
    recall known
      query: input.thing
      collection: "found"
    remember kept
      content: "Found: ${input.thing}"
      collection: "found"
"""

_WORKFLOW = """\
defs:
  tell:
    kind: task
    action: send_text_message
    inputs: {text: "='Your room is ' & $context.memory.stay.room & '.'"}
  ask:
    kind: task
    action: send_text_message
    inputs: {text: "Which room do you want?"}
flow:
  - conditional:
      when:
        - condition: "=$exists($context.memory.stay)"
          steps: [{do: tell}]
      else:
        steps: [{do: ask}]
"""

_STAY = '{"type": "object", "properties": {"room": {"type": "integer", "minimum": 1}}, "required": ["room"]}'

CHAPTERS = (
    Chapter(
        "A fact has versions",
        "One value at a key, for one person. Nothing is lost: each version records when, by whom and how.",
        (
            "facts set profile.city Lisbon --user ada",
            "facts set profile.city Porto --user ada --ttl 90d",
            "facts history profile.city --user ada",
        ),
    ),
    Chapter(
        "A definition is a contract",
        "It has a JSON schema, which applies to every write: by this command, an agent, a workflow or a request.",
        (
            f"definitions create --name Stay --slug stay --ttl 30d --schema '{_STAY}'",
            """facts set stay '{"room": 0}' --as-json --user ada""",
            """facts set stay '{"room": 12}' --as-json --user ada""",
        ),
    ),
    Chapter(
        "Texts are found by meaning",
        "Store sentences, ask in other words. No model is called, and nothing leaves this machine.",
        (
            "remember 'Ada wants a quiet room away from the lift' -c notes --user ada",
            "remember 'The roof terrace opens in April' -c notes --user ada",
            "recall 'does she mind noise?' -c notes --user ada --limit 1",
            "recall 'does she mind noise?' -c notes --user bob",
        ),
    ),
    Chapter(
        "An agent reads the same memory",
        "An ABL agent is a text file. It sees the city that was set above; what it learns is a fact like any other.",
        (
            "check porter.abl",
            "run porter.abl --user ada --message 'I am Ada'",
            "facts get name --user ada",
        ),
        (("porter.abl", _AGENT),),
    ),
    Chapter(
        "A machine asks before it writes",
        "A mashin machine declares what it may do. This one needs approval to write, and waits for it.",
        (
            """run lost.mashin --user ada --input '{"thing": "a green umbrella"}'""",
            "approve {run} kept --reason 'it is at the desk'",
            "replay {run}",
        ),
        (("lost.mashin", _MACHINE),),
    ),
    Chapter(
        "A workflow has it in its context",
        "The record that was set above, under its contract, is there as $context.memory.stay.",
        ("run desk.yaml --user ada", "run desk.yaml --user bob"),
        (("desk.yaml", _WORKFLOW),),
    ),
    Chapter(
        "Memory blocks are for chat",
        "The core block is in every prompt, the archive is searched line by line. A write names the version it read, "
        "so that nothing is overwritten by accident.",
        (
            "blocks set core --user ada -- '- Prefers short answers'",
            "blocks set core --user ada -- '- Prefers long answers'",
            "blocks set archival --user ada -- '- Anniversary: asked for tulips on May 12'",
            "blocks recall 'which flowers on May 12' --user ada",
        ),
    ),
    Chapter(
        "Why does it know that?",
        "Everything passed one gate, and is in one ledger, each event chained to the one before by its hash.",
        ("ledger tail -n 6", "ledger verify"),
    ),
    Chapter(
        "And it forgets, when it has to",
        "An erasure removes everything of one person, however it was written, and returns a receipt.",
        (
            "erase --user ada --yes",
            "recall 'does she mind noise?' -c notes --user ada",
            "run porter.abl --user ada --message 'Hello?'",
            "ledger verify",
        ),
    ),
)
