"""Forgetting that is exact and complete: by identifier, by description, half a sentence, and permanently."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.chat.agent import Agent
from memoranda.chat.conversation import read_conversation
from memoranda.chat.turn import chat
from memoranda.errors import ApprovalRequired, Denied, NotFound, UsageError
from memoranda.model.block import Block
from memoranda.model.policy import Policy, Rule
from memoranda.testing.conformance.base import assert_raises, present
from memoranda.testing.fakes import FakeClock


def _contents(place: ScopedMemory) -> list[Any]:
    return sorted(str(entry.content) for entry in place.entries())


def _remember(place: ScopedMemory, *texts: str) -> None:
    for text in texts:
        place.remember(text, collection="notes")


class DescriptionPromises:
    """What a description in words takes, and what it leaves."""

    @pytest.mark.parametrize(
        ("identifier", "neighbour"),
        [
            ("ott@lumen.dev", "ott.brandt@lumen.dev"),
            ("ott@lumen.dev", "ott@lumen.dev.uk"),
            ("INV-7781", "INV-77810"),
            ("ledger_2025", "ledger_2025_v2"),
            ("/srv/kiln/conf", "/srv/kiln/conf.bak"),
            ("Jo Stone", "Jo Stonehouse"),
            ("55120", "551200"),
        ],
    )
    def test_g26_an_identifier_takes_nothing_that_begins_or_ends_like_it(
        self, ada: ScopedMemory, identifier: str, neighbour: str
    ) -> None:
        _remember(ada, f"Seen: {identifier} in May", f"Seen: {neighbour} in June")
        assert ada.forget(identifier=identifier).count == 1
        assert _contents(ada) == [f"Seen: {neighbour} in June"]
        ada.undo(ada.forget(about=f"everything about {identifier}"))  # there is nothing left to take
        assert _contents(ada) == [f"Seen: {neighbour} in June"]

    @pytest.mark.parametrize(
        ("identifier", "spelling"),
        [
            ("ines@river.pt", "INES [at] river [dot] pt"),
            ("ines@river.pt", "mailto:Ines+news@river.pt"),
            ("@kiln_keeper", "kiln_keeper"),
            ("4929 1234 5678 9012", "4929123456789012"),
            ("river.pt/boats", "https://www.river.pt/boats/"),
            ("10.0.3.7", "010.000.003.007"),
            ("Дмитрий Орлов", "Dmitrii Orlov"),
            ("Zoë Müller", "ZOE MULLER"),
        ],
    )
    def test_g27_an_identifier_is_found_however_it_is_written(
        self, ada: ScopedMemory, identifier: str, spelling: str
    ) -> None:
        _remember(ada, f"Ask {spelling} first", "Ask Bo first")
        assert ada.forget(identifier=identifier).count == 1
        assert _contents(ada) == ["Ask Bo first"]

    def test_an_identifier_is_found_inside_a_longer_one_when_that_is_asked_for(self, ada: ScopedMemory) -> None:
        _remember(ada, "Pump kappa7-north is loud", "Pump lambda2 is not")
        assert not ada.forget(identifier="kappa7")
        assert ada.forget(identifier="kappa7", inside=True).count == 1
        assert _contents(ada) == ["Pump lambda2 is not"]
        assert_raises(UsageError, ada.forget, "entry:x", inside=True)

    def test_g31_a_person_goes_and_who_shares_something_with_them_stays(self, ada: ScopedMemory) -> None:
        _remember(
            ada,
            "Mark teaches pottery in Ghent",
            "Mark's sister is a vet",
            "The exam mark was poor",
            "Lena teaches pottery",
        )
        ada.set("contacts.mark", {"name": "Mark", "phone": "0900"})
        ada.blocks.update("core", "- Mark is coming on Sunday\n- Likes tea", expected_updated_at=None)
        tried = ada.forget(about="everything about Mark the potter", dry_run=True)
        gone = ada.forget(about="everything about Mark the potter")
        assert (gone.entries, gone.facts, gone.lines) == (2, 1, 1) and gone.refs == tried.refs
        assert _contents(ada) == ["Lena teaches pottery", "The exam mark was poor"]
        assert present(ada.blocks.get("core")).content == "- Likes tea"
        assert ada.undo(gone).count == 4
        assert len(ada.entries()) == 4 and ada.get("contacts.mark") is not None

    def test_what_is_not_clear_is_not_forgotten(self, ada: ScopedMemory) -> None:
        _remember(ada, "The blue bicycle needs a chain", "The red bicycle needs a saddle")
        unclear = ada.forget(about="bicycle")
        assert not unclear and unclear.undo is None
        assert set(unclear.candidates) == {entry.ref for entry in ada.entries()}
        assert ada.forget(about="the red bicycle").count == 1
        assert _contents(ada) == ["The blue bicycle needs a chain"]
        assert not ada.forget(about="order 551")
        assert not ada.forget(about="everything about Gustav")
        wrong: list[Any] = ["", " ?", 5]
        for about in wrong:
            assert_raises(UsageError, ada.forget, about=about)
        assert_raises(UsageError, ada.forget, about="bicycle", identifier="bicycle")

    def test_g31_the_negative_goes_and_the_positive_stays(self, ada: ScopedMemory) -> None:
        _remember(ada, "User does not eat pork.", "User eats chicken on Sundays.")
        assert ada.forget(about="user does not eat pork").count == 1
        assert _contents(ada) == ["User eats chicken on Sundays."]

    def test_g29_half_a_sentence_goes_and_the_other_half_stays(self, memory: Memory, ada: ScopedMemory) -> None:
        whole = ada.remember(
            "User lives in Turku and works at Kiln as a glazier.", collection="notes", metadata={"year": 2025}
        )
        ada.blocks.update("core", "- Lives in Turku and works at Kiln", expected_updated_at=None)
        gone = ada.forget(about="user employer")
        assert set(gone.kept) == {"User lives in Turku.", "- Lives in Turku"}
        (left,) = ada.entries()
        assert (left.content, left.metadata["year"]) == ("User lives in Turku.", 2025)
        assert present(ada.blocks.get("core")).content == "- Lives in Turku"
        assert not ada.recall("Kiln glazier", mode="keyword").results
        assert ada.undo(gone)
        assert [(entry.content, entry.id) for entry in ada.entries()] == [
            ("User lives in Turku and works at Kiln as a glazier.", whole.id)
        ]
        assert present(ada.blocks.get("core")).content == "- Lives in Turku and works at Kiln"
        assert all(finding.ok for finding in memory.inspect())

    def test_what_stays_of_a_sentence_is_as_trusted_as_the_whole(self, memory: Memory, ada: ScopedMemory) -> None:
        page = memory.from_origin("tool_external").scope(user="ada")
        page.remember("User lives in Turku and works at Kiln.", collection="notes")
        before = ada.entries()[0].origin
        ada.forget(about="user employer")
        (left,) = ada.entries()
        assert left.content == "User lives in Turku."
        assert (left.origin.kind, left.origin.trust) == (before.kind, before.trust) and before.trust != "high"

    @pytest.mark.parametrize(
        "text",
        ["User plays squash and tennis on Fridays.", "Hannah and Ivan share an office at Kiln.", "User works at Kiln."],
    )
    def test_what_cannot_be_split_goes_whole(self, ada: ScopedMemory, text: str) -> None:
        _remember(ada, text, "The kettle is broken.")
        gone = ada.forget(about=text.rstrip("."))
        assert gone.count == 1 and gone.kept == ()
        assert _contents(ada) == ["The kettle is broken."]

    def test_g29_what_is_described_is_superseded_and_the_rest_stays(self, ada: ScopedMemory) -> None:
        _remember(ada, "User lives in Turku and works at Kiln.", "User's balcony faces the harbour.")
        done = ada.supersede(about="user city of residence", content="User moved to Bergen in spring.")
        assert done.kept == ("User works at Kiln.",) and done.replaced is not None
        assert _contents(ada) == [
            "User moved to Bergen in spring.", "User works at Kiln.", "User's balcony faces the harbour."
        ]  # fmt: skip
        assert ada.undo(done)
        assert _contents(ada) == ["User lives in Turku and works at Kiln.", "User's balcony faces the harbour."]

    def test_g30_the_last_state_counts_though_it_is_an_earlier_one(self, ada: ScopedMemory) -> None:
        _remember(ada, "User is engaged to Mirela.")
        ada.supersede(about="relationship status", content="User broke up with Mirela in 2023.")
        last = ada.supersede(about="relationship status", content="User is engaged to Mirela.")
        assert _contents(ada) == ["User is engaged to Mirela."]
        assert len(ada.entry_history(last.ref)) == 3

    def test_g30_what_says_the_new_state_already_is_not_what_ends(self, ada: ScopedMemory) -> None:
        _remember(ada, "Eve sat in building A in 2024.", "Eve's office is in building F.")
        done = ada.supersede(about="Eve's building", content="Eve's office is in building F.")
        assert done.replaced is not None
        assert set(_contents(ada)) == {"Eve's office is in building F."}
        ada.undo(done)
        assert _contents(ada) == ["Eve sat in building A in 2024.", "Eve's office is in building F."]

    @pytest.mark.parametrize("words", ["everything about Rosa", "rosa@kiln.example", "Rosa's address"])
    def test_words_in_place_of_a_ref_are_a_description(self, ada: ScopedMemory, words: str) -> None:
        _remember(ada, "Rosa's address is rosa@kiln.example.", "The kettle is broken.")
        gone = ada.forget(words)
        assert gone.count == 1 and _contents(ada) == ["The kettle is broken."]
        ada.undo(gone)
        done = ada.supersede(words, "Rosa moved away.")
        assert done.replaced == gone.refs[0] and _contents(ada) == ["Rosa moved away.", "The kettle is broken."]

    @pytest.mark.parametrize("named", ["entry:unknown", "entry_019a8c3f", "fact:user:ada#rosa"])
    def test_a_ref_that_names_nothing_is_no_description(self, ada: ScopedMemory, named: str) -> None:
        _remember(ada, f"Rosa wrote {named} on the wall.")
        assert not ada.forget(named)
        assert_raises(NotFound, ada.supersede, named, "Rosa moved away.")
        assert len(ada.forget(about=f"everything about {named}").refs) + len(ada.forget("Rosa").refs) == 1

    def test_what_replaces_nothing_is_only_stored(self, ada: ScopedMemory) -> None:
        _remember(ada, "User's landlord is called Henrik.")
        done = ada.supersede(about="user favourite colour", content="User likes ochre best.")
        assert done.replaced is None and done.collection == "notes"
        assert _contents(ada) == ["User likes ochre best.", "User's landlord is called Henrik."]
        ada.undo(done)
        assert _contents(ada) == ["User's landlord is called Henrik."]
        assert_raises(UsageError, ada.supersede, "entry:x", "y", about="z")
        assert_raises(UsageError, ada.supersede, None, "y")

    def test_a_description_reaches_only_what_its_caller_may_write(self, memory: Memory, ada: ScopedMemory) -> None:
        _remember(ada, "Mark teaches pottery")
        ada.remember("Mark is ill", collection="health")
        rules = (Rule("allow", "memory", ada.scope), Rule("deny", "memory.write", ada.scope, "collections.health"))
        clerk = memory.acting_as("agent:clerk", policy=Policy(rules=rules)).scope(user="ada")
        assert_raises(Denied, clerk.forget, about="everything about Mark")
        assert len(ada.entries()) == 2
        assert clerk.forget(about="everything about Mark", collection="notes").count == 1

    def test_g14_what_was_learned_goes_with_the_words_that_said_it_and_stays_away(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku. I am vegan."}]
        ada.learn(said, conversation="c1")
        gone = ada.forget(about="my home city")
        assert gone.entries == 2 and gone.kept == ("I am vegan.",)
        assert "Turku" not in str(ada.recall("Turku").results)
        assert ada.learn(said, conversation="c1").messages == ()
        assert _contents(ada) == ["I am vegan.", "Is vegan"]
        assert ada.undo(gone).count == 2
        assert "Lives in Turku" in _contents(ada)

    def test_g14_a_forgotten_message_does_not_come_back_with_its_conversation(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku."}, {"role": "user", "content": "I am vegan."}]
        ada.learn(said, conversation="c1")
        gone = ada.forget(identifier="Turku")
        again = ada.learn([*said, {"role": "user", "content": "I work at Kiln."}], conversation="c1")
        assert len(again.messages) == 1
        assert "Turku" not in str(_contents(ada)) and "Is vegan" in _contents(ada)
        assert ada.undo(gone)
        assert "I live in Turku." in _contents(ada)
        assert ada.list("learn") == []


SECRET = "4711-KILN"
ELM = "12 Elm St"


class Listening:
    """A model that replies with `answer`, and keeps what it was asked."""

    name = "made:up"

    def __init__(self) -> None:
        """Start without an answer."""
        self.answer = ""
        self.calls: list[tuple[ToolCall, ...]] = []
        """Calls of tools, which are its first replies."""
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the answer, as a text or as the value that was asked for."""
        self.asked.append(ask)
        if self.calls:
            return Reply("", self.calls.pop(0), tokens_in=1, tokens_out=1)
        value = None if ask.schema is None else {"reply": self.answer}
        return Reply(self.answer, value=value, tokens_in=1, tokens_out=1)

    @property
    def shown(self) -> str:
        """Everything that it was sent with the last request."""
        ask = self.asked[-1]
        return "\n".join([ask.instructions, *(said.text + str(said.calls) for said in ask.messages)])


