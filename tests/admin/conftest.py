"""The demo server with its pages, one process for all tests; each test uses its own tenant."""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import demo_server
import httpx
import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.chat.turn import chat
from memoranda.model.policy import OWNER
from memoranda.server.admin.sessions import COOKIE, find_session
from memoranda.server.auth.keys import create_key
from memoranda.server.chat_agents import read_chat_agents
from memoranda.server.demo import settings_in

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_GUIDE = read_chat_agents('[agents.guide]\nmodel = "demo:parrot"\nmemory_policy = {archival_mode = "auto"}')[0]


class Visitor:
    """A signed-in user who reads pages and submits their forms as a browser does."""

    def __init__(self, address: str, key: str, memory: Memory) -> None:
        self.client = httpx.Client(base_url=address, headers={"Origin": address}, timeout=60)
        answer = self.client.post("/admin/sign-in", data={"key": key, "onwards": ""})
        assert answer.status_code == 303, answer.text
        self.token = find_session(memory, self.client.cookies[COOKIE]).form_token

    def get(self, path: str, **parameters: str) -> httpx.Response:
        """Return a page."""
        return self.client.get(f"/admin{path}", params=parameters)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Submit a form, and return the response without following its redirect."""
        return self.client.post(f"/admin{path}", data={"form_token": self.token, **fields})

    def read(self, path: str, **parameters: str) -> str:
        """Return the text of a page on one line, without tags."""
        answer = self.get(path, **parameters)
        assert answer.status_code == 200, answer.text
        return seen(answer)

    def done(self, path: str, **fields: str) -> str:
        """Submit a form that changes something, and return the text of the page that follows."""
        answer = self.post(path, **fields)
        assert answer.status_code == 303, seen(answer)
        return seen(self.client.get(answer.headers["Location"]))


def seen(answer: httpx.Response) -> str:
    """Return the text of a page, without tags, including the values of its fields."""
    assert answer.headers["Content-Type"].startswith("text/html"), answer.text
    body = answer.text.partition("<main")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


class House:
    """The tenant of one test: its memory, opened beside the server, and visitors of its pages."""

    def __init__(self, demo: demo_server.Demo, memory: Memory, tenant: str, visits: ExitStack) -> None:
        self.address = demo.address
        self.memory = memory.in_tenant(tenant)
        self.tenant = tenant
        self._visits = visits

    def key(self, user: str = "root", role: Any = "admin", **more: Any) -> str:
        """Return a new API key."""
        return create_key(self.memory, user=user, role=role, **{"tenant": self.tenant, **more}).token

    def visitor(self, user: str = "root", role: Any = "admin", **more: Any) -> Visitor:
        """Return a signed-in visitor."""
        visitor = Visitor(self.address, self.key(user, role, **more), self.memory)
        self._visits.callback(visitor.client.close)
        return visitor

    def talk(self, user: str, *messages: str, id: str = "chat") -> None:
        """Let a user chat with an agent that repeats each message."""
        handle = self.memory.acting_as(f"user:{user}", policy=OWNER, door="test")
        for number, message in enumerate(messages):
            chat(handle, _GUIDE, message, user=user, conversation_id=id, message_id=f"m{number}")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Generator[demo_server.Demo]:
    """The server of `make serve`."""
    with demo_server.run_demo(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture(scope="session")
def beside(demo: demo_server.Demo) -> Generator[Memory]:
    """The memory of the server, opened a second time in this process."""
    with memoranda.open(settings_in(demo.folder).db) as memory:
        yield memory


@pytest.fixture
def house(demo: demo_server.Demo, beside: Memory, request: pytest.FixtureRequest) -> Generator[House]:
    """A tenant that no other test uses."""
    with ExitStack() as visits:
        yield House(demo, beside, request.node.name[:80], visits)


def find_browser() -> str | None:
    """Return the path of a browser that can be automated, or None."""
    named = os.environ.get("MEMORANDA_BROWSER")
    return named or next((found for name in BROWSERS if (found := shutil.which(name))), None)


# Not for the whole session: while it is driven, an event loop runs in this thread, and no other test could have one.
@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    """One browser for all tests of a file."""
    program = find_browser()
    if program is None:
        pytest.skip("no browser: apt-get install chromium, or let MEMORANDA_BROWSER name one")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # Debian's browser refuses to sandbox for root, and tests in containers are root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=program, args=arguments)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any, house: House) -> Generator[Callable[..., Any]]:
    """Open a page in a separate browser, signed in unless there is no role; fail if a script or style is blocked."""
    complaints: list[str] = []
    with ExitStack() as contexts:

        def open_page(path: str = "", *, user: str = "root", role: Any = "admin", **options: Any) -> Any:
            context = browser.new_context(base_url=house.address, **options)
            contexts.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(20_000)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda told: complaints.append(told.text) if "Policy" in told.text else None)
            if role is not None:
                secret = house.visitor(user, role).client.cookies[COOKIE]
                context.add_cookies([{"name": COOKIE, "value": secret, "url": f"{house.address}/admin"}])
            page.goto(f"/admin{path}")
            return page

        yield open_page
    assert complaints == []
