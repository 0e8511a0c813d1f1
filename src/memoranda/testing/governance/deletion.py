"""Rejection, deletion and correction: G9 to G17, G21 to G23, G26 to G33."""

from __future__ import annotations

from memoranda.testing.governance.boundaries import answers, current, says
from memoranda.testing.governance.requirements import Checks, requirement
from memoranda.testing.governance.system import Claim, MemorySystem, Writer

_WRONG = "The rent of the studio is 4417 euros"
_RIGHT = "The rent of the studio is 880 euros"
_BESIDE = "The studio has two kilns"
_WRITERS: tuple[Writer, ...] = ("user", "assistant", "tool_external", "user")
_CONVERSATION = [("user", "I live in Porto."), ("user", "My dog is called Rex.")]


def _claim(system: MemorySystem, checks: Checks, part: str) -> Claim:
    """Return what was learned with this in its text, which there has to be."""
    claim = next((claim for claim in system.claims("ada") if part in claim.text), None)
    checks.control(claim, "what was learned")
    return claim or Claim("", part, ())


def _restate(system: MemorySystem, checks: Checks, text: str) -> None:
    for place, writer in enumerate(_WRITERS):
        checks.is_refused(
            lambda writer=writer, place=place: system.write("ada", text, writer=writer, metadata={"n": str(place)})
        )
    system.settle()


def _reject_and_restate(system: MemorySystem, checks: Checks) -> None:
    wrong = system.write("ada", _WRONG)
    system.write("ada", _BESIDE)
    system.settle()
    checks.control(says(answers(system, "ada", "studio rent"), "4417"), "the value before it was rejected")
    system.reject("ada", _WRONG)
    checks.is_refused(lambda: system.supersede("ada", wrong, _RIGHT))
    if not says(system.listing("ada"), _RIGHT):
        system.write("ada", _RIGHT)
    _restate(system, checks, _WRONG)


def _check_rejected(system: MemorySystem, checks: Checks) -> None:
    checks.must(says(answers(system, "ada", "kilns of the studio"), _BESIDE), "a neighbour that was never rejected")
    checks.must(says(answers(system, "ada", "studio rent"), _RIGHT), "the value that took its place")
    checks.must_not(says(system.listing("ada"), _WRONG), "it as an active memory")
    checks.must_not(says(current(system, "ada", "studio rent", 20), _WRONG), "it in a search")
    checks.must_not(_WRONG in system.prompt("ada", "What is the rent of the studio?"), "it in a prompt")


@requirement(
    9,
    "A rejected value is not laundered",
    obligation="Its replacement and its neighbours are recalled.",
    negative="Superseded, restated and corroborated, it stays inactive.",
)
def g9_a_rejected_value_stays_away(system: MemorySystem, checks: Checks) -> None:
    """Reject, replace, and restate by several writers."""
    _reject_and_restate(system, checks)
    _check_rejected(system, checks)


@requirement(
    10,
    "A rejection outlives expiry and pruning",
    obligation="What was written without a TTL at the same time is recalled.",
    negative="After every TTL and sweep the value is still refused.",
)
def g10_a_rejection_does_not_expire(system: MemorySystem, checks: Checks) -> None:
    """Move the clock by ten years and restate."""
    system.write("ada", "The scaffolding is rented", ttl=60)
    _reject_and_restate(system, checks)
    system.advance(10 * 365 * 86_400)
    system.maintain()
    system.restart()
    _restate(system, checks, _WRONG)
    _check_rejected(system, checks)


@requirement(
    11,
    "Another spelling is the same value",
    obligation="A paraphrase is another text: it is stored and recalled.",
    negative="Case, look-alikes, accents, invisible characters and spaces do not bring a rejected value back.",
)
def g11_another_spelling_is_refused(system: MemorySystem, checks: Checks) -> None:
    """Restate a rejected value in eleven spellings."""
    system.write("ada", _WRONG)
    system.reject("ada", _WRONG)
    spellings = (
        _WRONG.upper(),
        _WRONG.replace(" ", "  "),
        _WRONG.replace(" ", "\u00a0"),
        "".join(f"{char}\u200b" for char in _WRONG),
        "\u202e\u202c" + _WRONG + "\u2069",
        _WRONG.translate({ord(char): ord(char) + 0xFEE0 for char in "Therntofsudi"}),
        _WRONG.replace("e", "\u0435").replace("o", "\u043e"),
        _WRONG.replace("e", "e\u0301"),
        f"- {_WRONG}.",
        f"\u201c{_WRONG}!\u201d",
        _WRONG.replace("4417", "\U0001d7d2\U0001d7d2\U0001d7cf\U0001d7d5"),
    )
    paraphrase = "Each month the studio costs them four thousand and some"
    for spelling in spellings:
        checks.is_refused(lambda spelling=spelling: system.write("ada", spelling))
    system.write("ada", paraphrase)
    system.settle()
    listed = system.listing("ada")
    checks.must(says(answers(system, "ada", "What does the studio cost each month?"), paraphrase), "the paraphrase")
    for number, spelling in enumerate(spellings, 1):
        checks.must_not(spelling in listed, f"spelling {number}")