class Door(msgspec.Struct):
    """An open conversation of Ada's, and the model that it asks."""

    name: str
    model: Listening
    send: Callable[[str], Any]

    def say(self, text: str, answer: str) -> str:
        """Send a message, and return everything that the model was sent with it."""
        self.model.answer = answer
        self.send(text)
        return self.model.shown


def open_chat(memory: Memory) -> Door:
    """Open a chat."""
    model = Listening()
    agent = Agent(id="keeper", instructions="You keep a vault.")
    return Door("chat", model, lambda text: chat(memory, agent, text, user="ada", conversation_id="d1", model=model))


AGENT = """
AGENT: Keeper
GOAL: "Keep the vault"
FLOW:
  talk:
    REASONING: true
    GOAL: "Talk"
    MAX_TURNS: 20
"""


def open_session(memory: Memory) -> Door:
    """Open a session with an agent."""
    model = Listening()
    model.answer = "Welcome."
    session = memoranda.abl.load(AGENT, memory=memory, model=model).start(user="ada")
    return Door("agent", model, session.say)


MACHINE = """
machine keeper
  accepts
    said as text, is required
  ensures
    allowed to llm_call
  implements
    ask first, using: "made:up"
      with task "Answer ${input.said}"
      returns
        reply as text
    wait for more
      event: "more"
      schema
        text as text, is required
    ask second, using: "made:up"
      with task "It was said: ${input.said} You said: ${first.reply} Now: ${more.text}"
      returns
        reply as text
"""
WORKFLOW = """
defs:
  brain: {kind: model, settings: {provider: openai, model_id: gpt-5.2}}
  first: {kind: task, action: ai_agent, inputs: {prompt: "=$input.text"}, bindings: {model: brain}}
  reply: {kind: task, action: wait_for_reply}
  second:
    kind: task
    action: ai_agent
    inputs: {prompt: "='It was said: ' & $input.text & ' You said: ' & $output.first.text & ' Now: ' & $output.reply"}
    bindings: {model: brain}
flow: [{do: first}, {do: reply}, {do: second}]
"""


