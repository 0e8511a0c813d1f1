"""The lines of `ensures` in; permissions, authority, guards and needs out."""

from __future__ import annotations

from memoranda.lang.faults import note_missing_colon
from memoranda.mashin.document import Capability, Config, Ensures, Guard, Permission, Verdict
from memoranda.mashin.keywords import AUTHORITY, ENSURES, GUARD, PERMISSIONS, Level
from memoranda.mashin.lines import Line
from memoranda.mashin.reader import Cursor, Reader

_VERDICTS: tuple[tuple[str, Verdict], ...] = (
    ("allowed to", "allow"),
    ("not allowed to", "deny"),
    ("requires approval for", "approve"),
)


def read_ensures(reader: Reader, line: Line) -> Ensures:
    """Read the whole section."""
    found = _Ensured(reader)
    for child in line.children:
        found.read(child, ENSURES)
    return Ensures(
        permissions=tuple(found.permissions),
        authority=found.authority,
        guards=tuple(found.guards.values()),
        needs=found.needs,
        span=line.span,
    )


class _Ensured:
    """Collects what is ensured."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.permissions: list[Permission] = []
        self.guards: dict[str, Guard] = {}
        self.authority: tuple[Config, ...] = ()
        self.needs: tuple[Config, ...] = ()

    def read(self, line: Line, level: Level) -> None:
        cursor = Cursor(line)
        for words, verdict in _VERDICTS:
            if cursor.takes(words):
                self._permission(line, cursor, verdict)
                return
        word = next((row.name for row in level.keywords if cursor.takes(row.name)), None)
        if word is None:
            self.reader.unknown(line, level)
        elif self.reader.ended(cursor, f"`{word}`") and not self.reader.missing_below(line, f"what `{word}` says"):
            self._block(line, word)

    def _block(self, line: Line, word: str) -> None:
        if word == "permissions":
            for child in line.children:
                self.read(child, PERMISSIONS)
        elif word == "guards":
            for child in line.children:
                self._guard(child)
        elif word == "needs":
            self.needs = (*self.needs, *self.reader.configs(line.children))
        else:
            self._authority(line)

    def _permission(self, line: Line, cursor: Cursor, verdict: Verdict) -> None:
        capabilities: list[Capability] = []
        if not cursor.ended:
            self._capabilities(cursor, capabilities)
        elif self.reader.missing_below(line, "a capability"):
            return
        for child in line.children:
            self.reader.nothing_below(child, "a capability")
            self._capabilities(Cursor(child), capabilities)
        self.permissions.append(Permission(verdict=verdict, capabilities=tuple(capabilities), span=line.span))

    def _capabilities(self, cursor: Cursor, into: list[Capability]) -> None:
        while True:
            name = cursor.dotted()
            if name is None:
                self.reader.expected(cursor, "a capability", hint="Such as memory, llm_call or http")
                return
            machine = cursor.string() if name.text == "call" else None
            if name.text == "call" and machine is None:
                hint = 'Write it as `call "machine"`'
                self.reader.expected(cursor, "the machine that may be called, in quotes", hint=hint)
                return
            span = name.span.to(machine.span) if machine else name.span
            into.append(Capability(name=name, machine=machine, span=span))
            if not cursor.mark(","):
                break
            # A comma at the end of a line goes on with the capabilities of the next one.
            if cursor.ended:
                return
        self.reader.ended(cursor, "a capability")

    def _guard(self, line: Line) -> None:
        cursor = Cursor(line)
        name = self.reader.name(cursor, "a guard")
        if name is None or not self.reader.ended(cursor, "the name of a guard"):
            return
        config = self.reader.configs(line.children, GUARD)
        for one in config:
            if GUARD.find(one.key.text) is None:
                hint = self.reader.meant(one.key.text, GUARD.names, otherwise="Known in a guard: on_violation")
                message = f"`{one.key.text}` is no keyword in a guard"
                self.reader.said.error("unknown_keyword", message, one.key.span, hint=hint)
        if name.text in self.guards:
            self.reader.doubled(name.span, f"the guard `{name.text}`")
            return
        violation = next((one.value for one in config if one.key.text == "on_violation"), None)
        self.guards[name.text] = Guard(name=name, on_violation=violation, span=line.span)

    def _authority(self, line: Line) -> None:
        """Read `requires: a, delegates: b`, on one line or on two."""
        found = {config.key.text: config for config in self.authority}
        for child in line.children:
            self.reader.nothing_below(child, "`authority`")
            cursor = Cursor(child)
            while not cursor.ended:
                key = cursor.word()
                if key is None or AUTHORITY.find(key.text) is None:
                    self.reader.unknown(child, AUTHORITY)
                    break
                if not cursor.mark(":"):
                    note_missing_colon(self.reader.said, key.text, key.span.start)
                    break
                value = cursor.until_comma()
                if value is None:
                    self.reader.expected(cursor, f"the value of `{key.text}`")
                    break
                self.reader.add(found, Config(key=key, value=value, span=key.span.to(value.span)))
                cursor.mark(",")
        self.authority = tuple(found.values())
