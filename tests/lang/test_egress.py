"""Where requests of programs may go: the policy by address, and the client that connects to what was checked."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memoranda.errors import UsageError
from memoranda.lang.egress import LOCAL_EGRESS, HttpRequest, RequestFailed, egress_policy, fetch

SERVER = egress_policy(())


class Listener:
    """A server on a loopback address that counts what it is asked and redirects where it is told to."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.asked: list[str] = []
        self.redirects: list[str] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listener.asked.append(self.path)
                where = listener.redirects.pop(0) if listener.redirects else None
                self.send_response(302 if where else 200)
                if where:
                    self.send_header("location", where)
                self.send_header("set-cookie", "session=1")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._http.server_port

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    one = Listener()
    yield one
    one.close()


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let a name resolve to one list of addresses after the other; return which names were looked up."""
    real = socket.getaddrinfo
    looked_up: list[str] = []

    def answer(name: str, *answers: list[str]) -> list[str]:
        left = list(answers)

        def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
            if host != name:
                return real(host, port, *args, **options)
            looked_up.append(host)
            found = left.pop(0) if len(left) > 1 else left[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return looked_up

    return answer


def get(url: str, policy: Any, timeout: float = 10) -> int:
    return fetch(HttpRequest(method="GET", url=url, headers={}, body=None, timeout=timeout), policy).status


def refusal(url: str, policy: Any) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        get(url, policy)
    return caught.value


# the policy


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"),
        *("100.127.255.255", "169.254.169.254", "169.254.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1"),
        *("240.0.0.1", "255.255.255.255", "192.0.0.192", "168.63.129.16", "198.18.0.1", "192.0.2.1"),
        *("::1", "::", "::2", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:169.254.169.254"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::", "2001:0:1::1"),
    ],
)
def test_no_program_on_a_server_reaches_what_is_not_public(address: str) -> None:
    assert SERVER.refusal(address, 80, ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_what_is_public_is_reached(address: str) -> None:
    assert SERVER.refusal("example.org", 443, ipaddress.ip_address(address)) is None


def test_programs_that_people_run_themselves_reach_their_own_network_and_no_metadata() -> None:
    for address in ("127.0.0.1", "::1", "10.0.0.1", "fd00::1", "::ffff:192.168.0.1", "8.8.8.8"):
        assert LOCAL_EGRESS.refusal("x", 80, ipaddress.ip_address(address)) is None
    for address in ("169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "0.0.0.0", "224.0.0.1"):
        assert LOCAL_EGRESS.refusal("x", 80, ipaddress.ip_address(address)) is not None


def test_hosts_addresses_and_networks_are_listed_with_or_without_a_port() -> None:
    policy = egress_policy(["API.internal.", "db.internal:5000", "10.1.0.0/16", "[fd00::7]:8080", "192.168.0.9:80"])
    private = ipaddress.ip_address("10.9.9.9")
    assert policy.refusal("api.internal", 1, private) is None
    assert policy.refusal("api.internal.", 1, private) is None
    assert policy.refusal("db.internal", 5000, private) is None
    assert policy.refusal("db.internal", 5001, private) == "a private address"
    assert policy.refusal("evil-api.internal", 1, private) == "a private address"
    assert policy.refusal("x.api.internal", 1, private) == "a private address"
    assert policy.refusal("x", 1, ipaddress.ip_address("::ffff:10.1.2.3")) is None
    assert policy.refusal("x", 8080, ipaddress.ip_address("fd00::7")) is None
    assert policy.refusal("x", 8081, ipaddress.ip_address("fd00::7")) is not None
    assert policy.refusal("x", 443, ipaddress.ip_address("192.168.0.9")) is not None


@pytest.mark.parametrize("entry", ["*", "*.internal", "http://x", "10.0.0.1/8", "10.0.0", "a b", "", "x:99999999"])
def test_what_cannot_be_listed_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="cannot be allowed"):
        egress_policy([entry])
    with pytest.raises(UsageError, match="one text"):
        egress_policy("localhost")


# the client


SPELLINGS = ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "localhost"]


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_loopback_address_is_known_however_it_is_spelled(listener: Listener, host: str) -> None:
    url = f"http://{host}:{listener.port}/x"
    denied = refusal(url, SERVER)
    assert (denied.reason, listener.asked) == ("denied", [])
    assert "MEMORANDA_EGRESS_ALLOW=" in denied.hint and "`egress`" in denied.hint
    assert get(url, egress_policy(["127.0.0.0/8", "::1"])) == 200
    assert listener.asked == ["/x"]


def test_a_dot_behind_a_name_changes_nothing(listener: Listener, resolver: Any) -> None:
    resolver("localhost.", ["127.0.0.1"])
    url = f"http://localhost.:{listener.port}/"
    assert (refusal(url, SERVER).reason, listener.asked) == ("denied", [])
    assert get(url, egress_policy(["localhost"])) == 200


def test_what_the_hint_says_to_set_allows_the_request(listener: Listener) -> None:
    for host in ("127.0.0.1", "localhost"):
        url = f"http://{host}:{listener.port}/x"
        entry = refusal(url, SERVER).hint.partition("MEMORANDA_EGRESS_ALLOW=")[2].partition(" ")[0]
        assert get(url, egress_policy([entry])) == 200


def test_a_name_of_a_private_address_is_refused_without_telling_the_address(resolver: Any) -> None:
    looked_up = resolver("wiki.test", ["10.20.30.40"])
    denied = refusal("http://wiki.test/", SERVER)
    assert (denied.reason, looked_up) == ("denied", ["wiki.test"])
    assert "10.20" not in denied.message + denied.hint


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(listener: Listener, resolver: Any) -> None:
    other = Listener("127.0.0.2", listener.port)
    try:
        policy = egress_policy(["127.0.0.1"])
        looked_up = resolver("rebind.test", ["127.0.0.1"], ["127.0.0.2"])
        assert get(f"http://rebind.test:{listener.port}/", policy) == 200
        assert looked_up == ["rebind.test"]
        assert refusal(f"http://rebind.test:{listener.port}/", policy).reason == "denied"
        assert (len(listener.asked), other.asked) == (1, [])
    finally:
        other.close()


def test_every_hop_is_checked_and_none_leads_to_another_server(listener: Listener, resolver: Any) -> None:
    other = Listener("127.0.0.2", listener.port)
    try:
        policy = egress_policy(["127.0.0.1"])
        resolver("rebind.test", ["127.0.0.1"], ["127.0.0.2"])
        listener.redirects = ["/there"]
        assert refusal(f"http://rebind.test:{listener.port}/", policy).reason == "denied"
        resolver("steady.test", ["127.0.0.1"])
        listener.redirects = ["/there"]
        assert get(f"http://steady.test:{listener.port}/", policy) == 200
        for where in (f"http://127.0.0.2:{listener.port}/", "http://169.254.169.254/", "//evil.test/", "ftp://x/"):
            listener.redirects = [where]
            assert refusal(f"http://steady.test:{listener.port}/", policy).reason == "redirected"
        assert other.asked == []
    finally:
        other.close()


def test_of_several_addresses_only_those_that_are_allowed_are_tried(listener: Listener, resolver: Any) -> None:
    other = Listener("127.0.0.2", listener.port)
    try:
        resolver("both.test", ["127.0.0.2", "127.0.0.1"])
        assert get(f"http://both.test:{listener.port}/", egress_policy(["127.0.0.1"])) == 200
        assert (len(listener.asked), other.asked) == (1, [])
    finally:
        other.close()


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def silent(*args: Any, **options: Any) -> Any:
        released.wait(30)
        raise OSError("nothing")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    begun = time.perf_counter()
    with pytest.raises(RequestFailed) as caught:
        get("http://slow.test/", SERVER, timeout=0.2)
    released.set()
    assert caught.value.reason == "timeout"
    assert time.perf_counter() - begun < 15


def test_a_user_name_in_an_address_is_refused() -> None:
    with pytest.raises(UsageError, match="user name") as caught:
        get("http://name:secret@127.0.0.1/", LOCAL_EGRESS)
    assert "secret" not in str(caught.value)
