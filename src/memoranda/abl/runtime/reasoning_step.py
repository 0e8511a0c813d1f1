"""Reasoning steps: the model replies and calls tools, under the rules of the agent."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from memoranda.abl.runtime import model_tools
from memoranda.abl.runtime.actions import MEMORY_TOOLS, call_tool, recall_for_search
from memoranda.abl.runtime.active_turn import ActiveTurn, StepError, without_field
from memoranda.abl.runtime.constraints import CallArguments, check_rules
from memoranda.abl.runtime.plan import AGAIN, Signal
from memoranda.abl.runtime.state import Wait
from memoranda.abl.tools.outcome import Outcome, failure_outcome
from memoranda.agent.models import Ask, Reply, Said, ToolCall, ToolSpec
from memoranda.agent.prompt import data_fence
from memoranda.api.context import remembered_context, told_text
from memoranda.errors import ModelError
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.template import CompiledTemplate
from memoranda.model.block import agent_scope
from memoranda.model.text import quote
from memoranda.runs.provenance import OWN, Provenance, provenance_of_context

_BEGIN = "(The conversation begins; the user has said nothing yet.)"
_MOST_MESSAGES = 40


class ReasoningAction:
    """A compiled reasoning step, or an agent without a flow: the model talks to the user until it is done."""

    waits: ClassVar[Wait] = "reasoning"
    __slots__ = ("constraints", "exit_when", "gathers", "goal", "max_turns", "optional", "tools")

    def __init__(
        self,
        *,
        goal: CompiledTemplate | None,
        tools: tuple[str, ...] | None,
        exit_when: Expression | None,
        max_turns: int,
        constraints: tuple[CompiledTemplate, ...],
        optional: bool = False,
        gathers: bool = False,
    ) -> None:
        """Set the goal of the model, its tools, and when it is done.

        An `optional` one works without a model: it is done at once if the agent `gathers`, else it waits for input.
        """
        self.optional = optional
        self.gathers = gathers
        self.goal = goal
        self.tools = tools
        self.exit_when = exit_when
        self.max_turns = max_turns
        self.constraints = constraints

    def __call__(self, turn: ActiveTurn) -> Signal:
        """Let the model reply once in this turn; continue if it is done."""
        state = turn.frame.state
        if self.optional and turn.frame.member.model is None:
            return self._run_without_model(turn)
        if state.wait != "reasoning":
            state.turns = 0
            if self._is_done(turn):
                return None
        elif not turn.fresh:
            turn.wait("reasoning")
            return AGAIN
        state.wait = ""
        state.turns += 1
        signal = self._converse(turn)
        if signal is not None:
            return signal
        turn.fresh = False
        if self._is_done(turn) or state.turns >= self.max_turns:
            return None
        turn.wait("reasoning")
        return AGAIN

    def _run_without_model(self, turn: ActiveTurn) -> Signal:
        if self.gathers:
            return None
        turn.wait("reasoning")
        return AGAIN

    def _is_done(self, turn: ActiveTurn) -> bool:
        return self.exit_when is not None and turn.test(self.exit_when)

    def _converse(self, turn: ActiveTurn) -> Signal:
        """Ask the model, call the tools it asks for, and ask again, until it replies with text."""
        messages = list(conversation(turn))
        tools = self._specs(turn)
        remembered, told = _memory_text(turn)
        for _ in range(turn.behaviour.reasoning):
            own, shown = self._instructions(turn)
            instructions = "\n\n".join(filter(None, (own, remembered)))
            told |= shown
            # What the model says and does next is made of this, and so is what it says in later turns.
            turn.note_said(told)
            turn.record_prompt(turn.session.said)
            reply = _reply(turn, Ask(instructions, tuple(messages), tools))
            if not reply.calls:
                signal = check_rules(turn, "reply")
                if signal is not None:
                    return signal
                turn.say(reply.text)
                turn.given_results = True
                return None
            messages.append(Said("assistant", reply.text, reply.calls))
            for call in reply.calls:
                outcome, signal, provenance = self._call(turn, call)
                turn.note_said(provenance)
                if signal is not None:
                    return signal
                failed = outcome.failure is not None
                messages.append(Said("tool", _tool_reply(outcome), call_id=call.id, tool=call.name, failed=failed))
        turn.note("stopped", "the model", why=f"it asked for tools {turn.behaviour.reasoning} times in one turn")
        raise StepError("llm_error", "the model did not finish its reply", subtype="iterations")

    def _call(self, turn: ActiveTurn, call: ToolCall) -> tuple[Outcome, Signal, Provenance]:
        if call.name in model_tools.NAMES and not turn.frame.member.toolbox.knows(call.name):
            return model_tools.call(turn, call.name, dict(call.arguments))
        if self.tools is not None and call.name not in self.tools:
            message = f"{quote(call.name)} is not among the tools of this step"
            turn.note("refused", call.name, why=message)
            return failure_outcome("tool_error", message), None, OWN
        signal = check_rules(turn, "call", CallArguments(call.name, call.arguments))
        if signal is not None:
            return Outcome(), signal, OWN
        recall_for_search(turn, call.name)
        outcome, provenance = call_tool(turn, call.name, [], dict(call.arguments), turn.session.said)
        return outcome, None, provenance

    def _specs(self, turn: ActiveTurn) -> tuple[ToolSpec, ...]:
        box = turn.frame.member.toolbox
        declared = [tool.name.text for tool in turn.frame.plan.document.tools]
        names = list(self.tools) if self.tools is not None else [*declared, *(n for n in MEMORY_TOOLS if n in declared)]
        specs = [_spec(name, box.schema(name)) for name in names if box.knows(name)]
        return (*specs, *model_tools.specs(turn, routes=self.tools is None))

    def _instructions(self, turn: ActiveTurn) -> tuple[str, Provenance]:
        """Return the instructions of the model, and what its variables are made of; texts note it themselves."""
        prose = turn.frame.plan.prose
        parts = [f"You are {turn.frame.plan.name}."]
        parts += [f"{label}: {turn.render(template)}" for label, template in prose.items()]
        parts += turn.frame.plan.traits
        if self.goal is not None:
            parts.append(f"What to achieve in this step: {turn.render(self.goal)}")
        parts += [f"Rule: {turn.render(rule)}" for rule in self.constraints]
        parts += _recall_instructions(turn)
        turn.frame.facts.session.reads.clear()
        settable = model_tools.variables_to_set(turn)
        if settable:
            parts.append("Keep what the user tells you about these variables with set_variables:")
            parts.append(data_fence("variables", settable))
        known = _visible_variables(turn)
        parts.append(
            data_fence("what is known", {name: value for name, value in known.items() if name not in settable})
        )
        recalled = turn.frame.names.get("recalled")
        if recalled:
            parts.append(data_fence("what was recalled", recalled))
        summary = turn.frame.state.notes.summary
        if summary:
            parts.append(data_fence("what happened before", summary))
        made_of = turn.frame.provenances.of((name,) for name in (*known, *settable, "recalled"))
        return "\n\n".join(parts), made_of | turn.frame.facts.session.provenance_read()


def _memory_text(turn: ActiveTurn) -> tuple[str, Provenance]:
    """Return what is remembered of the user that matters now, without sensitive values; nothing in a replay."""
    facts = turn.frame.facts.session
    if facts.user is None or turn.replay is not None:
        return "", OWN
    scope = agent_scope(facts.user, turn.frame.plan.name)
    context = remembered_context(facts.memory, scope, turn.text)
    turn.remembered = turn.hide(told_text(context))
    return turn.remembered, provenance_of_context(context)


def _recall_instructions(turn: ActiveTurn) -> list[str]:
    """Return the recall instructions for the model, without duplicates."""
    fixed = turn.frame.plan.instructions
    texts = [fixed.get(told, "") if isinstance(told, int) else told for told in turn.frame.state.told]
    return list(dict.fromkeys(filter(None, texts)))


def _visible_variables(turn: ActiveTurn) -> dict[str, Any]:
    """Return the variables that the model sees, without the sensitive ones."""
    frame = turn.frame
    known = frame.redact({name: value for name, value in frame.variables().items() if value is not None})
    for path in frame.sensitive_paths():
        known = without_field(known, tuple(path.split(".")))
    return known


def _spec(name: str, schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name, str(schema.get("description", "")), schema)


def _tool_reply(outcome: Outcome) -> str:
    value = outcome.value if outcome.failure is None else {"error": outcome.failure.message}
    return msgspec.json.encode(value).decode()


def _reply(turn: ActiveTurn, ask: Ask) -> Reply:
    if turn.replay is not None:
        place = len(turn.record.replies)
        if place >= len(turn.replay.replies):
            raise StepError("llm_error", "the record of the turn has no such reply")
        turn.record.replies.append(turn.replay.replies[place])
        return msgspec.convert(turn.replay.replies[place], Reply)
    model = turn.frame.member.model
    if model is None:
        raise StepError(
            "llm_error",
            f"step `{turn.frame.state.step}` of {turn.frame.plan.name} needs a model: pass model='provider:name' to "
            "load, or --model on the command line",
            subtype="no_model",
        )
    try:
        reply = turn.ask(model, ask)
    except ModelError as error:
        raise StepError("llm_error", error.message, subtype=error.code) from None
    turn.note("model", model.name, said=reply.text or None, calls=[call.name for call in reply.calls] or None)
    turn.record.replies.append(msgspec.to_builtins(reply))
    return reply


def conversation(turn: ActiveTurn) -> list[Said]:
    """Return the messages that the active agent may see, the user's current words last."""
    said = [Said(one[0], one[1]) for one in turn.past(turn.frame)][-_MOST_MESSAGES:]
    said.append(Said("user", turn.text if not turn.opening else _BEGIN))
    return [msgspec.structs.replace(one, text=turn.hide(one.text)) for one in said] if turn.hidden else said
