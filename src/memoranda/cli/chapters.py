"""What the tour shows: chapters of a few words, the files they need, and commands that are really carried out."""

from __future__ import annotations

from typing import NamedTuple


class Chapter(NamedTuple):
    """One thing to see."""

    title: str
    words: str
    """What is about to happen, and why it matters."""
    commands: tuple[str, ...]
    """As they are typed, without `memoranda`; `{run}` stands for the run that was begun last."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that are shown first."""


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
        "One value at a key, for one person. Nothing is overwritten: each version says when, by whom and how.",
        (
            "facts set profile.city Lisbon --user ada",
            "facts set profile.city Porto --user ada --ttl 90d",
            "facts history profile.city --user ada",
        ),
    ),
    Chapter(
        "A definition is a contract",
        "It has a JSON schema, and holds for whoever writes: this command, an agent, a workflow, a request.",
        (
            f"definitions create --name Stay --slug stay --ttl 30d --schema '{_STAY}'",
            """facts set stay '{"room": 0}' --as-json --user ada""",
            """facts set stay '{"room": 12}' --as-json --user ada""",
        ),
    ),
    Chapter(
        "Texts are found by what they mean",
        "Remember sentences, ask in other words. No model is called, and nothing leaves this machine.",
        (
            "remember 'Ada wants a quiet room away from the lift' -c notes --user ada",
            "remember 'The roof terrace opens in April' -c notes --user ada",
            "recall 'does she mind noise?' -c notes --user ada --limit 1",
            "recall 'does she mind noise?' -c notes --user bob",
        ),
    ),
    Chapter(
        "An agent reads the same memory",
        "An ABL agent is a text. It sees the city that was set above, and what it learns is a fact like any other.",
        (
            "check porter.abl",
            "run porter.abl --user ada --message 'I am Ada'",
            "facts get name --user ada",
        ),
        (("porter.abl", _AGENT),),
    ),
    Chapter(
        "A machine asks before it writes",
        "A mashin machine says what it may do. This one needs approval to write: it waits, for as long as it takes.",
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
        "The core block is in every prompt, the archive is searched line by line. Who writes says what they last read, "
        "so that nobody overwrites what they have not seen.",
        (
            "blocks set core --user ada -- '- Prefers short answers'",
            "blocks set core --user ada -- '- Prefers long answers'",
            "blocks set archival --user ada -- '- Anniversary: asked for tulips on May 12'",
            "blocks recall 'which flowers on May 12' --user ada",
        ),
    ),
    Chapter(
        "Why does it know that?",
        "Everything passed one gate, and stands in one ledger, each line hashed onto the one before.",
        ("ledger tail -n 6", "ledger verify"),
    ),
    Chapter(
        "And it forgets, when it has to",
        "An erasure takes everything of one person, through whichever door it came, and gives a receipt.",
        (
            "erase --user ada --yes",
            "recall 'does she mind noise?' -c notes --user ada",
            "run porter.abl --user ada --message 'Hello?'",
            "ledger verify",
        ),
    ),
)
