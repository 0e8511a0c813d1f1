"""Everything a server is started with, checked. Where each value comes from is `memoranda.cli.settings`'s matter."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from memoranda.errors import UsageError
from memoranda.lang.egress import egress_policy
from memoranda.model.text import quote

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_SECRET = {"secret": True}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `serve` and `create_app` go by."""

    db: str = "memory.db"
    """The database: a path, `postgresql://user@host/database`, or `:memory:`."""
    embedder: str = "wordllama"
    """What new collections are embedded with."""
    durability: Literal["full", "normal"] = "full"
    """`full`: what is acknowledged is on disk; `normal`: the newest commits may be lost with the power, never torn."""
    ledger: Literal["writes", "all"] = "writes"
    """`writes`, or `all` to record reads too."""
    busy_timeout: float = 5.0
    """Seconds that a write waits for other processes."""

    host: str = "127.0.0.1"
    """The address that is listened on; one that others reach belongs behind a proxy with TLS."""
    port: int = 8765
    """0 for any that is free."""
    workers: int = 1
    """Processes on one database."""
    threads: int = 32
    """Threads of one process that wait for the disk: those that write at the same time share one commit."""
    body_bytes: int = 1_048_576
    """Bytes of one request's body."""
    page_bytes: int = 1_048_576
    """Bytes of one page of a list; an item that is larger comes alone."""
    export_timeout: float = 600.0
    """Seconds in which an export must have been received; it reads one snapshot, which keeps old data on disk."""
    read_timeout: float = 30.0
    """Seconds in which a request must have arrived."""
    shutdown_timeout: float = 10.0
    """Seconds that requests under way have to end in when the server is stopped."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may call; none unless said."""
    log_level: LogLevel = "info"
    """The least that is logged: `debug`, `info`, `warning` or `error`."""

    admin_key: str = field(default="", metadata=_SECRET)
    """The key of the first administrator; one is made and shown once where this is empty."""
    rate: float = 2_000.0
    """Requests a second of one key; 0 for no limit."""
    burst: int = 10_000
    """Requests that one key may make at once."""
    wrong_keys: int = 20
    """Wrong keys and tokens in a minute from one address, before it gets 429; 0 for no limit."""
    proxies: tuple[str, ...] = ()
    """Proxies whose `X-Forwarded-For` names the client, by address or network; none unless said."""
    jwt: bool = False
    """Whether signed tokens are taken beside keys; a secret or `jwks` alone says so too."""
    jwt_algorithm: Literal["", "HS256", "RS256"] = ""
    """Which one tokens are signed with; empty for RS256 where only `jwks` is set, else HS256."""
    jwt_secret: str = field(default="", metadata=_SECRET)
    """What tokens of HS256 are signed with."""
    jwks: str = ""
    """A file or address with the public keys of RS256."""
    jwt_issuer: str = ""
    """Who must have issued a token; empty for anybody who could sign it."""
    jwt_audience: str = ""
    """Whom a token must be for; where this is empty, one that is meant for somebody is refused."""

    sleep: bool = True
    """Whether conversations that have settled become memory while the server runs."""
    sleep_delay: int = 300
    """Seconds without a word after which a conversation has settled; 0 is as soon as the reply is there."""
    sleep_every: float = 30.0
    """Seconds between two looks for such conversations."""
    sleep_model: str = ""
    """Who says what a conversation teaches, such as `openai:gpt-5.2`; empty for rules, which need no model."""

    agents: str = ""
    """The folder of the agents that the server runs."""
    machines: str = ""
    """The folder of the machines."""
    workflows: str = ""
    """The folder of the workflows."""
    egress_allow: tuple[str, ...] = ()
    """Hosts, addresses and networks that programs may reach beside the public internet, such as `10.1.0.0/16`."""

    def __post_init__(self) -> None:
        """Refuse values that a server cannot run with."""
        _check_range("port", self.port, 0, 65_535)
        _check_range("workers", self.workers, 1, 256)
        _check_range("threads", self.threads, 1, 1_024)
        _check_range("body_bytes", self.body_bytes, 1_024, 1_073_741_824)
        _check_range("page_bytes", self.page_bytes, 1_024, 1_073_741_824)
        _check_range("export_timeout", self.export_timeout, 0.05, 86_400)
        _check_range("read_timeout", self.read_timeout, 0.05, 3_600)
        _check_range("shutdown_timeout", self.shutdown_timeout, 0, 3_600)
        _check_range("sleep_delay", self.sleep_delay, 0, 31_536_000)
        _check_range("sleep_every", self.sleep_every, 0.05, 86_400)
        _check_range("rate", self.rate, 0, 1_000_000_000)
        _check_range("wrong_keys", self.wrong_keys, 0, 1_000_000)
        _check_range("burst", self.burst, 1, 1_000_000_000)
        egress_policy(self.egress_allow)
        if self.log_level not in LOG_LEVELS:
            raise UsageError(f"{quote(self.log_level)} is not a log level", hint=f"Levels are {', '.join(LOG_LEVELS)}")

    @property
    def takes_tokens(self) -> bool:
        """Whether signed tokens are taken beside keys: a server without them loads no cryptography."""
        return bool(self.jwt or self.jwt_secret or self.jwks)


SECRETS = frozenset(one.name for one in fields(Settings) if one.metadata.get("secret"))
"""Settings whose values are never shown."""


def _check_range(name: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or math.isnan(value):
        raise UsageError(f"{quote(value)} is no `{name}`", hint=f"Set it to a number from {least:g} to {most:g}")
