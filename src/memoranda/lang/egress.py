"""The policy for where programs may send HTTP requests, and `fetch`, which keeps to it.

The policy is about addresses, not names: a host is resolved, the resolved address is checked, and the connection is
made to that address. A name that resolves to something else a moment later, an odd spelling of a loopback address and a
redirect all end at the same check. Proxies of the environment are not used, since nothing behind one could be checked.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

import msgspec

from memoranda.errors import NEUTRAL_WORDS, Hint, UsageError, render_hint
from memoranda.model.text import quote as shown

MAX_BYTES = 1_048_576
"""Maximum size of a response in bytes."""
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("connection", "content-length", "host", "transfer-encoding")
"""Headers that only the client may set."""
_IN_PATH = "/%:@!$&'()*+,;=~"
_IN_QUERY = _IN_PATH + "?[]"
_ADDRESS = "Write it whole, such as https://example.org/path"
_ALLOWED = (
    "List host names, addresses or networks, each with a port if you like: api.internal, 10.0.0.0/8, localhost:9000"
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[_Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# Written out, because `is_private` and the like differ between versions of Python.
_NEVER_PUBLIC: dict[str, tuple[_Network, ...]] = {
    "the metadata service of a cloud": _networks(
        "169.254.169.254/32", "169.254.170.2/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32",
        "fd00:ec2::254/128",
    ),
    "a link-local address": _networks("169.254.0.0/16", "fe80::/10"),
    "an unspecified address": _networks("0.0.0.0/8", "::/128"),
    "a multicast or reserved address": _networks(
        "224.0.0.0/4", "240.0.0.0/4", "ff00::/8", "100::/64", "2001::/23", "2002::/16", "fec0::/10", "5f00::/16"
    ),
}  # fmt: skip
"""Addresses that are denied unless listed, wherever a program runs."""
_LOCAL: dict[str, tuple[_Network, ...]] = {
    "a loopback address": _networks("127.0.0.0/8", "::1/128"),
    "a private address": _networks(
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "fc00::/7", "64:ff9b:1::/48",
        "2001:db8::/32", "3fff::/20",
    ),
}  # fmt: skip
"""Addresses that are also denied on a server, unless listed."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


class EgressPolicy(msgspec.Struct, frozen=True):
    """Where requests may go: the public internet, and what is listed; `local` adds this host and its network.

    >>> policy = egress_policy(["10.1.0.0/16"])
    >>> policy.refusal("10.1.2.3", 80, ipaddress.ip_address("10.1.2.3")) is None
    True
    >>> policy.refusal("10.2.0.1", 80, ipaddress.ip_address("10.2.0.1"))
    'a private address'
    """

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[str, int | None], ...] = ()
    """Networks as text, so that a policy can be compared and hashed, with the port they are limited to."""
    local: bool = False

    def refusal(self, host: str, port: int, address: Address) -> str | None:
        """Return the kind of a denied address, or None for one that may be reached."""
        name = _name(host)
        if (name, None) in self.hosts or (name, port) in self.hosts:
            return None
        address = _effective(address)
        for network, limit in self.networks:
            if limit in (None, port) and address in ipaddress.ip_network(network):
                return None
        kinds = _NEVER_PUBLIC if self.local else _NEVER_PUBLIC | _LOCAL
        return next((kind for kind, networks in kinds.items() if any(address in one for one in networks)), None)


def _effective(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address itself.

    6to4 and Teredo addresses embed one too, and are always denied.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    number = int(address)
    carries = address in _NAT64 or (address in _COMPATIBLE and number > 1)
    return ipaddress.IPv4Address(number & 0xFFFFFFFF) if carries else address


LOCAL_EGRESS = EgressPolicy(local=True)
"""The default outside a server: everything but link-local addresses, metadata services and multicast."""


def egress_policy(allow: Iterable[str] | None) -> EgressPolicy:
    """Return the policy that allows the public internet and what is listed; for None, `LOCAL_EGRESS`."""
    if allow is None:
        return LOCAL_EGRESS
    if isinstance(allow, str):
        raise UsageError(f"{shown(allow)} is one text, not a list of them", hint=_ALLOWED, value=allow)
    hosts: set[tuple[str, int | None]] = set()
    networks: list[tuple[str, int | None]] = []
    for entry in allow:
        place, port = _split_port(entry)
        try:
            networks.append((str(ipaddress.ip_network(place)), port))
        except ValueError as error:
            name = _name(place)
            # Resolvers read a name that ends in a number as an address; Python could not, so it is misspelled.
            if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) or name.rpartition(".")[2].isdigit():
                raise UsageError(f"{shown(entry)} cannot be allowed: {error}", hint=_ALLOWED, value=entry) from error
            hosts.add((name, port))
    return EgressPolicy(frozenset(hosts), tuple(networks))


def _split_port(entry: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]*))(?::(\d{1,5}))?", entry.strip())
    if found is None:
        return entry.strip(), None
    return found[1] or found[2], None if found[3] is None else int(found[3])