@requirement(
    12,
    "Reading the source again does not bring it back",
    obligation="The other values of the source become active.",
    negative="No active memory says what was rejected.",
)
def g12_reextraction_leaves_it_inactive(system: MemorySystem, checks: Checks) -> None:
    """Reject what was learned, then learn from the same words again."""
    system.feed("ada", _CONVERSATION)
    system.settle()
    rejected = _claim(system, checks, "Porto").text
    system.reject("ada", rejected)
    system.feed("ada", _CONVERSATION, conversation="c2")
    system.maintain()
    system.settle()
    claims = [claim.text for claim in system.claims("ada")]
    checks.must(says(claims, "Rex"), "the other value")
    checks.must_not(rejected in claims, "the rejected value among the claims")
    checks.must_not(says(current(system, "ada", "Where does she live?", 20), "Porto"), "it in a search, as current")


@requirement(
    13,
    "No second unit says it",
    obligation="Memories around it are recalled.",
    negative="There is no new active or waiting unit for a rejected value, also none that reads hide.",
)
def g13_no_second_unit_is_made(system: MemorySystem, checks: Checks) -> None:
    """Count the units that say it after it was fed again."""
    system.feed("ada", _CONVERSATION)
    system.settle()
    rejected = _claim(system, checks, "Porto").text
    system.reject("ada", rejected)
    waiting = len(system.pending("ada"))
    system.feed("ada", _CONVERSATION, conversation="c2")
    system.maintain()
    _restate(system, checks, rejected)
    checks.must(says(answers(system, "ada", "What is the dog called?"), "Rex"), "a memory beside it")
    checks.must_not(system.listing("ada").count(rejected), "an active unit")
    checks.must_not(len(system.pending("ada")) > waiting, "a unit that waits")


@requirement(
    14,
    "Deleted is deleted after a rebuild and a restart",
    obligation="A sibling of the same batch is returned, and the deletion is recorded.",
    negative="Neither search, prompt, list nor export has it.",
)
def g14_a_deletion_survives_rebuild_and_restart(system: MemorySystem, checks: Checks) -> None:
    """Forget one of two, rebuild, restart and export."""
    doomed = system.write("ada", "The courier's number is 555-0144")
    system.write("ada", "The courier comes on Fridays")
    system.settle()
    checks.control("555-0144" in system.prompt("ada", "What is the courier's number?"), "it before")
    system.forget("ada", doomed)
    system.maintain()
    system.reindex()
    system.restart()
    file = system.folder / "export.jsonl"
    system.export(file)
    query = "What is the courier's number?"
    checks.must(says(answers(system, "ada", "When does the courier come?"), "Fridays"), "its sibling")
    checks.must(any(doomed.endswith(one.resource) for one in system.deletions()), "the deletion in the record")
    checks.must_not(says(answers(system, "ada", query, 20), "555-0144"), "it in a search")
    checks.must_not("555-0144" in system.prompt("ada", query), "it in a prompt")
    checks.must_not(says(system.listing("ada"), "555-0144"), "it in a list")
    checks.must_not(b"555-0144" in file.read_bytes(), "it in an export")


_CORRECTIONS = (
    ("Her desk is in room Alder", "Her desk is in room Birch", "Which room is her desk in?"),
    ("She eats fish", "She does not eat any fish", "Does she eat fish?"),
    ("The lorry is blue and has a crane", "The lorry is red and has a crane", "What colour is the lorry?"),
    ("Badge 7712 opens the gate", "Badge 7712 opened the gate until March 2026", "Does badge 7712 open the gate?"),
)


