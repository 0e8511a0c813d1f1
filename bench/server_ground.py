"""Create the database that is measured: facts, blocks, entries and two users, with their keys.

Every measurement works on a copy, the engine's and the server's the same, so that none finds what another has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from corpus import COLLECTION, make_note
from report import show_progress

import memoranda
from memoranda.model.block import ARCHIVAL_CHARACTERS, CORE_CHARACTERS, CORE_ENTRIES
from memoranda.server.auth.keys import create_key
from memoranda.server.chat_agents import ECHO_MODEL
from memoranda.server.programs import CHAT_FILE

USER = "mara"
"""Whose facts, entries and conversations are used."""
FULL_USER = "otto"
"""Whose blocks are as full as blocks can be."""
AGENT = "lighthouse"
FACTS = 1_000
BLOCKS = 256
"""Agents of the user that each have a block: as many as there are ever writers."""
QUESTIONS = 60
REMINDERS = 10
MESSAGE = "Which lamp needs oil before the ferry?"
"""What is said where a prompt is looked at; every line of the full archives has words of it."""
POLICY = {"archival_mode": "auto", "archival_limit": REMINDERS}

_CHAT = f"""\
[agents.{AGENT}]
model = "{ECHO_MODEL}"
instructions = "You keep the log of a lighthouse, and answer those who ask about it."
"""
_CORE = "- Lives at the {place} pier\n- Wants tides in metres\n- Is woken when the lamp of the {place} pier is out"
_CHUNK = 1_000


class Ground(msgspec.Struct, frozen=True):
    """A database, the folder of the agents that are served with it, and the keys of its two users."""

    db: Path
    agents: Path
    token: str
    full_token: str

    def copy(self, folder: Path, name: str) -> Ground:
        """Return the same on a copy of the database."""
        return msgspec.structs.replace(self, db=Path(shutil.copy(self.db, folder / f"{name}.db")))


def lay_out(folder: Path, *, entries: int) -> Ground:
    """Fill a new database and return where everything is."""
    agents = folder / "agents"
    agents.mkdir()
    (agents / CHAT_FILE).write_text(_CHAT)
    db = folder / "ground.db"
    with memoranda.open(db) as memory:
        _fill(memory, entries)
        token, full_token = (
            create_key(memory, tenant=memory.tenant, user=user, role="member").token for user in (USER, FULL_USER)
        )
    return Ground(db, agents, token, full_token)


def fact_key(number: int) -> str:
    """Return the key of the fact of a number."""
    return f"readings.gauge_{number % FACTS}"


def block_agent(number: int) -> str:
    """Return the agent whose block the writer of a number writes."""
    return f"keeper-{number % BLOCKS}"


def block_text(turn: int) -> str:
    """Return what a writer writes at a turn: six lines, about 300 characters, never twice the same."""
    return "\n".join(
        f"- Entry {turn * 6 + line}: the swell is {line + 1} metres, wind from the west" for line in range(6)
    )


def questions() -> list[str]:
    """Return what is asked of the entries."""
    return [make_note(number * 97).question for number in range(QUESTIONS)]


def _fill(memory: memoranda.Memory, entries: int) -> None:
    scope = memory.scope(user=USER)
    with show_progress("laying out a database", entries) as advance:
        for start in range(0, entries, _CHUNK):
            notes = [make_note(number, USER) for number in range(start, min(start + _CHUNK, entries))]
            items = [{"content": note.text, "metadata": note.metadata} for note in notes]
            scope.remember_many(items, collection=COLLECTION)
            advance(len(notes))
    with memory.batch() as batch:
        for number in range(FACTS):
            batch.set(scope, fact_key(number), _reading(number))
    for number in range(BLOCKS):
        memory.scope(user=USER, agent=block_agent(number)).blocks.update(
            "core", block_text(0), expected_updated_at=None
        )
    scope.blocks.update("core", _CORE.format(place="north"), expected_updated_at=None)
    for blocks in (memory.scope(user=FULL_USER).blocks, memory.scope(user=FULL_USER, agent=AGENT).blocks):
        blocks.update("core", full_core(), expected_updated_at=None)
        blocks.update("archival", full_archive(), expected_updated_at=None)


def _reading(number: int) -> Mapping[str, Any]:
    return {"station": f"gauge {number}", "level": 1.25 + number / 100, "unit": "m", "seen": ["mara", "otto"]}


def full_core() -> str:
    """Return a core block that has no room left, neither for a line nor for a character."""
    each = CORE_CHARACTERS // CORE_ENTRIES - 1
    lines = [f"- Rule {number}: ".ljust(each, "x") for number in range(CORE_ENTRIES)]
    return "\n".join(lines).ljust(CORE_CHARACTERS, "x")


def full_archive() -> str:
    """Return an archival block that has no room left, of lines that all have something to do with the message."""
    text = ""
    for number in count():
        line = f"- The lamp of beacon {number} took {number % 7 + 2} litres of oil when the ferry came\n"
        if len(text) + len(line) > ARCHIVAL_CHARACTERS:
            return text
        text += line
    raise AssertionError("counting has no end")
