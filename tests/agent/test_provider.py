"""Models by name, with a base URL, a key and an organization given by the caller."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from pydantic_ai.models.test import TestModel

from memoranda.agent.connection import connect
from memoranda.agent.models import Ask, Reply, Said, ToolCall, ToolSpec
from memoranda.agent.provider import Access
from memoranda.errors import MemorandaError, ModelError, ModelFailed, ModelUnavailable, UsageError

HELLO = Ask("Be brief.", (Said("user", "Hello"),))
ONCE = Ask("", (Said("user", "Hello"),), once=True)
KEY = "Zq7-made-up-by-nobody"
NAMES = ["openai:gpt-5.2", "openai-chat:gpt-5.2", "anthropic:claude-sonnet-4-6"]
PATHS = dict(zip(NAMES, ["/responses", "/chat/completions", "/messages"], strict=True))


class There(NamedTuple):
    """A server, the address that it is given as, what makes its answers, and the name of a model of it."""

    server: Any
    url: str
    wire: Any
    name: str


@pytest.fixture(params=NAMES)
def there(request: pytest.FixtureRequest, wire: Any, claude: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    # No server listens where the environment points to.
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_BASE_URL", "http://127.0.0.1:1/v1")
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-of-the-environment")
    spoken, kind = (claude, "AnthropicServer") if "anthropic" in request.param else (wire, "OpenAIServer")
    with getattr(spoken, kind)() as server:
        yield There(server, server.url, spoken, request.param)


def key_of(asked: Any) -> str:
    return asked.headers.get("x-api-key") or asked.headers["authorization"].removeprefix("Bearer ")


def test_a_model_is_asked_at_that_address_with_that_key(there):
    with pytest.raises(ModelFailed) as raised:
        connect(there.name).reply(ONCE)
    assert raised.value.reason == "unreachable" and not there.server.asked
    model = connect(there.name, base_url=there.url, api_key=KEY)
    assert model.name == there.name
    assert model.reply(HELLO) == Reply("Hello.", tokens_in=11, tokens_out=7)
    [asked] = there.server.asked
    assert (asked.path, key_of(asked)) == (PATHS[there.name], KEY)
    assert asked.body["model"] == there.name.partition(":")[2]
    assert "sk-of-the-environment" not in str(asked.headers)


def test_a_key_alone_is_sent_to_the_address_of_the_environment(there, monkeypatch):
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_BASE_URL", there.url)
        monkeypatch.delenv(f"{provider}_API_KEY")
    assert connect(there.name, api_key=KEY).reply(HELLO).text == "Hello."
    assert [key_of(asked) for asked in there.server.asked] == [KEY]


def test_the_key_of_the_environment_is_not_sent_to_another_address(there, monkeypatch):
    model = connect(there.name, base_url=there.url)
    assert model.reply(HELLO).text == "Hello."
    [asked] = there.server.asked
    assert "sk-of-the-environment" not in str(asked)
    there.server.waiting.append(there.wire.refuses(401))
    with pytest.raises(ModelUnavailable) as raised:
        model.reply(HELLO)
    assert "not sent to another address" in raised.value.hint
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_BASE_URL", there.url)
    connect(there.name).reply(HELLO)
    assert key_of(there.server.asked[-1]) == "sk-of-the-environment"


def test_two_models_of_one_name_are_asked_in_two_places(there):
    kind = type(there.server)
    with kind("From elsewhere.") as other:
        here = connect(there.name, base_url=there.url, api_key="key-of-here")
        elsewhere = connect(there.name, base_url=other.url, api_key="key-of-elsewhere")
        assert [model.reply(HELLO).text for model in (here, elsewhere, here)] == ["Hello.", "From elsewhere.", "Hello."]
        assert [key_of(asked) for asked in there.server.asked] == ["key-of-here"] * 2
        assert [key_of(asked) for asked in other.asked] == ["key-of-elsewhere"]


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_model_is_asked_for_an_organization(server, name, monkeypatch):
    monkeypatch.delenv("OPENAI_ORG_ID", raising=False)
    connect(name).reply(HELLO)
    connect(name, organization="org-orchard").reply(HELLO)
    assert [asked.headers.get("openai-organization") for asked in server.asked] == [None, "org-orchard"]
    connect(name, base_url=server.url, api_key=KEY, organization="org-mill").reply(HELLO)
    assert (server.asked[-1].headers["openai-organization"], key_of(server.asked[-1])) == ("org-mill", KEY)


@pytest.mark.parametrize(
    ("name", "path"), [("ollama:pear", "/chat/completions"), ("litellm:plum", "/chat/completions")]
)
def test_servers_that_speak_as_openai_does_are_asked_by_their_address(server, name, path):
    assert connect(name, base_url=server.url, api_key=KEY).reply(HELLO).text == "Hello."
    [asked] = server.asked
    assert (asked.path, key_of(asked), asked.body["model"]) == (path, KEY, name.partition(":")[2])


# options that cannot be


@pytest.mark.parametrize(
    ("name", "options", "option", "hint"),
    [
        ("anthropic:claude-sonnet-4-6", {"organization": "org-orchard"}, "organization", "`base_url` and `api_key`"),
        ("deepseek:pear", {"base_url": "http://127.0.0.1:1"}, "base_url", "it supports `api_key`"),
        ("ollama:pear", {"organization": "org-orchard"}, "organization", "`base_url` and `api_key`"),
        ("gateway/openai:pear", {"api_key": KEY}, "api_key", "no such options"),
        ("test", {"base_url": "http://127.0.0.1:1"}, "base_url", "no such options"),
    ],
)
def test_an_option_that_the_provider_does_not_know_is_refused(name, options, option, hint):
    model = connect(name, **options)
    with pytest.raises(ModelUnavailable, match=f"does not support `{option}`") as raised:
        model.reply(HELLO)
    assert name in raised.value.message and hint in raised.value.hint
    assert (raised.value.option, raised.value.model) == (option, name)


def test_a_provider_that_nobody_knows_is_refused_with_options_too():
    with pytest.raises(ModelUnavailable, match="cannot be used") as raised:
        connect("nobody:knows", api_key=KEY).reply(HELLO)
    assert "nobody" in raised.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": "models.example.com/v1"}, "is not a valid `base_url`"),
        ({"base_url": ""}, "is not a valid `base_url`"),
        ({"base_url": "ftp://models.example.com"}, "is not a valid `base_url`"),
        ({"base_url": "https://"}, "is not a valid `base_url`"),
        ({"base_url": "http://[::1"}, "is not a valid `base_url`"),
        ({"base_url": f"https://ada:{KEY}@models.example.com"}, "contains a user or a password"),
        ({"api_key": ""}, "is empty"),
        ({"api_key": f"{KEY}\n"}, "a line break"),
        ({"api_key": f"{KEY} {KEY}"}, "a space"),
        ({"api_key": f"{KEY}é"}, "an invalid character"),
        ({"organization": ""}, "is not a valid `organization`"),
        ({"organization": "org\r\nx-more: 1"}, "is not a valid `organization`"),
    ],
)
def test_what_could_never_be_sent_is_refused_at_once_and_no_key_is_repeated(options, said):
    fine = {"base_url": "https://models.example.com/v1", "api_key": KEY, "organization": "org-orchard"}
    assert connect("openai:gpt-5.2", **fine).name == "openai:gpt-5.2"
    with pytest.raises(UsageError, match=said) as raised:
        connect("openai:gpt-5.2", **options)
    assert raised.value.hint and KEY not in f"{raised.value} {raised.value.details}"


@pytest.mark.parametrize("option", ["base_url", "api_key", "organization"])
def test_a_model_that_is_there_already_takes_no_options(option):
    value = "https://models.example.com" if option == "base_url" else "org-orchard"
    for model in (TestModel(), connect(TestModel()), connect("test"), connect("openai:gpt-5.2", api_key=KEY)):
        assert connect(model).name
        with pytest.raises(UsageError, match=f"`{option}` cannot be set"):
            connect(model, **{option: value})


# keys are never shown


def printed(error: BaseException) -> str:
    """Return all that a log would show of an error."""
    details = getattr(error, "details", {})
    return "".join(traceback.format_exception(error)) + repr(error) + str(details)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_no_error_repeats_the_key_whatever_the_server_says(there, caplog, status):
    caplog.set_level(logging.DEBUG)
    model = connect(there.name, base_url=there.url, api_key=KEY)
    there.server.waiting.append(there.wire.refuses(status, f"the key {KEY} is odd"))
    with pytest.raises(ModelError) as raised:
        model.reply(ONCE)
    assert key_of(there.server.asked[0]) == KEY and raised.value.status == status
    assert KEY not in printed(raised.value)
    there.server.waiting.append(there.wire.refuses(status, "that key is odd"))
    with pytest.raises(ModelError) as raised:
        model.reply(ONCE)
    assert "that key is odd" in printed(raised.value), "what holds no key is shown with its cause"
    assert caplog.text and KEY not in caplog.text.replace(f"the key {KEY} is odd", "")


def test_a_key_is_not_shown_where_a_model_is():
    model = connect("openai:gpt-5.2", base_url="https://models.example.com/v1", api_key=KEY)
    access = Access(api_key=KEY, organization="org-orchard")
    assert repr(model) == "connect('openai:gpt-5.2')"
    assert repr(access) == "Access(api_key, organization)"


def test_a_short_key_is_a_word_and_hides_nothing(there):
    model = connect(there.name, base_url=there.url, api_key="none")
    there.server.waiting.append(there.wire.refuses(400, "there is none of these"))
    with pytest.raises(MemorandaError, match="there is none of these"):
        model.reply(ONCE)


def test_a_server_that_does_not_know_the_path_leads_to_a_hint(there):
    model = connect(there.name, base_url=there.url, api_key=KEY)
    there.server.waiting.append(there.wire.refuses(404))
    with pytest.raises(ModelUnavailable) as raised:
        model.reply(HELLO)
    assert "`base_url`" in raised.value.hint
    assert ("openai-chat:" in raised.value.hint) is there.name.startswith("openai:")


def test_naming_a_model_with_its_address_imports_nothing():
    program = """
        import sys
        from memoranda.agent.connection import connect
        connect("anthropic:claude-sonnet-4-6", base_url="https://models.example.com", api_key="made-up-by-nobody")
        print([name for name in ("pydantic_ai", "pydantic", "asyncio", "httpx") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_field_that_holds_anything_is_shown_as_that_and_a_title_is_read(there):
    fields = {
        "notes": {"type": "object", "title": "Side notes", "description": "Whatever else was said"},
        "size": {"type": "object", "properties": {"title": {"type": "string", "title": "Its name"}}},
        "marks": {"type": "array", "items": {"type": "object"}},
    }
    closed = {"type": "object", "properties": fields, "required": ["notes"], "additionalProperties": False}
    model = connect(there.name, base_url=there.url, api_key=KEY)
    for ask in (
        Ask("", HELLO.messages, schema=closed, once=True),
        Ask("", HELLO.messages, tools=(ToolSpec("keep", "Keep it.", closed),), once=True),
    ):
        with suppress(ModelFailed):  # The reply does not fit the schema: only the request matters here.
            model.reply(ask)
        shown = next(found for found in parts(there.server.asked[-1].body) if "notes" in found)
        assert shown["notes"]["additionalProperties"] is True
        assert shown["notes"]["description"] == "Side notes: Whatever else was said"
        assert shown["marks"]["items"]["additionalProperties"] is True
        assert shown["size"]["properties"]["title"]["description"] == "Its name"
        assert shown["size"].get("additionalProperties") is not True
    assert fields["notes"].keys() == {"type", "title", "description"}  # what was given is left as it was


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a body."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(one)


def test_a_failed_call_is_marked_as_an_error_where_the_wire_has_a_mark(there):
    model = connect(there.name, base_url=there.url, api_key=KEY)
    look = ToolSpec("look", "Look at a roof", {"type": "object", "properties": {"house": {"type": "string"}}})
    calls = (ToolCall("c1", "look", {"house": "7"}), ToolCall("c2", "look", {"house": "9"}))
    failure = '{"error":"the ladder broke","code":"tool_failed"}'
    said = (
        Said("user", "Hello"),
        Said("assistant", "", calls),
        Said("tool", failure, call_id="c1", tool="look", failed=True),
        Said("tool", '"dry"', call_id="c2", tool="look"),
    )
    model.reply(Ask("", said, tools=(look,), max_tokens=200))
    body = there.server.asked[0].body
    if there.name.startswith("anthropic"):
        results = [
            (block["tool_use_id"], block["content"], block["is_error"]) for block in body["messages"][-1]["content"]
        ]
        assert [(id, content[0]["text"], wrong) for id, content, wrong in results] == [
            ("c1", failure, True),
            ("c2", '"dry"', False),
        ]
        return
    # OpenAI has no mark: the text itself says that it is an error, and is not wrapped in another one.
    if there.name.startswith("openai-chat"):
        texts = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    else:
        texts = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
    assert texts == [failure, '"dry"']
