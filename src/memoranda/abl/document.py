"""What an ABL file says, as values: the tree that the parser gives and that checker, compiler and runtime read.

Conditions, expressions and templates stay `Raw` text that knows where it stands; they are compiled later. Where a
thing was written is no part of what it says: two documents are equal when they say the same, whatever their layout.
"""

from __future__ import annotations

from typing import Literal

from memoranda.abl.tree import Line, Node, Raw

DocumentKind = Literal["agent", "supervisor", "behavior_profile", "tools", "fragment"]
TargetKind = Literal["step", "complete", "escalate", "handoff", "continue", "retry", "backtrack"]
Access = Literal["read", "write", "readwrite"]
MemoryScope = Literal["user", "project", "execution_tree"]

PREFIXES: dict[str, MemoryScope] = {"user": "user", "project": "project", "workflow": "execution_tree"}
"""What a path may begin with to say whose fact it is."""


def scope_of(path: str) -> MemoryScope:
    """Return whose a path is by how it begins; the user's, where it does not say."""
    return PREFIXES.get(path.partition(".")[0], "user")


class Argument(Node, frozen=True):
    """A name and the expression it gets: of `WITH`, `MAP`, `INPUT`, a message, a header."""

    name: Raw
    value: Raw


# --- memory -----------------------------------------------------------------------------------------------------


class SessionVariable(Node, frozen=True):
    """A variable of one conversation."""

    name: Raw
    type: str | None = None
    description: Raw | None = None
    initial: Raw | None = None
    reset: str = "per_session"
    input: bool = False
    """Whether a caller may set it."""


class PersistentVariable(Node, frozen=True):
    """A fact that outlives the session, under a dotted path."""

    path: Raw
    declared_scope: MemoryScope | None = None
    access: Access = "readwrite"
    type: str | None = None
    unit: Raw | None = None
    default: Raw | None = None
    description: Raw | None = None
    sensitive: bool = False
    kept: tuple[Line, ...] = ()

    @property
    def scope(self) -> MemoryScope:
        """Whose fact it is: as declared, else what the path begins with, else the user's."""
        return self.declared_scope or scope_of(self.path.text)


class Remember(Node, frozen=True):
    """A trigger: when the condition holds after a turn, the value goes to the target."""

    when: Raw
    value: Raw
    target: Raw
    ttl: Raw | None = None


class Recall(Node, frozen=True):
    """What to load, or to tell the model, at an event."""

    on: Raw
    action: str | None = None
    instruction: Raw | None = None
    paths: tuple[Raw, ...] = ()
    domain: Raw | None = None

    @property
    def does(self) -> str | None:
        """What happens at the event: as declared, else what its properties are for; None when they say nothing."""
        if self.action is not None:
            return self.action
        if self.instruction is not None:
            return "prompt_llm"
        if self.paths:
            return "inject_context"
        return "load_memory" if self.domain is not None else None


class Memory(Node, frozen=True):
    """The `MEMORY` section."""

    session: tuple[SessionVariable, ...] = ()
    persistent: tuple[PersistentVariable, ...] = ()
    remember: tuple[Remember, ...] = ()
    recall: tuple[Recall, ...] = ()


# --- constraints ------------------------------------------------------------------------------------------------


class Before(Node, frozen=True):
    """The checkpoint of a rule: before a tool is called, before results are returned, or text without effect."""

    kind: Literal["calling", "returning", "other"]
    target: Raw


class Failure(Node, frozen=True):
    """What a broken rule does: a message, a handoff, an escalation, a silent block, or several of these."""

    form: Literal["respond", "handoff", "escalate", "block", "structured"]
    respond: Raw | None = None
    handoff: Raw | None = None
    collect: tuple[Raw, ...] = ()
    goto: Raw | None = None
    retry: bool = False
    then: str | None = None


class Rule(Node, frozen=True):
    """One constraint: `REQUIRE`, `LIMIT`, `RESTRICT` or `WARN`, and a condition."""

    keyword: str
    condition: Raw
    severity: Literal["error", "warning"] = "error"
    before: Before | None = None
    when: Raw | None = None
    on_fail: Failure | None = None