def open_machine(memory: Memory) -> Door:
    """Open a machine that waits between two requests to its model."""
    model = Listening()
    machine = memoranda.mashin.load(MACHINE, memory=memory, model=model)
    runs: list[str] = []

    def send(text: str) -> None:
        if runs:
            machine.find(runs[0]).deliver({"text": text}).check()
        else:
            runs.append(machine.run({"said": text}, user="ada").id)

    return Door("machine", model, send)


def open_workflow(memory: Memory) -> Door:
    """Open a workflow that waits between two requests to its model."""
    model = Listening()
    workflow = memoranda.workflow.load(WORKFLOW, memory=memory, model=model)
    runs: list[str] = []

    def send(text: str) -> None:
        if runs:
            workflow.find(runs[0]).deliver(text).check()
        else:
            runs.append(workflow.run({"text": text}, owner="ada", thread="d2").id)

    return Door("workflow", model, send)


DOORS = (open_chat, open_session, open_machine, open_workflow)
"""What opens a conversation of Ada's through each door."""


def _remember_address(ada: ScopedMemory) -> str:
    return ada.remember("Ada lives at 12 Elm St", collection="notes", metadata={"topic": "home"}).ref


def _entry(ada: ScopedMemory, **named: Any) -> Callable[[], Any]:
    _remember_address(ada)
    return partial(ada.forget, **named)


