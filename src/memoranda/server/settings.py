"""The settings of a server. `memoranda.server.environment` reads them from flags, variables and files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from memoranda.errors import UsageError
from memoranda.lang.egress import egress_policy
from memoranda.model.clock import parse_duration
from memoranda.model.text import quote

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_SECRET = {"secret": True}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Validated settings of `serve` and `create_app`."""

    db: str = "memory.db"
    """The database: a path, `postgresql://user@host/database`, or `:memory:`."""
    embedder: str = "wordllama"
    """The embedder of new collections."""
    durability: Literal["full", "normal"] = "full"
    """`full`: acknowledged writes are on disk; `normal`: a power failure may lose the newest commits."""
    ledger: Literal["writes", "all"] = "writes"
    """`writes`, or `all` to record reads too."""
    busy_timeout: float = 5.0
    """Seconds that a write waits for other processes."""
    read_from: Literal["primary", "standby"] = "primary"
    """`standby` lets a standby of PostgreSQL answer what only reads; writes go to the primary."""
    statement_timeout: float = 0.0
    """Seconds that PostgreSQL may work on one statement; 0 for no limit."""

    host: str = "127.0.0.1"
    """The address to listen on; put a TLS proxy in front of one that others can reach."""
    port: int = 8765
    """0 for any free port."""
    workers: int = 1
    """Number of server processes."""
    threads: int = 32
    """Threads of one process for database work: concurrent writes share a commit."""
    pool: int = 0
    """Connections of one process to PostgreSQL; 0 for as many as `threads`, which wait for one if there are fewer."""
    body_bytes: int = 1_048_576
    """Maximum bytes of a request body."""
    page_bytes: int = 1_048_576
    """Maximum bytes of one page of a list; a larger item is sent alone."""
    export_timeout: float = 600.0
    """Seconds an export may take; its snapshot keeps old data on disk."""
    read_timeout: float = 30.0
    """Seconds a request may take to arrive."""
    shutdown_timeout: float = 10.0
    """Seconds that running requests may take when the server is stopped."""
    cors: tuple[str, ...] = ()
    """Origins allowed to call the API from a browser (CORS); none by default."""
    log_level: LogLevel = "info"
    """The minimum log level: `debug`, `info`, `warning` or `error`."""

    admin_key: str = field(default="", metadata=_SECRET)
    """The key of the first administrator; if empty, one is created and shown once."""
    rate: float = 2_000.0
    """Requests per second for one key; 0 for no limit."""
    burst: int = 10_000
    """Requests that one key may make in a burst."""
    wrong_keys: int = 20
    """Wrong keys and tokens per minute from one address before it gets 429; 0 for no limit."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is trusted; none by default."""
    jwt: bool = False
    """Whether signed tokens (JWT) are accepted beside keys; implied by a secret or `jwks`."""
    jwt_algorithm: Literal["", "HS256", "RS256"] = ""
    """The signature algorithm; empty for RS256 where only `jwks` is set, else HS256."""
    jwt_secret: str = field(default="", metadata=_SECRET)
    """The secret of HS256 tokens."""
    jwks: str = ""
    """A file or URL with the public keys of RS256 tokens."""
    jwt_issuer: str = ""
    """The required issuer of tokens; empty for any."""
    jwt_audience: str = ""
    """The required audience of tokens; if empty, tokens with an audience are rejected."""

    sleep: bool = True
    """Whether the server learns from settled conversations."""
    sleep_delay: int = 300
    """Seconds of silence after which a conversation counts as settled; 0 for right after the reply."""
    sleep_every: float = 30.0
    """Seconds between two searches for settled conversations."""
    sleep_model: str = ""
    """The model that extracts memories, such as `openai:gpt-5.2`; empty for rules, which need no model."""

    agents: str = ""
    """The folder with agents."""
    machines: str = ""
    """The folder with machines."""
    workflows: str = ""
    """The folder with workflows."""
    on_invalid: Literal["raise", "skip"] = "raise"
    """What a workflow does about a record that it names and that does not fit its definition: not start, or skip it."""
    strict: bool = False
    """Whether a program file with an error stops the start; otherwise it is listed with its errors."""
    reload: bool = False
    """Whether changed program files are loaded again by themselves."""
    step_records: Literal["none", "hashes", "full"] = "full"
    """What is recorded of each step of a run: `full`, `hashes` of values, or `none`."""
    step_redact: tuple[str, ...] = ()
    """Names of fields that step records leave out, such as `email`."""
    keep_steps: str = "30d"
    """How long step records are kept; empty for as long as their run or session."""
    keep_runs: str = "30d"
    """How long the data of a run is kept after its end; empty for no limit."""
    keep_sessions: str = ""
    """How long an idle session of an agent is kept; empty for no limit."""
    sweep_every: float = 3_600.0
    """Seconds between two sweeps of expired data; 0 for none."""
    egress_allow: tuple[str, ...] = ()
    """Hosts, addresses and networks that programs may reach besides the public internet, such as `10.1.0.0/16`."""

    def __post_init__(self) -> None:
        """Validate the values."""
        _check_range("port", self.port, 0, 65_535)
        _check_range("workers", self.workers, 1, 256)
        _check_range("threads", self.threads, 1, 1_024)
        _check_range("pool", self.pool, 0, 10_000)
        _check_range("statement_timeout", self.statement_timeout, 0, 86_400)
        _check_range("body_bytes", self.body_bytes, 1_024, 1_073_741_824)
        _check_range("page_bytes", self.page_bytes, 1_024, 1_073_741_824)
        _check_range("export_timeout", self.export_timeout, 0.05, 86_400)
        _check_range("read_timeout", self.read_timeout, 0.05, 3_600)
        _check_range("shutdown_timeout", self.shutdown_timeout, 0, 3_600)
        _check_range("sleep_delay", self.sleep_delay, 0, 31_536_000)
        _check_range("sleep_every", self.sleep_every, 0.05, 86_400)
        _check_range("sweep_every", self.sweep_every, 0, 31_536_000)
        for name in ("keep_steps", "keep_runs", "keep_sessions"):
            if getattr(self, name):
                parse_duration(getattr(self, name))
        _check_range("rate", self.rate, 0, 1_000_000_000)
        _check_range("wrong_keys", self.wrong_keys, 0, 1_000_000)
        _check_range("burst", self.burst, 1, 1_000_000_000)
        egress_policy(self.egress_allow)
        if self.on_invalid not in ("raise", "skip"):
            raise UsageError(f"{quote(self.on_invalid)} is not a valid `on_invalid`", hint="Set it to raise or skip")
        if self.log_level not in LOG_LEVELS:
            raise UsageError(f"{quote(self.log_level)} is not a log level", hint=f"Levels are {', '.join(LOG_LEVELS)}")

    @property
    def takes_tokens(self) -> bool:
        """Whether signed tokens are accepted; without them no cryptography is loaded."""
        return bool(self.jwt or self.jwt_secret or self.jwks)


SECRETS = frozenset(one.name for one in fields(Settings) if one.metadata.get("secret"))
"""Names of settings whose values are never shown."""


def _check_range(name: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or math.isnan(value):
        raise UsageError(
            f"{quote(value)} is not a valid `{name}`", hint=f"Set it to a number from {least:g} to {most:g}"
        )
