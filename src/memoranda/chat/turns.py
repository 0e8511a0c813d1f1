"""A message of a user in, an agent's answer out, with what the agent remembers of the user.

Every step is kept before the next is taken: what the user said before the model is asked, a call before it is made, its
result before the model is told. So a message that is sent again is answered once, and a turn that was interrupted is
taken up where it stood; a call that may have been made is not made again. Only the words of a reply are told before
they are kept, as they come: what was told of a reply that broke off is no part of the conversation.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import msgspec

from memoranda.agent.connecting import connect
from memoranda.agent.conversing import CORRECTIONS, Conversation, Heard, ToolFailed, sendable
from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.chat.agents import Agent
from memoranda.chat.compaction import compact, summarise_by
from memoranda.chat.conversations import read_history, source_label
from memoranda.chat.holding import Answered, OpenTurn, begin_turn, find_answer
from memoranda.chat.memory_policy import MemoryPolicy, policy_for
from memoranda.chat.memory_tools import MemoryTools
from memoranda.chat.parts import Draft, Part, Usage
from memoranda.chat.preview import Assembled, ask_of, assemble, check_message
from memoranda.errors import Conflict, MemorandaError, ModelError, ModelFailed, ModelUnavailable
from memoranda.model.clock import utc_now
from memoranda.model.limits import check_count
from memoranda.model.text import cleaned, quote, without_halves
from memoranda.model.value import encode

EventType = Literal["start", "delta", "retract", "tool_request", "tool_response", "end", "error"]
"""What happened in a turn: it began, the agent said something or took it back, called a tool, got its result; it ended,
or failed."""

_ATTEMPTS = 20
_TOOL_TIME = 60.0
"""Seconds for tools that a turn may take between two of its writes, beside those of the model."""


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in a turn."""

    type: EventType
    seq: int
    """Higher than that of every event before it in the conversation; there may be gaps."""
    conversation_id: str
    message_id: str
    content: str = ""
    """The words; of a call its arguments and of a result the result, both as JSON; of the end the whole answer."""
    call_id: str = ""
    tool: str = ""
    at: datetime
    metadata: dict[str, Any] = {}
    """Of the start, whether the answer was there already; of the end, what it took; of an error, its code."""


OnEvent: TypeAlias = Callable[[ChatEvent], None]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and how it came about."""

    text: str
    conversation_id: str
    message_id: str
    parts: tuple[Part, ...]
    """Everything that belongs to this message, from what the user said to the answer, hidden parts too."""
    usage: Usage
    replayed: bool = False
    """Whether the message was answered before, and this is that answer."""


def chat(
    memory: Memory,
    agent: Agent,
    message: str,
    *,
    user: str,
    conversation_id: str,
    message_id: str,
    memory_policy: MemoryPolicy | Mapping[str, Any] | None = None,
    model: object = None,
    on_event: OnEvent | None = None,
    after: int | None = None,
) -> Turn:
    """Return an agent's answer to a message, in a conversation that is begun where there is none.

    A message that was answered before under this id gets the same answer again, and nothing is done. Where a turn
    fails, the same message can be sent again: it goes on with what was done so far.

    Args:
        memory: whose handle it is says what the agent may read and write.
        agent: whom the user speaks with.
        message: what the user says.
        user: who speaks.
        conversation_id: where; it is the user's own, another user may have one of the same name.
        message_id: what the message is known by when it is sent again.
        memory_policy: which memory the model is shown in this run; fields that are left out are the agent's.
        model: who answers in this run, instead of the agent's own model.
        on_event: called with each thing that happens, as it happens; before `chat` raises, with the error. Where it is
            given, a model that can is heard word by word.
        after: the number of the last event that the listener has seen; of a message that was answered before, it is
            told what came after that. Without it, it is told the answer.
    """
    check_message(memory, message)
    check_count("event", after)
    policy = policy_for(memory_policy, agent.memory_policy)
    place = _Place(memory=memory, user=user, conversation_id=conversation_id, message_id=message_id, listener=on_event)
    answered = find_answer(memory, user, conversation_id, agent_id=agent.id, message_id=message_id, text=message)
    if answered is not None:
        return _told_again(place, answered, after)
    answering = _model_of(agent, model)
    begun = _begin(place, agent, message, policy)
    if isinstance(begun, Answered):
        return _told_again(place, begun, after)
    turn = begun.answered_by(answering)
    # The answer is kept: that the conversation could not be made shorter is made up for after the next one.
    with contextlib.suppress(ModelError):
        compact(memory, user, conversation_id, summarise=summarise_by(answering, timeout=agent.timeout))
    return turn


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is said, and who listens."""

    memory: Memory
    user: str
    conversation_id: str
    message_id: str
    listener: OnEvent | None

    def tell(self, type: EventType, seq: int, **about: Any) -> None:
        """Tell whoever listens what happened."""
        if self.listener is not None:
            at = utc_now(self.memory.clock)
            ids = {"conversation_id": self.conversation_id, "message_id": self.message_id}
            self.listener(ChatEvent(type=type, seq=seq, at=at, **ids, **about))

    def tell_part(self, part: Part, *, after: int = 0) -> None:
        """Tell whoever listens of a part that is kept, or of what is left of it after the number of an event."""
        if part.event <= after:
            return
        if part.kind == "agent_text":
            self.tell("delta", part.event, content=part.text[max(0, after - _number_before(part)) :])
        elif part.kind in ("tool_request", "tool_response"):
            self.tell(part.kind, part.event, content=part.text, call_id=part.call_id, tool=part.tool)

    def turn(self, parts: Sequence[Part], usage: Usage, *, replayed: bool) -> Turn:
        """Return the turn that these parts are, the last of which is the answer."""
        return Turn(
            text=parts[-1].text,
            conversation_id=self.conversation_id,
            message_id=self.message_id,
            parts=tuple(parts),
            usage=usage,
            replayed=replayed,
        )


