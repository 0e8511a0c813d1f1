"""`memoranda run`: chat with an agent, or run a machine or a workflow."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli import formats
from memoranda.cli.arguments import read_file, read_object
from memoranda.cli.command import Desk, Trace, argument, command, group, option
from memoranda.cli.programs import (
    AGENTS,
    MACHINES,
    WORKFLOWS,
    Kind,
    Machines,
    Model,
    Tools,
    Workflows,
    equip,
    refuse_options,
    require_ending,
    showing_faults,
)
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl.agent import Agent
    from memoranda.abl.session import Session, Turn


app = group()

_OPTIONS: dict[Kind, tuple[str, ...]] = {
    "an agent": ("--message", "--project", "--session", "--vars", "--tools", "--agents", "--trace"),
    "a machine": ("--input", "--machines", "--mode", "--budget-tokens", "--budget-model-calls", "--trace"),
    "a workflow": ("--message", "--input", "--thread", "--tools", "--workflows", "--trace"),
}
"""The options of each kind of program, besides --user and --model, which all have."""
_HINTS: dict[Kind, str] = {
    "an agent": "An agent is talked to, with --message or in a chat",
    "a machine": "A machine is given --input JSON, and --machines to call",
    "a workflow": "A workflow is given --input JSON or a --message, and --workflows to call",
}


@command(
    app, "run", changes=True, creates=True, embeds=True, example="memoranda run hotel.abl --tools tools.py --user ada"
)
def run(
    desk: Desk,
    file: Annotated[
        str, argument("FILE", "An agent, as hotel.abl, a machine, as loans.mashin, or a workflow, as desk.yaml.")
    ],
    message: Annotated[
        list[str] | None,
        option(
            "TEXT",
            "Say this instead of chatting; repeat to say more. To a workflow it is the `text` of its input.",
            "--message",
            "-m",
        ),
    ] = None,
    input: Annotated[str | None, option("JSON", "The input: JSON, @file, or - for stdin.", "--input", "-i")] = None,
    user: Annotated[str | None, option("ID", "The user who talks, or whose memory is used.")] = None,
    thread: Annotated[str | None, option("ID", "The conversation of a workflow; created if it does not exist.")] = None,
    project: Annotated[str | None, option("ID", "The project whose facts the agent uses.")] = None,
    session: Annotated[str | None, option("ID", "Resume this session, or start it with this id.")] = None,
    vars: Annotated[str | None, option("JSON", "Initial variables of a new session.")] = None,
    tools: Tools = None,
    agents: Annotated[list[str] | None, option("FILE", "An agent to hand over to; repeatable.")] = None,
    machines: Machines = None,
    workflows: Workflows = None,
    model: Model = None,
    mode: Annotated[
        Literal["live", "test"] | None,
        option(None, "In a test, a machine stores nothing and calls no model. Default: live."),
    ] = None,
    budget_tokens: Annotated[int | None, option("N", "Maximum number of model tokens of a run.", min=0)] = None,
    budget_model_calls: Annotated[int | None, option("N", "Maximum number of model calls of a run.", min=0)] = None,
    trace: Trace = False,
) -> None:
    """Chat with an agent, or run a machine or a workflow.

    An agent opens a chat, or answers --message. Its memory is in the database. In the chat, :help lists the commands,
    and Ctrl-D leaves; the session can be resumed. With --json, one object per line is printed for each turn, beginning
    with what the agent says before any input; without --message, each line of stdin is a message.

    A machine takes --input and prints its output as JSON. A workflow runs for --user, takes --input or --message, and
    prints its messages and its output. A run that waits for a decision or an event shows the command to continue it; a
    run that fails exits with 1.
    """
    kind = require_ending(file, *AGENTS, *MACHINES, *WORKFLOWS)
    given = {
        "--message": message,
        "--input": input,
        "--thread": thread,
        "--project": project,
        "--session": session,
        "--vars": vars,
        "--tools": tools,
        "--agents": agents,
        "--machines": machines,
        "--workflows": workflows,
        "--mode": mode,
        "--budget-tokens": budget_tokens,
        "--budget-model-calls": budget_model_calls,
        "--trace": trace,
    }
    others = {name: value for name, value in given.items() if name not in _OPTIONS[kind]}
    refuse_options(others, because=kind, hint=_HINTS[kind])
    if kind == "an agent":
        initial = read_object("--vars", vars) if vars is not None else {}
        with showing_faults(desk):
            agent, missing = _load(desk, file, agents or [], tools=tools, model=model)
        conversation, opening = _begin(agent, session, user=user, project=project, vars=initial)
        return _talk(desk, file, conversation, opening, message, missing, trace=trace)
    from memoranda.cli.run_results import run_machine, run_workflow, show_result

    kit = equip(machines=machines, workflows=workflows, tools=tools, model=model)
    with showing_faults(desk):
        if kind == "a workflow":
            done = run_workflow(desk, file, kit, input=input, message=message, user=user, thread=thread)
        else:
            limits = {"tokens": budget_tokens, "model_calls": budget_model_calls}
            done = run_machine(desk, file, kit, input=input, mode=mode or "live", user=user, limits=limits)
    show_result(desk, done, kit, trace=trace)


def _talk(
    desk: Desk,
    file: str,
    session: Session,
    opening: Turn | None,
    message: list[str] | None,
    missing: list[str],
    *,
    trace: bool,
) -> None:
    """Chat with an agent, or print its answers to messages; `missing` names its tools without a function."""
    # Warnings are shown below; without a handler, logging would print them too.
    logging.getLogger("memoranda.abl").addHandler(logging.NullHandler())
    if desk.out.json:
        lines = message if message is not None else (line.strip() for line in sys.stdin)
        return _answer_with_json(desk, session, opening, lines)
    chat = Chat(desk, session, opening, traces=trace)
    if missing:
        beside = Path(file).with_name("tools.py")
        such = f", such as {beside}" if beside.exists() else ""
        desk.out.aside(f"No function was given for {', '.join(missing)}: --tools names a file that has them{such}.")
    if message is None and session.user is None:
        desk.out.aside("Without --user, nothing about you is remembered after this chat.")
    if opening is not None:
        chat.show(opening)
    if message is None:
        chat.talk()
    for text in message or ():
        chat.hear(text)
    desk.out.aside(f"To continue: --session {session.id}")


def _load(desk: Desk, file: str, agents: list[str], *, tools: str | None, model: str | None) -> tuple[Agent, list[str]]:
    """Return the agent, and the names of its tools without a function."""
    from memoranda.abl.agent import load
    from memoranda.abl.tools.toolbox import functions_of

    for name in (file, *agents):
        require_ending(name, *AGENTS)
        read_file(name)  # a missing file is reported before a database is created
    functions = functions_of(tools)
    others = [load(Path(name), memory=desk.memory, tools=functions, model=model) for name in agents]
    agent = load(Path(file), memory=desk.memory, tools=functions, model=model, agents=others)
    declared = [tool for one in (agent, *others) for tool in one.document.tools if tool.endpoint is None]
    return agent, sorted({tool.name.text for tool in declared} - set(functions))


def _begin(
    agent: Agent, id: str | None, *, user: str | None, project: str | None, vars: dict[str, Any]
) -> tuple[Session, Turn | None]:
    """Start or resume a session; return it with the agent's opening, which a resumed one does not have."""
    if id is not None:
        try:
            session = agent.resume(id)
        except NotFound:
            pass  # a new session
        else:
            _ensure_same(session, user=user, project=project, vars=vars)
            return session, None
    session = agent.start(user=user, id=id, vars=vars, **({} if project is None else {"project": project}))
    return session, session.opening