def _set_address(ada: ScopedMemory) -> ScopedMemory:
    ada.set("home.address", "12 Elm St")
    return ada


def _block(ada: ScopedMemory, *, forget: Callable[[Block], Any]) -> Callable[[], Any]:
    text = "- Ada lives at 12 Elm St\n- Likes tea"
    block = ada.blocks.update("archival", text, expected_updated_at=None)
    return lambda: forget(block)


def _record(memory: Memory, ada: ScopedMemory) -> Callable[[], Any]:
    schema = {"type": "object", "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}}}
    memory.definitions.create(name="Home", slug="home", schema=schema)
    ada.set("home", {"street": "12 Elm St", "floor": 2})
    return lambda: ada.delete("home")


WAYS: dict[str, Callable[[Memory, ScopedMemory], Callable[[], Any]]] = {
    "a deleted fact": lambda memory, ada: partial(_set_address(ada).delete, "home.address"),
    "a deleted record": _record,
    "a rejected value": lambda memory, ada: partial(_set_address(ada).reject, "12 Elm St", key="home.address"),
    "a rejected text": lambda memory, ada: partial(ada.reject, _remember_address(ada)),
    "an entry by its ref": lambda memory, ada: partial(ada.forget, _remember_address(ada)),
    "an entry by its description": lambda memory, ada: _entry(ada, about="where Ada lives"),
    "an entry by an identifier": lambda memory, ada: _entry(ada, identifier=ELM),
    "entries by their metadata": lambda memory, ada: _entry(ada, where={"topic": "home"}),
    "a line by its description": lambda memory, ada: _block(ada, forget=lambda _: ada.forget(about="where Ada lives")),
    "a line that an edit removes": lambda memory, ada: _block(
        ada,
        forget=lambda block: ada.blocks.update("archival", "- Likes tea", expected_updated_at=block.updated_at),
    ),
    "a deleted block": lambda memory, ada: _block(ada, forget=lambda _: ada.blocks.delete("archival")),
    "what is tainted": lambda memory, ada: partial(memory.taint, ref=_remember_address(ada), reason="wrong"),
}
"""Each writes a memory that says an address, and returns what forgets it."""


class OpenConversationPromises:
    """What was forgotten is gone from the next prompt of the same conversation."""

    @pytest.mark.parametrize("open_door", DOORS, ids=lambda one: one.__name__)
    @pytest.mark.parametrize("way", sorted(WAYS))
    def test_g14_the_next_prompt_does_not_quote_what_was_forgotten(
        self, memory: Memory, ada: ScopedMemory, open_door: Callable[[Memory], Door], way: str
    ) -> None:
        forget = WAYS[way](memory, ada)
        door = open_door(memory)
        shown = door.say("My address is 12 Elm St. My dog is Rex.", "You live at 12 ELM st. Rex lives there, too.")
        assert "12 Elm St" in shown
        forget()
        shown = door.say("And now?", "Nothing.")
        assert "12 elm st" not in shown.lower() and "[forgotten]" in shown
        assert "My dog is Rex." in shown and "Rex lives there, too." in shown
        assert ada.leak_probes("12 Elm St").prompts is False

    @pytest.mark.parametrize("open_door", DOORS, ids=lambda one: one.__name__)
    def test_g14_the_next_prompt_does_not_quote_what_was_learned(
        self, memory: Memory, ada: ScopedMemory, open_door: Callable[[Memory], Door]
    ) -> None:
        said = "I live in Turku. My dog is called Rex."
        lessons = ada.learn([{"role": "user", "content": said}], conversation="c1").lessons
        door = open_door(memory)
        assert "Turku" in door.say(said, "So you live in Turku. Greta lives in Turku, too. Is Rex a beagle?")
        ada.forget(next(one.ref for one in lessons if "Turku" in one.text))
        shown = door.say("And now?", "Nothing.").replace("Greta lives in Turku, too.", "")
        assert "My dog is called Rex." in shown and "Is Rex a beagle?" in shown
        assert "[forgotten]" in shown and "Turku" not in shown

    @pytest.mark.parametrize("open_door", DOORS, ids=lambda one: one.__name__)
    def test_what_is_alike_or_belongs_to_another_user_is_still_quoted(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory, open_door: Callable[[Memory], Door]
    ) -> None:
        ada.set("contacts.sister", "Ann")
        ada.set("kiln.cone", 4)
        ada.set("shed.code", "4711-KILN")
        ada.remember("Bo lives in Porto", collection="notes")
        bob.set("dog.name", "Rexford")
        door = open_door(memory)
        said = "Anna has 4 eggs, 14 hens and Rexford. Ann called at 4. Code 4711-KILN9. Greta lives in Porto."
        gone = f"{said} My sister is Ann. The kiln fires to cone 4. It opens with 4711-kiln. Bo lives in Porto."
        door.say(gone, "Yes.")
        for key in ("contacts.sister", "kiln.cone", "shed.code"):
            ada.delete(key)
        ada.forget(about="where Bo lives")
        bob.delete("dog.name")
        shown = door.say("And now?", "Nothing.")
        assert said in shown
        for left in ("sister is Ann", "cone 4", "4711-kiln.", "Bo lives"):
            assert left not in shown, left

    @pytest.mark.parametrize("open_door", [open_chat, open_session], ids=lambda one: one.__name__)
    def test_what_is_said_again_or_brought_back_is_quoted_again(
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock, open_door: Callable[[Memory], Door]
    ) -> None:
        ada.remember("Ada lives at 12 Elm St", collection="notes")
        door = open_door(memory)
        door.say("I am at 12 Elm St.", "Yes.")
        clock.advance(60)
        gone = ada.forget(identifier="12 Elm St")
        clock.advance(60)
        assert "12 Elm St" not in door.say("And now?", "Nothing.")
        ada.undo(gone)
        assert "I am at 12 Elm St." in door.say("And now?", "Nothing.")
        ada.forget(identifier="12 Elm St")
        clock.advance(60)
        assert "12 Elm St" not in door.say("And now?", "Nothing.")
        assert "Back at 12 Elm St." in door.say("Back at 12 Elm St.", "I see.")
        clock.advance(60)
        assert "Back at 12 Elm St." in door.say("And now?", "Nothing.")

    def test_a_chat_is_stored_as_it_was_and_its_results_of_tools_are_shown_without_it(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        lines = "- The vault opens with 4711-KILN\n- The vault is green"
        ada.blocks.update("archival", lines, expected_updated_at=None)
        door = open_chat(memory)
        search = ToolCall("t1", "recall_memory", {"query": "vault 4711-KILN"})
        door.model.calls = [(search,)]
        assert "4711-KILN" in door.say("How does it open?", "By its code.") and "green" in door.model.shown
        ada.forget(identifier="4711-KILN")
        shown = door.say("And now?", "Nothing.")
        assert "4711-KILN" not in shown and "green" in shown and "vault [forgotten]" in shown
        record = read_conversation(memory, "ada", "d1")
        assert "4711-KILN" in next(part.text for part in record.parts if part.kind == "tool_response")
        places = ada.leak_probes("4711-KILN")
        assert (places.conversations, places.prompts, places.words) == (True, False, False)
        memory.erase(user="ada")
        assert ada.leak_probes("4711-KILN").found == ()

    def test_a_message_of_a_chat_is_recalled_without_what_was_forgotten(
        self, memory: Memory, ada: ScopedMemory
    ) -> None:
        ada.set("home.address", "12 Elm St")
        door = open_chat(memory)
        door.say("The owl sits at 12 Elm St in a lime tree. It is old.", "12 Elm St.")
        ada.delete("home.address")
        found = [match.content for match in ada.recall("owl lime tree 12 Elm St")]
        assert found == ["The owl sits at [forgotten] in a lime tree. It is old."]
        said = [match.content for match in ada.recall("owl lime tree", kinds=["message"])]
        assert "The owl sits at 12 Elm St in a lime tree. It is old." in said, (
            "who asks for messages gets what was said"
        )


class LeakProbePromises:
    """What is left of a text, place by place."""

    def test_g23_each_place_has_a_name_and_is_tested_or_says_that_it_is_not(
        self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory
    ) -> None:
        for place in (ada, bob):
            place.remember(f"The vault opens with {SECRET}.", collection="notes")
            place.remember(f"The vault does not open with {SECRET}9.", collection="notes")
            place.set("vault.code", SECRET.lower())
            place.blocks.update("core", f"- The vault: {SECRET}\n- Likes tea", expected_updated_at=None)
            place.learn([{"role": "user", "content": f"My vault code is {SECRET}."}], conversation="c1")
        places = ada.leak_probes(SECRET)
        assert set(places.found) - {"database_bytes"} == {
            *("facts", "blocks", "entries", "messages", "words", "vectors", "prompts", "caches"),
        }
        assert set(places.untested) - {"database_bytes"} == {"backups", "other_processes"}
        assert "exports" in places.absent and places.exports is False
        assert ada.leak_probes("8822-KILN").found == ()

        gone = ada.forget(identifier=SECRET)
        assert (gone.entries, gone.facts, gone.lines) == (2, 1, 1)
        left = ada.leak_probes(SECRET)
        assert set(left.found) - {"database_bytes"} == {"history"} and left.untested == places.untested
        assert "entries" in ada.leak_probes(f"{SECRET}9").found

        memory.erase(user="bob")
        memory.erase(user="ada")
        assert ada.leak_probes(SECRET).found == () and ada.leak_probes(SECRET).untested == places.untested

    def test_g23_what_a_ref_names_is_looked_for_also_when_it_has_ended(self, ada: ScopedMemory) -> None:
        done = ada.remember("The vault opens at noon", collection="notes")
        assert "entries" in ada.leak_probes(done.ref).found
        ada.forget(done.ref)
        places = ada.leak_probes(done.ref)
        assert places.entries is False and places.history is True
        assert_raises(NotFound, ada.leak_probes, "entry:entry_unknown")
        wrong: list[Any] = ["", " ?", None]
        for content in wrong:
            assert_raises(UsageError, ada.leak_probes, content)

    def test_g23_what_waits_for_approval_is_a_place(self, memory: Memory, ada: ScopedMemory) -> None:
        policy = Policy.of(allow=("memory.read",), approve=("memory.write",))
        clerk = memory.acting_as("agent:clerk", policy=policy).scope(user="ada")
        waits = assert_raises(ApprovalRequired, clerk.set, "vault", SECRET)
        assert [name for name in ada.leak_probes(SECRET).found if name != "database_bytes"] == ["approvals"]
        memory.approvals.refuse(waits.approval)
        assert not ada.leak_probes(SECRET).approvals

    def test_a_probe_leaves_nothing_behind_and_takes_its_rights(self, memory: Memory, ada: ScopedMemory) -> None:
        before = memory.ledger.anchor()
        ada.leak_probes(SECRET)
        memory.settle()
        assert memory.ledger.anchor() == before
        reader = memory.acting_as("agent:reader", policy=Policy.of(allow=("memory.read",))).scope(user="ada")
        assert_raises(Denied, reader.leak_probes, SECRET)

    def test_g16_the_messages_behind_a_forgotten_statement_no_longer_count(self, ada: ScopedMemory) -> None:
        said = [{"role": "user", "content": "I live in Turku."}, {"role": "user", "content": "My dog is called Rex."}]
        lesson = next(one for one in ada.learn(said, conversation="c1").lessons if "Turku" in one.text)
        gone = ada.forget(lesson.ref)
        for _ in range(2):
            found = {match.content: match.valid_to for match in ada.recall("Turku, Rex the dog", kinds=["message"])}
            assert found["I live in Turku."] is not None and found["My dog is called Rex."] is None
            ada.learn(said, conversation="c1")
        assert [one.content for one in ada.entries(collection="statements")] == ["Their dog is called Rex"]
        ada.undo(gone)
        found = {match.content: match.valid_to for match in ada.recall("Turku", kinds=["message"])}
        assert found["I live in Turku."] is None and present(ada.entry(lesson.ref)).content == lesson.text

    @pytest.mark.parametrize("collection", ["conversations", "statements"])
    def test_metadata_that_look_like_ours_break_no_recall(self, ada: ScopedMemory, collection: str) -> None:
        ours: dict[str, Any] = {"retracted_at": "soon", "outdates": "everything", "time": 5, "valid_from": {}}
        ada.remember("The kiln is red", collection=collection, metadata=ours)
        ada.remember("The wheel is green", collection=collection, metadata={**ours, "outdates": [1, None, "x"]})
        assert {match.content for match in ada.recall("kiln wheel")} == {"The kiln is red", "The wheel is green"}

    def test_g21_the_deletion_sequence(self, memory: Memory, ada: ScopedMemory, bob: ScopedMemory) -> None:
        said = [{"role": "user", "content": f"My vault code is {SECRET}. I live in Turku."}]

        def everywhere(place: ScopedMemory) -> str:
            memory.settle()
            return place.context("vault code").text + str(place.recall("vault code", limit=50).results)

        # Written, and seen, in conversations that stay open.
        doors = [open_door(memory) for open_door in DOORS]
        for door in doors:
            door.say(f"My vault code is {SECRET}. My dog is called Rex.", f"Noted: {SECRET}. Rex is a good name.")
        ada.learn(said, conversation="c1")
        note = ada.remember(f"The vault opens with {SECRET}", collection="notes")
        ada.copy(note.ref, to=bob)
        bob.remember("Ada's vault is green", collection="notes")
        assert SECRET in everywhere(ada) and SECRET in everywhere(bob)
        # Deleted, and gone, with the copy that was shared before.
        gone = ada.forget(identifier=SECRET)
        assert gone.count == 3 and SECRET not in everywhere(ada)
        assert SECRET not in everywhere(bob) and "green" in everywhere(bob)
        # Gone from the next prompt of each open conversation, while what was said beside it is still there.
        for door in doors:
            shown = door.say("And now?", "Now nothing.")
            assert SECRET not in shown and "Rex" in shown, door.name
        # The source is fed again: it does not come back.
        ada.learn(said, conversation="c1")
        assert SECRET not in everywhere(ada)
        # All jobs run: it does not come back.
        memory.sweep()
        memory.scrub()
        assert SECRET not in everywhere(ada)
        # Every derived place is empty, by name.
        places = ada.leak_probes(SECRET)
        derived = (places.facts, places.blocks, places.entries, places.statements, places.messages, places.prompts)
        assert derived == (False,) * 6 and (places.words, places.vectors, places.caches) == (False,) * 3
        # What was said is kept as it was said, in places with names.
        assert set(places.found) - {"database_bytes"} == {"conversations", "sessions", "runs", "history"}
        # The deletion is in the ledger.
        ended = [event for event in memory.ledger.events() if event.effect == "forget"]
        assert {f"entry:{event.resource}" for event in ended} >= set(gone.refs) and memory.ledger.verify().ok
        # What else was said is still known.
        assert "Turku" in everywhere(ada)
