"""The document model: the tree that the parser builds and that checker, compiler and runtime read.

Conditions, expressions and templates stay `Raw` text with its place and are compiled later. Positions do not count in
comparisons: two documents are equal if they have the same content, whatever their layout.
"""

from __future__ import annotations

from typing import Literal

from memoranda.abl.lines import Line
from memoranda.lang.document import Raw, SourceNode

DocumentKind = Literal["agent", "supervisor", "behavior_profile", "tools", "fragment"]
TargetKind = Literal["step", "complete", "escalate", "handoff", "continue", "retry", "backtrack"]
Access = Literal["read", "write", "readwrite"]
MemoryScope = Literal["user", "project", "execution_tree"]

PREFIXES: dict[str, MemoryScope] = {"user": "user", "project": "project", "workflow": "execution_tree"}
"""The prefixes of paths, with the scopes they mean."""


def scope_of(path: str) -> MemoryScope:
    """Return the scope of a path by its prefix; the user's without one."""
    return PREFIXES.get(path.partition(".")[0], "user")


class Argument(SourceNode, frozen=True):
    """A name and its expression, in `WITH`, `MAP`, `INPUT`, a message or a header."""

    name: Raw
    value: Raw


# --- memory -----------------------------------------------------------------------------------------------------


class SessionVariable(SourceNode, frozen=True):
    """A variable of one conversation."""

    name: Raw
    type: str | None = None
    description: Raw | None = None
    initial: Raw | None = None
    reset: str = "per_session"
    input: bool = False
    """Whether a caller may set it."""


class PersistentVariable(SourceNode, frozen=True):
    """A fact that outlives the session, under a dotted path."""

    path: Raw
    declared_scope: MemoryScope | None = None
    access: Access = "readwrite"
    type: str | None = None
    unit: Raw | None = None
    default: Raw | None = None
    description: Raw | None = None
    sensitive: bool = False
    display: str | None = None
    mask: tuple[Argument, ...] = ()

    @property
    def scope(self) -> MemoryScope:
        """The declared scope, else that of the prefix, else the user's."""
        return self.declared_scope or scope_of(self.path.text)


class Remember(SourceNode, frozen=True):
    """A trigger: when the condition is true after a turn, the value is stored at the target."""

    when: Raw
    value: Raw
    target: Raw
    ttl: Raw | None = None


class Recall(SourceNode, frozen=True):
    """What to load, or to instruct the model, at an event."""

    on: Raw
    action: str | None = None
    instruction: Raw | None = None
    paths: tuple[Raw, ...] = ()
    domain: Raw | None = None

    @property
    def does(self) -> str | None:
        """The declared action, else the one that its properties imply; None without any."""
        if self.action is not None:
            return self.action
        if self.instruction is not None:
            return "prompt_llm"
        if self.paths:
            return "inject_context"
        return "load_memory" if self.domain is not None else None


class Memory(SourceNode, frozen=True):
    """The `MEMORY` section."""

    session: tuple[SessionVariable, ...] = ()
    persistent: tuple[PersistentVariable, ...] = ()
    remember: tuple[Remember, ...] = ()
    recall: tuple[Recall, ...] = ()


# --- constraints ------------------------------------------------------------------------------------------------


class Before(SourceNode, frozen=True):
    """The checkpoint of a rule: before calling a tool, before returning results, or text without effect."""

    kind: Literal["calling", "returning", "other"]
    target: Raw


class OnFail(SourceNode, frozen=True):
    """The effect of a broken rule: a message, a handoff, an escalation, a silent block, or several of these."""

    form: Literal["respond", "handoff", "escalate", "block", "structured"]
    respond: Raw | None = None
    handoff: Raw | None = None
    collect: tuple[Raw, ...] = ()
    goto: Raw | None = None
    retry: bool = False
    then: str | None = None
    reason: Raw | None = None
    """Why a person is called."""