def _ensure_same(session: Session, *, user: str | None, project: str | None, vars: dict[str, Any]) -> None:
    """Raise `UsageError` if the session is of another user or project, or --vars are given."""
    for name, asked, actual in (("--user", user, session.user), ("--project", project, session.project)):
        if asked is not None and asked != actual:
            raise UsageError(
                f"the session {quote(session.id)} was started for {quote(actual) if actual else 'no user'}, not for "
                f"{quote(asked)}",
                hint=f"Remove {name} to resume it, or --session to start another",
                value=asked,
            )
    if vars:
        raise UsageError(
            f"the session {quote(session.id)} was already started, and --vars are only for a new one",
            hint="Remove --vars to resume it, or --session to start another",
        )


def _answer_with_json(desk: Desk, session: Session, opening: Turn | None, lines: Iterable[str]) -> None:
    if opening is not None:
        desk.out.document(_turn_document(session, None, opening))
    for text in lines:
        desk.out.document(_turn_document(session, text, session.say(text)))


def _turn_document(session: Session, said: str | None, turn: Turn) -> dict[str, Any]:
    return {
        "session": session.id,
        "turn": turn.number,
        "said": said,
        "messages": turn.messages,
        "status": turn.status,
        "agent": turn.agent,
        "step": turn.step,
        "events": [{"kind": one.kind, "about": one.about, "detail": one.detail} for one in turn.events],
        "trace": [str(one) for one in turn.trace],
    }


