"""The document of a workflow: the parser's result, as frozen values. Expressions are still text.

Position and layout do not count for equality: files with the same content are equal documents. Each part also has its
path in the file (`defs.save.inputs.text`), by which people who edit YAML find it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from memoranda.lang.document import Raw, SourceNode

# --- values -----------------------------------------------------------------------------------------------------


class Part(SourceNode, frozen=True, kw_only=True):
    """A part of the file."""

    LAYOUT = frozenset({"span", "path"})

    path: str = ""


class Text(Raw, frozen=True):
    """A name or another text that is never an expression."""

    LAYOUT = frozenset({"span", "runs", "literal", "path"})

    path: str = ""


class Scalar(Part, frozen=True):
    """A literal text, number, true, false or null."""

    value: str | int | float | bool | None


class Expression(Text, frozen=True):
    """An expression, without its leading `=`."""


class Items(Part, frozen=True):
    """A list."""

    items: tuple[Value, ...] = ()


class Entry(Part, frozen=True):
    """`key: value`."""

    key: Text
    value: Value


class Fields(Part, frozen=True):
    """A map, in the order of the file."""

    entries: tuple[Entry, ...] = ()

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key."""
        return next((entry for entry in self.entries if entry.key.text == key), None)


Value: TypeAlias = Scalar | Expression | Items | Fields

# --- definitions ------------------------------------------------------------------------------------------------


class Retries(Part, frozen=True):
    """How a failed task is retried; None for what is not set."""

    enabled: bool | None = None
    max_attempts: int | None = None
    backoff_ms: int | float | None = None
    max_delay_ms: int | float | None = None
    jitter: int | float | None = None
    multiplier: int | float | None = None


class Settings(Part, frozen=True):
    """The settings of one task or of all; `others` are for its action."""

    timeout_ms: int | float | None = None
    retries: Retries | None = None
    others: Fields | None = None


class Binding(Part, frozen=True):
    """The definitions of one kind that a definition uses; `listed` if they were written as a list."""

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
        """Return whether its kind is one of these; never for a definition without a kind."""
        return self.kind is not None and self.kind.text in kinds

    @property
    def own_settings(self) -> Fields:
        """Its settings except those that every task may have; may be empty."""
        given = self.settings.others if self.settings else None
        return given or Fields(span=self.name.span, path=self.path)


# --- the flow ---------------------------------------------------------------------------------------------------

Strategy: TypeAlias = Literal["wait_all", "wait_any"]
LoopType: TypeAlias = Literal["for_each", "while"]


class Do(Part, frozen=True):
    """One task."""

    task: Text


class Parallel(Part, frozen=True):
    """Steps that run at the same time."""

    strategy: Strategy = "wait_all"
    steps: Block = ()


class Branch(Part, frozen=True):
    """Steps with a condition; None for a branch that is always taken."""

    condition: Value | None = None
    steps: Block = ()


class Conditional(Part, frozen=True):
    """Branches of which the first with a true condition is taken; an `else` is the last, without a condition."""

    branches: tuple[Branch, ...] = ()


class Accumulate(Part, frozen=True):
    """A value that is carried from pass to pass."""

    name: Text
    initial: Value | None = None
    merge: Value | None = None


class Loop(Part, frozen=True):
    """Steps that are repeated."""

    type: LoopType | None = None
    name: Text | None = None
    item: Text | None = None
    items: Value | None = None
    """What `for_each` iterates over."""
    test: Value | None = None
    """The condition of `while`, evaluated before each pass."""
    until: Value | None = None
    max_concurrency: int | None = None
    accumulate: Accumulate | None = None
    steps: Block = ()


Item: TypeAlias = Do | Parallel | Conditional | Loop
Block: TypeAlias = tuple[Item, ...]


class Document(Part, frozen=True):
    """A workflow."""

    schema: Fields | None = None
    """The JSON schema of its input; `=` has no meaning in it."""
    context: Fields | None = None
    defaults: Settings | None = None
    defs: tuple[Definition, ...] = ()
    flow: Block = ()
    outputs: Fields | None = None

    def find(self, name: str) -> Definition | None:
        """Return the definition with this name, if there is one."""
        return next((one for one in self.defs if one.name.text == name), None)


def plain(value: Value | None) -> object:
    """Return a value as plain JSON, with expressions as the text in the file."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Expression):
        return f"={value.text}"
    if isinstance(value, Items):
        return [plain(item) for item in value.items]
    if isinstance(value, Fields):
        return {entry.key.text: plain(entry.value) for entry in value.entries}
    return None
