"""`memoranda keys`: made and shown once, listed, revoked, rotated."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memoranda
from memoranda import Unauthenticated
from memoranda.server.auth.keys import SYSTEM_TENANT, find_key


def whose(token: str) -> tuple[str, str, str]:
    with memoranda.open("memory.db") as memory:
        key = find_key(memory, token)
        return key.tenant, key.user, key.role


def test_a_key_is_made_and_its_token_printed_alone(cli):
    done = cli("keys", "create", "--tenant", "orchard", "--user", "pippin", "--role", "reader")
    assert done.code == 0
    token = done.out.strip()
    assert whose(token) == ("orchard", "pippin", "reader")
    assert "not shown again" in done.err and token not in done.err


def test_the_json_of_a_new_key_holds_the_token_and_all_about_it(cli):
    made = cli(
        "keys",
        "create",
        "--user",
        "pippin",
        "--expires",
        "90d",
        "--label",
        "laptop",
        "--allow",
        "memory.read",
        "--json",
    ).json
    assert whose(made["token"]) == ("default", "pippin", "member")
    assert made["id"] in made["token"]
    assert (made["role"], made["label"], made["allow"]) == ("member", "laptop", ["memory.read"])
    assert made["expires_at"] > made["created_at"]
    assert "digest" not in made


def test_the_list_shows_keys_of_the_tenant_and_never_a_token(cli):
    mine = cli("keys", "create", "--user", "pippin", "--json").json
    theirs = cli("keys", "create", "--tenant", "mill", "--user", "russet", "--json").json
    listed = cli("keys", "list", "--json")
    assert [key["id"] for key in listed.json] == [mine["id"]]
    every = cli("keys", "list", "--all", "--json")
    assert [key["id"] for key in every.json] == [mine["id"], theirs["id"]]
    shown = cli("keys", "--all")
    assert mine["id"] in shown.out and theirs["id"] in shown.out
    for made in (mine, theirs):
        assert made["token"].split("_", 2)[2] not in listed.out + every.out + shown.out


def test_no_keys_says_what_to_do(cli):
    cli("facts", "set", "k", "v")
    assert "memoranda keys create" in cli("keys").err
    assert cli("keys", "list", "--json").json == []


def test_a_revoked_key_is_shown_as_such_and_opens_nothing(cli):
    made = cli("keys", "create", "--user", "pippin", "--json").json
    gone = cli("keys", "revoke", made["id"])
    assert (gone.code, gone.out) == (0, f"{made['id']} of pippin in default is revoked\n")
    with pytest.raises(Unauthenticated):
        whose(made["token"])
    assert "revoked" in cli("keys").out
    assert cli("keys", "revoke", made["id"], "--json").json["revoked_at"]
    missing = cli("keys", "revoke", made["token"], "--json")
    assert (missing.code, missing.error["code"]) == (1, "not_found")
    assert made["token"] not in missing.err


def test_a_rotated_key_lives_on_for_its_grace(cli):
    old = cli("keys", "create", "--user", "pippin", "--role", "admin", "--json").json
    new = cli("keys", "rotate", old["id"], "--grace", "24h", "--json").json
    assert whose(old["token"]) == whose(new["token"]) == ("default", "pippin", "admin")
    newest = cli("keys", "rotate", new["id"]).out.strip()
    assert whose(newest) == ("default", "pippin", "admin")
    with pytest.raises(Unauthenticated):
        whose(new["token"])
    assert "ends in" in cli("keys").out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--user", ""), "invalid_scope"),
        (("--user", "u", "--expires", "soon"), "invalid_duration"),
        (("--user", "u", "--allow", "everything"), "invalid_policy"),
        (("--user", "u", "--tenant", SYSTEM_TENANT), "usage_error"),
    ],
)
def test_a_key_that_cannot_be_is_a_wrong_call(cli, arguments, code):
    done = cli("keys", "create", *arguments, "--json")
    assert (done.code, done.error["code"]) == (2, code)
    assert cli("keys", "create", "--user", "u").code == 0


def test_a_role_that_does_not_exist_and_a_key_for_nobody_are_wrong_calls(cli):
    assert cli("keys", "create", "--role", "owner", "--user", "u").code == 2
    assert cli("keys", "create", "--role", "admin").code == 2
    assert cli("keys", "create", "--role", "admin", "--user", "u").code == 0


def test_who_is_not_the_owner_makes_no_keys(cli):
    cli("permissions", "grant", "mail", "*")
    denied = cli("keys", "create", "--user", "u", "--actor", "mail", "--json")
    assert (denied.code, denied.error["code"]) == (1, "denied")
    assert cli("keys", "list", "--json").json == []


def test_keys_need_no_web_framework():
    script = """
import sys
for name in ("litestar", "uvicorn", "jwt", "cryptography", "httpx"):
    sys.modules[name] = None
from memoranda.cli import main
sys.argv = ["memoranda", "keys", "create", "--user", "pippin"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert whose(done.stdout.strip())[1] == "pippin"