class Rule(SourceNode, frozen=True):
    """One constraint: `REQUIRE`, `LIMIT`, `RESTRICT` or `WARN`, and a condition."""

    keyword: str
    condition: Raw
    severity: Literal["error", "warning"] = "error"
    before: Before | None = None
    when: Raw | None = None
    on_fail: OnFail | None = None


class Phase(SourceNode, frozen=True):
    """Rules below a label, which is only a name. `remarks` are items that are not rules and have no effect."""

    label: Raw | None
    rules: tuple[Rule, ...] = ()
    remarks: tuple[Raw, ...] = ()


# --- actions ----------------------------------------------------------------------------------------------------


class Target(SourceNode, frozen=True):
    """A transition to a step or agent. A step named like a keyword such as `COMPLETE` takes precedence."""

    kind: TargetKind
    name: Raw
    reason: Raw | None = None


class Assignment(SourceNode, frozen=True):
    """`target = expression`."""

    target: Raw
    value: Raw


class Set(SourceNode, frozen=True):
    """Assignments in order, each seeing those before it."""

    assignments: tuple[Assignment, ...]


class Clear(SourceNode, frozen=True):
    """Variables to make undefined."""

    names: tuple[Raw, ...]


class Transform(SourceNode, frozen=True):
    """An array filtered, mapped, sorted and limited into a new one."""

    source: Raw
    item: Raw
    into: Raw
    filter: Raw | None = None
    map: tuple[Argument, ...] = ()
    sort_by: Raw | None = None
    descending: bool = False
    limit: Raw | None = None


class Branch(SourceNode, frozen=True):
    """Actions and a transition under a condition; without a condition it is `ELSE`, or the whole block."""

    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    then: Target | None = None


class Call(SourceNode, frozen=True):
    """A tool call: arguments by position or by name, and branches for its outcome."""

    tool: Raw
    positional: tuple[Raw, ...] = ()
    named: tuple[Argument, ...] = ()
    result: Raw | None = None
    on_success: tuple[Branch, ...] = ()
    on_fail: tuple[Branch, ...] = ()
    on_result: tuple[Branch, ...] = ()


class Check(SourceNode, frozen=True):
    """A condition that must be true for the step to continue."""

    condition: Raw
    on_fail: tuple[Branch, ...] = ()


class Choice(SourceNode, frozen=True):
    """A button, or an option of a list, that is shown below a message."""

    label: Raw
    id: Raw | None = None
    value: Raw | None = None


class Respond(SourceNode, frozen=True):
    """A message to the user: a template, or with `named` the name of one of the agent's templates."""

    text: Raw
    named: bool = False
    choices: tuple[Choice, ...] = ()


class Log(SourceNode, frozen=True):
    """An entry for the trace: a text, or the names of variables."""

    text: Raw | None = None
    names: tuple[Raw, ...] = ()


class Present(SourceNode, frozen=True):
    """A message shown before the question of a gather."""

    text: Raw


class Field(SourceNode, frozen=True):
    """A value to collect from the user."""

    name: Raw
    required: bool = True
    prompt: Raw | None = None
    type: Raw | None = None
    default: Raw | None = None
    validation: Raw | None = None
    """A condition, or a sentence that only a model can judge."""
    pattern: Raw | None = None
    """A regular expression that the value must match."""
    validate: tuple[Argument, ...] = ()
    retry_prompt: Raw | None = None
    sensitive: bool = False
    display: str | None = None
    mask: tuple[Argument, ...] = ()
    description: Raw | None = None
    options: tuple[Raw, ...] = ()
    hints: tuple[Raw, ...] = ()
    depends_on: tuple[Raw, ...] = ()
    activation: Raw | None = None
    active_when: Raw | None = None
    infer: bool = False
    infer_confidence: Raw | None = None
    infer_confirm: bool = True
    range: bool = False
    list: bool = False
    prompt_mode: str = "ask"
    kept: tuple[Line, ...] = ()


class Gather(SourceNode, frozen=True):
    """The fields to collect, and how."""

    fields: tuple[Field, ...]
    strategy: str | None = None
    kept: tuple[Line, ...] = ()