class Phase(Node, frozen=True):
    """Rules below one label; the label is only a name. `remarks` are items that are no rules and have no effect."""

    label: Raw | None
    rules: tuple[Rule, ...] = ()
    remarks: tuple[Raw, ...] = ()


# --- actions ----------------------------------------------------------------------------------------------------


class Target(Node, frozen=True):
    """Where to go. `name` is the step or agent; a word such as `COMPLETE` may be the name of a step too, which wins."""

    kind: TargetKind
    name: Raw
    reason: Raw | None = None


class Assignment(Node, frozen=True):
    """`target = expression`."""

    target: Raw
    value: Raw


class Set(Node, frozen=True):
    """Assignments from top to bottom, each seeing those before it."""

    assignments: tuple[Assignment, ...]


class Clear(Node, frozen=True):
    """Variables that become undefined."""

    names: tuple[Raw, ...]


class Transform(Node, frozen=True):
    """An array through filter, map, sort and limit into a new one."""

    source: Raw
    item: Raw
    into: Raw
    filter: Raw | None = None
    map: tuple[Argument, ...] = ()
    sort_by: Raw | None = None
    descending: bool = False
    limit: Raw | None = None


class Branch(Node, frozen=True):
    """Actions and a transition under a condition; without a condition it is `ELSE`, or the whole block."""

    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    then: Target | None = None


class Call(Node, frozen=True):
    """A tool call; arguments by position or by name, and what follows its outcome."""

    tool: Raw
    positional: tuple[Raw, ...] = ()
    named: tuple[Argument, ...] = ()
    result: Raw | None = None
    on_success: tuple[Branch, ...] = ()
    on_fail: tuple[Branch, ...] = ()
    on_result: tuple[Branch, ...] = ()


class Check(Node, frozen=True):
    """A condition that must hold for the step to go on."""

    condition: Raw
    on_fail: tuple[Branch, ...] = ()


class Respond(Node, frozen=True):
    """A message to the user: a template, or with `named` the name of one of the agent's templates."""

    text: Raw
    named: bool = False


class Present(Node, frozen=True):
    """A message shown before the question of a gather."""

    text: Raw


class Field(Node, frozen=True):
    """A value to collect from the user."""

    name: Raw
    required: bool = True
    prompt: Raw | None = None
    type: Raw | None = None
    default: Raw | None = None
    validation: Raw | None = None
    validate: tuple[Argument, ...] = ()
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


class Gather(Node, frozen=True):
    """The fields to collect, and how."""

    fields: tuple[Field, ...]
    strategy: str | None = None
    kept: tuple[Line, ...] = ()


class Consult(Node, frozen=True):
    """`DELEGATE` as an action: another agent is asked and control returns."""

    agent: Raw


class Interruption(Node, frozen=True):
    """An intent that is answered beside the step: a sub-intent or a digression."""

    intent: Raw
    keywords: tuple[Raw, ...] = ()
    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    resume: bool = False
    goto: Target | None = None


class ActionHandler(Node, frozen=True):
    """What follows a button or form that the user acted on."""

    action: Raw
    condition: Raw | None = None
    body: tuple[Action, ...] = ()
    then: Target | None = None


class ErrorHandler(Node, frozen=True):
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


class Step(Node, frozen=True):
    """A step of the flow; `body` holds its actions in the order in which they are declared."""

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
    kept: tuple[Line, ...] = ()


class Flow(Node, frozen=True):
    """The `FLOW` section. `order` is the list or arrow line of step names, if there is one."""

    steps: tuple[Step, ...]
    entry_point: Raw | None = None
    order: tuple[Raw, ...] = ()
    global_digressions: tuple[Interruption, ...] = ()
    kept: tuple[Line, ...] = ()

    @property
    def entry(self) -> str | None:
        """The step to begin with: as declared, else the first of the order, else the first that stands there."""
        first = self.entry_point or next(iter(self.order), None)
        return first.text if first else next((step.name.text for step in self.steps), None)


Action = Set | Clear | Transform | Call | Check | Respond | Present | Gather | Consult


