"""Every error Memoranda raises, as one tree with stable codes.

    MemorandaError                      .code  .hint  .details
    ├── UsageError(ValueError)          the call is wrong; nothing was changed
    │   ├── InvalidScope                a tenant, kind or id that cannot name a memory
    │   ├── InvalidKey                  a key that cannot name a fact
    │   ├── InvalidValue                not JSON: NaN, bytes, a cycle…           .path
    │   ├── InvalidDuration             not `30d`, `24h`, `15m`, `90s` or `2w`
    │   ├── InvalidDefinition           a name, slug, scope or schema that cannot be used  .path
    │   ├── InvalidPolicy               a capability, level or access that does not exist
    │   ├── InvalidFilter               a filter of a recall that cannot be applied  .path
    │   ├── InvalidInput                a variable that callers may not set  .variable .inputs
    │   ├── LimitExceeded               too large                                .limit .actual
    │   ├── SchemaViolation             a value its definition refuses           .path .expected
    │   ├── SourceError                 program text with errors                 .diagnostics .report
    │   └── EvaluationFailed            an expression without a value            .span
    ├── NotFound(LookupError)
    ├── AlreadyExists
    ├── StaleRecords                    records that a changed schema refuses     .count .records
    ├── Conflict                        it was changed by another writer         .expected .actual
    │   └── IdempotencyMismatch         one idempotency key, two different requests
    ├── EmbedderError                   what turns text into vectors
    │   ├── EmbedderMismatch            a collection was made with another one   .expected .actual
    │   └── EmbeddingFailed             it failed, or returned no valid vector   .retryable
    ├── ModelError                      a language model could not be asked
    │   ├── ModelUnavailable            no package, key or name for it
    │   └── ModelFailed                 it failed, was too slow, or gave nonsense  .retryable .reason
    ├── ActionFailed                    a task of a workflow could not be done   .type .task .action
    ├── RunFailed                       a machine or workflow gave no output     .run .type .step
    ├── NotInstalled                    the program of a run is not loaded here  .expected .actual
    ├── NotVerified                     stored state that its program did not write  .run
    ├── ScopeEnded                      a write to a session that is over
    ├── Refused                         the gate said no; the refusal is in the ledger
    │   ├── Denied                      no grant, or a denial                    .capability
    │   ├── Unauthenticated             no key or token, or one that is not valid
    │   ├── ApprovalRequired            waits for a decision                     .approval
    │   │   └── Held                    contested, or found suspicious           .cause .findings
    │   ├── Rejected                    a value that may not come back           .rejection .actor .at
    │   ├── StaleEpoch                  permissions changed since it was decided upon  .expected .actual
    │   └── QuotaExceeded               too much in one window                   .retry_after
    └── StorageError                    the disk or the database; .url
        ├── Busy                        locked by another writer; safe to retry
        ├── Full                        no space left
        ├── ReadOnly                    the file or its disk cannot be written
        ├── Corrupt                     the file is damaged
        ├── ForeignDatabase             a database, but not one of ours
        ├── Unavailable                 it cannot be opened or reached
        ├── Incomplete                  the target of a move that has not ended
        └── MigrationNeeded             written by a newer Memoranda             .found .wanted

A message says what happened, with the offending value in backticks; `.hint` says what to do, in Python's words, and
`.advice` is what other surfaces render in theirs. Codes are derived from the class names, so the wire, the docs and the
command line cannot disagree with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

# hints

Action = Literal[
    "approve",  # the approval `target`
    "command",  # run the command `target` of the command line
    "embedder",  # open the memory with the embedder of a collection
    "grant",  # the capability `target` to `actor` in `scope`
    "install",  # the extra `target`
    "list",  # what there is of `target`
    "load",  # the program with `target`: "actions", "machines", "model" or "workflows"
    "policy",  # widen the policy of the caller
    "python",  # what only Python can do: `target` is the sentence
    "read",  # the fact, before it is overwritten
    "set",  # the environment variable `target`
    "split",  # remember a long text in parts
    "withdraw",  # the rejection `target` in `scope`
]


class Hint(msgspec.Struct, frozen=True):
    """What to do about an error, as data: each surface says it in its own words, or leaves it out.

    >>> hint = Hint("list", "runs")
    >>> render_hint(hint, PYTHON_WORDS), render_hint(("Start another run", hint), NEUTRAL_WORDS)
    ('List them with memory.runs.list()', 'Start another run')
    """

    action: Action
    target: str = ""
    actor: str = ""
    scope: str = ""

    @property
    def place(self) -> str:
        """The scope as the end of a sentence; empty without one."""
        return f" in `{self.scope}`" if self.scope else ""


Advice: TypeAlias = "str | Hint | tuple[str | Hint, ...]"
"""A hint, or alternatives; text is for every surface."""
Words: TypeAlias = Mapping[Action, Callable[[Hint], str]]
"""How one surface says each action; what is not in it cannot be done there."""


def render_hint(advice: Advice, words: Words) -> str:
    """Return advice as one sentence of a surface, without the alternatives that it cannot offer."""
    alternatives = advice if isinstance(advice, tuple) else (advice,)
    said = [
        one if isinstance(one, str) else words[one.action](one) if one.action in words else "" for one in alternatives
    ]
    first, *others = [text for text in said if text] or [""]
    return ", or ".join((first, *(text[0].lower() + text[1:] for text in others)))


def _grant_in_python(hint: Hint) -> str:
    where = f", scope=memory.at({hint.scope!r}).scope" if hint.scope else ""
    return f"Grant it with memory.permissions.grant({hint.actor!r}, {hint.target!r}{where})"


_LOADED_IN_PYTHON = {
    "actions": "Pass actions=[…] or servers={…}, as for load",
    "machines": "Pass it as load(machines=[…])",
    "model": "Pass load(model=…)",
    "workflows": "Pass it as load(workflows=[…])",
}
_LOADED = {
    "actions": "Give it to the workflow when it is loaded (`--tools` on the command line)",
    "machines": "Load it together with the machine that calls it (`--machines` on the command line)",
    "model": "Name one when the machine is loaded (`--model` on the command line)",
    "workflows": "Load it together with the workflow that calls it (`--workflows` on the command line)",
}
_DECIDE = "An actor with approvals.decide may approve or refuse it"

NEUTRAL_WORDS: Words = {
    "approve": lambda _: _DECIDE,
    "command": lambda hint: f"Run `memoranda {hint.target}`",
    "embedder": lambda _: "Use the embedder that the collection was made with",
    "grant": lambda hint: f"Ask for a grant of `{hint.target}` to `{hint.actor}`{hint.place}",
    "install": lambda hint: f'Install it with `pip install "memoranda[{hint.target}]"`',
    "load": lambda hint: _LOADED[hint.target],
    "policy": lambda _: "Ask for a policy that allows it; a grant does not widen that",
    "read": lambda _: "Read it, and say that you know what it holds",
    "set": lambda hint: f"Set {hint.target} in the environment",
    "split": lambda _: "Remember it in parts with `chunk`",
    "withdraw": lambda hint: f"If it is right after all, withdraw the rejection `{hint.target}` and write it again",
}
"""Words that fit every surface, for what is stored and read later, such as the failure of a run."""

PYTHON_WORDS: Words = {
    **NEUTRAL_WORDS,
    "approve": lambda hint: f"{_DECIDE}: memory.approvals.approve({hint.target!r})",
    "embedder": lambda _: "Open it with embedder=…",
    "grant": _grant_in_python,
    "list": lambda hint: f"List them with memory.{hint.target}.list()",
    "load": lambda hint: _LOADED_IN_PYTHON[hint.target],
    "policy": lambda _: "Allow it in the policy that this handle was made with; a grant does not widen that",
    "python": lambda hint: hint.target,
    "split": lambda _: "Remember it in parts with remember(…, chunk=True)",
    "withdraw": lambda hint: (
        f"If it is right after all: withdraw({hint.target!r}) of{hint.place or ' the shared scope'}"
    ),
}

# errors


def _slug(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class MemorandaError(Exception):
    """Anything Memoranda raises on purpose: a message, what to do, and details to act on.

    >>> error = InvalidKey("the key cannot be used", hint="Write profile.language", value="a..b")
    >>> error.code, error.value, str(error)
    ('invalid_key', 'a..b', 'the key cannot be used. Write profile.language')
    """

    code: ClassVar[str] = "memoranda_error"

    def __init_subclass__(cls) -> None:
        """Give each class its stable code: `InvalidKey` is `invalid_key`."""
        cls.code = _slug(cls.__name__)

    def __init__(self, message: str, *, hint: Advice = "", **details: Any) -> None:
        """Keep the message, the hint, and each detail as an attribute of its own name."""
        super().__init__(message)
        self.message = message
        self.advice = hint
        """The hint as it was given, for other surfaces to render."""
        self.details = details

    @property
    def hint(self) -> str:
        """What to do, in Python's words."""
        return render_hint(self.advice, PYTHON_WORDS)

    def __str__(self) -> str:
        """Return what happened, then what to do."""
        return render_error(self, PYTHON_WORDS)

    def __getattr__(self, name: str) -> Any:
        """Return a detail: `error.limit`, `error.path`, `error.actual`."""
        details: dict[str, Any] = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its details."""
        return (_rebuild, (type(self), self.message, self.advice, self.details))


def render_error(error: MemorandaError, words: Words) -> str:
    """Return what happened, then what to do, in the words of a surface."""
    hint = render_hint(error.advice, words)
    return f"{error.message}. {hint}" if hint else error.message


def _rebuild(kind: type[MemorandaError], message: str, hint: Advice, details: dict[str, Any]) -> MemorandaError:
    return kind(message, hint=hint, **details)


class UsageError(MemorandaError, ValueError):
    """The call is wrong; nothing was changed."""


class InvalidScope(UsageError):
    """A tenant, kind or id that cannot name a memory."""


class InvalidKey(UsageError):
    """A key that cannot name a fact."""


class InvalidValue(UsageError):
    """A value that is not JSON; `.path` says where."""


class InvalidDuration(UsageError):
    """Text that is not a duration such as `30d`."""


class InvalidDefinition(UsageError):
    """A definition that cannot be used; `.path` says where it is wrong."""


class InvalidPolicy(UsageError):
    """A capability, level or access that does not exist."""


class InvalidFilter(UsageError):
    """A filter that cannot be applied; `.path` says where it is wrong."""


class InvalidInput(UsageError):
    """A variable that callers may not set, or a value of another type; `.inputs` are those they may set."""


class LimitExceeded(UsageError):
    """Something too large; `.limit` and `.actual` say by how much."""


class SchemaViolation(UsageError):
    """A value its definition refuses; `.path` and `.expected` say why."""


class SourceError(UsageError):
    """Program text that cannot be used; `.diagnostics` lists what is wrong with it, `.report` shows it."""


class EvaluationFailed(UsageError):
    """An expression has no value among these variables; `.span` says where in the source, if that is known."""


class NotFound(MemorandaError, LookupError):
    """Nothing by that name or id."""


class AlreadyExists(MemorandaError):
    """The name is taken."""


class StaleRecords(MemorandaError):
    """A change of a schema that stored records do not fit; `.count` says how many, `.records` which."""


class Conflict(MemorandaError):
    """The fact has another version than the caller expected."""


class IdempotencyMismatch(Conflict):
    """An idempotency key that was used before, for another request."""


class EmbedderError(MemorandaError):
    """Text could not be turned into vectors; nothing was stored."""


class EmbedderMismatch(EmbedderError):
    """A collection whose vectors were made by another embedder; `.expected` and `.actual` name both."""


class EmbeddingFailed(EmbedderError):
    """The embedder failed, was too slow, or returned no valid vector; `.retryable` says whether to try again."""


class ModelError(MemorandaError):
    """A language model could not be asked."""


class ModelUnavailable(ModelError):
    """No model can be asked: a package, a key or a known name is missing; the hint says which."""


class ModelFailed(ModelError):
    """The model failed, was too slow, or returned nothing usable; `.reason` and `.retryable` say more."""


class ActionFailed(MemorandaError):
    """An action of a workflow failed; `.type` says why (error, timeout, unreachable, ...), `.task` which task."""


class RunFailed(MemorandaError):
    """A machine or a workflow failed; `.type` and `.step` say why and where, `.run` is its run."""


class NotInstalled(MemorandaError):
    """The program of a run is not loaded here, or with another text; `.expected` and `.actual` are the digests."""


class NotVerified(MemorandaError):
    """A run or a session whose stored state is not what its program wrote, according to the ledger."""


class ScopeEnded(MemorandaError):
    """A write to a session that is over."""


class Refused(MemorandaError):
    """The gate refused the effect; the refusal is in the ledger."""


class Denied(Refused):
    """No grant covers the effect, or a denial does."""


class StaleEpoch(Refused):
    """Permissions changed after the write was decided upon; `.expected` and `.actual` are the epochs."""


class Unauthenticated(Refused):
    """The caller is unknown: the key or token is missing, unknown, expired or revoked."""


class ApprovalRequired(Refused):
    """The effect waits for a decision; `.approval` is its id."""


class Held(ApprovalRequired):
    """The write is not visible until it is released: it contradicts something more trusted, or looks suspicious."""


class Rejected(Refused):
    """The value was rejected here and may not come back; `.rejection` is the id of what says so."""


class QuotaExceeded(Refused):
    """Too many writes or bytes in one window; `.retry_after` is in seconds."""


class StorageError(MemorandaError):
    """The disk or the database failed; nothing of the write was stored."""


class Busy(StorageError):
    """Another writer held the database for longer than we wait; safe to retry."""


class Full(StorageError):
    """No space left."""


class ReadOnly(StorageError):
    """The file or its disk cannot be written."""


class Corrupt(StorageError):
    """The database file is damaged."""


class ForeignDatabase(StorageError):
    """A database that some other program wrote."""


class Unavailable(StorageError):
    """The database cannot be opened or reached."""


class Incomplete(StorageError):
    """The target of a move that has not ended: moving there again goes on where it stopped."""


class MigrationNeeded(StorageError):
    """A database written by a newer Memoranda than this one."""