class _Run:
    """One turn while its answer is being made."""

    def __init__(self, place: _Place, agent: Agent, turn: OpenTurn, assembled: Assembled) -> None:
        """Begin with a turn that holds its conversation, and with what the model is sent first."""
        self._place = place
        self._agent = agent
        self._turn = turn
        self._prompt = assembled.prompt
        self._told = ""
        """What was told of the reply that is being made."""
        self._tools = {tool.name: tool for tool in agent.tools}
        self._memory_tools = MemoryTools(
            place.memory,
            user=place.user,
            agent_id=agent.id,
            seen=assembled.seen,
            source=source_label(place.conversation_id, turn.parts[0].seq),
        )

    def answered_by(self, model: Model) -> Turn:
        """Return the answer of a model, once it is kept; let go of the conversation where there is none."""
        talk = Conversation(
            model,
            ask_of(self._agent, self._prompt),
            timeout=self._agent.timeout,
            call_tool=self._call_tool,
            attempt=lambda _: self._take_back(),
            words=None if self._place.listener is None else self._say,
        )
        try:
            self._tell("start", metadata={"replayed": False})
            text = self._answer(talk)
            usage = Usage(requests=talk.requests, tokens_in=talk.tokens_in, tokens_out=talk.tokens_out)
            self._turn.answer(text, usage)
        except BaseException as error:
            self._fail(error)
            raise
        self._tell("end", content=text, metadata=msgspec.structs.asdict(usage))
        return self._place.turn(self._turn.parts, usage, replayed=False)

    def _answer(self, talk: Conversation) -> str:
        """Return what the model says once it wants no more tools."""
        for _ in range(self._agent.max_rounds):
            heard = self._hear(talk)
            if not heard.calls:
                return heard.answer
            self._carry_out(talk, heard)
        heard = self._hear(talk)
        if heard.calls:
            raise ModelFailed(
                f"the model still called tools after {self._agent.max_rounds} rounds of them",
                hint="Let the agent have more `max_rounds`, or say more clearly what its tools are for",
                reason="invalid_answer",
                retryable=True,
            )
        return heard.answer

    def _hear(self, talk: Conversation) -> Heard:
        """Return what the model says next, once all of its words are told."""
        heard = talk.hear()
        words = _words(heard)
        if not words.startswith(self._told):
            self._take_back()
        self._say(words[len(self._told) :])
        self._told = ""
        return heard

    def _say(self, words: str) -> None:
        """Tell words of the reply that is being made."""
        content = cleaned(words)
        if content:
            self._told += content
            self._place.tell("delta", self._turn.next_event(content), content=content)

    def _take_back(self) -> None:
        """Tell that what was told of this reply does not count: the model is asked again."""
        if self._told:
            self._told = ""
            self._tell("retract")

    def _carry_out(self, talk: Conversation, heard: Heard) -> None:
        """Make the calls that the model wants; each is kept before it is made, and its result before it is told."""
        words = _words(heard)
        spoken = [Draft(kind="agent_text", text=words)] if words else []
        requests = [
            Draft(kind="tool_request", text=_json(call.arguments), call_id=call.id, tool=call.name)
            for call in heard.calls
        ]
        for part in self._turn.add([*spoken, *requests])[len(spoken) :]:
            self._place.tell_part(part)
        results = [
            Draft(
                kind="tool_response",
                text=result.said.text,
                call_id=result.said.call_id,
                tool=result.name,
                failed=result.failed,
            )
            for result in talk.call_tools(heard)
        ]
        for part in self._turn.add(results):
            self._place.tell_part(part)

    def _call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        tool = self._tools.get(name)
        given = self._memory_tools.call(name, arguments) if tool is None else tool.call(arguments)
        size, most = len(encode(given)), self._place.memory.limits.content_bytes
        if size > most:
            raise ToolFailed(f"{quote(name)} gave {size:,} bytes, the limit is {most:,}: ask for less")
        return given

    def _fail(self, error: BaseException) -> None:
        """Let go of the conversation, and tell why there is no answer."""
        # Where it cannot be let go of now, somebody else may take it over after a while.
        with contextlib.suppress(MemorandaError):
            self._turn.give_up()
        known = isinstance(error, MemorandaError)
        said = error.message if known else "the turn was interrupted"
        code = error.code if known else "interrupted"
        self._tell("error", content=said, metadata={"code": code})

    def _tell(self, type: EventType, **about: Any) -> None:
        self._place.tell(type, self._turn.next_event(), **about)


