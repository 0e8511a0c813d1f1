"""ForgetEval's adversarial cases on Memoranda: `python bench/governance/forgeteval.py FOLDER`.

FOLDER is a copy of the suite (MIT), on GitHub as `WaylandYang/forgeteval-anon-supp`; its cases are in
`bench/forgeteval/adversarial.py`. Nothing of it is part of this repository. No model is asked.

A case stores sentences, changes or removes some by a description, and asks: every required text has to be in the
answer, and no forbidden one. It is scored by the suite's own code, in two ways: by the answer to its question, and by
also asking for each forbidden text itself.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import memoranda

_CASES = "bench/forgeteval/adversarial.py"


class ForgetEvalAdapter:
    """The verbs of the suite on a memory of one user."""

    name = "memoranda"

    def __init__(self) -> None:
        """Start with an empty memory."""
        self._memory: memoranda.Memory | None = None
        self.reset()

    def reset(self) -> None:
        """Start again with an empty memory."""
        self.close()
        self._memory = memoranda.open(":memory:")
        self._user: Any = self._memory.scope(user="forgeteval")

    def close(self) -> None:
        """Close the memory."""
        if self._memory is not None:
            self._memory.close()

    def inscribe(self, text: str) -> str:
        """Store a sentence."""
        return self._user.remember(text).ref

    def recall_texts(self, query: str, k: int = 5) -> list[str]:
        """Return the sentences that answer a question."""
        return [str(match.content) for match in self._user.recall(query, limit=k)]

    def supersede(self, old_query: str, new_text: str) -> None:
        """Replace what a description names."""
        _ensure_described(self._user.supersede)
        self._user.supersede(about=old_query, content=new_text)

    def release(self, query: str) -> int:
        """Forget what a description names."""
        _ensure_described(self._user.forget)
        return self._user.forget(about=query).count

    def purge(self, query: str) -> int:
        """Forget what a description names; in this suite the two differ in what is named."""
        return self.release(query)


def _ensure_described(verb: Callable[..., Any]) -> None:
    """Raise NotImplementedError, as the suite asks for, if a verb of this version takes no description."""
    if "about" not in inspect.signature(verb).parameters:
        raise NotImplementedError("about")


class Suite(NamedTuple):
    """The cases by category, and the suite's own scorer."""

    cases: Mapping[str, Sequence[Any]]
    score: Callable[..., bool | None]


def load(folder: Path, *, drafted: bool = False) -> Suite:
    """Return the suite in a folder, without the cases that a model drafted unless they are asked for."""
    if not (folder / _CASES).is_file():
        raise SystemExit(
            f"There is no {_CASES} in {folder}. Get the suite (MIT) from GitHub, WaylandYang/forgeteval-anon-supp, "
            "and name the folder of the copy"
        )
    sys.path.insert(0, str(folder))
    try:
        categories = importlib.import_module("bench.forgeteval.adversarial").ATTACK_CATEGORIES
        score = importlib.import_module("bench.forgeteval.scoring").run_scored
        try:
            more = importlib.import_module("bench.forgeteval.adversarial_generated").ADVERSARIAL_GENERATED
        except ImportError:
            more = {}
    finally:
        sys.path.remove(str(folder))
    left_out = set() if drafted else {case.id for cases in more.values() for case in cases}
    return Suite({name: [one for one in cases if one.id not in left_out] for name, cases in categories.items()}, score)


def measure(suite: Suite, adapter: ForgetEvalAdapter, *, probed: bool) -> dict[str, Counter[str]]:
    """Return for each category how many cases passed, failed, were not supported or broke."""
    found: dict[str, Counter[str]] = {}
    for name, cases in suite.cases.items():
        found[name] = Counter(_result(suite, case, adapter, probed=probed) for case in cases)
    return found


def _result(suite: Suite, case: Any, adapter: ForgetEvalAdapter, *, probed: bool) -> str:
    try:
        passed = suite.score(case, adapter, probed=probed)
    except memoranda.MemorandaError:
        return "error"
    return "unsupported" if passed is None else "passed" if passed else "failed"


def show(suite: Suite, adapter: ForgetEvalAdapter) -> Table:
    """Return the table of both scores."""
    plain, probed = measure(suite, adapter, probed=False), measure(suite, adapter, probed=True)
    table = Table("category", "cases", "passed", "passed, probed", "errors", title="ForgetEval", title_justify="left")
    for name, cases in suite.cases.items():
        errors = plain[name]["error"] + probed[name]["error"]
        table.add_row(name, str(len(cases)), str(plain[name]["passed"]), str(probed[name]["passed"]), str(errors))
    table.add_section()
    totals = (sum(one["passed"] for one in each.values()) for each in (plain, probed))
    table.add_row("all", str(sum(map(len, suite.cases.values()))), *map(str, totals), "", style="bold")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a copy of the suite")
    parser.add_argument("--drafted", action="store_true", help="with the cases that a model drafted")
    asked = parser.parse_args()
    adapter = ForgetEvalAdapter()
    try:
        Console().print(show(load(asked.folder, drafted=asked.drafted), adapter))
    finally:
        adapter.close()


if __name__ == "__main__":
    main()
