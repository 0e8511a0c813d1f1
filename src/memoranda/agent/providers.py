"""The name of a model and how its provider is reached in, a model of pydantic-ai out.

A key is given to the client of its provider and to nobody else: it stands in no repr, no error and no log.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from memoranda.errors import ModelUnavailable, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider

NAMING = "Write `provider:model`, such as `anthropic:claude-sonnet-4-6` or `openai:gpt-5.2`"
_PARAMETERS = (("base_url", "base_url"), ("base_url", "api_base"), ("api_key", "api_key"))
"""Our options, and what constructors of providers call them."""
_ORGANIZED = frozenset({"openai", "openai-chat", "openai-responses"})
"""The providers that know organizations."""
_NO_KEY = "none-given"
_HEADER = re.compile(r"[!-~]+")
_HOW_IN_PYTHON = re.compile(r" or pass it via `[^`]*`[^.]*\.?")
_SECRET = 8
"""Characters of a secret; shorter keys are words such as `none`, which servers without keys are given."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is reached; what is not said is as the environment and the provider have it."""

    base_url: str | None = None
    api_key: str | None = None
    organization: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could never be sent, before anything is."""
        if self.base_url is not None:
            _check_address(self.base_url)
        if self.api_key is not None and not _HEADER.fullmatch(self.api_key):
            what = "is empty" if not self.api_key else "holds a space, a line break or a letter that no key has"
            raise UsageError(f"the `api_key` {what}", hint="Pass it as the provider gave it")
        if self.organization is not None and not _HEADER.fullmatch(self.organization):
            message = f"{quote(self.organization)} cannot be an `organization`"
            raise UsageError(message, hint="Pass its id, such as `org-7Qx`", value=self.organization)

    def __repr__(self) -> str:
        """Return how it is reached, without the key."""
        return f"Access({', '.join(self.given)})"

    @property
    def given(self) -> list[str]:
        """The names of the options that somebody gave."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    def reveals_key(self, text: str) -> bool:
        """Return whether a text holds the key."""
        return self.api_key is not None and len(self.api_key) >= _SECRET and self.api_key in text

    def hide(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self.api_key, "…") if self.api_key is not None and self.reveals_key(text) else text


def _check_address(address: str) -> None:
    hint = "Such as `https://models.example.com/v1`"
    try:
        parts = urlsplit(address)
        host, keyed = parts.hostname, parts.username is not None or parts.password is not None
    except ValueError:
        host, keyed = None, False
    # It is shown in logs of clients, and a key in it would be too.
    if keyed:
        raise UsageError("the `base_url` holds a user or a password", hint=f"{hint}; keys are given as `api_key`")
    if not host or not address.startswith(("http://", "https://")):
        raise UsageError(f"{quote(address)} cannot be a `base_url`", hint=hint, value=address)


def find_model(name: str, access: Access) -> ProviderModel:
    """Return the model of this name, or raise ModelUnavailable with what is missing."""
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise ModelUnavailable(
            f"the model {quote(name)} needs the package `pydantic-ai`, which is not installed",
            hint='Install it with `pip install "memoranda[llm]"`',
            model=name,
        ) from error
    try:
        if not access.given:
            return infer_model(name)
        if ":" not in name:
            raise _unknown(name, access.given, {})
        return infer_model(name, provider_factory=lambda provider: _provider(name, provider, access))
    except (UserError, ImportError, ValueError) as error:
        # Of several sentences, the first says which setting or package is missing; how its own classes take a key
        # is of no use here.
        reason = _HOW_IN_PYTHON.sub(".", str(error).partition(" To try ")[0])
        hint = f"{reason}. {NAMING}" if reason.startswith("Unknown") else reason
        raise ModelUnavailable(f"the model {quote(name)} cannot be used", hint=hint, model=name) from error


def _provider(name: str, provider: str, access: Access) -> Provider[Any]:
    """Return a provider that is reached as was said."""
    from pydantic_ai.providers import infer_provider_class

    # A gateway has the keys itself, and its class is that of the provider behind it.
    kind = None if provider.startswith("gateway/") else infer_provider_class(provider)
    known = _known(provider, kind)
    unknown = [option for option in access.given if option not in known]
    if kind is None or unknown:
        raise _unknown(name, unknown, known)
    api_key = access.api_key
    if access.base_url is not None and api_key is None:
        # The key in the environment is for the provider's own address; clients would send it anywhere.
        api_key = _NO_KEY
    values = {"base_url": access.base_url, "api_key": api_key}
    made = kind(**{known[option]: value for option, value in values.items() if option in known and value is not None})
    if access.organization is not None:
        made.client.organization = access.organization
    return made


def _known(provider: str, kind: type[Provider[Any]] | None) -> dict[str, str]:
    """Return the options that a provider knows, and what its constructor calls them."""
    if kind is None:
        return {}
    parameters = inspect.signature(kind).parameters
    known = {option: parameter for option, parameter in _PARAMETERS if parameter in parameters}
    return {**known, "organization": ""} if provider in _ORGANIZED else known


def _unknown(name: str, unknown: list[str], known: dict[str, str]) -> ModelUnavailable:
    options = " and ".join(f"`{option}`" for option in known)
    return ModelUnavailable(
        f"the provider of the model {quote(name)} knows no `{unknown[0]}`",
        hint=f"Leave it out; {f'it knows {options}' if known else 'it knows no such options'}",
        model=name,
        option=unknown[0],
    )
