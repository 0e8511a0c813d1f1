"""What a workflow file says, as frozen values: the parser's result. Expressions are text here and know their places.

Where a part stands and how it is laid out does not count for equality: texts that say the same are equal documents.
Each part knows its path in the file as well (`defs.save.inputs.text`), which is how people who edit YAML find it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from memoranda.lang.tree import Node, Raw

# --- values -----------------------------------------------------------------------------------------------------


class Part(Node, frozen=True, kw_only=True):
    """A part of the file."""

    LAYOUT = frozenset({"span", "path"})

    path: str = ""


class Text(Raw, frozen=True):
    """A name or another text that is never computed."""

    LAYOUT = frozenset({"span", "runs", "literal", "path"})

    path: str = ""


class Scalar(Part, frozen=True):
    """A text, a number, true, false or null, as it is written."""

    value: str | int | float | bool | None


class Expression(Text, frozen=True):
    """A text that began with `=`, which was taken off."""


class Items(Part, frozen=True):
    """A list."""

    items: tuple[Value, ...] = ()


class Entry(Part, frozen=True):
    """`key: value`."""

    key: Text
    value: Value


class Fields(Part, frozen=True):
    """Names and values, in their order."""

    entries: tuple[Entry, ...] = ()

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key."""
        return next((entry for entry in self.entries if entry.key.text == key), None)


Value: TypeAlias = Scalar | Expression | Items | Fields

# --- definitions ------------------------------------------------------------------------------------------------


class Retries(Part, frozen=True):
    """How often a task that failed is tried again; None where nothing is said."""

    enabled: bool | None = None
    max_attempts: int | None = None
    backoff_ms: int | float | None = None
    max_delay_ms: int | float | None = None
    jitter: int | float | None = None
    multiplier: int | float | None = None


class Settings(Part, frozen=True):
    """The settings of a task or of all tasks; `others` are for its action."""

    timeout_ms: int | float | None = None
    retries: Retries | None = None
    others: Fields | None = None


class Binding(Part, frozen=True):
    """The definitions of one kind that a definition uses; `listed` says how they were written."""

    kind: Text
    names: tuple[Text, ...] = ()
    listed: bool = False


class Definition(Part, frozen=True):
    """A task, a model, a memory, a tool or a server of tools."""

    name: Text
    kind: Text | None = None
    action: Text | None = None
    description: Text | None = None
    inputs: Fields | None = None
    bindings: tuple[Binding, ...] = ()
    settings: Settings | None = None

    def is_a(self, *kinds: str) -> bool:
        """Say whether it is of one of these kinds; a definition without a kind is of none."""
        return self.kind is not None and self.kind.text in kinds

    @property
    def own_settings(self) -> Fields:
        """Its settings without those that every task may have; empty where there are none."""
        given = self.settings.others if self.settings else None
        return given or Fields(span=self.name.span, path=self.path)


# --- the flow ---------------------------------------------------------------------------------------------------

Strategy: TypeAlias = Literal["wait_all", "wait_any"]
LoopType: TypeAlias = Literal["for_each", "while"]


class Do(Part, frozen=True):
    """One task."""

    task: Text


class Parallel(Part, frozen=True):
    """Steps at the same time."""

    strategy: Strategy = "wait_all"
    steps: Block = ()


class Branch(Part, frozen=True):
    """What is done when a condition holds; None for a branch that is always taken."""

    condition: Value | None = None
    steps: Block = ()


class Conditional(Part, frozen=True):
    """The first branch whose condition holds; an `else` is the last one, without a condition."""

    branches: tuple[Branch, ...] = ()


class Accumulate(Part, frozen=True):
    """A value that goes from pass to pass."""

    name: Text
    initial: Value | None = None
    merge: Value | None = None


class Loop(Part, frozen=True):
    """Steps again and again."""

    type: LoopType | None = None
    name: Text | None = None
    item: Text | None = None
    items: Value | None = None
    """What `for_each` goes through."""
    test: Value | None = None
    """What `while` asks before each pass."""
    until: Value | None = None
    max_concurrency: int | None = None
    accumulate: Accumulate | None = None
    steps: Block = ()


Item: TypeAlias = Do | Parallel | Conditional | Loop
Block: TypeAlias = tuple[Item, ...]


class Document(Part, frozen=True):
    """A workflow."""

    schema: Fields | None = None
    """The JSON schema of its input; what begins with `=` in it is text."""
    context: Fields | None = None
    defaults: Settings | None = None
    defs: tuple[Definition, ...] = ()
    flow: Block = ()
    outputs: Fields | None = None

    def find(self, name: str) -> Definition | None:
        """Return the definition of a name."""
        return next((one for one in self.defs if one.name.text == name), None)


def plain(value: Value | None) -> object:
    """Return a value as JSON would have it, expressions as the text that was written."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Expression):
        return f"={value.text}"
    if isinstance(value, Items):
        return [plain(item) for item in value.items]
    if isinstance(value, Fields):
        return {entry.key.text: plain(entry.value) for entry in value.entries}
    return None