@requirement(
    15,
    "A correction survives a rebuild",
    obligation="Recall gives the corrected value, and history what it was before.",
    negative="The earlier value is not told as current.",
)
def g15_corrections_survive_a_rebuild(system: MemorySystem, checks: Checks) -> None:
    """Correct in five ways: replace, deny, change a part, bound in time, and retract."""
    newer = {new: system.supersede("ada", system.write("ada", old), new) for old, new, _ in _CORRECTIONS}
    retracted = system.write("ada", "The kettle is broken")
    system.forget("ada", retracted)
    system.maintain()
    system.reindex()
    system.restart()
    system.settle()
    for old, new, query in _CORRECTIONS:
        checks.must(says(current(system, "ada", query), new), f"`{new}`")
        history = system.history("ada", newer[new])
        checks.must(old in history and history[-1] == new, f"`{old}` in the history")
        checks.must_not(old in current(system, "ada", query, 20), f"`{old}`")
    checks.must_not(says(answers(system, "ada", "Is the kettle broken?", 20), "kettle"), "what was retracted")


@requirement(
    16,
    "A retraction needs no replacement",
    obligation="The source's other facts are recalled.",
    negative="Fed again, the source does not bring back what was taken back.",
)
def g16_what_was_taken_back_is_not_learned_again(system: MemorySystem, checks: Checks) -> None:
    """Take back what was learned, feed the same messages, run the jobs."""
    system.feed("ada", _CONVERSATION)
    system.settle()
    system.retract("ada", _claim(system, checks, "Porto").ref)
    system.feed("ada", _CONVERSATION)
    system.maintain()
    system.settle()
    checks.must(says(answers(system, "ada", "What is the dog called?"), "Rex"), "the other fact")
    checks.must_not(says([one.text for one in system.claims("ada")], "Porto"), "what was taken back")
    checks.must_not(says(current(system, "ada", "Where does she live?", 20), "Porto"), "it in a search, as current")


@requirement(
    17,
    "Deletion reaches copies and restores",
    obligation="The other user keeps their own.",
    negative="A copy made before is gone, and an export made before does not bring it back.",
)
def g17_a_deletion_reaches_copies(system: MemorySystem, checks: Checks) -> None:
    """Share and export, delete, and restore."""
    doomed = system.write("ada", "The alarm code is 7712")
    system.write("bo", "The alarm is tested on Mondays")
    system.share("ada", doomed, "bo")
    system.settle()
    query = "What is the alarm code?"
    checks.control(says(answers(system, "bo", query), "7712"), "the copy before")
    file = system.folder / "before.jsonl"
    system.export(file)
    system.forget("ada", doomed)
    system.settle()
    checks.must_not(says(answers(system, "bo", query, 20), "7712"), "the copy after the deletion")
    system.restore(file)
    system.settle()
    checks.must(says(answers(system, "bo", "When is the alarm tested?"), "Mondays"), "what the other user wrote")
    for user in ("ada", "bo"):
        checks.must_not(says(answers(system, user, query, 20), "7712"), f"it with {user} after the restore")


_DERIVED = ("fact", "entr", "statement", "block", "line", "vector", "word", "index", "cache", "prompt")


@requirement(
    21,
    "The deletion sequence, step by step",
    obligation="What is beside it stays, and the deletion is recorded.",
    negative="It is gone after each of thirteen steps, from each derived place by name, and from a copy.",
)
def g21_thirteen_steps(system: MemorySystem, checks: Checks) -> None:
    """Write, see, delete, feed again, run the jobs, share, delete."""

    def check_gone(step: str) -> None:
        system.settle()
        checks.must_not(says(system.listing("ada"), "Porto"), f"it in a list {step}")
        checks.must_not(says(current(system, "ada", "Where does she live?", 20), "Porto"), f"it in a search {step}")

    system.feed("ada", _CONVERSATION)
    system.settle()
    checks.control("Porto" in system.prompt("ada", "Where does she live?"), "it before the deletion")
    claim = _claim(system, checks, "Porto")
    system.forget("ada", claim.ref)
    check_gone("after the deletion")
    system.feed("ada", _CONVERSATION)
    check_gone("after its source was fed again")
    system.maintain()
    system.reindex()
    check_gone("after the jobs")
    probes = system.probes("ada", claim.text)
    for place, leaks in probes.items():
        if any(place.startswith(kind) for kind in _DERIVED):
            checks.must_not(leaks, f"it in {place}")
    checks.must(probes, "probes by name")
    checks.must(any(claim.ref.endswith(one.resource) for one in system.deletions()), "the deletion in the record")
    checks.must(says(answers(system, "ada", "What is the dog called?"), "Rex"), "what is beside it")
    shared = system.write("ada", "The alarm code is 7712")
    system.share("ada", shared, "bo")
    system.settle()
    checks.control(says(answers(system, "bo", "alarm code"), "7712"), "the copy before")
    system.forget("ada", shared)
    system.settle()
    checks.must_not(says(answers(system, "bo", "alarm code", 20), "7712"), "the copy after the deletion")


