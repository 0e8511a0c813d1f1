"""Text or a path in; a document, or what there is to say about it, out. What `recollect.workflow` offers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from recollect.lang.diagnostics import Diagnostic
from recollect.lang.reading import read_text
from recollect.workflow.actions.base import actions_of
from recollect.workflow.checker.check import check_source
from recollect.workflow.document import Document
from recollect.workflow.parser import parse_document

ENDINGS = (".yaml", ".yml")


def parse(source: str | os.PathLike[str]) -> Document:
    """Parse a file, given as text or as its path; raise a SourceError with every fault of its grammar."""
    file, text = _read(source)
    return parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, actions: Iterable[Any] = ()) -> tuple[Diagnostic, ...]:
    """Return everything there is to say about a file, errors, warnings and notes, as they stand in it.

    `actions` are those of a program: functions that are marked as one, or modules that have some.

    >>> import recollect
    >>> for one in recollect.workflow.check('''
    ... defs:
    ...   greet: {kind: task, action: send_text_message, inputs: {txt: "='Good evening, ' & $input.name"}}
    ... flow:
    ...   - do: greet
    ... '''):
    ...     print(one.code, one.hint)
    unknown_input Did you mean `text`?
    """
    file, text = _read(source)
    return check_source(text, name=file, actions=actions_of(actions))[2]


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    return read_text(source, endings=ENDINGS, name="workflow.yaml")
