"""The transfer example, by hand: what the rules forbid does not happen, however it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.abl.scripts import run_scripts

BANK = Path(__file__).parents[2] / "examples" / "abl" / "wire_transfer"


class Books:
    """The books of the bank, which write down every transfer."""

    def __init__(self) -> None:
        self.account = {"balance": 8200, "sent_today": 300, "status": "open"}
        self.score = 5
        self.sent: list[tuple[str, float]] = []

    def tools(self):
        def load_account(user):
            return dict(self.account)

        def screen_transfer(payee, country):
            return {"score": self.score}

        def check_pin(user, pin):
            return {"right": pin == "2407"}

        def send_wire(payee, country, amount, currency, purpose=""):
            self.sent.append((payee, amount))
            return {"id": f"W{len(self.sent)}"}

        def wire_status(id):
            return {"id": id, "state": "accepted"}

        return {tool.__name__: tool for tool in (load_account, screen_transfer, check_pin, send_wire, wire_status)}


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def memory() -> Iterator[memoranda.Memory]:
    with memoranda.open(":memory:") as opened:
        yield opened


@pytest.fixture
def desk(memory, books):
    compliance = memoranda.abl.load(BANK / "compliance.abl", memory=memory)
    return memoranda.abl.load(BANK / "wire_transfer.abl", memory=memory, tools=books.tools(), agents=[compliance])


def order(session, amount: str, *, payee: str = "Bea Miller", country: str = "Portugal", currency: str = "EUR"):
    """Give an order and agree to it; return the last turn."""
    for words in (payee, country, amount, currency):
        turn = session.say(words)
    return session.say("yes") if "Shall I send it?" in " ".join(turn.messages) else turn


def test_the_scripts_pass():
    report = run_scripts(BANK / "wire_transfer.abl")
    assert [(case.name, case.failure) for case in report.cases if not case.passed] == []
    assert report.passed >= 16


def test_there_is_nothing_to_say_about_the_files():
    assert memoranda.abl.check(BANK / "wire_transfer.abl") == ()
    assert memoranda.abl.check(BANK / "compliance.abl") == ()


def test_what_is_allowed_is_sent_once(desk, books, memory):
    turn = order(desk.start(user="ada"), "250")
    assert turn.status == "completed"
    assert books.sent == [("Bea Miller", 250)]
    [entry] = memory.scope(user="ada").value("transfers")
    assert (entry["payee"], entry["amount"], entry["id"]) == ("Bea Miller", 250, "W1")


@pytest.mark.parametrize(
    ("account", "score", "amount", "country"),
    [
        ({"status": "frozen"}, 5, "250", "Portugal"),
        ({"status": "closed"}, 5, "250", "Portugal"),
        ({"balance": 100}, 5, "250", "Portugal"),
        ({"sent_today": 4900}, 5, "250", "Portugal"),
        ({}, 92, "250", "Portugal"),
        ({}, 5, "1500", "Portugal"),
        ({}, 5, "250", "Freedonia"),
        ({}, 5, "0", "Portugal"),
    ],
)
def test_what_a_rule_forbids_is_not_sent_and_not_remembered(desk, books, memory, account, score, amount, country):
    books.account |= account
    books.score = score
    order(desk.start(user="ada"), amount, country=country)
    assert books.sent == []
    assert memory.scope(user="ada").value("transfers") is None


def test_a_pin_opens_the_way_for_a_large_transfer(desk, books):
    session = desk.start(user="ada")
    order(session, "1500")
    assert session.step == "identify"
    session.say("9999")
    assert books.sent == []
    session.say("2407")
    assert books.sent == [("Bea Miller", 1500)]
    assert "pin" not in session.vars


def test_every_broken_rule_is_in_the_trace(desk, books):
    books.account["balance"] = 100
    turn = order(desk.start(user="ada"), "250")
    assert "amount <= account.balance" in str(turn.trace)
    assert "blocked" in {event.kind for event in turn.events}
    books.account["balance"] = 1000
    turn = order(desk.start(user="ada"), "250")
    assert "blocked" not in {event.kind for event in turn.events}
