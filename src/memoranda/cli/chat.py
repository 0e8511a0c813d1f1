"""A person's lines in, an agent's answers out: the chat in the terminal, and the same over a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from memoranda.cli import wording
from memoranda.cli.command import Desk
from memoranda.errors import MemorandaError

if TYPE_CHECKING:
    from memoranda.abl.session import Session, Turn

_PROMPT = "> "
_LEAVING = (":quit", ":q", ":exit")
_STATUSES = {
    "completed": "(completed)",
    "blocked": "(blocked by a rule; :trace shows which)",
    "escalated": "(escalated: a person has the conversation now)",
    "handed_off": "(handed off to an agent that is not loaded; --agents names its file)",
}
"""What is told about the end of a turn; of one that waits, nothing."""


class Chat:
    """A conversation as a person sees it: words, and now and then a look behind them."""

    def __init__(self, desk: Desk, session: Session, turn: Turn | None) -> None:
        """Begin with the opening of a session, or without one where it goes on."""
        self.desk = desk
        self.session = session
        self.turn = turn
        self._speaker = session.agent

    def show(self, turn: Turn) -> None:
        """Print what the agent said, and what changed with it."""
        self.turn = turn
        for message in turn.messages:
            self.desk.out.say(message)
        if turn.agent != self._speaker:
            self._speaker = turn.agent
            self.desk.out.aside(f"({turn.agent} speaks now)")
        elif turn.status in _STATUSES:
            self.desk.out.aside(_STATUSES[turn.status])

    def hear(self, text: str) -> None:
        """Give the agent a person's words, and print what it says."""
        self.show(self.session.say(text))

    def talk(self) -> None:
        """Answer line after line until there are no more, or the person leaves."""
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
            # Nothing of the turn was kept, so the person can say it again, or something else.
            self.desk.out.failure(error)

    def _command(self, text: str) -> None:
        known = _COMMANDS.get(text)
        if known is None:
            return self.desk.out.aside(f"There is no {text}; :help lists what there is.")
        known[1](self)

    def help(self) -> None:
        """Show what can be typed."""
        told = [(name, meaning) for name, (meaning, _) in _COMMANDS.items()]
        self.desk.out.pairs([*told, (":quit", "leave, as Ctrl-D does; the session can be taken up again")])

    def vars(self) -> None:
        """Show the variables of the agent that speaks."""
        rows = [(name, wording.value(value)) for name, value in self.session.vars.items() if value is not None]
        self.desk.out.pairs(rows) if rows else self.desk.out.aside("No variable has a value.")

    def facts(self) -> None:
        """Show what is remembered about the user, the project and this conversation."""
        from memoranda.cli.facts import show_facts

        session, memory = self.session, self.desk.memory
        # The tree of a session that nobody else began has the session's id.
        places = [memory.scope(project=session.project), memory.scope(tree=session.tree)]
        if session.user is not None:
            places.insert(0, memory.scope(user=session.user))
        facts = [fact for place in places for fact in place.list()]
        show_facts(self.desk, facts, with_scope=True) if facts else self.desk.out.aside("Nothing is remembered.")

    def trace(self) -> None:
        """Show how the agent came to its last answer."""
        if self.turn is None:
            return self.desk.out.aside("Nothing was said since the session was taken up.")
        self.desk.out.say(str(self.turn.trace))

    def step(self) -> None:
        """Show where the conversation stands."""
        session = self.session
        self.desk.out.say(f"{session.agent}, {session.step or 'at no step'}, {session.status.replace('_', ' ')}")


_COMMANDS: dict[str, tuple[str, Callable[[Chat], None]]] = {
    ":vars": ("the variables of this conversation", Chat.vars),
    ":facts": ("what is remembered beyond it", Chat.facts),
    ":trace": ("how the last answer came about", Chat.trace),
    ":step": ("where the conversation stands", Chat.step),
    ":help": ("this list", Chat.help),
}


def _lines() -> Iterator[str]:
    """Give what is typed, line by line; with a prompt, and with keys to edit the line, where a person types."""
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
