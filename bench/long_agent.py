"""Generate an ABL agent of a given number of lines: a town hall with a counter for each errand.

Every counter has what real agents have: variables, facts, rules, a tool, and six steps that ask, look up, narrow
down, let the citizen choose, confirm and give up. The text has no faults, so that a check goes through all of it.
"""

from __future__ import annotations

_HEAD = """\
AGENT: Town_Hall_{name}
VERSION: "1.0.0"
DESCRIPTION: "Takes the errands of citizens, one counter for each"
LANGUAGE: "en"
GOAL: "Bring every errand to its end, and remember what the citizen would rather not say twice."
PERSONA: "Patient, exact, without jargon"

ON_START:
  SET: greeting = COALESCE(user.name, "dear citizen")
  RESPOND: "Good morning, {{{{greeting}}}}."

COMPLETE:
  - WHEN: leaves == true
    RESPOND: "Goodbye, {{{{greeting}}}}."
"""

_SESSION = """\
    - {errand}_slots
      TYPE: array
      INITIAL: []
      DESCRIPTION: "What the last search at this counter found"
    - {errand}_tries
      TYPE: number
      INITIAL: 0
    - {errand}_slot
      TYPE: object
    - {errand}_done
      TYPE: boolean
      INITIAL: false
"""

_PERSISTENT = """\
    - user.{errand}.last
      TYPE: object
      DESCRIPTION: "The last appointment at this counter"
    - user.{errand}.fee
      TYPE: number
      UNIT: EUR
      DEFAULT: 40
    - project.{errand}_rate
      ACCESS: read
      TYPE: number
      DEFAULT: 12
"""

_REMEMBER = """\
    - WHEN: {errand}_fee IS SET
      STORE: {errand}_fee -> user.{errand}.fee
      TTL: "365d"
    - WHEN: {errand}_done == true
      STORE: {{day: {errand}_day, persons: {errand}_persons, at: now}} -> user.{errand}.last
"""

_RECALL = """\
    - ON: tool:find_{errand}:after
      ACTION: inject_context
      PATHS: [user.{errand}.last, user.{errand}.fee]
"""

_CONSTRAINTS = """\
  {errand}:
    - LIMIT {errand}_persons <= 8
      WHEN: {errand}_persons IS SET
      ON_FAIL:
        RESPOND: "At most eight persons can come to this counter."
        COLLECT: [{errand}_persons]
        THEN: retry
    - REQUIRE {errand}_slot.price * {errand}_persons <= {errand}_fee + 500 BEFORE calling take_{errand}
      ON_FAIL: "That would be {{{{{errand}_slot.price}}}} for each of {{{{{errand}_persons}}}}, which is too much."
    - WARN {errand}_tries < 3
      ON_FAIL: "{{{{{errand}_tries}}}} searches without a result"
"""

_TOOLS = """\
  find_{errand}(place: string, day: date, persons: number) -> {{slots: object[]}}
    description: "Free times at this counter"
  take_{errand}(slot: string, persons: number) -> {{number: string}}
    description: "Reserve one of them"
    timeout: 5000
"""

