"""Generate notes of people about their days, and questions about them.

A note depends on its number alone, so every process can make it anew and no data have to be kept. Words are drawn
with a few common and many rare ones, as in real texts; the vocabulary grows with the number of notes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

USERS = {"mara": 420, "jon": 370, "lin": 661}
"""Whose notes the comparison with peers is about, and how many each of them has."""

COLLECTION = "notes"
LIMIT = 10
"""How many matches every search asks for."""

RARE = {"priority": "high"}
"""A filter that one note in twenty passes."""
_RARE_EVERY = 20

_PER_SESSION = 20

_SYLLABLES = (
    "ba be bo da de do el en fa fi ga go ha hi ja jo ka ke ki la le lo ma me mi mo na ne ni no pa pe ra re ri ro sa se "
    "si so ta te ti to va ve vi wa we ya yo za ze zi"
).split()
_TRAITS = (
    "red blue old new small large broken borrowed wooden quiet cheap heavy spare green second-hand folded painted "
    "empty faded striped electric paper rusty silver portable woollen yellow plain noisy early"
).split()
_THINGS = (
    "bicycle kettle guitar ladder invoice passport printer tent camera piano suitcase microscope telescope drill sofa "
    "notebook charger helmet blanket umbrella recipe contract keyboard lantern canoe violin backpack thermostat "
    "projector greenhouse compass toolbox aquarium freezer mattress scooter radiator sewing-machine dishwasher "
    "stapler chessboard accordion typewriter hammock wheelbarrow saxophone"
).split()
_PLACES = (
    "library harbour workshop clinic bakery museum station market garden office theatre gym school airport cellar "
    "kitchen laboratory studio warehouse riverside allotment courthouse campsite ferry pharmacy bookshop embassy "
    "skating-rink observatory town-hall"
).split()
_FIELDS = (
    "pottery chess astronomy carpentry photography Spanish statistics gardening swimming calligraphy accounting "
    "climbing baking robotics sailing drawing first-aid beekeeping welding poetry"
).split()
_FEELINGS = "relieved nervous proud tired delighted worried curious bored hopeful annoyed".split()
_MONTHS = ("January February March April May June July August September October November December").split()

# Whose note a number is: each user's share, in mixed order.
_OWNERS = random.Random(0).sample(list(USERS), sum(USERS.values()), counts=list(USERS.values()))

# What a note says, and what may be asked about it later. Names in braces are drawn once for both.
_SUBJECTS = (
    ("{who} lent me the {trait} {thing} until the end of {month}.", "Who lent me the {thing}?"),
    ("I left the {trait} {thing} at the {place} when I met {who}.", "Where did I leave the {trait} {thing}?"),
    ("{who} starts a course in {field} at the {place} in {month}.", "When does {who} start the course in {field}?"),
    ("We are meeting {who} at the {place} on the {day}th of {month}.", "Where are we meeting {who}?"),
    (
        "{who} paid {amount} for the {trait} {thing} and was {feeling} about it.",
        "How much did {who} pay for the {thing}?",
    ),
    ("The {thing} that {who} ordered from {town} has not arrived yet.", "What did {who} order from {town}?"),
    ("{who} moved to {town} to work at a {place}.", "Which town did {who} move to?"),
    ("I promised {who} to repair the {trait} {thing} before {month}.", "What did I promise {who}?"),
    ("{who} has been practising {field} for {count} years.", "How long has {who} been practising {field}?"),
    ("{who} was {feeling} after the talk about {field} at the {place}.", "How did {who} feel after the talk?"),
    ("Order {code}: {count} pieces of the {trait} {thing} go to {town}.", "What is order {code} about?"),
    ("The doctor told {who} to stay away from {field} until the {day}th.", "What did the doctor tell {who}?"),
)
_DETAILS = (
    "It took {count} days longer than planned.",
    "{other} said the same about the {place2}.",
    "The door code there is {amount2}.",
    "Should I ask {other} about it?",
    "Next time I will bring the {thing2}.",
    "{other} and I talked about {field2} on the way home.",
    "That was the {day2}th time this year.",
    "I was {feeling2}, to be honest.",
    "Do not forget the {trait2} {thing2}.",
    "The bus from {town2} was late again.",
)


@dataclass(frozen=True, slots=True)
class Note:
    """One entry to be remembered, and a question that it answers."""

    number: int
    user: str
    text: str
    question: str
    metadata: dict[str, Any]


def make_note(number: int, user: str = "mara") -> Note:
    """Return the note of a number: two or three sentences, a question, and metadata like a chat's."""
    source = random.Random(number)
    words = _draw_words(source)
    said, asked = source.choice(_SUBJECTS)
    details = source.sample(_DETAILS, source.choice((1, 1, 2)))
    session = number // _PER_SESSION
    metadata = {
        "speaker": source.choice((user, words["other"])),
        "session": f"session-{session:06}",
        "time": f"2026-{session % 12 + 1:02}-{session % 28 + 1:02}T{8 + number % _PER_SESSION // 2:02}:00:00Z",
        "priority": RARE["priority"] if number % _RARE_EVERY == 0 else "normal",
    }
    text = " ".join(one.format_map(words) for one in (said, *details))
    return Note(number, user, text, asked.format_map(words), metadata)


def make_notes(numbers: range) -> list[Note]:
    """Return the notes of these numbers; of the first 1,451, each user has as many as `USERS` says."""
    return [make_note(number, _OWNERS[number % len(_OWNERS)]) for number in numbers]


def rare(note: Note) -> bool:
    """Say whether a note passes the filter `RARE`."""
    return note.metadata["priority"] == RARE["priority"]


def _draw_words(source: random.Random) -> dict[str, object]:
    return {
        "who": _name(source, 2),
        "other": _name(source, 2),
        "town": _name(source, 3),
        "town2": _name(source, 3),
        "trait": _common_first(source, _TRAITS),
        "trait2": _common_first(source, _TRAITS),
        "thing": _common_first(source, _THINGS),
        "thing2": _common_first(source, _THINGS),
        "place": _common_first(source, _PLACES),
        "place2": _common_first(source, _PLACES),
        "field": _common_first(source, _FIELDS),
        "field2": _common_first(source, _FIELDS),
        "feeling": source.choice(_FEELINGS),
        "feeling2": source.choice(_FEELINGS),
        "month": source.choice(_MONTHS),
        "day": source.randrange(4, 21),
        "day2": source.randrange(4, 100),
        "count": source.randrange(2, 60),
        "amount": source.randrange(10, 5_000),
        "amount2": source.randrange(1_000, 10_000),
        "code": f"{_name(source, 1).upper()}-{source.randrange(1_000, 10_000)}",
    }


def _common_first(source: random.Random, words: Sequence[str]) -> str:
    """Draw a word, the early ones of the list far more often."""
    return words[int(len(words) * source.random() ** 2)]


def _name(source: random.Random, syllables: int) -> str:
    return "".join(_common_first(source, _SYLLABLES) for _ in range(syllables)).capitalize()