@requirement(
    22,
    "A settled system can be measured",
    obligation="Once it has settled, every write is found: no test has to sleep.",
)
def g22_what_is_settled_is_found(system: MemorySystem, checks: Checks) -> None:
    """Write, settle and search at once."""
    for number in range(12):
        system.write("ada", f"Crate {number} has the seal kestrel-{4417 + number}")
    system.settle()
    for number in range(12):
        told = answers(system, "ada", f"crate {number} with the seal kestrel-{4417 + number}", 20)
        checks.must(says(told, f"kestrel-{4417 + number}"), f"crate {number}")


@requirement(
    23,
    "Leak probes answer by name",
    obligation="Each place has a probe that sees what is there; one without a probe says that it is untested.",
    negative="After an erasure no probe finds it.",
)
def g23_probes_tell_where_a_text_is(system: MemorySystem, checks: Checks) -> None:
    """Probe before and after an erasure."""
    text = "The courier's number is 555-0144"
    system.write("ada", text)
    system.settle()
    system.search("ada", "courier number")
    before = system.probes("ada", text)
    checks.must(len(before) > 3 and any(before.values()), "probes that see it")
    checks.must(None in before.values(), "an untested place that says so")
    system.erase("ada")
    after = system.probes("ada", text)
    checks.must(set(after) == set(before), "the same places after the erasure")
    for place, leaks in after.items():
        checks.must_not(leaks, f"it in {place}")


_IDENTIFIERS = (
    ("ana@kiln.example", "ana.b@kiln.example"),
    ("ana@kiln.example", "ana@kiln.example.org"),
    ("id 1234", "id 12345"),
    ("order_2031_007", "order_2031_0070"),
)


@requirement(
    26,
    "An identifier is forgotten exactly",
    obligation="A longer identifier that begins alike stays.",
    negative="What mentions the identifier is gone.",
)
def g26_identifiers_are_exact(system: MemorySystem, checks: Checks) -> None:
    """Forget an identifier beside one that has it as a prefix."""
    for place, (gone, kept) in enumerate(_IDENTIFIERS):
        user = f"ada{place}"
        system.write(user, f"The parcel of {gone} was collected")
        system.write(user, f"The parcel of {kept} was delivered")
        system.forget_identifier(user, gone)
        system.settle()
        checks.must(says(system.listing(user), "delivered"), f"{kept}")
        checks.must_not(says(system.listing(user), "collected"), f"{gone}")


@requirement(
    27,
    "An identifier is the same in every spelling",
    obligation="A sibling of the same kind stays.",
    negative="Case, accents, invisible characters and separators hide nothing.",
)
def g27_identifiers_are_canonical(system: MemorySystem, checks: Checks) -> None:
    """Forget an identifier that was written otherwise."""
    spellings = {
        "Ana@Kiln.example": "ana@kiln.example",
        "an\u200ba@kiln.example": "ana@kiln.example",
        "+351 912-345-678": "+351912345678",
        "4417 8800 1234": "4417-8800-1234",
        "\uff4e\uff4f\uff52\uff41@kiln.example": "nora@kiln.example",
    }
    for place, (stored, asked) in enumerate(spellings.items()):
        user = f"ada{place}"
        system.write(user, f"The parcel of {stored} was collected")
        system.write(user, "The parcel of +351 912 345 679 and bea@kiln.example was delivered")
        system.forget_identifier(user, asked)
        system.settle()
        checks.must(says(system.listing(user), "delivered"), f"the sibling of {asked}")
        checks.must_not(says(system.listing(user), "collected"), f"{asked}, spelled otherwise")