_PROMPT = "> "
_LEAVING = (":quit", ":q", ":exit")
_STATUSES = {
    "completed": "(completed)",
    "blocked": "(blocked by a rule; :trace shows which)",
    "escalated": "(escalated: a person has the conversation now)",
    "handed_off": "(handed off to an agent that is not loaded; --agents names its file)",
}
"""Remarks on the end of a turn; there is none for one that waits."""


class Chat:
    """A chat in the terminal, with commands to inspect it."""

    def __init__(self, desk: Desk, session: Session, turn: Turn | None, *, traces: bool = False) -> None:
        """Take a session, and its opening if it is new; with `traces`, each turn is followed by its trace."""
        self.desk = desk
        self.session = session
        self.turn = turn
        self._speaker = session.agent
        self._traces = traces

    def show(self, turn: Turn) -> None:
        """Print the messages of a turn, and its outcome."""
        self.turn = turn
        for message in turn.messages:
            self.desk.out.say(message)
        for entry in turn.trace:
            if entry.kind in ("warning", "stopped") and not self._traces:
                self.desk.out.aside(f"({entry})")
        if turn.agent != self._speaker:
            self._speaker = turn.agent
            self.desk.out.aside(f"({turn.agent} speaks now)")
        elif turn.status in _STATUSES:
            self.desk.out.aside(_STATUSES[turn.status])
        if self._traces:
            self.desk.out.aside(str(turn.trace))

    def hear(self, text: str) -> None:
        """Send a message to the agent, and print its answer."""
        self.show(self.session.say(text))

    def talk(self) -> None:
        """Answer lines until the input ends or the user quits."""
        for line in _lines():
            text = line.strip()
            if text in _LEAVING:
                return
            if text.startswith(":"):
                self._command(text)
            elif text:
                self._try(text)

    def _try(self, text: str) -> None:
        try:
            self.hear(text)
        except MemorandaError as error:
            if not sys.stdin.isatty():
                raise
            # Nothing of the turn was stored, so the user can try again.
            self.desk.out.failure(error)

    def _command(self, text: str) -> None:
        known = _COMMANDS.get(text)
        if known is None:
            return self.desk.out.aside(f"There is no {text}; :help lists the commands.")
        known[1](self)

    def help(self) -> None:
        """Show the commands of the chat."""
        told = [(name, meaning) for name, (meaning, _) in _COMMANDS.items()]
        self.desk.out.pairs([*told, (":quit", "quit, as Ctrl-D does; the session can be resumed")])

    def vars(self) -> None:
        """Show the variables of the current agent."""
        rows = [(name, formats.value(value)) for name, value in self.session.vars.items() if value is not None]
        self.desk.out.pairs(rows) if rows else self.desk.out.aside("No variable has a value.")

    def facts(self) -> None:
        """Show the facts of the user, the project and this conversation."""
        from memoranda.cli.facts import show_facts

        session, memory = self.session, self.desk.memory
        # A session that was started directly has a tree with its own id.
        places = [memory.scope(project=session.project), memory.scope(tree=session.tree)]
        if session.user is not None:
            places.insert(0, memory.scope(user=session.user))
        facts = [fact for place in places for fact in place.list()]
        show_facts(self.desk, facts, with_scope=True) if facts else self.desk.out.aside("There are no facts.")

    def trace(self) -> None:
        """Show the trace of the last answer."""
        if self.turn is None:
            return self.desk.out.aside("Nothing was said since the session was resumed.")
        self.desk.out.say(str(self.turn.trace))

    def step(self) -> None:
        """Show the current step of the conversation."""
        session = self.session
        self.desk.out.say(f"{session.agent}, {session.step or 'at no step'}, {session.status.replace('_', ' ')}")


_COMMANDS: dict[str, tuple[str, Callable[[Chat], None]]] = {
    ":vars": ("the variables of this conversation", Chat.vars),
    ":facts": ("the facts of the user, the project and this conversation", Chat.facts),
    ":trace": ("the trace of the last answer", Chat.trace),
    ":step": ("the current step", Chat.step),
    ":help": ("this list", Chat.help),
}


def _lines() -> Iterator[str]:
    """Yield the lines of stdin; on a terminal with a prompt and line editing."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(ImportError):  # a build of Python without it
        import_module("readline")
    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            print()
            return
