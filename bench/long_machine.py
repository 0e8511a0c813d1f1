"""Generate a machine of a given number of lines: a museum with a gallery for each kind of gift.

Every gallery has what real machines have: a search in memory, computations with functions as values, a question to a
model with the shape of its answer, another machine, a decision, an event that is waited for, something to remember,
what is done on failure, and a test. The text has no faults, so that a check goes through all of it.
"""

from __future__ import annotations

_HEAD = """\
machine museum_{name} "Takes in what is given to the museum, one gallery after the other"
  accepts
    giver as text, is required, min_length: 2
    object as text, is required, description "What it is, in the giver's words"
    gallery as text, default: "coins"
    year as integer, min: 0, max: 2100
    photographs as list of text

  responds with
    accepted as boolean
    number as text, default: "none"
    letter as text

  achieves
    Every gift gets a number, a value and a letter of thanks, or a reason why it cannot be taken.

  ensures
    permissions
      allowed to memory, llm_call, call "appraiser"
      requires approval for db_write
      not allowed to http
    guards
      no_secrets
      no_personal_data
        on_violation: "redact"

  implements
    compute gift
      let words = input.object.toLowerCase().split(" ")
      {{ words: words.filter(word => word.length > 3), old: (input.year ?? 2000) < 1900 }}

    // Gifts go to the gallery that was named; all others keep their number for another day.
    decide where
"""

_WHERE = """\
      when input.gallery == "{gallery}"
        run flow({gallery})
"""

_BETWEEN = """\
      otherwise
        {{ accepted: false, letter: "We have no gallery for this, ${{input.giver}}." }}

    flows
"""

_FLOW = """\
      flow {gallery}
        recall {gallery}_alike
          query: "${{input.object}}, gallery {number}"
          collection: "holdings"
          namespace: "{gallery}"
          filter: {{ kind: "{gallery}", shown: true }}
          limit: 5
          threshold: 0.4

        compute {gallery}_known
          let kept = {gallery}_alike.results.filter(one => one.score >= 0.5 && one.metadata.value != null)
          let worth = kept.map(one => one.metadata.value).reduce((sum, value) => sum + value, 0)
          {{
            names: kept.map(one => one.content).join("\\n- "),
            best: kept.map(one => one.score).reduce((best, score) => Math.max(best, score), 0),
            worth: kept.length > 0 ? Math.round(worth / kept.length) : {number} * 10 + 5,
            rare: kept.length < 2 and gift.old
          }}

        ask {gallery}_words, using: "anthropic:claude-sonnet-4-6"
          with role "You write labels for a museum. Say what is certain, and nothing else."
          with task "A gift: ${{input.object}} (${{input.year ?? 'no year'}}).\\nAlike:\\n- ${{{gallery}_known.names}}"
          with temperature 0.2
          with max_tokens 400
          returns
            label as text, is required, max_length: 300
            condition as text, choices: ["good", "worn", "broken"]
            sure as number, range: 0..1
          assuming
            label: "A gift of ${{input.giver}}"
            condition: "good"
            sure: 0.9
          retry
            max: 2
            delay: 250
            backoff: "exponential"

        ask {gallery}_value, from: "appraiser"
          object: input.object
          condition: {gallery}_words.condition
          at_least: {gallery}_known.worth
          assuming
            value: {gallery}_known.worth * 2

        decide {gallery}_verdict
          when {gallery}_words.condition is "broken" and not {gallery}_known.rare
            {{ accepted: false, letter: "It is too fragile to be shown, ${{input.giver}}." }}
          when {gallery}_value.value is at least 1000 + {number} || {gallery}_known.rare
            wait for {gallery}_courier
              event: "courier.{gallery}"
              timeout: "21d"
              channel: "loading bay"
              schema
                shelf as text, is required
                insured as boolean, default: true
            {{ accepted: true, letter: "A courier brings it to ${{{gallery}_courier.shelf}}." }}
          otherwise
            {{ accepted: true, letter: "Please bring it to the desk of gallery {number}." }}

        remember {gallery}_entry
          content: {gallery}_words.label + " (" + {gallery}_words.condition + ")"
          collection: "holdings"
          namespace: "{gallery}"
          metadata: {{
            kind: "{gallery}",
            shown: {gallery}_verdict.accepted,
            value: {gallery}_value.value,
            received: now()
          }}
          ttl: "520w"

        compute {gallery}_answer
          let verdict = {gallery}_verdict
          {{
            accepted: verdict.accepted,
            number: verdict.accepted ? "{gallery}-${{{gallery}_entry.id ?? 'draft'}}" : "none",
            letter: "Dear ${{input.giver}},\\n\\n${{verdict.letter}}\\n\\nThe museum"
          }}

        on failure
          compute {gallery}_sorry
            {{ accepted: false, letter: "Gallery {number} cannot say: " + error.message + " (" + error.type + ")" }}

"""

_ON_FAILURE = """\
    on failure
      compute no_one
        {{ accepted: false, letter: "No one is here: ${{error.step}} failed (${{error.type}})." }}

  verifies
"""

_TEST = """\
    test "gallery {number} takes what is worn"
      given {{ giver: "Ada", object: "a worn thing", gallery: "{gallery}", year: 1950 }}
      assuming {gallery}_alike {{ results: [] }}
      assuming {gallery}_words {{ label: "Worn, and still here", condition: "worn", sure: 0.7 }}
      assuming {gallery}_value {{ value: {number} }}
      expect {{ accepted: true }}

"""

_ONCE = (_HEAD, _BETWEEN, _ON_FAILURE)
_EACH = (_WHERE, _FLOW, _TEST)
_GALLERIES = ("coins", "clocks", "maps", "masks", "kites", "locks", "looms", "bells", "lamps", "shells")


def make_machine(lines: int, *, variant: int = 0) -> str:
    """Return the text of a machine of about so many lines; each variant has names of its own."""
    count = max(1, round((lines - _length(_ONCE)) / _length(_EACH)))
    names = [f"{_GALLERIES[number % len(_GALLERIES)]}_{variant}_{number}" for number in range(count)]

    def every(part: str) -> str:
        return "".join(part.format(gallery=gallery, number=number) for number, gallery in enumerate(names, start=1))

    head, between, on_failure = (part.format(name=variant) for part in _ONCE)
    return head + every(_WHERE) + between + every(_FLOW) + on_failure + every(_TEST)


def _length(parts: tuple[str, ...]) -> int:
    return sum(len(part.splitlines()) for part in parts)
