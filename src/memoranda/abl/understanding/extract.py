"""The user's words and the fields that are wanted in; values by name out.

The safest reading wins: a field that was not asked for takes only what is said for it, the field that was asked for may
take the whole answer, and no word is used twice. Without a model, and always the same for the same words and clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from memoranda.abl.understanding.amounts import take_numbers
from memoranda.abl.understanding.answers import take_answers
from memoranda.abl.understanding.choices import take_choices
from memoranda.abl.understanding.codes import take_codes
from memoranda.abl.understanding.contacts import take_emails, take_phones
from memoranda.abl.understanding.dates import take_days, take_stays, take_times
from memoranda.abl.understanding.decisions import take_decisions
from memoranda.abl.understanding.labels import take_labelled
from memoranda.abl.understanding.languages import take_languages
from memoranda.abl.understanding.people import take_names
from memoranda.abl.understanding.places import take_places
from memoranda.abl.understanding.reading import Reading
from memoranda.abl.understanding.wanted import Plan, Wanted
from memoranda.abl.understanding.words import read_words

_STEPS: tuple[tuple[str, Callable[[Reading, list[Plan]], None]], ...] = (
    ("email", take_emails),
    ("text", take_labelled),
    ("choice", take_choices),
    ("phone", take_phones),
    ("date", take_days),
    ("time", take_times),
    ("text", take_codes),
    ("number", take_numbers),
    ("date", take_stays),
    ("text", take_names),
    ("text", take_places),
    ("text", take_languages),
    ("boolean", take_decisions),
    ("text", take_answers),
)
"""What is told apart best comes first: each step sees only the words that those before it left."""


def extract(text: str, wanted: Sequence[Wanted], *, now: datetime) -> dict[str, Any]:
    """Return the values that a text gives to the fields, by name; a field it says nothing about is not there.

    >>> from datetime import UTC
    >>> fields = [Wanted(name="destination", asked=True), Wanted(name="num_guests"), Wanted(name="checkin_date")]
    >>> extract("Lisbon for 2 guests, from 3 May", fields, now=datetime(2026, 11, 2, tzinfo=UTC))
    {'checkin_date': '2027-05-03', 'num_guests': 2, 'destination': 'Lisbon'}
    """
    said = read_words(text)
    if not said.words or not wanted:
        return {}
    reading = Reading(said, now)
    take_all(reading, [field.plan for field in wanted])
    return reading.values


def take_all(reading: Reading, plans: Sequence[Plan]) -> None:
    """Fill all fields from a text."""
    kinds: dict[str, list[Plan]] = {}
    for plan in plans:
        kind = "date" if plan.kind == "datetime" else plan.kind
        if kind not in kinds:
            kinds[kind] = [plan]
        elif plan.asked:
            kinds[kind].insert(0, plan)
        else:
            kinds[kind].append(plan)
    for kind, take in _steps_for(frozenset(kinds)):
        take(reading, kinds[kind])


@cache
def _steps_for(kinds: frozenset[str]) -> list[tuple[str, Callable[[Reading, list[Plan]], None]]]:
    """Return the steps that fields of some kinds need; there are few kinds, and a handful of mixtures."""
    return [step for step in _STEPS if step[0] in kinds]
