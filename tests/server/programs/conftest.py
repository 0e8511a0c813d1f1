"""A server with machines and workflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MACHINES = {
    "shelf.mashin": """
machine shelf "Keep a note about a plant, and say what is kept"
  accepts
    plant as text, is required
    note as text, default: "no note"
  ensures
    permissions
      allowed to
        memory
  implements
    remember kept
      content: input.plant + ": " + input.note
      collection: "plants"
    recall found
      query: input.plant
      collection: "plants"
      limit: 50
    compute said
      { notes: found.results.map(one => one.content) }
""",
    "gate.mashin": """
machine gate "Wait for a visitor"
  implements
    wait for visitor
      event: "bell.rung"
      schema
        name as text, is required
    compute welcome
      "Come in, ${visitor.name}."
""",
    "vault.mashin": """
machine vault "Keep what somebody agreed to"
  accepts
    note as text, is required
  ensures
    permissions
      requires approval for
        memory
  implements
    remember kept
      content: input.note
      collection: "vault"
    compute done
      "kept"
""",
    "hall.mashin": """
machine hall "Let another machine wait for the visitor"
  ensures
    permissions
      allowed to call "gate"
  implements
    ask met, from: "gate"
    compute done
      met
""",
    "bank.mashin": """
machine bank "Let another machine keep what somebody agreed to"
  ensures
    permissions
      allowed to
        memory
      allowed to call "vault"
  implements
    ask stored, from: "vault"
      note: "from the bank"
    compute done
      stored
""",
    "porch.mashin": """
machine porch "Let another machine keep the note"
  accepts
    plant as text, is required
  ensures
    permissions
      allowed to call "shelf"
  implements
    ask noted, from: "shelf"
      plant: input.plant
      note: "seen from the porch"
    compute done
      noted.notes
""",
}
WORKFLOWS = {
    "hello.yaml": """
defs:
  greet: {kind: task, action: send_text_message, inputs: {text: "='Good morning, ' & $input.name"}}
flow:
  - do: greet
outputs:
  said: "=$output.greet"
""",
    "ask_name.yaml": """
defs:
  name: {kind: task, action: wait_for_reply, inputs: {}}
  greet: {kind: task, action: send_text_message, inputs: {text: "='Thank you'"}}
flow:
  - do: name
  - do: greet
""",
    "shout.yaml": """
defs:
  louder: {kind: task, action: louder, inputs: {text: "=$input.text"}}
flow:
  - do: louder
outputs:
  text: "=$output.louder"
""",
    "brittle.yaml": """
defs:
  drop: {kind: task, action: drop, inputs: {}}
flow:
  - do: drop
""",
    "refund.yaml": """
inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      text: {type: string}
      amount: {type: number}
defs:
  pass_on: {kind: task, action: set_context, inputs: {values: {order: "=$merge([{'approved': false}, $input])"}}}
  say: {kind: task, action: send_text_message, inputs: {text: "=$context.order.approved ? 'Paid' : 'Held'"}}
flow:
  - do: pass_on
  - do: say
outputs:
  said: "=$output.say"
""",
    "hello.tests.yaml": "this: is not a workflow\n",
}
AGENTS = {
    "usher.abl": """
AGENT: Usher
GOAL: "Know who sits where"

MEMORY:
  persistent:
    - user.seat
  remember:
    - WHEN: seat IS SET
      STORE: seat -> user.seat

FLOW:
  door:
    REASONING: false
    RESPOND: "Last time: {{COALESCE(user.seat, 'nowhere')}}."
    THEN: ask
  ask:
    REASONING: false
    GATHER:
      - seat:
        prompt: "Which seat?"
    THEN: done
  done:
    REASONING: false
    CALL: tidy(seat)
    RESPOND: "Enjoy the play on {{seat}}."
    THEN: COMPLETE

TOOLS:
  tidy(seat: string) -> string
    description: "Dust a seat"
""",
    "teller.abl": """
AGENT: Teller
GOAL: "Dust seats for people who were checked"

MEMORY:
  session:
    - branch
      TYPE: string
      INPUT: true
    - identity_checked
      TYPE: boolean
      INITIAL: false
  persistent:
    - user.badge

CONSTRAINTS:
  always:
    - REQUIRE identity_checked == true OR user.badge == "gold" BEFORE calling tidy
      ON_FAIL: "Not before I know you."

FLOW:
  desk:
    REASONING: false
    RESPOND: "Branch: {{COALESCE(branch, 'any')}}."
    ON_INPUT:
      - ELSE:
        CALL: tidy(input)
        RESPOND: "Dusted."

TOOLS:
  tidy(seat: string) -> string
    description: "Dust a seat"
""",
}
TOOLS = '''
def tidy(seat: str) -> str:
    """Dust a seat."""
    return f"{seat} is clean"
'''
ACTIONS = '''
from memoranda.workflow import action

@action
def louder(text: str) -> str:
    """Say it louder."""
    return text.upper()

@action
def drop() -> str:
    """Fail with a word."""
    raise ValueError("the plum jam was in the blue jar")
'''


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Iterator[Any]:
    """One server with programs for all tests of this directory; each test uses its own user or tenant."""
    folder = tmp_path_factory.mktemp("programs")
    with serving(folder / "memory.db", **write_programs(folder)) as one:
        yield one


@pytest.fixture
def programs_in() -> Callable[[Path], dict[str, str]]:
    """Return a function that writes the programs into a directory and returns the variables for a server."""
    return write_programs


def write_programs(folder: Path) -> dict[str, str]:
    """Write the programs into three directories, and return the variables that name them."""
    folders = {
        "agents": AGENTS | {"tools.py": TOOLS},
        "machines": MACHINES,
        "workflows": WORKFLOWS | {"actions.py": ACTIONS},
    }
    for place, files in folders.items():
        (folder / place).mkdir()
        for name, text in files.items():
            (folder / place / name).write_text(text)
    return {f"MEMORANDA_{place.upper()}": str(folder / place) for place in folders}
