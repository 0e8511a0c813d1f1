"""What each part of a machine becomes in the document, in every spelling that is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.errors import SourceError
from memoranda.mashin.document import (
    Ask,
    Compute,
    Decide,
    Document,
    Recall,
    Remember,
    Retry,
    RunFlow,
    WaitFor,
    value_of,
)
from memoranda.mashin.parser import parse_document, parse_fragment, read
from memoranda.testing.conformance.base import present

EVERYTHING = (Path(__file__).parent / "samples" / "everything.mashin").read_text()
STEP = "  implements\n    compute one\n      1\n"


@pytest.fixture(scope="module")
def everything() -> Document:
    return parse_document(EVERYTHING)


def machine(sections: str) -> Document:
    return parse_document(f"machine desk\n{sections}{STEP}")


def steps(text: str) -> Document:
    return parse_fragment(text)


def step(text: str) -> object:
    implements = steps(text).implements
    assert implements is not None
    (only,) = implements.body
    return only


def test_a_machine_has_a_name_and_a_title(everything: Document) -> None:
    assert everything.name is not None and everything.name.text == "help_desk"
    assert everything.title is not None and everything.title.text == "The help desk"


def test_fields_have_types_and_modifiers(everything: Document) -> None:
    question, category, tags, amounts, options, urgency = present(everything.accepts)
    assert question.required and question.description is not None
    assert question.description.text == "What the person asks"
    assert [(one.key.text, one.value.text) for one in question.constraints] == [("max_length", "500")]
    assert not category.required and category.default is not None and category.default.text == '"billing"'
    assert [choice.text for choice in category.type.choices] == ["billing", "delivery"]
    assert tags.type.item is not None and tags.type.item.name == "text"
    assert amounts.type.item is not None and amounts.type.item.name == "number"
    assert options.type.shape is not None and options.type.shape.text == "{ verbose: boolean }"
    assert urgency.default is not None and urgency.default.text == "3"


def test_an_output_can_come_from_a_step(everything: Document) -> None:
    sources = present(everything.responds)[1]
    assert sources.source is not None and sources.source.text == "collect_sources"


@pytest.mark.parametrize("modifier", [", is required", ", required", " is required", " required"])
def test_a_field_is_required_in_every_spelling(modifier: str) -> None:
    (field,) = present(machine(f"  accepts\n    a as text{modifier}\n").accepts)
    (other,) = present(machine("  accepts\n    a as text\n").accepts)
    assert field.required and not other.required


@pytest.mark.parametrize(
    "ensures",
    [
        "    permissions\n      allowed to\n        llm_call, memory\n",
        "    permissions\n      allowed to\n        llm_call\n        memory\n",
        "    permissions\n      allowed to llm_call, memory\n",
        "    allowed to llm_call, memory\n",
        "    allowed to\n      llm_call,\n      memory\n",
    ],
)
def test_permissions_say_the_same_in_every_spelling(ensures: str) -> None:
    found = machine(f"  ensures\n{ensures}").ensures
    assert found is not None
    (permission,) = found.permissions
    assert permission.verdict == "allow"
    assert [one.name.text for one in permission.capabilities] == ["llm_call", "memory"]


def test_ensures_has_verdicts_authority_guards_and_needs(everything: Document) -> None:
    ensures = everything.ensures
    assert ensures is not None
    assert [permission.verdict for permission in ensures.permissions] == ["allow", "deny", "approve"]
    called = ensures.permissions[0].capabilities[2]
    assert called.machine is not None and called.machine.text == "translator"
    assert [(one.key.text, one.value.text) for one in ensures.authority] == [
        ("requires", "agent"),
        ("delegates", "reader"),
    ]
    assert [guard.name.text for guard in ensures.guards] == ["no_card_numbers", "polite"]
    assert [(one.key.text, one.value.text) for one in ensures.needs] == [("notes_key", "required")]


@pytest.mark.parametrize(
    "head",
    ['ask a, using: "p:m"', 'ask a using "p:m"', 'ask a using: "p:m"', "ask a, using 'p:m'", 'ask a , using : "p:m"'],
)
def test_a_model_is_named_in_every_spelling(head: str) -> None:
    found = step(f'{head}\n  with task "Do it"\n')
    assert isinstance(found, Ask)
    assert found.using is not None and found.using.text == "p:m"
    assert found.task is not None and found.task.text == '"Do it"'


@pytest.mark.parametrize("head", ['ask a, from: "m", to: act', 'ask a of "m", to: act', 'ask a, of: "m" to act'])
def test_a_machine_is_asked_in_every_spelling(head: str) -> None:
    found = step(f"{head}\n  text: input.text\n")
    assert isinstance(found, Ask)
    assert found.machine is not None and found.machine.text == "m"
    assert found.to is not None and found.to.text == "act"
    assert [one.key.text for one in found.inputs] == ["text"]


def test_a_role_may_stand_before_or_after_the_task_and_text_on_its_own_line() -> None:
    one = step('ask a\n  with role "R"\n  with task "T"\n')
    other = step('ask a\n  with task\n    "T"\n  with role\n    "R"\n')
    assert one == other
    assert one != step('ask a\n  with role "T"\n  with task "R"\n')


def test_branches_say_the_same_with_when_and_with_if() -> None:
    one = step("decide a\n  when x > 3\n    1\n  when x > 2\n    2\n  otherwise\n    3\n")
    other = step("decide a\n  if x > 3\n    1\n  else if x > 2\n    2\n  else\n    3\n")
    assert isinstance(one, Decide) and len(one.branches) == 2 and one.otherwise is not None
    assert one == other


def test_a_line_that_begins_with_a_brace_is_the_result(everything: Document) -> None:
    found = step("compute a\n  let b = 1\n  let c =\n    2\n  {\n    d: b,\n  e: c\n  }\n")
    assert isinstance(found, Compute)
    assert [(let.name.text, let.value.text) for let in found.lets] == [("b", "1"), ("c", "2")]
    assert found.result is not None and found.result.text == "{\nd: b,\ne: c\n}"


def test_an_expression_goes_on_over_deeper_lines_and_over_lines_that_begin_with_a_dot() -> None:
    deeper = step("compute a\n  let b = items\n    .map(x => x)\n  b\n")
    beside = step("compute a\n  let b = items\n  .map(x => x)\n  b\n")
    assert isinstance(deeper, Compute)
    assert deeper.lets[0].value.text == "items\n.map(x => x)"
    assert deeper == beside


def test_raw_text_knows_where_each_of_its_lines_stands() -> None:
    text = "compute a\n  let b = first +\n      // why\n      second\n  b\n"
    found = step(text)
    assert isinstance(found, Compute)
    value = found.lets[0].value
    place = value.excerpt.locate(value.text.index("second"), len(value.text))
    assert text[place.start : place.end] == "second"


def test_memory_steps_have_their_configuration() -> None:
    kept = step('remember keep\n  content: "A: " + input.a\n  collection: "c"\n  metadata: {\n    at: now()\n  }\n')
    assert isinstance(kept, Remember)
    content = value_of(kept.config, "content")
    assert content is not None and content.text == '"A: " + input.a'
    assert value_of(kept.config, "ttl") is None
    found = step('recall find\n  query: input.q\n  collection: "c"\n  retry\n    max: 2\n')
    assert isinstance(found, Recall) and found.retry is not None
    assert [one.key.text for one in found.config] == ["query", "collection"]


def test_a_wait_has_a_schema(everything: Document) -> None:
    assert everything.implements is not None
    wait = everything.implements.flows[0].body[0]
    assert isinstance(wait, WaitFor)
    assert [field.name.text for field in wait.schema] == ["by"]
    assert [one.key.text for one in wait.config] == ["event", "timeout", "on_timeout", "channel"]


def test_flows_stand_in_a_block_or_alone(everything: Document) -> None:
    block = steps("flows\n  flow a\n    1\n  flow b\n    goto flow(a)\n").implements
    alone = steps("flow a\n  1\nflow b\n  goto flow(a)\n").implements
    assert block == alone
    assert block is not None and block.flows[1].body == (steps("goto flow(a)\n").implements or block).body
    jump = block.flows[1].body[0]
    assert isinstance(jump, RunFlow) and jump.jump
    assert everything.implements is not None and everything.implements.on_failure is not None
    assert everything.implements.flows[0].on_failure is not None


def test_a_retry_holds_steps(everything: Document) -> None:
    assert everything.implements is not None
    (retry,) = [item for item in everything.implements.body if isinstance(item, Retry)]
    assert [one.key.text for one in retry.config] == ["max", "backoff", "delay"]
    assert len(retry.steps) == 1


def test_tests_have_their_parts_in_any_order_as_maps_or_as_lines(everything: Document) -> None:
    first, second = everything.tests
    assert first.given is not None and first.given.value is not None
    assert [one.step.text for one in first.assuming] == ["answer", "find_notes"]
    assert [one.key.text for one in first.assuming[1].gives.entries] == ["results"]
    assert second.expect is not None and [one.key.text for one in second.expect.entries] == ["urgent"]


def test_sections_stand_in_any_order_below_the_machine_or_beside_it() -> None:
    below = "machine a\n  accepts\n    b as text\n  implements\n    compute c\n      1\n"
    beside = "machine a\nimplements\n  compute c\n    1\naccepts\n  b as text\n"
    assert parse_document(below) == parse_document(beside)
    assert parse_document(below) != parse_document(below.replace("b as text", "b as number"))


def test_sections_that_are_not_acted_on_are_kept_and_noted() -> None:
    reading = read(f"machine a\n  records\n    events: []\n{STEP}")
    assert not reading.failed
    assert [kept.name for kept in reading.document.kept] == ["records"]
    assert [(one.severity, one.code) for one in reading.diagnostics] == [("note", "not_acted_on")]


def test_a_comment_is_no_part_of_the_document_but_a_text_with_slashes_is() -> None:
    plain = machine("")
    assert machine("  // a comment\n") == plain
    url = step('compute a\n  "http://example.org" // the site\n')
    assert isinstance(url, Compute) and url.result is not None
    assert url.result.text == '"http://example.org"'


def test_quotes_inside_of_an_interpolation_do_not_end_the_text() -> None:
    found = step('compute a\n  "a ${b.map(c => c.d).join("}")} // ${\'\\n\'}"\n')
    assert isinstance(found, Compute) and found.result is not None
    assert found.result.text.endswith("'\\n'}\"")


def test_a_fragment_may_be_a_section_or_a_whole_machine() -> None:
    assert parse_fragment("accepts\n  a as text\n").accepts is not None
    assert parse_fragment(EVERYTHING) == parse_document(EVERYTHING)
    with pytest.raises(SourceError, match="no machine"):
        parse_document("compute a\n  1\n")
