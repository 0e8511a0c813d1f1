"""What every part of a document is compiled with: its programs, its names and its numbered blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from memoranda.abl import document as abl
from memoranda.abl.compiler.fields import compile_gather
from memoranda.abl.document import Document
from memoranda.abl.expression import programs as grammar
from memoranda.abl.parsed import Programs
from memoranda.abl.runtime.actions import (
    compile_check,
    compile_clear,
    compile_respond,
    compile_set,
    compile_transform,
)
from memoranda.abl.runtime.calls import compile_call
from memoranda.abl.runtime.delegating import compile_consult
from memoranda.abl.runtime.plan import Block, BranchPlan, Do, FieldPlan, Leap
from memoranda.abl.tree import Raw
from memoranda.abl.variables import Declarations
from memoranda.lang.expression.dialect import Resolve
from memoranda.lang.expression.nodes import Path, paths_read
from memoranda.lang.expression.program import Expression
from memoranda.lang.template import CompiledTemplate, Template


class Compiler:
    """What the parts of a document are compiled with: its programs, its names and its blocks."""

    def __init__(self, document: Document, programs: Programs) -> None:
        """Begin with a document that has no faults."""
        self.document = document
        self.programs = programs
        self._resolve: Resolve | None = None
        self.declarations = Declarations(document, self.expression)
        self._resolve = self.declarations.resolve
        self.blocks: list[Block] = []
        self._steps = {step.name.text for step in document.flow.steps} if document.flow else set[str]()
        self._templates = {one.name.text: one.text for one in document.templates if one.text is not None}
        self.fields: dict[str, FieldPlan] = {}
        self.guards: set[str] = set()
        """Variables that rules and checks look at."""

    # programs

    def expression(self, raw: Raw) -> Expression:
        """Return the program of an expression or condition."""
        node = self.programs.node(raw)
        assert node is not None, raw.text
        return grammar.expression(node, resolve=self._resolve)

    def guard(self, raw: Raw) -> Expression:
        """Return the program of a condition that something depends on which the user may not be free to do."""
        compiled = self.expression(raw)
        self.guards.update(path[0] for path, _ in paths_read(compiled.node))
        return compiled

    def template(self, raw: Raw) -> CompiledTemplate:
        """Return the program of a template."""
        node = self.programs.node(raw)
        assert isinstance(node, Template), raw.text
        return grammar.template(node, resolve=self._resolve)

    def named_template(self, raw: Raw) -> CompiledTemplate | None:
        """Return one of the agent's templates by its name."""
        text = self._templates.get(raw.text)
        return None if text is None else self.template(text)

    def inside(self, item: str) -> Compiler:
        """Return a compiler for programs in which a name stands for one item of an array."""
        other = object.__new__(Compiler)
        other.__dict__ = dict(self.__dict__)
        outer = self.declarations.resolve

        def resolve(path: Path) -> Any:
            return None if path[0] == item else outer(path)

        other._resolve = resolve
        return other

    def optional(self, raw: Raw | None) -> Expression | None:
        """Return the program of a condition, if there is one that can be read."""
        return None if raw is None or self.programs.node(raw) is None else self.expression(raw)

    def text(self, raw: Raw | None) -> CompiledTemplate | None:
        """Return the program of a template, if there is one."""
        return None if raw is None else self.template(raw)

    def pairs(self, arguments: Iterable[abl.Argument]) -> tuple[tuple[str, Expression], ...]:
        """Return names and the programs of their values."""
        return tuple((argument.name.text, self.expression(argument.value)) for argument in arguments)

    # blocks

    def block(
        self,
        body: Iterable[abl.Action],
        then: abl.Target | None = None,
        *,
        stays: bool = False,
        extra: Do | None = None,
    ) -> Block:
        """Return a block of actions with a number of its own, which does not change while the text does not."""
        block = self.empty_block(self.leap(then) if then else None, stays=stays)
        actions = [self.action(node) for node in body]
        block.actions = (*actions, extra) if extra else tuple(actions)
        return block

    def empty_block(self, then: Leap | None = None, *, stays: bool = False) -> Block:
        """Return a block with the next number; its actions are compiled after that, and may hold other blocks."""
        block = Block(len(self.blocks), then, stays=stays)
        self.blocks.append(block)
        return block

    def branches(self, branches: Iterable[abl.Branch], *, stays: bool = False) -> tuple[BranchPlan, ...]:
        """Return branches, of which the first that holds is taken."""
        return tuple(
            BranchPlan(
                self.expression(branch.condition) if branch.condition else None,
                self.block(branch.body, branch.then, stays=stays and branch.then is None),
                branch.condition.text if branch.condition else "",
            )
            for branch in branches
        )

    def leap(self, target: abl.Target) -> Leap:
        """Return where a target leads; the exact name of a step beats a word of the language."""
        name = target.name.text
        if name in self._steps:
            return Leap("step", name)
        reason = self.template(target.reason) if target.reason is not None else None
        return Leap(target.kind, name, reason)

    def action(self, node: abl.Action) -> Do:
        """Return the compiled form of an action."""
        if isinstance(node, abl.Gather):
            return compile_gather(self, node)
        if isinstance(node, abl.Present):
            return compile_respond(self, abl.Respond(node.text, span=node.span))
        if isinstance(node, abl.Consult):
            return compile_consult(node.agent.text)
        compile = cast("Callable[[Compiler, Any], Do]", _ACTIONS[type(node)])
        return compile(self, node)


_ACTIONS: dict[type[Any], Any] = {
    abl.Set: compile_set,
    abl.Clear: compile_clear,
    abl.Transform: compile_transform,
    abl.Call: compile_call,
    abl.Check: compile_check,
    abl.Respond: compile_respond,
}
