"""Actions of installed packages are found by their entry points, loaded once, and harmless when broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda import workflow
from memoranda.api.memory import Memory
from memoranda.errors import UsageError
from memoranda.workflow.actions import builtin as installed
from memoranda.workflow.actions.base import Call, carry_out
from memoranda.workflow.actions.builtin import installed_actions

Install = Callable[..., None]

TEA = """
from memoranda.workflow import action

@action
def steep(minutes: float) -> str:
    return f"{minutes:g} minutes"

@action
def pour() -> str:
    return "poured"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package: its name, its one module, and its entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install(package: str, text: str, **points: str) -> None:
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(text)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        listed = "".join(f"{name} = {value}\n" for name, value in points.items())
        (about / "entry_points.txt").write_text(f"[{installed.GROUP}]\n{listed}")
        forget()

    forget()
    yield install
    forget()
    for module in modules:
        sys.modules.pop(module, None)


def forget() -> None:
    """Begin as a new process does."""
    installed._load_installed.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_a_module_a_function_and_an_action_are_entry_points(install: Install, place: Any) -> None:
    before = installed_actions()
    install("tea-house", TEA, tea="tea_house")
    install(
        "coffee-house",
        "from memoranda.workflow import Action, action\n"
        "@action\ndef grind(beans: int) -> int:\n    return beans\n"
        "@action\ndef roast() -> None: ...\n"
        "press = Action(name='press', act=lambda call: 'pressed')\n",
        one="coffee_house:grind",
        two="coffee_house:press",
    )
    found = installed_actions()
    assert set(found) - set(before) == {"steep", "pour", "grind", "press"}
    call = Call(task="brew", inputs={"minutes": 3}, settings={}, place=place)
    assert carry_out(found["steep"], call) == "3 minutes"


def test_packages_are_loaded_once_and_only_when_they_are_asked_for(install: Install, capsys: Any) -> None:
    install("tea-house", "print('loaded')\n" + TEA, tea="tea_house")
    assert capsys.readouterr().out == ""
    first = installed_actions()
    assert capsys.readouterr().out == "loaded\n"
    first.clear()
    assert installed_actions(wanted=["steep"])["steep"].name == "steep"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("raise RuntimeError('no licence')", "milk_bar", "RuntimeError: `no licence`"),
        ("import no_such_module", "milk_bar", "no_such_module"),
        ("", "milk_bar", "not an action"),
        ("shake = 3", "milk_bar:shake", "not an action"),
        ("", "milk_bar:shake", "shake"),
        ("from memoranda.workflow import action\n@action\nasync def shake(): ...", "milk_bar", "asynchronous"),
        ("this is no Python", "milk_bar", "SyntaxError"),
    ],
)
def test_a_broken_package_is_told_to_those_who_may_need_it_only(
    install: Install, text: str, value: str, why: str
) -> None:
    install("tea-house", TEA, tea="tea_house")
    install("milk-bar", text, milk=value)
    assert {"steep", "pour"} <= set(installed_actions())
    assert "steep" in installed_actions(wanted=["steep", "pour"])
    with pytest.raises(UsageError) as caught:
        installed_actions(wanted=["steep", "shake"])
    assert caught.value.package == "milk-bar"
    assert "`milk-bar`" in caught.value.message and why in caught.value.message


def test_a_workflow_finds_them_by_name_and_a_given_or_built_in_action_goes_before(
    install: Install, memory: Memory
) -> None:
    install(
        "tea-house",
        TEA + "\n@action\ndef set_context(values: dict[str, int]) -> str:\n    return 'not the built-in one'\n",
        tea="tea_house",
    )
    text = (
        "defs:\n  brew: {kind: task, action: steep, inputs: {minutes: 4}}\n"
        "  note: {kind: task, action: set_context, inputs: {values: {cups: 2}}}\n"
        "flow:\n  - do: brew\n  - do: note\n"
    )
    run = workflow.load(text, memory=memory).run(owner="mira").check()
    assert run.outputs == {"brew": "4 minutes", "note": {"cups": 2}}
    own = workflow.Action(name="steep", act=lambda call: "at home")
    assert workflow.load(text, memory=memory, actions=[own]).run(owner="mira").outputs["brew"] == "at home"


def test_a_name_that_no_package_has_is_no_error_here(install: Install) -> None:
    install("tea-house", TEA, tea="tea_house")
    assert "shake" not in installed_actions(wanted=["shake"])


def test_of_two_packages_with_one_action_the_second_is_refused(install: Install) -> None:
    install("tea-house", TEA, tea="tea_house")
    install("zen-house", TEA + "\n@action\ndef bow() -> str:\n    return 'bow'\n", tea="zen_house")
    found = installed_actions(wanted=["steep"])
    assert found["steep"].act.__module__ == "tea_house"
    with pytest.raises(UsageError, match=r"`zen-house`.*another package also has an action `steep`"):
        installed_actions(wanted=["bow"])