def _name(host: str) -> str:
    return host.lower().rstrip(".")


# --- requests ---------------------------------------------------------------------------------------------------------

Reason = Literal["timeout", "unreachable", "redirected", "too_large", "denied", "not_installed"]


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; `timeout` is the time for all of it, in seconds."""

    method: str
    url: str
    headers: Mapping[str, str | bytes]
    body: bytes | None
    timeout: float


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes
    content_type: str
    """Such as `application/json`, without parameters; empty when the server sends none."""
    charset: str


class RequestFailed(Exception):
    """A request that gave no usable response."""

    def __init__(self, reason: Reason, message: str, *, hint: str = "", response: HttpResponse | None = None) -> None:
        """Give the reason; `response` is the redirect not followed, or the beginning of one that is too large."""
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.hint = hint
        self.response = response


def fetch(request: HttpRequest, policy: EgressPolicy = LOCAL_EGRESS) -> HttpResponse:
    """Send a request and return the response, whatever its status; raise RequestFailed.

    Redirects are followed on the same server only: headers and bodies may be secret to other servers.
    """
    check_headers(request.headers)
    request = msgspec.structs.replace(request, url=normalize_url(request.url))
    send = _client()
    end = time.perf_counter() + request.timeout
    for _ in range(_MAX_REDIRECTS + 1):
        response = send(request, policy, end)
        following = _redirect(request, response)
        if following is None:
            return response
        request = following
    raise RequestFailed("redirected", f"{server_of(request.url)} redirects more than {_MAX_REDIRECTS} times")


def _client() -> Callable[[HttpRequest, EgressPolicy, float], HttpResponse]:
    """Return the function that sends; it needs httpx, which is an extra."""
    try:
        from memoranda.lang.http_client import send
    except ImportError as error:
        raise RequestFailed(
            "not_installed",
            "a request over HTTP needs the package `httpx`, which is not installed",
            hint=render_hint(Hint("install", "api"), NEUTRAL_WORDS),
        ) from error
    return send


def normalize_url(url: str) -> str:
    """Return a URL as it is sent; raise UsageError for anything but http and https with a host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        name = host.encode("idna").decode() if not host.isascii() else host
    except ValueError as error:
        raise UsageError(f"{shown(url)} is not a URL: {error}", hint=_ADDRESS, value=url) from error
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{shown(url)} does not begin with http:// or https://", hint=_ADDRESS, value=url)
    if "@" in parts.netloc:
        # The part before `@` looks like a server, and URLs are shown in messages.
        raise UsageError("the URL contains a user name", hint="Send it as the header `authorization`")
    if not name or _CONTROLS.search(url) or " " in name:
        raise UsageError(f"{shown(url)} has no host", hint=_ADDRESS, value=url)
    place = f"[{name}]" if ":" in name else name
    return urlunsplit(
        SplitResult(
            parts.scheme,
            place if port is None else f"{place}:{port}",
            quote(parts.path or "/", safe=_IN_PATH),
            quote(parts.query, safe=_IN_QUERY),
            "",
        )
    )


def check_headers(headers: Mapping[str, str | bytes]) -> None:
    """Raise UsageError for headers that cannot be sent, or that callers may not set."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise UsageError(f"{shown(name)} is not a valid header name", hint="Use letters, digits and hyphens")
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"the header {shown(name)} cannot be set", hint="Leave it out", value=name)
        text = value if isinstance(value, str) else value.decode("latin-1")
        # The value itself may be a secret.
        if _CONTROLS.search(text) or not (text.isascii() or isinstance(value, bytes)):
            raise UsageError(
                f"the header {shown(name)} contains characters that are not visible ASCII",
                hint="Encode it first",
                value=name,
            )


def server_of(url: str) -> str:
    """Return scheme and host of a URL for messages; the rest may contain secrets."""
    return shown("://".join(urlsplit(url)[:2]))


def _redirect(request: HttpRequest, response: HttpResponse) -> HttpRequest | None:
    """Return the request that follows a redirect, or None for other responses."""
    where = response.headers.get("location")
    if response.status not in _REDIRECTS or not where:
        return None
    try:
        there = normalize_url(urljoin(request.url, where))
    except (UsageError, ValueError) as error:
        said = error.message if isinstance(error, UsageError) else str(error)
        message = f"{server_of(request.url)} redirects: {said}"
        raise RequestFailed("redirected", message, response=response) from error
    if _origin(there) != _origin(request.url):
        message = f"{server_of(request.url)} redirects to another server, {server_of(there)}"
        raise RequestFailed("redirected", message, response=response)
    becomes_get = response.status == 303 or (response.status in (301, 302) and request.method == "POST")
    if not becomes_get or request.method == "HEAD":
        return msgspec.structs.replace(request, url=there)
    headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
    return msgspec.structs.replace(request, url=there, method="GET", body=None, headers=headers)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or default_port(parts.scheme)


def default_port(scheme: str) -> int:
    """Return the default port of a scheme."""
    return 443 if scheme == "https" else 80
