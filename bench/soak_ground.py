"""Create a database with users, keys and programs, and say who does what on it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

import memoranda
from memoranda.server.auth.keys import create_key
from memoranda.server.chat_agents import ECHO_MODEL
from memoranda.server.programs import CHAT_FILE

AGENT = "harbour"
MACHINE = "berths"
WORKFLOW = "mooring"
ABL_AGENT = "Pilot"
NOTES = "notes"
"""The collection that processes write; the machine has one of its own."""
BERTHS = "berths"
BOAT = "boat"
"""A key whose definition refuses anything but a boat."""
NEVER = "never kept"
"""Contained in every value that has to be refused."""

_PROGRAMS = {
    f"agents/{CHAT_FILE}": f"""\
[agents.{AGENT}]
model = "{ECHO_MODEL}"
instructions = "You keep the book of a small harbour."
""",
    "agents/pilot.abl": """\
AGENT: Pilot
GOAL: "Know where each boat lies"

MEMORY:
  persistent:
    - user.berth
  remember:
    - WHEN: berth IS SET
      STORE: berth -> user.berth

FLOW:
  ask:
    REASONING: false
    RESPOND: "Last time: {{COALESCE(user.berth, 'at sea')}}."
    GATHER:
      - berth:
        prompt: "Which berth is it today?"
    THEN: done
  done:
    REASONING: false
    RESPOND: "Noted: {{berth}}."
    THEN: COMPLETE
""",
    "machines/berths.mashin": """\
machine berths "Keep where a boat lies, and say what is kept about it"
  accepts
    boat as text, is required
    line as text, is required

  ensures
    permissions
      allowed to memory

  implements
    remember kept
      content: "${input.boat}: ${input.line}"
      collection: "berths"

    recall earlier
      query: input.boat
      collection: "berths"
      limit: 5

    compute said
      { lines: earlier.results.map(one => one.content) }
""",
    "workflows/mooring.yaml": """\
defs:
  ask:
    kind: task
    action: send_text_message
    inputs: {text: "='How long is boat ' & $input.boat & '?'"}
  hear:
    kind: task
    action: wait_for_reply
    inputs: {}
  keep:
    kind: task
    action: update_memory
    inputs: {memory: {boat: {name: "=$input.boat", length: "=$output.hear.text"}}}

flow:
  - do: ask
  - do: hear
  - do: keep
outputs:
  name: "=$context.memory.boat.name"
""",
}
_BOAT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "length": {"type": "string"}},
    "required": ["name", "length"],
    "additionalProperties": False,
}


class Person(msgspec.Struct, frozen=True):
    """A person whose memory is written: the same name in two tenants is two persons."""

    tenant: str
    user: str

    @property
    def sign(self) -> str:
        """The mark in everything that belongs to them, and in nothing else."""
        return f"{self.tenant.title()}{self.user.title()}"


PERSONS = (Person("north", "ana"), Person("north", "ben"), Person("south", "ana"), Person("south", "cleo"))

Door = Literal["front", "steady", "engine"]
"""The server that is killed again and again, the one that never is, or the engine in process."""


class Worker(msgspec.Struct, frozen=True):
    """A process that works for a person through a door; `killed` says whether it is killed in its turn."""

    name: str
    person: Person
    door: Door
    killed: bool = False


WORKERS = (
    Worker("north-ana-1", PERSONS[0], "front"),
    Worker("north-ana-2", PERSONS[0], "steady"),
    Worker("north-ben", PERSONS[1], "front"),
    Worker("south-ana", PERSONS[2], "front"),
    Worker("south-cleo", PERSONS[3], "steady"),
    Worker("north-ana-engine", PERSONS[0], "engine", killed=True),
    Worker("south-cleo-engine", PERSONS[3], "engine"),
)


class Ground(msgspec.Struct, frozen=True):
    """Where everything is, and with which keys it is reached."""

    folder: Path
    tokens: dict[str, str]
    """By the sign of a person."""
    reader_tokens: dict[str, str]
    """Those of keys that may not write."""
    address: str = ""
    """Of a database of PostgreSQL; without one it is a file."""

    @property
    def db(self) -> Path | str:
        """The one database."""
        return self.address or self.folder / "soak.db"

    @property
    def busy_timeout(self) -> float:
        """Seconds that a call waits: longer than a database of PostgreSQL is away that was killed."""
        return 60.0 if self.address else 5.0

    @property
    def agents(self) -> Path:
        """The folder of the agents that are served."""
        return self.folder / "agents"

    @property
    def stop(self) -> Path:
        """The file that tells all workers to end."""
        return self.folder / "stop"

    @property
    def hurry(self) -> Path:
        """The file that tells all workers to make no pauses: while it is there, a process is killed."""
        return self.folder / "hurry"

    def journal(self, worker: str) -> Path:
        """The file that a worker writes its deeds to."""
        return self.folder / "journals" / f"{worker}.jsonl"

    @property
    def settings(self) -> dict[str, str]:
        """What a server is told beside its database and agents: conversations are consolidated soon, and often."""
        return {
            "MEMORANDA_MACHINES": str(self.folder / "machines"),
            "MEMORANDA_WORKFLOWS": str(self.folder / "workflows"),
            "MEMORANDA_SLEEP_DELAY": "5",
            "MEMORANDA_SLEEP_EVERY": "10",
            "MEMORANDA_BUSY_TIMEOUT": str(self.busy_timeout),
        }


def lay_out(folder: Path, address: str = "") -> Ground:
    """Make the database, its users, definitions and programs."""
    (folder / "journals").mkdir()
    for name, text in _PROGRAMS.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    ground = Ground(folder, {}, {}, address)
    with memoranda.open(ground.db) as memory:
        for tenant in dict.fromkeys(person.tenant for person in PERSONS):
            memory.in_tenant(tenant).definitions.create(name="Boat", slug=BOAT, schema=_BOAT, scope="global")
        for person in PERSONS:
            for tokens, role in ((ground.tokens, "member"), (ground.reader_tokens, "reader")):
                key = create_key(memory, tenant=person.tenant, user=person.user, role=role)
                tokens[person.sign] = key.token
    return ground
