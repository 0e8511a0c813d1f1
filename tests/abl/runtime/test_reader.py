"""Another `Reader` takes the place of the rules: the runtime asks nothing else about the user's words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memoranda.abl.understanding.fields import FieldSpec, Intent

TRIP = """
    FLOW:
      collect:
        REASONING: false
        GATHER:
          - destination
          - nights: required
            type: number
        CORRECTIONS: true
        SUB_INTENTS:
          - INTENT: "ask the weather"
            RESPOND: "Sunny."
            RESUME: true
        RESPOND: "{{destination}}, {{nights}} nights"
        THEN: COMPLETE
    """


class Scripted:
    """Reads from a table, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str], str | None]] = []

    def find(self, fields: Sequence[FieldSpec], text: str, *, now: datetime) -> dict[str, Any]:
        asked = next((field.name for field in fields if field.asked), None)
        self.asked.append((text, [field.name for field in fields], asked))
        return {"one": {"destination": "Porto"}, "four": {"nights": 4}}.get(text, {})

    def find_corrections(
        self, fields: Sequence[FieldSpec], text: str, *, now: datetime, missing: FieldSpec | None = None
    ) -> dict[str, Any]:
        return {"destination": "Lisbon"} if text == "two" and missing is not None else {}

    def find_intent(self, intents: Sequence[Intent], text: str) -> int | None:
        return 0 if text == "three" else None


def test_values_corrections_and_intents_come_from_the_reader(load: Any, talk: Any):
    agent = load(TRIP)
    reader = agent._member.reader = Scripted()
    session = agent.start()
    assert talk(session, "one", "two") == [["How many nights?"], ["How many nights?"]]
    assert session.vars["destination"] == "Lisbon"
    assert talk(session, "three", "four") == [["Sunny.", "How many nights?"], ["Lisbon, 4 nights"]]
    assert reader.asked[0] == ("one", ["destination", "nights"], "destination")
    assert ("three", ["nights"], "nights") not in reader.asked
