from __future__ import annotations

import pytest


@pytest.fixture
def three_events(cli):
    for number in range(3):
        cli("facts", "set", f"k{number}", "v", "--user", "ada")


def test_a_whole_chain_verifies(cli, three_events):
    done = cli("ledger", "verify")
    assert done.code == 0
    assert done.out.startswith("ok, 3 events, head sha256:")
    found = cli("ledger", "verify", "--json").json
    assert (found["tenant"], found["ok"], found["length"], found["position"]) == ("default", True, 3, None)


def test_an_edited_event_is_found_at_its_position(cli, three_events, tamper):
    assert cli("ledger", "verify").code == 0
    tamper("memory.db", 2)
    done = cli("ledger", "verify")
    assert done.code == 1
    assert done.out.startswith("broken at position 2: ")
    found = cli("ledger", "verify", "--json")
    assert found.code == 1
    assert (found.json["ok"], found.json["position"], found.json["length"]) == (False, 2, 1)


def test_an_event_that_is_no_longer_json_is_found_too(cli, three_events, tamper):
    tamper("memory.db", 3, old=b"{", new=b"[")
    done = cli("ledger", "verify")
    assert done.code == 1
    assert "position 3" in done.out


def test_an_anchor_catches_a_cut_off_tail(cli, three_events):
    anchor = cli("ledger", "anchor").out.strip()
    assert anchor.startswith("3:sha256:")
    taken = cli("ledger", "anchor", "--json").json
    assert f"{taken['length']}:{taken['head']}" == anchor
    cli("facts", "set", "more", "v")
    assert cli("ledger", "verify", "--anchor", anchor).code == 0
    longer = anchor.replace("3:", "9:", 1)
    assert cli("ledger", "verify", "--anchor", longer).code == 1


def test_no_anchor_is_given_of_a_broken_chain(cli, three_events, tamper):
    tamper("memory.db", 1)
    done = cli("ledger", "anchor", "--json")
    assert (done.code, done.error["code"], done.error["details"]["position"]) == (1, "corrupt", 1)


@pytest.mark.parametrize("anchor", ["3", "x:sha256:00", "3:zz"])
def test_what_is_not_an_anchor_is_usage(cli, three_events, anchor):
    assert cli("ledger", "verify", "--anchor", anchor).code == 2


def test_all_tenants_are_verified_one_by_one(cli, three_events, tamper):
    cli("facts", "set", "k", "v", "--tenant", "other")
    done = cli("ledger", "verify", "--all-tenants")
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.out.splitlines()] == ["default", "other"]
    assert cli("ledger", "verify", "--all-tenants", "--anchor", f"1:sha256:{'0' * 64}").code == 2
    tamper("memory.db", 3)
    broken = cli("ledger", "verify", "--all-tenants", "--json")
    assert broken.code == 1
    assert [(one["tenant"], one["ok"]) for one in broken.json] == [("default", False), ("other", True)]
    assert cli("ledger", "verify", "--tenant", "other").code == 0


def test_tail_shows_the_newest_oldest_first(cli, three_events):
    events = cli("ledger", "tail", "-n", "2", "--json").json
    assert [(event["position"], event["key"], event["door"]) for event in events] == [
        (2, "k1", "cli"),
        (3, "k2", "cli"),
    ]
    text = cli("ledger", "tail").out
    assert text.splitlines()[0].split() == ["position", "when", "actor", "effect", "decision", "what"]
    assert max(len(line) for line in text.splitlines()) <= 80
    assert cli("ledger", "tail", "-n", "0").code == 2


def test_an_empty_ledger_has_no_tail(cli, three_events):
    done = cli("ledger", "tail", "--tenant", "new")
    assert (done.code, done.err) == (0, "The ledger is empty.\n")


def test_show_one_event(cli, three_events):
    event = cli("ledger", "show", "2", "--json").json
    assert (event["position"], event["effect"], event["scope"]) == (2, "set_fact", "user:ada")
    text = cli("ledger", "show", "2").out
    assert "owner through cli" in text
    assert event["resource"] in text
    assert cli("ledger", "show", "99").code == 1
    assert cli("ledger", "show", "0").code == 2


def test_ledger_mode_all_records_reads(cli, three_events, monkeypatch):
    monkeypatch.setenv("MEMORANDA_LEDGER", "all")
    cli("facts", "get", "k0", "--user", "ada")
    assert cli("ledger", "tail", "-n", "9", "--json").json[3]["effect"] == "get_fact"