_STEPS = """\
  {errand}_ask:
    REASONING: false
    GATHER:
      - {errand}_place: required
        prompt: "In which part of town is it about?"
        type: string
      - {errand}_day: required
        prompt: "On which day would you like to come?"
        type: date
      - {errand}_persons: required
        prompt: "For how many persons?"
        type: number
        validate:
          min: 1
      - {errand}_fee: optional
        type: number
    CORRECTIONS: true
    SUB_INTENTS:
      - INTENT: "another day at counter {number}"
        KEYWORDS: ["other day {number}", "different day {number}"]
        CLEAR: [{errand}_day]
        RESPOND: "Let us look at another day."
    COMPLETE_WHEN: {errand}_place AND {errand}_day AND {errand}_persons IS SET
    THEN: {errand}_search

  {errand}_search:
    REASONING: false
    CALL: find_{errand}({errand}_place, {errand}_day, {errand}_persons)
    ON_SUCCESS:
      - IF: call_result.slots.length > 0
        SET:
          - {errand}_slots = call_result.slots
          - {errand}_cheapest = call_result.slots[0].price
        RESPOND: "{{{{{errand}_slots.length}}}} {{{{#if {errand}_cheapest == 0}}}}free {{{{/if}}}}times are left."
        THEN: {errand}_narrow
      - ELSE:
        SET: {errand}_tries = {errand}_tries + 1
        THEN: {errand}_nothing
    ON_FAIL:
      RESPOND: "I cannot reach the calendar at the moment."
      THEN: {following}

  {errand}_narrow:
    REASONING: false
    SET: {errand}_most = COALESCE({errand}_fee, user.{errand}.fee) + project.{errand}_rate
    TRANSFORM:
      SOURCE: {errand}_slots AS slot
      INTO: {errand}_offers
      FILTER: slot.price <= {errand}_most AND slot.free >= {errand}_persons
      MAP:
        id: slot.id
        hour: slot.hour
        price: slot.price
      SORT_BY: price asc
      LIMIT: 5
    THEN: {errand}_choose

  {errand}_choose:
    REASONING: false
    RESPOND: |
      These times are free:
      {{{{#each {errand}_offers}}}}
      {{{{add @index 1}}}}. {{{{hour}}}}, {{{{price}}}} EUR
      {{{{/each}}}}
      Which number may it be?
    ON_INPUT:
      - IF: abl.is_number(input) AND input >= 1 AND input <= {errand}_offers.length
        SET: {errand}_slot = {errand}_offers[input - 1]
        THEN: {errand}_confirm
      - IF: LOWER(input) contains "none"
        THEN: {errand}_nothing
      - ELSE:
        RESPOND: "Please tell me a number, 1 to {{{{{errand}_offers.length}}}}, or `none`."

  {errand}_confirm:
    REASONING: false
    PRESENT: "{{{{{errand}_day}}}} at {{{{{errand}_slot.hour}}}}, for {{{{{errand}_persons}}}}."
    GATHER:
      - {errand}_agreed: required
        prompt: "Shall I reserve it?"
        type: boolean
    CALL: take_{errand}
      WITH:
        slot: {errand}_slot.id
        persons: {errand}_persons
      AS: {errand}_receipt
    SET:
      - {errand}_done = true
      - errands.{errand}.number = {errand}_receipt.number
    RESPOND: "Your number is {{{{{errand}_receipt.number}}}}."
    THEN: {following}

  {errand}_nothing:
    REASONING: false
    CHECK: {errand}_tries < 3
    ON_FAIL: {following}
    RESPOND: "Nothing is free at this counter on {{{{{errand}_day}}}}."
    CLEAR: [{errand}_place, {errand}_day]
    THEN: {errand}_ask

"""

_PARTS = (_SESSION, _PERSISTENT, _REMEMBER, _RECALL, _CONSTRAINTS, _TOOLS, _STEPS)
_ERRANDS = ("parking", "passport", "library", "garden", "wedding", "chimney", "harbour", "school", "market", "archive")


def make_agent(lines: int, *, variant: int = 0) -> str:
    """Return the text of an agent of about so many lines; each variant has names of its own."""
    counters = max(1, round((lines - len(_HEAD.splitlines())) / sum(len(part.splitlines()) for part in _PARTS)))
    names = [f"{_ERRANDS[number % len(_ERRANDS)]}_{variant}_{number}" for number in range(counters)]
    following = [f"{name}_ask" for name in names[1:]] + ["COMPLETE"]

    def every(part: str) -> str:
        fields = zip(names, following, strict=True)
        return "".join(
            part.format(errand=errand, following=after, number=number) for number, (errand, after) in enumerate(fields)
        )

    return (
        f"{_HEAD.format(name=variant)}\n"
        f"MEMORY:\n  session:\n{every(_SESSION)}  persistent:\n    - user.name\n{every(_PERSISTENT)}"
        f"  remember:\n{every(_REMEMBER)}  recall:\n{every(_RECALL)}\n"
        f"CONSTRAINTS:\n{every(_CONSTRAINTS)}\nTOOLS:\n{every(_TOOLS)}\nFLOW:\n{every(_STEPS)}"
    )