# --- tools ------------------------------------------------------------------------------------------------------


class Parameter(Node, frozen=True):
    """A parameter of a tool; one without a default is required."""

    name: Raw
    type: Raw | None = None
    default: Raw | None = None
    required: bool = True


class Tool(Node, frozen=True):
    """A tool: its signature, and how it is reached."""

    name: Raw
    parameters: tuple[Parameter, ...] = ()
    returns: Raw | None = None
    description: Raw | None = None
    type: str | None = None
    endpoint: Raw | None = None
    method: str | None = None
    headers: tuple[Argument, ...] = ()
    query_params: tuple[Argument, ...] = ()
    body: Raw | None = None
    timeout: int | None = None
    retry: int = 0
    retry_delay: int | None = None
    kept: tuple[Line, ...] = ()


# --- other agents, people, and the end --------------------------------------------------------------------------


class Grant(Node, frozen=True):
    """A path of the memory that the next agent may use."""

    path: Raw
    access: Access = "read"


class Context(Node, frozen=True):
    """What another agent is told: values, a summary, the history, grants on memory."""

    values: tuple[Raw, ...] = ()
    summary: Raw | None = None
    history: Raw | None = None
    history_count: int | None = None
    memory_grants: tuple[Grant, ...] = ()
    set: tuple[Argument, ...] = ()
    kept: tuple[Line, ...] = ()


class OnReturn(Node, frozen=True):
    """What follows when control comes back: continue, take up the intent, or a named handler."""

    action: str | None = None
    handler: Raw | None = None
    map: tuple[Argument, ...] = ()
    set: tuple[Argument, ...] = ()
    resume_with: str | None = None


class Handoff(Node, frozen=True):
    """Another agent takes over."""

    to: Raw
    when: Raw | None = None
    priority: int | None = None
    context: Context | None = None
    returns: bool = False
    on_return: OnReturn | None = None
    on_failure: Raw | None = None
    kept: tuple[Line, ...] = ()


class Delegate(Node, frozen=True):
    """Another agent does a part of the work and gives its result back."""

    agent: Raw
    when: Raw | None = None
    purpose: Raw | None = None
    input: tuple[Argument, ...] = ()
    returns: tuple[Argument, ...] = ()
    use_result: Raw | None = None
    timeout: Raw | None = None
    on_failure: Raw | None = None
    kept: tuple[Line, ...] = ()


class Trigger(Node, frozen=True):
    """When a person is called, and why."""

    when: Raw
    reason: Raw | None = None
    priority: str | None = None
    tags: tuple[Raw, ...] = ()


class Escalate(Node, frozen=True):
    """The `ESCALATE` section."""

    triggers: tuple[Trigger, ...] = ()
    context_for_human: tuple[Raw, ...] = ()
    kept: tuple[Line, ...] = ()


class Complete(Node, frozen=True):
    """When the agent is done, what it says, and what it stores."""

    when: Raw
    respond: Raw | None = None
    store_value: Raw | None = None
    store_target: Raw | None = None
    kept: tuple[Line, ...] = ()


# --- the life of a session --------------------------------------------------------------------------------------


class Handler(Node, frozen=True):
    """Actions at a point of the session: `ON_START`, a hook, a return handler."""

    name: Raw
    body: tuple[Action, ...] = ()
    branches: tuple[Branch, ...] = ()
    then: Target | None = None
    critical: bool = False
    resume_intent: bool = False
    kept: tuple[Line, ...] = ()


class NamedTemplate(Node, frozen=True):
    """A template by name: its text, and what else is kept for channels that are not run here."""

    name: Raw
    text: Raw | None = None
    kept: tuple[Line, ...] = ()


class Identity(Node, frozen=True):
    """Who the agent is, as one block."""

    role: Raw | None = None
    persona: Raw | None = None
    expertise: tuple[Raw, ...] = ()
    limitations: tuple[Raw, ...] = ()


class Document(Node, frozen=True):
    """A whole file. `body` holds the actions of a fragment that is no section; `kept` what is not acted on."""

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