@requirement(
    28,
    "Forgotten is unreachable, not ranked low",
    obligation="What was not forgotten is found.",
    negative="Asking for the very text, at any depth, finds nothing.",
)
def g28_a_direct_question_finds_nothing(system: MemorySystem, checks: Checks) -> None:
    """Ask for the forgotten text itself, with a large limit."""
    text = "The courier's number is 555-0144"
    doomed = system.write("ada", text)
    for number in range(8):
        system.write("ada", f"Shelf {number} has glaze number {number * 11}")
    system.forget("ada", doomed)
    system.settle()
    checks.must(says(answers(system, "ada", "glaze on shelf 3"), "Shelf 3"), "the rest")
    for query in (text, "555-0144", "courier", "number"):
        checks.must_not(says(answers(system, "ada", query, 100), "555-0144"), f"it when asked `{query}`")


@requirement(
    29,
    "Part of a sentence can be forgotten",
    obligation="What else the sentence said stays.",
    negative="The forgotten part is gone.",
)
def g29_a_compound_sentence_keeps_its_rest(system: MemorySystem, checks: Checks) -> None:
    """Forget one of two facts in one sentence."""
    system.write("ada", "Ada lives in Bergen and works at Polaris as a glazier.")
    system.forget_about("ada", "Ada's employer")
    system.settle()
    checks.must(says(answers(system, "ada", "Where does Ada live?"), "Bergen"), "the other half")
    checks.must_not(says(system.listing("ada"), "Polaris"), "the forgotten half")


@requirement(
    30,
    "Superseded is not rejected",
    obligation="From A to B and back to A, A is current.",
    negative="B is not told as current.",
)
def g30_what_was_superseded_may_return(system: MemorySystem, checks: Checks) -> None:
    """Supersede twice, back to the first text."""
    first, second = "She writes with a fountain pen", "She writes with a pencil"
    ref = system.write("ada", first)
    ref = system.supersede("ada", ref, second)
    system.supersede("ada", ref, first)
    system.settle()
    told = current(system, "ada", "What does she write with?", 20)
    checks.must(told.count(first) == 1, "the first text, once")
    checks.must_not(second in told, "the second text")


@requirement(
    31,
    "Forgetting one leaves another who is like them",
    obligation="A person who shares an attribute stays, and so does an ordinary word.",
    negative="Everything about the one who was named is gone.",
)
def g31_a_shared_attribute_is_not_forgotten(system: MemorySystem, checks: Checks) -> None:
    """Forget a person whose name is also a word."""
    gone = ("Mark lives in Bergen and repairs kilns.", "Mark's favourite glaze is celadon.")
    kept = ("Greta lives in Bergen and repairs wheels.", "Please mark each crate with chalk.")
    for text in (*gone, *kept):
        system.write("ada", text)
    system.forget_about("ada", "everything about Mark, who repairs kilns")
    system.settle()
    listed = system.listing("ada")
    for text in kept:
        checks.must(text in listed, text)
    for text in gone:
        checks.must_not(text in listed, text)


@requirement(
    32,
    "Ids are not reused, and a deletion is provable without the text",
    obligation="The record says what was deleted.",
    negative="No id comes back, and the record does not contain the text.",
)
def g32_a_purge_is_recorded_without_the_text(system: MemorySystem, checks: Checks) -> None:
    """Erase a user and write again."""
    text = "The courier's number is 555-0144"
    before = {system.write("ada", text), system.write("ada", "The courier comes on Fridays")}
    system.erase("ada")
    after = {system.write("ada", text), system.write("ada", "The courier came on Monday")}
    checks.must(any(one.user == "ada" for one in system.deletions()), "the deletion in the record")
    checks.must(says(system.listing("ada"), "Monday"), "what was written afterwards")
    checks.must_not(before & after, "an id that was used before")
    checks.must_not(any("555-0144" in line for line in system.audit()), "the text in the record")


@requirement(
    33,
    "Erased text is gone from the bytes",
    obligation="What others wrote is still in the files.",
    negative="The files do not contain what was erased.",
)
def g33_erased_text_is_gone_from_the_files(system: MemorySystem, checks: Checks) -> None:
    """Read the files before and after an erasure."""
    system.write("ada", "The label of the crate reads kestrelquay4417")
    system.write("bo", "The label of the crate reads plovermere880")
    system.settle()
    checks.control(b"kestrelquay4417" in system.bytes_on_disk(), "it in the files before")
    system.erase("ada")
    system.restart()
    stored = system.bytes_on_disk()
    checks.must(b"plovermere880" in stored, "what another user wrote")
    checks.must_not(b"kestrelquay4417" in stored, "it in the files")