class Consult(SourceNode, frozen=True):
    """`DELEGATE` as an action: another agent is called and control returns."""

    agent: Raw


class Interruption(SourceNode, frozen=True):
    """An intent that interrupts a step: a sub-intent or a digression."""

    intent: Raw
    keywords: tuple[Raw, ...] = ()
    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    resume: bool = False
    goto: Target | None = None


class ActionHandler(SourceNode, frozen=True):
    """What follows a button or form that the user acted on."""

    action: Raw
    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    then: Target | None = None


class ErrorHandler(SourceNode, frozen=True):
    """What follows an error of one type."""

    type: Raw
    subtypes: tuple[Raw, ...] = ()
    body: tuple[Action, ...] = ()
    retry: int = 0
    retry_delay: int | None = None
    retry_backoff: str | None = None
    retry_max_delay: int | None = None
    then: Target | None = None
    backtrack_to: Raw | None = None
    kept: tuple[Line, ...] = ()


class Step(SourceNode, frozen=True):
    """A step of the flow; `body` contains its actions in order."""

    name: Raw
    reasoning: bool | None = None
    when: Raw | None = None
    body: tuple[Action, ...] = ()
    complete_when: Raw | None = None
    corrections: bool = False
    on_input: tuple[Branch, ...] = ()
    on_action: tuple[ActionHandler, ...] = ()
    sub_intents: tuple[Interruption, ...] = ()
    digressions: tuple[Interruption, ...] = ()
    on_error: tuple[ErrorHandler, ...] = ()
    then: tuple[Branch, ...] = ()
    max_attempts: int | None = None
    on_exhausted: Target | None = None
    goal: Raw | None = None
    available_tools: tuple[Raw, ...] = ()
    exit_when: Raw | None = None
    max_turns: int | None = None
    step_constraints: tuple[Raw, ...] = ()
    instructions: Raw | None = None
    kept: tuple[Line, ...] = ()


class Flow(SourceNode, frozen=True):
    """The `FLOW` section. `order` is the list or arrow line of step names, if there is one."""

    steps: tuple[Step, ...]
    entry_point: Raw | None = None
    order: tuple[Raw, ...] = ()
    global_digressions: tuple[Interruption, ...] = ()
    kept: tuple[Line, ...] = ()

    @property
    def entry(self) -> str | None:
        """The first step: as declared, else the first of the order, else the first in the file."""
        first = self.entry_point or next(iter(self.order), None)
        return first.text if first else next((step.name.text for step in self.steps), None)


Action = Set | Clear | Transform | Call | Check | Respond | Log | Present | Gather | Consult


# --- tools ------------------------------------------------------------------------------------------------------


class ToolParameter(SourceNode, frozen=True):
    """A parameter of a tool; one without a default is required."""

    name: Raw
    type: Raw | None = None
    default: Raw | None = None
    required: bool = True


class Tool(SourceNode, frozen=True):
    """A tool: its signature, and how to call it."""

    name: Raw
    parameters: tuple[ToolParameter, ...] = ()
    returns: Raw | None = None
    description: Raw | None = None
    type: str | None = None
    endpoint: Raw | None = None
    method: str | None = None
    headers: tuple[Argument, ...] = ()
    auth: str | None = None
    auth_config: tuple[Argument, ...] = ()
    query_params: tuple[Argument, ...] = ()
    body: Raw | None = None
    timeout: int | None = None
    retry: int = 0
    retry_delay: int | None = None
    kept: tuple[Line, ...] = ()


# --- other agents, people, and the end --------------------------------------------------------------------------


class Grant(SourceNode, frozen=True):
    """A path of the memory that another agent may use."""

    path: Raw
    access: Access = "read"


class Context(SourceNode, frozen=True):
    """The context for another agent: values, a summary, the history, grants on memory."""

    values: tuple[Raw, ...] = ()
    summary: Raw | None = None
    history: Raw | None = None
    history_count: int | None = None
    memory_grants: tuple[Grant, ...] = ()
    set: tuple[Argument, ...] = ()
    kept: tuple[Line, ...] = ()