def _begin(place: _Place, agent: Agent, message: str, policy: MemoryPolicy) -> _Run | Answered:
    """Return a run that holds its conversation, with the prompt for what was said in it when it was taken hold of.

    Of a message that was answered meanwhile, the answer.
    """
    memory, user, id = place.memory, place.user, place.conversation_id
    for _ in range(_ATTEMPTS):
        history = read_history(memory, user, id)
        interrupted = any(part.message_id == place.message_id for part in history.parts)
        assembled = assemble(memory, agent, history, None if interrupted else message, user=user, policy=policy)
        drafts = [Draft(kind="user", text=message)]
        if assembled.prompt.reminders:
            drafts.append(Draft(kind="reminders", text=assembled.prompt.reminders, hidden=True))
        turn = begin_turn(
            memory,
            user,
            id,
            history=history,
            agent_id=agent.id,
            message_id=place.message_id,
            drafts=drafts,
            lease=agent.timeout * (CORRECTIONS + 1) + _TOOL_TIME,
        )
        if isinstance(turn, Answered):
            return turn
        if turn is not None:
            return _Run(place, agent, turn, assembled)
    raise Conflict(
        f"the conversation {quote(id)} changes faster than it can be read",
        hint="Send the message again, under the same message id",
        conversation_id=id,
    )


def _told_again(place: _Place, answered: Answered, after: int | None) -> Turn:
    """Return an answer that was given before, and tell it as if it were made now; or only what comes after a number."""
    answer, last = answered.parts[-1], answered.last_event
    told = [answer] if after is None else [part for part in answered.parts if part.event]
    seen = -1 if after is None else after
    begun = _number_before(told[0])
    if seen < begun:
        place.tell("start", begun, metadata={"replayed": True})
    elif _saw_retracted(told, seen):
        place.tell("retract", seen + 1)
    for part in told:
        place.tell_part(part, after=seen)
    if seen < last:
        place.tell("end", last, content=answer.text, metadata=msgspec.structs.asdict(answered.usage))
    return place.turn(answered.parts, answered.usage, replayed=True)


def _saw_retracted(told: Sequence[Part], seen: int) -> bool:
    """Return whether the last that somebody saw were words that were not kept: their number lies between two parts."""
    return any(before.event < seen < _number_before(part) for before, part in pairwise(told))


def _number_before(part: Part) -> int:
    """Return the number that events had come to before they told of a part: words have one for each character."""
    return part.event - (len(part.text) if part.kind == "agent_text" else 1)


def _words(heard: Heard) -> str:
    """Return what a model said, as it is told and kept."""
    return cleaned(heard.text) if heard.calls else heard.answer


def _model_of(agent: Agent, model: object) -> Model:
    chosen = agent.model if model is None else model
    if chosen is None:
        raise ModelUnavailable(
            f"the agent {quote(agent.id)} has no model", hint="Give it one as `model`, such as `openai:gpt-5.2`"
        )
    return connect(chosen)


def _json(arguments: dict[str, Any]) -> str:
    # What a model sends may hold halves of characters, which cannot be kept.
    return without_halves(json.dumps(sendable(arguments), ensure_ascii=False))
