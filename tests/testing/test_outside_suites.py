"""The adapters of outside suites, with suites of our own: episodes after AOEP, and two cases in ForgetEval's form."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import aoep
import forgeteval
import pytest

from memoranda.api.scoped import ScopedMemory
from memoranda.testing.governance import AppendStore, CarelessStore, MemorandaSystem, NullStore

EPISODES = {episode.pattern: episode for episode in aoep.load()}


@pytest.mark.parametrize("pattern", EPISODES)
def test_memoranda_holds_against_each_pattern(pattern: str) -> None:
    result = aoep.play(EPISODES[pattern], MemorandaSystem)
    assert (result.held, result.why) == (result.total, ())


def test_g44_every_probe_and_part_is_used_by_an_episode() -> None:
    steps = [step for episode in EPISODES.values() for step in episode.steps]
    assert len(EPISODES) == 10
    assert {step.probe for step in steps if step.probe} == set(get_args(aoep.Probe))
    assert {step.check for step in steps if step.check} == set(get_args(aoep.Part))
    for episode in EPISODES.values():
        checks = {step.check for step in episode.steps}
        assert "negative" in checks and checks & {"obligation", "control"}, episode.name


def test_g44_a_store_that_keeps_nothing_scores_nothing_in_the_episodes() -> None:
    episodes = tuple(EPISODES.values())
    held, total, _ = aoep.scores(episodes, NullStore)
    assert (held["obligation"], held["negative"]) == (0, 0)
    assert total["obligation"] >= 12 and total["negative"] >= 12
    ours, same, _ = aoep.scores(episodes, MemorandaSystem)
    assert same == total and ours["obligation"] > 0 and ours["negative"] > 0


def test_g44_each_negative_of_the_episodes_finds_what_it_looks_for() -> None:
    for episode in EPISODES.values():
        why = aoep.play(episode, CarelessStore).why
        assert any(line.startswith("negative: ") for line in why), episode.name


def test_an_episode_that_breaks_has_no_point() -> None:
    class Broken(AppendStore):
        def listing(self, user: str) -> list[str]:
            raise RuntimeError("the list is gone")

    episode = EPISODES["cross-user leak"]
    assert aoep.play(episode, AppendStore).held == Counter(negative=3)
    broken = aoep.play(episode, Broken)
    assert (broken.held, broken.why) == (Counter(), ("RuntimeError: the list is gone",))


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[forgeteval.Suite]:
    """Return two cases in the form of the suite: one that changes nothing, and one that forgets by description."""
    folder = tmp_path / "bench" / "forgeteval"
    folder.mkdir(parents=True)
    (folder / "adversarial.py").write_text(
        """
class Case:
    def __init__(self, id, facts, mutations, query, must, must_not):
        self.id, self.setup_facts, self.mutations, self.final_query = id, facts, mutations, query
        self.must_contain, self.must_not_contain = must, must_not

FACTS = ["The parcel of ana@kiln.example was collected.", "The wheel is in the hall."]
ATTACK_CATEGORIES = {
    "kept": [Case("kept_1", FACTS, [], "Where is the wheel?", ["hall"], [])],
    "forgotten": [
        Case("forgotten_1", FACTS, [("purge", "ana@kiln.example")], "Where is the wheel?", ["hall"], ["was collected"]),
        Case("drafted_1", FACTS, [], "Where is the wheel?", ["cellar"], []),
    ],
}
""",
        encoding="utf-8",
    )
    (folder / "adversarial_generated.py").write_text(
        "from bench.forgeteval.adversarial import ATTACK_CATEGORIES as known\n"
        "ADVERSARIAL_GENERATED = {'forgotten': known['forgotten'][1:]}\n",
        encoding="utf-8",
    )
    (folder / "scoring.py").write_text(
        """
def run_scored(case, adapter, probed=True, k=5):
    adapter.reset()
    for fact in case.setup_facts:
        adapter.inscribe(fact)
    try:
        for verb, *arguments in case.mutations:
            getattr(adapter, verb)(*arguments)
    except NotImplementedError:
        return None
    asked = [case.final_query, *(case.must_not_contain if probed else [])]
    told = [" ".join(adapter.recall_texts(query, k)) for query in asked]
    return all(text in told[0] for text in case.must_contain) and not any(
        text in one for one in told for text in case.must_not_contain
    )
""",
        encoding="utf-8",
    )
    known = {name for name in sys.modules if name == "bench" or name.startswith("bench.")}
    assert not known
    yield forgeteval.load(tmp_path)
    for name in [name for name in sys.modules if name == "bench" or name.startswith("bench.")]:
        del sys.modules[name]


def test_the_cases_of_a_suite_are_scored_by_its_own_code(suite: forgeteval.Suite) -> None:
    can_describe = "about" in inspect.signature(ScopedMemory.forget).parameters
    assert {name: len(cases) for name, cases in suite.cases.items()} == {"kept": 1, "forgotten": 1}
    adapter = forgeteval.ForgetEvalAdapter()
    try:
        for probed in (False, True):
            assert forgeteval.measure(suite, adapter, probed=probed) == {
                "kept": Counter(passed=1),
                "forgotten": Counter(passed=1) if can_describe else Counter(unsupported=1),
            }
        assert forgeteval.show(suite, adapter).row_count == 3
    finally:
        adapter.close()


def test_an_adapter_that_forgets_nothing_fails_what_forgets(suite: forgeteval.Suite) -> None:
    class Hoarder(forgeteval.ForgetEvalAdapter):
        def purge(self, query: str) -> int:
            return 0

    adapter = Hoarder()
    try:
        measured: dict[str, Any] = forgeteval.measure(suite, adapter, probed=True)
        assert (measured["kept"], measured["forgotten"]) == (Counter(passed=1), Counter(failed=1))
    finally:
        adapter.close()


@pytest.mark.parametrize(("program", "said"), [("forgeteval", "forgeteval-anon-supp"), ("aoep", "aoep.toml")])
def test_a_suite_that_is_not_there_is_named_with_its_place(tmp_path: Path, program: str, said: str) -> None:
    file = Path(__file__).parents[2] / "bench/governance" / f"{program}.py"
    run = subprocess.run([sys.executable, file, tmp_path / "nothing"], capture_output=True, text=True, check=False)
    assert run.returncode != 0 and said in run.stderr and "Traceback" not in run.stderr
