"""What calls return: dicts for JSON, tables for notebooks, and copies that equal them."""

from __future__ import annotations

import copy
import json
import pickle
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

import memoranda
from memoranda import Memory
from memoranda.model.result import Result

ATTACK = """<script>alert("x")</script><img src=x onerror='alert(1)'> & </td></table>"""


def results(memory: Memory) -> list[Any]:
    """Return one result of each kind, with an attack in every text that a user chooses."""
    ada = memory.scope(user=ATTACK, agent="desk")
    fact = ada.set(f"notes.{ATTACK.replace('.', '')}", {ATTACK: [ATTACK, 1, None]}, ttl="1d", source=ATTACK)
    remembered = ada.remember(ATTACK, metadata={"about": ATTACK}, key=ATTACK)
    block = ada.blocks.update("archival", ATTACK, expected_updated_at=None)
    definition = memory.definitions.create(
        name=ATTACK, slug="x", schema={"type": "object", "properties": {}, "description": ATTACK}
    )
    user = memory.scope(user=ATTACK)
    user.set("x", {})
    memory.definitions.update(definition.id, schema={"type": "object", "required": [ATTACK]}, stale="keep")
    (stale,) = memory.definitions.records("x")
    assert "<script>" in str(stale.misfit)
    recalled = ada.recall("alert")
    assert {match.kind for match in recalled} >= {"entry", "fact", "line"}
    return [
        *(fact, ada.history(fact.key)[0], remembered, ada.entries(collection="notes")[0], recalled, recalled[0]),
        *(block, ada.blocks.recall("alert")[0], definition, memory.collections.list()[0], memory.ledger.tail(1)[0]),
        *(memory.ledger.verify(), ada.recall("x", collection="none"), stale),
    ]


class Tags(HTMLParser):
    """Collects the tags of a text, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.said = ""
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        assert tag != "th" or dict(attrs)["scope"] in ("col", "row")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def test_every_result_is_a_dict_a_table_and_a_copy(memory: Memory) -> None:
    for one in results(memory):
        assert isinstance(one, Result), type(one)
        told = one.to_dict()
        assert json.loads(json.dumps(told)) == told
        assert {name for name in one.__struct_fields__ if getattr(one, name) is not msgspec.UNSET} <= told.keys()
        for same in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
            assert same == one and type(same) is type(one)
        seen = Tags(one._repr_html_())
        assert seen.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"} and seen.open == []
        assert type(one).__name__ in seen.said


def test_moments_and_scopes_are_text(memory: Memory) -> None:
    fact = memory.scope(user="ada").set("kiln.cone", 6, ttl="1h")
    told = fact.to_dict()
    assert (told["tenant"], told["scope"], told["value"]) == ("default", "user:ada", 6)
    assert memoranda.Fact is type(fact) and told["updated_at"].startswith(fact.updated_at.isoformat()[:19])
    assert told["expires_at"].endswith("Z") and told["origin"]["actor"] == "owner"
    memory.scope(user="ada").remember("Celadon turns green")
    found = memory.scope(user="ada").recall("celadon").to_dict()
    assert found["results"][0]["scope"] == "user:ada" and found["results"][0]["why"]["matched"] == ["celadon"]


def test_a_table_of_matches_has_a_row_for_each(memory: Memory) -> None:
    ada = memory.scope(user="ada")
    ada.remember("Celadon turns green")
    ada.remember("x" * 2_000)
    table = ada.recall("celadon")._repr_html_()
    assert table.count('<th scope="row"') == 2 and '<th scope="col">ref</th>' in table
    assert "Celadon turns green" in table and "x" * 501 not in table and "x" * 500 + "…" in table


@pytest.fixture
def memory() -> Any:
    with memoranda.open(":memory:") as opened:
        yield opened
