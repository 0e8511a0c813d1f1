"""Modules of users are loaded, or refused with a clear error, whatever they do while they run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memoranda.errors import UsageError
from memoranda.lang.python_functions import load_module


def written(folder: Path, text: str) -> Path:
    file = folder / "loom.py"
    file.write_text(text)
    return file


def test_a_file_is_run_with_its_folder_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "threads_of_loom.py").write_text("COUNT = 12\n")
    before = list(sys.path)
    module = load_module(written(tmp_path, "from threads_of_loom import COUNT\n"), what="tools")
    assert module.COUNT == 12 and sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (:", "SyntaxError"),
        ("import sys\nsys.exit('enough')", "SystemExit: enough"),
        ("import no_such_loom", "ModuleNotFoundError: No module named 'no_such_loom'"),
        ("raise KeyError", "KeyError: KeyError"),
    ],
)
def test_a_file_that_fails_is_refused_and_leaves_nothing(tmp_path: Path, text: str, said: str) -> None:
    before, modules = list(sys.path), set(sys.modules)
    with pytest.raises(UsageError) as caught:
        load_module(written(tmp_path, text), what="tools")
    assert said in caught.value.message and "loom.py" in caught.value.message and caught.value.hint
    assert sys.path == before and not {name for name in set(sys.modules) - modules if "loom" in name}


def test_a_file_may_change_the_path_itself(tmp_path: Path) -> None:
    before = list(sys.path)
    module = load_module(written(tmp_path, "import sys\nsys.path.pop(0)\nWIDTH = 80\n"), what="tools")
    assert module.WIDTH == 80 and sys.path == before


def test_a_module_is_found_by_its_name_or_not_at_all() -> None:
    assert load_module("textwrap", what="tools").__name__ == "textwrap"
    with pytest.raises(UsageError, match="the module `no_such_loom` does not exist"):
        load_module("no_such_loom", what="tools")
