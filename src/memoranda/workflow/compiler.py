"""Compile the text of a workflow to a plan: parse, check, and compile every expression once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from memoranda.agent.models import Model
from memoranda.engine.validator import Validator
from memoranda.errors import Hint, UsageError
from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.lang.egress import LOCAL_EGRESS, EgressPolicy
from memoranda.lang.source import Source, digest_of
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs import program
from memoranda.runs.records import BlockBinding
from memoranda.workflow.actions.base import Action, Call, find_action
from memoranda.workflow.actions.builtin import BUILTIN, installed_actions
from memoranda.workflow.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.workflow.checker.check import check_source
from memoranda.workflow.document import (
    Block,
    Conditional,
    Definition,
    Do,
    Document,
    Expression,
    Fields,
    Loop,
    Scalar,
    Value,
    plain,
)
from memoranda.workflow.expressions import Programs, Template
from memoranda.workflow.parser import Reading
from memoranda.workflow.runtime.plan import ModelChoice, Plan, Task, ToolUse, Use, policy_of

_PROVIDER, _MODEL = "openai", "gpt-5.2"
"""The default provider and model."""


class _Compiler:
    def __init__(
        self,
        document: Document,
        programs: Programs,
        actions: Mapping[str, Action],
        servers: Mapping[str, Iterable[Action]],
    ) -> None:
        self.document = document
        self.programs = programs
        self.actions = actions
        self.servers = servers
        self.defs = {one.name.text: one for one in document.defs}
        self.tasks: dict[str, Task] = {}
        self.templates: dict[str, Template] = {}

    def plan(self, name: str, source: Source) -> Plan:
        document = self.document
        schema = cast("dict[str, Any] | None", plain(document.schema))
        self._add_template(document.context)
        self._add_template(document.outputs)
        self._add_steps(document.flow)
        memories = [_memory(one) for one in self.defs.values() if one.is_a("memory")]
        return Plan(
            name=name,
            source=source.text,
            digest=digest_of(source.text),
            document=document,
            schema=schema,
            validator=None if schema is None else Validator(schema),
            tasks=self.tasks,
            templates=self.templates,
            definition_ids=tuple(dict.fromkeys(one for one in memories if isinstance(one, str))),
            blocks=tuple(one for one in memories if isinstance(one, BlockBinding)),
        )

    def _add_template(self, value: Value | None) -> None:
        if value is not None:
            self.templates[value.path] = self._template(value)

    def _template(self, value: Value) -> Template:
        return Template(value, self.programs.program)

    def _add_steps(self, block: Block) -> None:
        for step in block:
            if isinstance(step, Do):
                self._add_task(step.task.text)
            elif isinstance(step, Conditional):
                for branch in step.branches:
                    self._add_template(branch.condition)
                    self._add_steps(branch.steps)
            else:
                if isinstance(step, Loop):
                    accumulate = step.accumulate
                    merged = (accumulate.initial, accumulate.merge) if accumulate else ()
                    for value in (step.items, step.test, step.until, *merged):
                        self._add_template(value)
                self._add_steps(step.steps)

    def _add_task(self, name: str) -> None:
        if name not in self.tasks:
            one = self.defs[name]
            self.tasks[name] = Task(
                name=name,
                use=self._use(one),
                inputs=self._template(one.inputs or _nothing(one)),
                policy=policy_of(self.document.defaults, one.settings),
            )

    def _use(self, one: Definition) -> Use:
        assert one.action is not None, "the checker requires it"
        action = find_action(self.actions, one.action.text)
        bound = {binding.kind.text: [self.defs[name.text] for name in binding.names] for binding in one.bindings}
        models = [_model(model) for model in bound.get("model", ())]
        tools = [self._tool(tool) for tool in bound.get("tools", ())]
        served = [tool for server in bound.get("mcp", ()) for tool in self._server_tools(server)]
        return Use(
            action=action,
            settings=self._template(self._settings(one, action)),
            model=models[0] if models else None,
            memories=tuple(_memory(memory) for memory in bound.get("memory", ())),
            tools=(*tools, *served),
        )

    def _settings(self, one: Definition, action: Action) -> Fields:
        """Return the settings of a task: its own, and those defaults that its action accepts."""
        own = one.own_settings
        everywhere = self.document.defaults.others if self.document.defaults else None
        known = cast("dict[str, Any]", action.settings.get("properties", {}))
        given = [
            entry
            for entry in (everywhere.entries if everywhere else ())
            if entry.key.text in known and own.find(entry.key.text) is None
        ]
        return Fields(entries=(*given, *own.entries), span=own.span, path=own.path)

    def _tool(self, one: Definition) -> ToolUse:
        use = self._use(one)
        description = one.description.text if one.description else use.action.description
        return ToolUse(name=one.name.text, description=description, call=use)

    def _server_tools(self, server: Definition) -> list[ToolUse]:
        """Return the tools of a server, which have to be passed to `load`."""
        name = server.name.text
        if name not in self.servers:
            raise UsageError(
                f"the tools of the server {quote(name)} are bound, but were not given",
                hint=Hint("python", f"Pass them as actions: load(…, servers={{'{name}': […]}})"),
                value=name,
            )
        return [
            ToolUse(
                name=one.name, description=one.description, call=Use(action=one, settings=Template(_nothing(server)))
            )
            for one in self.servers[name]
        ]


def _nothing(one: Definition) -> Fields:
    return Fields(span=one.name.span, path=one.path)


def _memory(one: Definition) -> str | BlockBinding:
    """Return the id of a memory definition, or the block that is bound."""
    settings = cast("dict[str, Any]", plain(one.own_settings))
    if "block" not in settings:
        return _setting(one, "definition_id") or ""
    return BlockBinding(slug=one.name.text, **settings)


def _model(one: Definition) -> ModelChoice:
    provider, model = _setting(one, "provider") or _PROVIDER, _setting(one, "model_id") or _MODEL
    return ModelChoice(
        name=f"{provider}:{model}",
        base_url=_setting(one, "base_url"),
        credential=_setting(one, "api_key"),
        organization=_setting(one, "organization"),
    )


def _setting(one: Definition, name: str) -> str | None:
    """Return a setting that is read before a run."""
    entry = one.own_settings.find(name)
    if entry is None:
        return None
    if isinstance(entry.value, Expression):
        raise UsageError(
            f"`{entry.path}` is computed, and it is read before there is anything to compute with",
            hint="Write it as it is",
            value=name,
        )
    value = entry.value.value if isinstance(entry.value, Scalar) else None
    return value if isinstance(value, str) and value else None


class Kit(program.Kit, frozen=True, kw_only=True):
    """What a workflow is loaded with besides its text."""

    actions: Mapping[str, Action] = {}
    """Actions in addition to the built-in and installed ones."""
    servers: Mapping[str, tuple[Action, ...]] = {}
    model: Model | None = None
    """Replaces the models that the text names."""
    credentials: Mapping[str, str] = {}
    behaviour: Behaviour = DEFAULT_BEHAVIOUR
    egress: EgressPolicy = LOCAL_EGRESS
    """Where requests may go."""

    def __repr__(self) -> str:
        """Return a summary without values: some are secret."""
        return f"<Kit with {len(self.actions)} actions and {len(self.credentials)} credentials>"


def compile_workflow(
    text: str, file: str, kit: Kit, *, name: str | None, only_to_look: bool = False
) -> program.Compiled[Plan]:
    """Compile a workflow; raise a SourceError that lists all errors.

    With `only_to_look`, actions and servers may be missing: the workflow can show its runs, but not run.
    """
    reading, programs, diagnostics, known = look(text, file, kit.actions, looking_only=only_to_look)
    absent: dict[str, Action] = {}
    servers = kit.servers
    if only_to_look:
        absent, servers = _placeholders(reading.document, known, servers)
    else:
        diagnostics = tuple(_strict(one) for one in diagnostics)
    if any(one.severity == "error" for one in diagnostics):
        raise source_error(reading.source, diagnostics)
    called = name if name is not None else name_of(file)
    Scope.of(workflow=called)  # refuses what cannot be the name of a scope
    plan = _Compiler(reading.document, programs, {**known, **absent}, servers).plan(called, reading.source)
    missing = (*absent, *(server for server in servers if server not in kit.servers))
    return program.Compiled(plan=plan, diagnostics=diagnostics, lacking=missing)


def look(
    text: str, file: str, actions: Mapping[str, Action], *, looking_only: bool = True
) -> tuple[Reading, Programs, tuple[Diagnostic, ...], dict[str, Action]]:
    """Parse and check a text with these actions, the built-in and the installed ones; return those actions as well."""
    known = {**BUILTIN, **actions}
    reading, programs, diagnostics = check_source(text, name=file, actions=known)
    if any(one.code == "unknown_action" for one in diagnostics):
        # Loading the actions of installed packages takes a while, and few workflows need them.
        named = [one.action.text for one in reading.document.defs if one.action is not None]
        wanted = () if looking_only else [one for one in named if one not in known]
        known = {**installed_actions(wanted=wanted), **known}
        reading, programs, diagnostics = check_source(text, name=file, actions=known)
    return reading, programs, diagnostics, known


def _placeholders(
    document: Document, known: Mapping[str, Action], servers: Mapping[str, tuple[Action, ...]]
) -> tuple[dict[str, Action], Mapping[str, tuple[Action, ...]]]:
    """Return placeholders for the actions and servers that a document names and that are missing."""
    named = [one.action.text for one in document.defs if one.action is not None]
    served = [one.name.text for one in document.defs if one.is_a("mcp")]
    absent = {one: _absent_action(one) for one in named if one not in known}
    return absent, {**dict.fromkeys(served, ()), **servers}


def _absent_action(name: str) -> Action:
    def act(call: Call) -> Any:
        raise AssertionError(f"a workflow without its action {name} must not run")

    return Action(name=name, act=act)


def _strict(one: Diagnostic) -> Diagnostic:
    """Return a diagnostic as it counts for running: then an unknown action is an error."""
    return msgspec.structs.replace(one, severity="error") if one.code == "unknown_action" else one


def name_of(file: str | os.PathLike[str]) -> str:
    """Return the default name of the workflow in a file."""
    return Path(file).stem
