"""A checked document and its programs in, a plan out: every expression compiled once, to be run many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from memoranda.engine.validator import Validator
from memoranda.errors import UsageError
from memoranda.lang.source import Source, digest_of
from memoranda.model.text import quote
from memoranda.workflow import document as said
from memoranda.workflow.actions.base import Action, find_action
from memoranda.workflow.document import Definition, Document, Expression, Fields, Scalar, Value, plain
from memoranda.workflow.expressions import Template
from memoranda.workflow.policy import policy_of
from memoranda.workflow.programs import Programs
from memoranda.workflow.runtime.plan import (
    Accumulate,
    Block,
    Branch,
    Conditional,
    Do,
    Loop,
    ModelChoice,
    Parallel,
    Plan,
    Step,
    Task,
    ToolUse,
    Use,
)

_PROVIDER, _MODEL = "openai", "gpt-5.2"
"""What a definition of a model means that does not say so."""


def compile_workflow(
    document: Document,
    programs: Programs,
    source: Source,
    *,
    name: str,
    actions: Mapping[str, Action],
    servers: Mapping[str, Iterable[Action]],
) -> Plan:
    """Return the plan of a document that was checked and has no errors."""
    return _Compiler(document, programs, actions, servers).plan(name, source)


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

    def plan(self, name: str, source: Source) -> Plan:
        document = self.document
        schema = cast("dict[str, Any] | None", plain(document.schema))
        return Plan(
            name=name,
            source=source.text,
            digest=digest_of(source.text),
            document=document,
            schema=schema,
            validator=None if schema is None else Validator(schema),
            context=self._optional(document.context),
            outputs=self._optional(document.outputs),
            flow=self._block(document.flow),
            definition_ids=tuple(
                dict.fromkeys(_definition_id(one) for one in self.defs.values() if one.is_a("memory"))
            ),
        )

    def _template(self, value: Value) -> Template:
        return Template(value, self.programs.program)

    def _optional(self, value: Value | None) -> Template | None:
        return None if value is None else self._template(value)

    # steps

    def _block(self, block: said.Block) -> Block:
        return tuple(self._step(item) for item in block)

    def _step(self, item: said.Item) -> Step:
        if isinstance(item, said.Do):
            return Do(self._task(item.task.text))
        if isinstance(item, said.Parallel):
            return Parallel(path=item.path, first_wins=item.strategy == "wait_any", branches=self._block(item.steps))
        if isinstance(item, said.Conditional):
            branches = tuple(Branch(self._optional(one.condition), self._block(one.steps)) for one in item.branches)
            return Conditional(path=item.path, branches=branches)
        return self._loop(item)

    def _loop(self, loop: said.Loop) -> Loop:
        return Loop(
            path=loop.path,
            name=loop.name.text if loop.name else None,
            items=self._optional(loop.items),
            test=self._optional(loop.test),
            until=self._optional(loop.until),
            at_once=loop.max_concurrency or 1,
            accumulate=self._accumulate(loop.accumulate) if loop.accumulate else None,
            steps=self._block(loop.steps),
        )

    def _accumulate(self, value: said.Accumulate) -> Accumulate:
        assert value.merge is not None, "the parser requires it"
        merge = self._template(value.merge)
        return Accumulate(
            name=value.name.text,
            initial=self._optional(value.initial),
            merge=merge,
            added=merge.adding_to("accumulator"),
        )

    # definitions

    def _task(self, name: str) -> Task:
        if name not in self.tasks:
            one = self.defs[name]
            self.tasks[name] = Task(
                name=name,
                use=self._use(one),
                inputs=self._template(one.inputs or _nothing(one)),
                policy=policy_of(self.document.defaults, one.settings),
            )
        return self.tasks[name]

    def _use(self, one: Definition) -> Use:
        assert one.action is not None, "the checker requires it"
        action = find_action(self.actions, one.action.text)
        bound = {binding.kind.text: [self.defs[name.text] for name in binding.names] for binding in one.bindings}
        models = [_model(model) for model in bound.get("model", ())]
        tools = [self._tool(tool) for tool in bound.get("tools", ())]
        served = [tool for server in bound.get("mcp", ()) for tool in self._served(server)]
        return Use(
            action=action,
            settings=self._template(self._settings(one, action)),
            model=models[0] if models else None,
            memories=tuple(_definition_id(memory) for memory in bound.get("memory", ())),
            tools=(*tools, *served),
        )

    def _settings(self, one: Definition, action: Action) -> Fields:
        """Return the settings of a task: its own, and of those for all tasks what its action takes."""
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

    def _served(self, server: Definition) -> list[ToolUse]:
        """Return the tools of a server, which the program that loads the workflow has to give."""
        name = server.name.text
        if name not in self.servers:
            raise UsageError(
                f"the tools of the server {quote(name)} are bound, and nothing gives them",
                hint=f"Pass them as actions: load(…, servers={{'{name}': […]}})",
                value=name,
            )
        return [
            ToolUse(name=one.name, description=one.description, call=Use(action=one, settings=_empty(server)))
            for one in self.servers[name]
        ]


def _nothing(one: Definition) -> Fields:
    return Fields(span=one.name.span, path=one.path)


def _empty(one: Definition) -> Template:
    return Template(_nothing(one))


def _definition_id(one: Definition) -> str:
    return _setting(one, "definition_id") or ""


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
