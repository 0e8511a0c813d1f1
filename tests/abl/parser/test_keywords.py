"""The keyword tables: every row can be found, has a description, and refers to tables that exist."""

from __future__ import annotations

from memoranda.abl.keywords import LEVELS, places_of

SECTIONS = (
    "AGENT VERSION DESCRIPTION LANGUAGE GOAL PERSONA LIMITATIONS IDENTITY INSTRUCTIONS SYSTEM_PROMPT EXECUTION TOOLS "
    "GATHER FLOW MEMORY CONSTRAINTS GUARDRAILS DELEGATE HANDOFF RETURN_HANDLERS ESCALATE COMPLETE ON_START HOOKS "
    "ON_ERROR MESSAGES TEMPLATES ACTION_HANDLERS NLU MULTI_INTENT LOOKUP_TABLES ATTACHMENTS"
).split()
STEP = (
    "REASONING WHEN MAX_ATTEMPTS ON_EXHAUSTED SET CLEAR TRANSFORM CALL ON_SUCCESS ON_FAIL ON_FAILURE ON_RESULT CHECK "
    "RESPOND PRESENT GATHER CORRECTIONS COMPLETE_WHEN ON_INPUT SUB_INTENTS DIGRESSIONS ACTIONS ON_ACTION ON_ERROR THEN "
    "GOAL AVAILABLE_TOOLS EXIT_WHEN MAX_TURNS STEP_CONSTRAINTS"
).split()


def test_every_section_and_every_word_of_a_step_is_known() -> None:
    assert [word for word in SECTIONS if not LEVELS["document"].find(word)] == []
    assert [word for word in STEP if not LEVELS["step"].find(word)] == []
    assert LEVELS["step"].find("RESPONT") is None


def test_a_row_is_complete_and_no_word_means_two_things_in_one_place() -> None:
    for level in LEVELS.values():
        spellings = [word.casefold() for row in level.keywords for word in (row.name, *row.aliases)]
        assert len(spellings) == len(set(spellings)), level.name
        for row in level.keywords:
            assert row.meaning, (level.name, row.name)
            assert row.below == "" or row.below in LEVELS, (level.name, row.name)
            assert (row.kind == "choice") == bool(row.choices), (level.name, row.name)
            assert row.acted_on or not row.aliases, (level.name, row.name)


def test_a_word_says_where_it_stands() -> None:
    assert "below `TRANSFORM`" in places_of("SORT_BY")
    assert places_of("nonsense") == []
