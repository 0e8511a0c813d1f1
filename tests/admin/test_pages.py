"""What the pages show and do: definitions, facts, blocks, collections, the ledger, runs, jobs and erasures."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import httpx
import pytest

import memoranda
from memoranda.chat.conversation import conversation_scope
from memoranda.model.job import SLEEP
from memoranda.model.policy import OWNER, Policy, Rule
from memoranda.sleep import jobs, run_sleep_time
from memoranda.testing.conformance.base import present

KEEPER = {
    "type": "object",
    "properties": {"hives": {"type": "integer", "minimum": 0}},
    "required": ["hives"],
    "additionalProperties": False,
}
FORM = {
    "name": "Keeper",
    "slug": "keeper",
    "scope": "global",
    "ttl": "",
    "mode": "replace",
    "schema": json.dumps(KEEPER),
}


def hidden(page: str, name: str) -> str:
    """Return what a hidden field of a page holds."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return found[1].replace("&#43;", "+")


def said(answer: Any) -> str:
    """Return what is said to be wrong on a page."""
    faults = re.findall(r'<(?:p|div) class="(?:fault|notice bad)".*?</(?:p|div)>', answer.text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", " ".join(faults)).split())


# definitions


def test_a_definition_is_created_changed_and_deleted_with_its_records(house: Any) -> None:
    visitor = house.visitor()
    assert "There are no definitions yet" in visitor.read("/definitions")
    assert "Saved." in visitor.done("/definitions/new", **FORM)
    made = house.memory.definitions.get("keeper")
    assert (made.name, made.scope, made.ttl, made.schema) == ("Keeper", "global", None, KEEPER)
    house.memory.scope(user="ada").set("keeper", {"hives": 3})
    house.memory.scope(user="ben").set("keeper", {"hives": 5})

    page = visitor.read(f"/definitions/{made.id}")
    assert '{"hives": 3}' in page and '{"hives": 5}' in page
    of_ben = visitor.read(f"/definitions/{made.id}", owner="ben")
    assert '{"hives": 5}' in of_ben and '{"hives": 3}' not in of_ben
    assert "This owner has no record" in visitor.read(f"/definitions/{made.id}", owner="be")

    edit = visitor.get(f"/definitions/{made.id}/edit").text
    visitor.done(
        f"/definitions/{made.id}/edit", **FORM | {"name": "Beekeeper", "ttl": "30d", "seen": hidden(edit, "seen")}
    )
    changed = house.memory.definitions.get("keeper")
    assert (changed.name, changed.ttl) == ("Beekeeper", 30 * 86_400)

    asked = visitor.read(f"/definitions/{made.id}/delete")
    assert "2 records" in asked
    wrong = visitor.post(f"/definitions/{made.id}/delete", typed="keepe")
    assert wrong.status_code == 422 and len(house.memory.definitions.list()) == 1
    assert "Deleted." in visitor.done(f"/definitions/{made.id}/delete", typed="keeper")
    assert house.memory.definitions.list() == []
    assert house.memory.scope(user="ada").get("keeper") is None


def test_what_is_wrong_with_a_definition_is_said_at_its_field_and_nothing_typed_is_lost(house: Any) -> None:
    visitor = house.visitor()
    for changes, field, words in (
        ({"slug": "Two Words"}, "slug", "slug"),
        ({"name": " "}, "name", "name"),
        ({"ttl": "soon"}, "ttl", "is not a duration"),
        ({"schema": '{"type": "object",}'}, "schema", "line 1, column 19"),
        ({"schema": "[1]"}, "schema", "A schema must be a JSON object"),
        ({"schema": '{"type": "object", "properties": {"a": {"type": "strin"}}}'}, "schema", "$.properties.a"),
        ({"schema": '{"properties": {"a": {"type": "string", "default": 1}}}'}, "schema", "$.properties.a.default"),
    ):
        answer = visitor.post("/definitions/new", **FORM | changes)
        assert answer.status_code == 422, changes
        assert f'id="{field}-fault"' in answer.text and words in said(answer), said(answer)
        assert all(f'id="{other}-fault"' not in answer.text for other in FORM if other != field)
        assert "Keeper" in answer.text or "name" in changes
    assert house.memory.definitions.list() == []
    visitor.done("/definitions/new", **FORM)
    taken = visitor.post("/definitions/new", **FORM | {"name": "Another"})
    assert taken.status_code == 409 and 'id="slug-fault"' in taken.text
    taken = visitor.post("/definitions/new", **FORM | {"name": "KEEPER", "slug": "another"})
    assert taken.status_code == 409 and 'id="name-fault"' in taken.text
    assert "`keeper`" in said(taken)


def test_a_definition_may_begin_with_a_reference_or_a_union(house: Any) -> None:
    visitor = house.visitor()
    node = {"type": "object", "properties": {"queen": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
    for slug, schema, record in (
        ("hive", {"$ref": "#/$defs/node", "$defs": {"node": node}}, {"queen": "Bea", "next": {"queen": "Cleo"}}),
        (
            "owner",
            {"anyOf": [{"properties": {"mail": {}}}, {"properties": {"phone": {}}}]},
            {"mail": "m", "phone": "p"},
        ),
    ):
        form = FORM | {"name": slug.title(), "slug": slug, "schema": json.dumps(schema)}
        assert "Saved." in visitor.done("/definitions/new", **form)
        made = house.memory.definitions.get(slug)
        house.memory.scope(user="ada").set(slug, record)
        assert json.dumps(record) in visitor.read(f"/definitions/{made.id}")
        seen = hidden(visitor.get(f"/definitions/{made.id}/edit").text, "seen")
        assert "Saved." in visitor.done(f"/definitions/{made.id}/edit", **form | {"seen": seen, "name": f"{slug} two"})
        assert house.memory.definitions.get(slug).schema == made.schema


def test_two_people_who_edit_one_definition_do_not_overwrite_each_other_unseen(house: Any) -> None:
    visitor = house.visitor()
    visitor.done("/definitions/new", **FORM)
    made = house.memory.definitions.get("keeper")
    opened = hidden(visitor.get(f"/definitions/{made.id}/edit").text, "seen")
    house.memory.definitions.update(made.id, name="Somebody was faster")
    late = visitor.post(f"/definitions/{made.id}/edit", **FORM | {"seen": opened})
    assert late.status_code == 409 and "changed by someone else" in said(late)
    assert house.memory.definitions.get("keeper").name == "Somebody was faster"
    visitor.done(f"/definitions/{made.id}/edit", **FORM | {"seen": hidden(late.text, "seen")})
    assert house.memory.definitions.get("keeper").name == "Keeper"


def test_the_form_shows_which_records_a_changed_schema_would_not_fit_before_it_saves(house: Any) -> None:
    visitor = house.visitor()
    visitor.done("/definitions/new", **FORM)
    made = house.memory.definitions.get("keeper")
    house.memory.scope(user="ada").set("keeper", {"hives": 30})
    few = '{"type": "object", "properties": {"hives": {"type": "integer", "maximum": 9}}}'
    place = f"/definitions/{made.id}/edit"
    sent = FORM | {"schema": few, "seen": hidden(visitor.get(place).text, "seen")}
    checked = visitor.post(place, **sent, check="1")
    assert checked.status_code == 200 and "1 of 1 records would not fit" in said(checked)
    refused = visitor.post(place, **sent)
    assert refused.status_code == 409
    for answer in (checked, refused):
        assert "user:ada" in answer.text and "$.hives" in answer.text
    dry = visitor.post(place, **sent, migrate='{"hives": $record.hives / 10}', check="1")
    assert "{&#34;hives&#34;: 3}" in dry.text
    assert house.memory.definitions.get("keeper").schema == made.schema
    visitor.done(place, **sent, stale="keep")
    assert "does not fit" in visitor.read(f"/definitions/{made.id}")
    again = sent | {"seen": hidden(visitor.get(place).text, "seen")}
    visitor.done(place, **again, migrate='{"hives": $record.hives / 10}')
    assert house.memory.scope(user="ada").value("keeper") == {"hives": 3}


def test_records_of_one_owner_are_not_those_of_a_conversation_of_that_name(house: Any) -> None:
    visitor = house.visitor()
    visitor.done("/definitions/new", **FORM | {"scope": "thread"})
    made = house.memory.definitions.get("keeper")
    house.memory.scope(user="ada", thread="ben").set("keeper", {"hives": 3})
    house.memory.scope(user="ben", thread="ada").set("keeper", {"hives": 5})
    of_ben = visitor.read(f"/definitions/{made.id}", owner="ben")
    assert '{"hives": 5}' in of_ben and '{"hives": 3}' not in of_ben


def test_records_come_in_pages(house: Any) -> None:
    visitor = house.visitor()
    visitor.done("/definitions/new", **FORM)
    made = house.memory.definitions.get("keeper")
    with house.memory.batch() as batch:
        for number in range(60):
            batch.set(house.memory.scope(user=f"u{number:02}"), "keeper", {"hives": number})
    first = visitor.get(f"/definitions/{made.id}")
    onwards = re.search(r'href="(/admin/definitions/[^"]*after=[^"]*)" rel="next"', first.text)
    assert onwards is not None and "1–50 of 60" in first.text
    second = visitor.client.get(onwards[1].replace("&amp;", "&"))
    assert "51–60 of 60" in second.text and 'rel="next"' not in second.text
    users = set(re.findall(r">user:(u\d\d)<", first.text + second.text))
    assert len(users) == 60


# facts


def test_a_fact_shows_who_changed_it_through_which_door_and_can_be_brought_back(house: Any) -> None:
    robot = house.memory.acting_as("agent:porter", policy=OWNER, door="abl").scope(user="ada")
    robot.set("room", "12", source="conversation:welcome#4")
    visitor = house.visitor("eve")
    where = {"scope": "user:ada", "key": "room"}
    page = visitor.get("/facts/one", **where).text
    assert hidden(page, "version") == "1"
    assert "Saved." in visitor.done("/facts/one", **where, version="1", value='"14"', ttl="")
    page = visitor.read("/facts/one", **where)
    assert "agent:porter through abl from conversation:welcome#4" in page
    assert "user:eve through admin" in page
    assert re.search(r"2 \d{4}-\S+ \S+ set 12 14 user:eve", page), page

    assert "Deleted." in visitor.done("/facts/delete", **where, version="2")
    assert house.memory.scope(user="ada").get("room") is None
    assert "This fact does not exist now" in visitor.read("/facts/one", **where)
    assert "Restored." in visitor.done("/facts/restore", **where, version="0", restored="1")
    fact = house.memory.scope(user="ada").get("room")
    assert fact is not None and (fact.value, fact.origin.door) == ("12", "admin")


def test_a_fact_that_somebody_else_changed_is_not_overwritten(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    ada.set("room", 1)
    ada.set("room", 2)
    visitor = house.visitor()
    where = {"scope": "user:ada", "key": "room"}
    late = visitor.post("/facts/one", **where, version="1", value="3", ttl="")
    assert late.status_code == 409 and ">3</textarea>" in late.text
    gone = visitor.post("/facts/delete", **where, version="1")
    assert gone.status_code == 409 and "version" in said(gone)
    assert visitor.post("/facts/restore", **where, version="1", restored="1").status_code == 409
    assert ada.value("room") == 2
    visitor.done("/facts/one", **where, version="2", value="3", ttl="")
    assert ada.value("room") == 3
    ada.delete("room")
    gone = visitor.post("/facts/one", **where, version="3", value="4", ttl="")
    assert gone.status_code == 409 and "This fact does not exist now" in gone.text and "version" in said(gone)


def test_facts_are_browsed_by_scope_prefix_and_moment(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    before = ada.set("profile.language", "en").updated_at.isoformat()
    ada.set("profile.language", "fr")
    ada.set("garden.plot", 12)
    house.memory.scope(user="ada", agent="porter").set("mood", "good")
    visitor = house.visitor()
    everything = visitor.read("/facts", scope="user:ada")
    assert "profile.language fr" in everything and "garden.plot 12" in everything and "mood" not in everything
    assert "mood good" in visitor.read("/facts", scope="user:ada/agent:porter")
    below = visitor.read("/facts", scope="user:ada", prefix="profile")
    assert "profile.language" in below and "garden.plot" not in below
    half = visitor.read("/facts", scope="user:ada", prefix="prof")
    assert "profile.language" in half and "garden.plot" not in half
    ada.set("profiler", 1)
    assert "profiler" in visitor.read("/facts", scope="user:ada", prefix="profile")
    assert "profiler" not in visitor.read("/facts", scope="user:ada", prefix="profile.")
    assert "garden.plot 12" in visitor.read("/facts", scope="user:ada", prefix="garden.plot")
    then = visitor.read("/facts", scope="user:ada", as_of=before)
    assert "profile.language en" in then and "garden.plot" not in then
    assert visitor.get("/facts", scope="nonsense").status_code == 422
    assert "user:ada/agent:porter" in everything  # among those written to lately
    assert "No facts in this scope yet" in visitor.read("/facts", scope="user:nobody")


def test_a_value_that_its_definition_refuses_is_told_with_its_path(house: Any) -> None:
    house.memory.definitions.create(name="Keeper", slug="keeper", schema=KEEPER)
    house.memory.scope(user="ada").set("keeper", {"hives": 3})
    visitor = house.visitor()
    where = {"scope": "user:ada", "key": "keeper", "version": "1", "ttl": ""}
    wrong = visitor.post("/facts/one", **where, value='{"hives": -1}')
    assert wrong.status_code == 422 and "$.hives" in said(wrong)
    assert visitor.post("/facts/one", **where, value='{"hives": }').status_code == 422
    assert visitor.post("/facts/one", **where, value="NaN").status_code == 422
    assert house.memory.scope(user="ada").value("keeper") == {"hives": 3}
    visitor.done("/facts/one", **where, value='{"hives": 4}')


def test_editing_a_fact_that_expires_does_not_make_it_permanent(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    ada.set("code", 1, ttl="30d")
    visitor = house.visitor()
    page = visitor.get("/facts/one", scope="user:ada", key="code").text
    left = re.search(r'id="ttl" name="ttl" value="(\d+)s"', page)
    assert left is not None and 0 < int(left[1]) <= 30 * 86_400
    visitor.done("/facts/one", scope="user:ada", key="code", version="1", value="2", ttl=f"{left[1]}s")
    assert ada.get("code").expires_at is not None
    visitor.done("/facts/restore", scope="user:ada", key="code", version="2", restored="1")
    restored = ada.get("code")
    assert (restored.value, restored.expires_at is not None) == (1, True)


def test_a_new_fact_never_takes_the_place_of_another_and_what_doors_keep_is_left_to_them(house: Any) -> None:
    visitor = house.visitor()
    form = {"scope": "user:ada", "key": "room", "value": "1", "ttl": ""}
    visitor.done("/facts/new", **form)
    assert visitor.post("/facts/new", **form | {"value": "2"}).status_code == 409
    assert house.memory.scope(user="ada").value("room") == 1
    internal = visitor.post("/facts/new", **form | {"key": "blocks.core"})
    assert internal.status_code == 422 and 'id="key-fault"' in internal.text


def test_internal_facts_are_listed_on_request(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    ada.set("blocks.mine", 1)
    ada.blocks.update("core", "- Has two dogs", expected_updated_at=None)
    visitor = house.visitor()
    for prefix in ("", "blocks", "blocks.core"):
        assert "- Has two dogs" not in visitor.read("/facts", scope="user:ada", prefix=prefix)
        assert "- Has two dogs" in visitor.read("/facts", scope="user:ada", prefix=prefix, internal="true")
    assert "blocks.mine" in visitor.read("/facts", scope="user:ada")


# blocks


def test_a_block_is_saved_by_compare_and_set_and_a_conflict_shows_both_texts(house: Any) -> None:
    blocks = house.memory.scope(user="ada").blocks
    visitor = house.visitor()
    where = {"user": "ada", "agent": "", "block": "core"}
    assert "ada has no blocks yet" in visitor.read("/blocks", user="ada")
    assert "Saved." in visitor.done("/blocks/one", **where, stamp="", text="- Has two dogs\r\n- Walks early")
    assert blocks.get("core").content == "- Has two dogs\n- Walks early"
    opened = hidden(visitor.get("/blocks/one", user="ada", block="core").text, "stamp")
    blocks.update("core", "- Has three dogs", expected_updated_at=blocks.get("core").updated_at)

    late = visitor.post("/blocks/one", **where, stamp=opened, text="- Has a cat")
    assert late.status_code == 409
    assert '<pre tabindex="0" id="theirs">\n- Has three dogs</pre>' in late.text
    assert ">\n- Has a cat</textarea>" in late.text
    assert blocks.get("core").content == "- Has three dogs"
    visitor.done("/blocks/one", **where, stamp=hidden(late.text, "stamp"), text="- Has three dogs and a cat")
    assert blocks.get("core").content == "- Has three dogs and a cat"

    stamp = hidden(visitor.get("/blocks/one", user="ada", block="core").text, "stamp")
    assert "Restored." in visitor.done("/blocks/undo", **where, stamp=stamp)
    assert blocks.get("core").content == "- Has three dogs"
    assert visitor.post("/blocks/delete", **where, stamp=stamp).status_code == 409
    stamp = hidden(visitor.get("/blocks/one", user="ada", block="core").text, "stamp")
    assert "Deleted." in visitor.done("/blocks/delete", **where, stamp=stamp)
    assert blocks.get("core") is None


def test_a_text_over_the_limit_is_refused_and_stays_in_the_form(house: Any) -> None:
    visitor = house.visitor()
    where = {"user": "ada", "agent": "porter", "block": "core", "stamp": ""}
    long = "x" * 4_001
    answer = visitor.post("/blocks/one", **where, text=long)
    assert answer.status_code == 422 and "4,001 characters, the limit is 4,000" in said(answer) and long in answer.text
    visitor.done("/blocks/one", **where, text=long[:-1])
    assert "4,000 of 4,000" in visitor.read("/blocks", user="ada")


def test_each_line_of_a_block_says_since_when_by_whom_and_from_which_conversation(house: Any) -> None:
    house.talk("ada", "My name is Ada Byron. I prefer short answers.", id="hello")
    run_sleep_time(house.memory, "hello", user="ada")
    blocks = house.memory.scope(user="ada").blocks
    learned = blocks.get("core")
    blocks.update("core", learned.content + "\n- Owns a kiln", expected_updated_at=learned.updated_at)
    visitor = house.visitor()
    page = visitor.get("/blocks/one", user="ada", block="core")
    rows = re.findall(
        r"<tr>(.*?)</tr>", page.text.partition("Where each line comes from")[2].partition("</table>")[0], re.DOTALL
    )
    kiln = next(row for row in rows if "kiln" in row)
    taught = next(row for row in rows if "short answers" in row)
    assert "through</span> python" in kiln and "conversations/one" not in kiln
    link = re.search(r'href="(/admin/conversations/one[^"]*)#part-(\d+)"', taught)
    assert "through</span> sleep" in taught and link is not None
    talk = visitor.client.get(link[1].replace("&amp;", "&")).text
    assert f'id="part-{link[2]}"' in talk and "I prefer short answers" in talk


def test_what_an_agent_would_be_reminded_of_can_be_asked(house: Any) -> None:
    house.memory.scope(user="ada").blocks.update("archival", "- The kettle is green", expected_updated_at=None)
    house.memory.scope(user="ada", agent="porter").blocks.update(
        "archival", "- Kettle on loan", expected_updated_at=None
    )
    visitor = house.visitor()
    found = visitor.read("/blocks", user="ada", query="Where is the kettle?").partition("reminded of?")[2]
    assert "The kettle is green" in found and "Kettle on loan" not in found
    both = visitor.read("/blocks", user="ada", query="kettle", agent="porter").partition("reminded of?")[2]
    assert "The kettle is green" in both and "Kettle on loan" in both
    assert "No reminders" in visitor.read("/blocks", user="ada", query="umbrella")


def test_everybodys_blocks_are_listed_for_who_may_see_them(house: Any) -> None:
    for user in ("ada", "ben"):
        house.memory.scope(user=user).blocks.update("core", f"- I am {user}", expected_updated_at=None)
    house.memory.scope(user="ada", agent="porter").blocks.update("archival", "- Likes stairs", expected_updated_at=None)
    listed = house.visitor().read("/blocks")
    assert "- I am ada" in listed and "- I am ben" in listed and "- Likes stairs" in listed
    own = house.visitor("ben", "member").read("/blocks")
    assert "- I am ben" in own and "- I am ada" not in own
    assert "- I am ben" in house.visitor().read("/blocks", user=" ben ")
    assert "cleo has no blocks yet" in house.visitor().read("/blocks", user="cleo")


def test_blocks_and_jobs_come_in_pages(house: Any) -> None:
    # Not due yet: a job that runs between two pages changes its place.
    later = house.memory.clock.now() + timedelta(days=1)
    for number in range(101):
        scope = house.memory.scope(user=f"user{number:03}", thread="chat")
        jobs.enqueue(house.memory, scope.scope, SLEEP, mark=1, due_at=later)
        house.memory.scope(user=f"user{number:03}").blocks.update("core", "- Fires pots", expected_updated_at=None)
    visitor = house.visitor()
    for path in ("/blocks", "/sleep"):
        first = visitor.get(path)
        onwards = re.search(r'href="([^"]*after=[^"]*)" rel="next"', first.text)
        assert onwards is not None, path
        second = visitor.client.get(html.unescape(onwards[1]))
        shown = [set(re.findall(r"user\d{3}", page.text)) for page in (first, second)]
        assert [len(users) for users in shown] == [100, 1] and not shown[0] & shown[1], path
        assert 'rel="next"' not in second.text


# collections


def test_a_recall_shows_scores_and_why_and_an_entry_can_be_forgotten(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    for line in ("The ferry leaves at nine", "The baker is closed on Mondays"):
        ada.remember(line, collection="notes", metadata={"kind": "town"})
    visitor = house.visitor()
    where = {"name": "notes", "scope": "user:ada"}
    assert "notes 2" in visitor.read("/collections")
    found = visitor.read("/collections/one", **where, query="when does the ferry leave")
    assert found.index("The ferry leaves at nine") < found.index("The baker")
    assert "Words found ferry" in found and "Relevance" in found and "Meaning" in found
    assert "No entries in this scope yet" in visitor.read("/collections/one", name="notes")
    page = visitor.get("/collections/one", **where).text
    assert "Forgotten." in visitor.done("/collections/forget", **where, namespace="", id=hidden(page, "id"))
    left = visitor.read("/collections/one", **where)
    assert "The ferry" not in left and "The baker" in left


# the ledger


def test_the_ledger_is_read_backwards_filtered_and_verified(house: Any) -> None:
    ada = house.memory.acting_as("agent:porter", policy=OWNER, door="abl").scope(user="ada")
    for number in range(60):
        ada.set("count", number)
    house.memory.scope(user="ben").set("count", 1)
    visitor = house.visitor()
    first = visitor.get("/ledger")
    positions = [int(one) for one in re.findall(r"/admin/ledger/(\d+)", first.text)]
    assert len(positions) == 50 and positions == sorted(positions, reverse=True)
    onwards = re.search(r'href="([^"]*before=\d+)" rel="next"', first.text)
    assert onwards is not None
    older = [int(one) for one in re.findall(r"/admin/ledger/(\d+)", visitor.client.get(onwards[1]).text)]
    assert older[-1] == 1 and max(older) == positions[-1] - 1
    ben = visitor.read("/ledger", scope="user:ben")
    assert "user:ben" in ben and "agent:porter" not in ben
    assert "No events match" in visitor.read("/ledger", actor="nobody")
    assert "No events match" in visitor.read("/ledger", scope="(shared)")
    refused = visitor.get("/ledger", scope="nonsense", actor="porter")
    assert refused.status_code == 422 and "is not a part of a scope" in refused.text
    assert 'value="nonsense"' in refused.text and 'value="porter"' in refused.text  # nothing typed is lost
    porter = visitor.read("/ledger", actor="porter", effect="set_fact")
    assert "agent:porter" in porter and "user:ben" not in porter
    event = visitor.read(f"/ledger/{positions[-1]}")
    assert "agent:porter" in event and "sha256:" in event
    assert visitor.get("/ledger/99999").status_code == 404
    assert "The chain is intact" in visitor.read("/ledger/verify")


# approvals and runs


def test_an_approval_is_granted_or_refused_and_then_it_happens_or_not(house: Any) -> None:
    careful = Policy(rules=(Rule("allow", "memory.read"), Rule("approve", "memory.write")))
    robot = house.memory.acting_as("agent:porter", policy=careful, door="abl").scope(user="ada")
    for key in ("door", "window"):
        with pytest.raises(memoranda.ApprovalRequired):
            robot.set(key, "open")
    door, window = (house.memory.approvals.list()[number].id for number in (0, 1))
    visitor = house.visitor("eve")
    listed = visitor.read("/approvals")
    assert "agent:porter asks for memory.write" in listed and "door" in listed and "window" in listed
    assert "agent:porter asks for memory.write" in visitor.read("")
    assert "Approved" in visitor.done("/approvals", approval=door, verdict="approved", reason="it is warm")
    assert "Refused." in visitor.done("/approvals", approval=window, verdict="refused", reason="")
    ada = house.memory.scope(user="ada")
    assert (ada.value("door"), ada.value("window")) == ("open", None)
    decided = house.memory.approvals.get(door)
    assert (decided.decided_by, decided.reason) == ("user:eve", "it is warm")
    assert "Nothing is waiting" in visitor.read("/approvals")


def test_g38_a_conflict_shows_both_sides_and_is_decided(house: Any) -> None:
    ada = house.memory.scope(user="ada")
    ada.set("city", "Oslo")
    ada.set("street", "Storgata")
    page = house.memory.from_origin("tool_external").scope(user="ada")
    for key, value in (("city", "Rome"), ("street", "Via Roma")):
        with pytest.raises(memoranda.Held):
            page.set(key, value)
    city, street = (conflict.id for conflict in house.memory.conflicts())
    visitor = house.visitor("eve")
    listed = visitor.read("/approvals")
    assert '"Oslo" owner, user, high' in listed and '"Rome" owner, tool_external, low' in listed
    assert "It contradicts something that is trusted more." in listed and "Keep current" in listed
    assert "Refused." in visitor.done("/approvals", approval=city, verdict="refused", reason="no")
    assert "Approved" in visitor.done("/approvals", approval=street, verdict="approved", reason="she moved")
    assert (ada.value("city"), ada.value("street")) == ("Oslo", "Via Roma")
    assert "Keep current" not in visitor.read("/approvals")


def test_a_run_shows_its_events_and_its_owner_alone_sees_it(house: Any) -> None:
    headers = {"Authorization": f"Bearer {house.key('ada', 'member')}"}
    started = httpx.post(
        f"{house.address}/api/v1/workflows/watering/runs", json={"input": {"plot": 3}}, headers=headers, timeout=60
    )
    id = started.json()["id"]
    for visitor in (house.visitor(), house.visitor("ada", "member")):
        assert id in visitor.read("/runs", status="waiting")
        assert id not in visitor.read("/runs", status="failed")
        page = visitor.read(f"/runs/{id}")
        assert "watering" in page and "exec_start" in page and "verified" in page
    ben = house.visitor("ben", "member")
    assert id not in ben.read("/runs")
    assert ben.get(f"/runs/{id}").status_code == 404


# conversations and sleep-time


def test_a_conversation_is_read_and_what_it_taught_is_taken_back(house: Any) -> None:
    house.talk("ada", "My name is Ada Byron. I prefer tea.", "Thank you", id="tea & cake")
    visitor = house.visitor()
    assert "tea & cake" in visitor.read("/conversations")
    talk = visitor.read("/conversations/one", user="ada", id="tea & cake")
    assert "I prefer tea" in talk and "Thank you" in talk
    house.memory.scope(user="ada").blocks.update("archival", "- The kettle is green", expected_updated_at=None)
    house.talk("ada", "What colour is the kettle?", id="kettle")
    where = {"user": "ada", "id": "kettle"}
    assert "only the model saw this" in visitor.read("/conversations/one", **where)
    own = house.visitor("ada", "member").read("/conversations/one", **where)
    assert "What colour is the kettle?" in own and "only the model saw this" not in own
    assert "There are no jobs" in visitor.read("/sleep")
    run_sleep_time(house.memory, "tea & cake", user="ada")
    assert "tea" in house.memory.scope(user="ada").blocks.get("core").content
    assert "added" in visitor.read("/sleep")
    form = {"user": "ada", "conversation": "tea & cake"}
    assert "Undone" in house.visitor("ada", "member").done("/sleep/undo", **form)
    assert house.memory.scope(user="ada").blocks.get("core") is None  # as before
    assert visitor.post("/sleep/undo", **form).status_code == 404


def test_a_job_that_was_given_up_is_told_and_can_be_tried_again(house: Any) -> None:
    house.talk("ada", "I prefer tea.")
    scope = conversation_scope(house.memory, "ada", "chat")
    waiting = present(jobs.enqueue(house.memory, scope, SLEEP, mark=2))
    job = present(jobs.lease(house.memory, waiting, worker="test"))
    jobs.fail(house.memory, job, ValueError("the kettle is cold"), most_attempts=1)
    visitor = house.visitor()
    assert "could not be consolidated" in visitor.read("")
    assert "the kettle is cold" in visitor.read("/sleep")
    assert "Retrying now" in visitor.done("/sleep/retry", scope="user:ada/thread:chat", kind="sleep")
    assert jobs.get_job(house.memory, scope, SLEEP).state != "dead"


def test_what_is_shared_by_all_of_a_tenant_is_a_scope_too(house: Any) -> None:
    house.memory.scope().set("motto", "measure twice")
    visitor = house.visitor()
    assert "measure twice" in visitor.read("/facts", scope="(shared)")
    ledger = visitor.get("/ledger").text
    link = re.search(r'href="(/admin/facts/one[^"]*motto)"', ledger)
    assert link is not None and "measure twice" in visitor.client.get(link[1].replace("&amp;", "&")).text


# erasing


def test_a_user_is_erased_after_their_id_was_typed_twice_and_there_is_a_receipt(house: Any) -> None:
    house.memory.scope(user="ada").set("room", "forty-two")
    house.memory.scope(user="ben").set("room", "seven")
    visitor = house.visitor()
    wrong = visitor.post("/erase", user="ada", typed="ad")
    assert wrong.status_code == 422 and house.memory.scope(user="ada").value("room") == "forty-two"
    assert visitor.post("/erase", user="", typed="").status_code == 422
    answer = visitor.post("/erase", user="ada", typed="ada")
    assert answer.status_code == 200 and "Erased: ada" in answer.text and "facts" in answer.text
    assert house.memory.scope(user="ada").history("room") == []
    assert house.memory.scope(user="ben").value("room") == "seven"
    event = re.search(r'href="(/admin/ledger/\d+)"', answer.text)
    assert event is not None and "erase" in visitor.client.get(event[1]).text


def test_the_overview_counts_what_there_is(house: Any) -> None:
    visitor = house.visitor()
    empty = visitor.read("")
    assert "0 definitions" in empty and "Nothing is waiting" in empty
    assert "times in UTC" in visitor.get("").text
    house.memory.definitions.create(name="Keeper", slug="keeper", schema=KEEPER)
    house.memory.scope(user="ada").remember("The ferry leaves at nine", collection="notes")
    full = visitor.read("")
    assert "No approvals are pending" in full
    assert "No jobs were given up" in house.visitor("ada", "reader").read(
        ""
    )  # who may not see approvals is told of none
    assert "1 definition " in full and "1 collection " in full and "1 entries" in full