class OnReturn(SourceNode, frozen=True):
    """What follows when control returns: continue, resume the intent, or a named handler."""

    action: str | None = None
    handler: Raw | None = None
    map: tuple[Argument, ...] = ()
    set: tuple[Argument, ...] = ()
    resume_with: str | None = None


class Handoff(SourceNode, frozen=True):
    """Another agent takes over."""

    to: Raw
    when: Raw | None = None
    priority: int | None = None
    context: Context | None = None
    returns: bool = False
    on_return: OnReturn | None = None
    on_failure: Raw | None = None
    kept: tuple[Line, ...] = ()


class Delegate(SourceNode, frozen=True):
    """Another agent does a part of the work and returns its result."""

    agent: Raw
    when: Raw | None = None
    purpose: Raw | None = None
    input: tuple[Argument, ...] = ()
    returns: tuple[Argument, ...] = ()
    use_result: Raw | None = None
    timeout: Raw | None = None
    on_failure: Raw | None = None
    failure_message: Raw | None = None
    retries: int = 1
    kept: tuple[Line, ...] = ()


class Trigger(SourceNode, frozen=True):
    """When a person is called, and why."""

    when: Raw
    reason: Raw | None = None
    priority: str | None = None
    tags: tuple[Raw, ...] = ()


class Escalate(SourceNode, frozen=True):
    """The `ESCALATE` section."""

    triggers: tuple[Trigger, ...] = ()
    context_for_human: tuple[Raw, ...] = ()
    kept: tuple[Line, ...] = ()


class Complete(SourceNode, frozen=True):
    """When the agent is done, how it responds, and what it stores."""

    when: Raw
    respond: Raw | None = None
    store_value: Raw | None = None
    store_target: Raw | None = None
    kept: tuple[Line, ...] = ()


# --- the life of a session --------------------------------------------------------------------------------------


class Handler(SourceNode, frozen=True):
    """Actions at a point of the session: `ON_START`, a hook, a return handler."""

    name: Raw
    body: tuple[Action, ...] = ()
    branches: tuple[Branch, ...] = ()
    then: Target | None = None
    critical: bool = False
    resume_intent: bool = False
    kept: tuple[Line, ...] = ()


class NamedTemplate(SourceNode, frozen=True):
    """A template by name: its text, and the formats for channels that are not supported here."""

    name: Raw
    text: Raw | None = None
    kept: tuple[Line, ...] = ()


class Identity(SourceNode, frozen=True):
    """Who the agent is, as one block."""

    role: Raw | None = None
    persona: Raw | None = None
    expertise: tuple[Raw, ...] = ()
    limitations: tuple[Raw, ...] = ()


class Document(SourceNode, frozen=True):
    """A whole file. `body` contains loose actions of a fragment; `kept` is what has no effect here."""

    kind: DocumentKind
    name: Raw | None = None
    version: str = "1.0.0"
    description: Raw | None = None
    language: Raw | None = None
    goal: Raw | None = None
    persona: Raw | None = None
    limitations: tuple[Raw, ...] = ()
    identity: Identity | None = None
    instructions: Raw | None = None
    system_prompt: Raw | None = None
    memory: Memory | None = None
    constraints: tuple[Phase, ...] = ()
    gather: Gather | None = None
    tools: tuple[Tool, ...] = ()
    flow: Flow | None = None
    handoffs: tuple[Handoff, ...] = ()
    delegates: tuple[Delegate, ...] = ()
    return_handlers: tuple[Handler, ...] = ()
    escalate: Escalate | None = None
    completes: tuple[Complete, ...] = ()
    on_start: Handler | None = None
    hooks: tuple[Handler, ...] = ()
    on_error: tuple[ErrorHandler, ...] = ()
    messages: tuple[Argument, ...] = ()
    templates: tuple[NamedTemplate, ...] = ()
    body: Step | None = None
    kept: tuple[Line, ...] = ()
    peers: tuple[Document, ...] = ()
    """The other agents of the same file."""
