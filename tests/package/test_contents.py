"""What is in the wheel and in the source distribution: all that is needed, and nothing else."""

from __future__ import annotations

import email
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import memoranda

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

pytestmark = pytest.mark.package


@pytest.fixture(scope="module")
def wheel(built: Any) -> dict[str, bytes]:
    """The files of the wheel."""
    with zipfile.ZipFile(built.wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(built: Any) -> set[str]:
    """The names in the source distribution, below its one folder."""
    with tarfile.open(built.sdist) as archive:
        names = [Path(name) for name in archive.getnames()]
    assert {name.parts[0] for name in names} == {f"memoranda-{memoranda.__version__}"}
    return {Path(*name.parts[1:]).as_posix() for name in names}


def sources() -> set[str]:
    """The files of the package as they lie in the repository."""
    return {
        file.relative_to(SOURCE).as_posix()
        for file in (SOURCE / "memoranda").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: dict[str, bytes]) -> None:
    about = f"memoranda-{memoranda.__version__}.dist-info/"
    assert {name for name in wheel if not name.startswith(about)} == sources()
    kinds = {Path(name).suffix for name in sources()}
    assert {".py", ".sql", ".toml", ".html", ".css", ".js", ".svg", ".typed", ".safetensors"} <= kinds
    assert "memoranda/py.typed" in wheel


def test_the_wheel_says_what_it_is(wheel: dict[str, bytes], project: dict[str, Any]) -> None:
    about = f"memoranda-{memoranda.__version__}.dist-info"
    said = email.message_from_bytes(wheel[f"{about}/METADATA"])
    assert said["Version"] == project["version"] == memoranda.__version__
    assert (said["Name"], said["Requires-Python"]) == ("memoranda", project["requires-python"])
    assert said["License-Expression"] == "Apache-2.0 AND MIT"
    assert said.get_all("License-File") == ["LICENSE", "NOTICE", "src/memoranda/retrieval/embed/weights/LICENSE"]
    assert said["Description-Content-Type"] == "text/markdown" and said.get_payload()
    assert set(said.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    assert wheel[f"{about}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert b"memoranda = memoranda.cli:main" in wheel[f"{about}/entry_points.txt"]


def test_no_file_knows_the_machine_it_was_built_on(wheel: dict[str, bytes]) -> None:
    # As folders: `/root` alone is also the end of an address.
    places = [f"{place}/".encode() for place in (ROOT, Path.home()) if len(place.parts) > 1]
    assert places
    assert [name for name, content in wheel.items() if any(place in content for place in places)] == []
    assert any(b"memoranda" in content for content in wheel.values())


def test_the_source_distribution_has_what_a_contributor_needs(sdist: set[str]) -> None:
    needed = {
        "pyproject.toml",
        "Makefile",
        "constraints.txt",
        "LICENSE",
        "NOTICE",
        "README.md",
        "CHANGELOG.md",
        "tests/conftest.py",
        "tests/fixtures/databases/0.1.0.db",
        "tests/fixtures/databases/writing.py",
        "docs/index.md",
        "docs/openapi.json",
        *(f"src/{name}" for name in sources()),
    }
    assert needed - sdist == set()
    for folder in ("bench", "docs", "examples", "tests"):
        assert any(name.startswith(f"{folder}/") for name in sdist)


def test_the_source_distribution_has_nothing_of_a_local_run(sdist: set[str]) -> None:
    allowed = {"PKG-INFO", "pyproject.toml", "Makefile", "constraints.txt", "LICENSE", "NOTICE", ".gitignore"}
    allowed |= {"bench", "docs", "examples", "src", "tests", "tools"} | {file.name for file in ROOT.glob("*.md")}
    assert {name.split("/")[0] for name in sdist} - allowed == set()
    left = ("__pycache__", ".pyc", ".pytest_cache", "bench/out", ".db-wal", ".db-shm", ".env")
    assert [name for name in sdist if any(word in name for word in left)] == []
