from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest


def test_set_then_get_prints_the_text_alone(cli):
    done = cli("facts", "set", "profile.language", "en", "--user", "ada", "--ttl", "90d")
    assert (done.code, done.err) == (0, "")
    assert "profile.language is at version 1 in user:ada, expires " in done.out
    got = cli("facts", "get", "profile.language", "--user", "ada")
    assert (got.code, got.out, got.err) == (0, "en\n", "")


def test_json_of_a_fact_has_the_tenant_scope_as_text_and_iso_dates(cli):
    cli("facts", "set", "a", "x", "--scope", "user:ada/agent:mail", "--domain", "d", "--source", "crm", "--ttl", "1h")
    fact = cli("facts", "get", "a", "--user", "ada", "--agent", "mail", "--json").json
    assert fact["tenant"] == "default"
    assert fact["scope"] == "user:ada/agent:mail"
    assert (fact["key"], fact["value"], fact["version"], fact["domain"]) == ("a", "x", 1, "d")
    assert fact["origin"] == {"actor": "owner", "door": "cli", "source": "crm", "kind": "user", "trust": "high"}
    lived = datetime.fromisoformat(fact["expires_at"]) - datetime.fromisoformat(fact["updated_at"])
    assert lived.total_seconds() == 3600


@pytest.mark.parametrize(
    ("value", "flags", "kept"),
    [
        ("42", [], "42"),
        ("42", ["--as-json"], 42),
        ('{"a": [1, null]}', ["--as-json"], {"a": [1, None]}),
        ('{"a": 1}', [], '{"a": 1}'),
        ("", [], ""),
    ],
)
def test_a_value_is_text_unless_it_is_said_to_be_json(cli, value, flags, kept):
    assert cli("facts", "set", "k", value, *flags, "--json").json["value"] == kept


@pytest.mark.parametrize(
    ("typed", "flags", "kept"),
    [("hello\n", [], "hello"), ("a\n\n", [], "a\n"), ("[1]\n", ["--as-json"], [1]), ("héllo", [], "héllo")],
)
def test_a_dash_reads_stdin_less_one_line_break(cli, typed, flags, kept):
    assert cli("facts", "set", "k", "-", *flags, "--json", input=typed).json["value"] == kept


def test_a_value_that_begins_with_a_dash_follows_two_of_them(cli):
    assert cli("facts", "set", "k", "--json", "--", "-5").json["value"] == "-5"


def test_what_is_not_json_is_refused_as_usage(cli):
    done = cli("facts", "set", "k", "{oops", "--as-json")
    assert done.code == 2
    assert done.err.startswith("error[invalid_value]: the value is not JSON")
    assert "hint: Remove --as-json" in done.err
    assert cli("facts", "set", "k", "-", input=b"\xff").code == 2


def test_a_value_that_is_not_text_is_printed_as_json(cli):
    cli("facts", "set", "k", "[1,2]", "--as-json")
    assert cli("facts", "get", "k").out == "[\n  1,\n  2\n]\n"


def test_expect_is_compare_and_set(cli):
    first = cli("facts", "set", "k", "1", "--expect", "0", "--json").json
    lost = cli("facts", "set", "k", "2", "--expect", "0", "--json")
    assert lost.code == 1
    assert lost.error["code"] == "conflict"
    assert lost.error["details"] == {
        "expected": 0, "actual": 1, "key": "k", "current_updated_at": first["updated_at"],
    }  # fmt: skip
    assert cli("facts", "delete", "k", "--expect", "7").code == 1
    assert cli("facts", "delete", "k", "--expect", "1").code == 0


def test_an_idempotency_key_writes_once(cli):
    first = cli("facts", "set", "k", "1", "--idempotency-key", "i", "--json").json
    again = cli("facts", "set", "k", "1", "--idempotency-key", "i", "--json").json
    assert again == first
    assert cli("facts", "set", "k", "2", "--idempotency-key", "i", "--json").error["code"] == "idempotency_mismatch"


def test_a_missing_fact_leaves_with_one_and_a_message(cli):
    cli("facts", "set", "k", "v")
    done = cli("facts", "get", "nothing", "--user", "ada")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error[not_found]: unknown fact `nothing` in `user:ada`\n"
        "hint: `memoranda facts list` with the same options shows what is there\n"
    )
    assert cli("facts", "get", "nothing", "--json").error["code"] == "not_found"
    assert cli("facts", "delete", "nothing").code == 1
    assert cli("facts", "history", "nothing").code == 1


def test_list_is_ordered_narrowed_and_limited(cli):
    for key in ("profile.name", "profile.language", "profiler", "zoo"):
        cli("facts", "set", key, "v", "--domain", "d" if key == "zoo" else "e")

    def keys(*options: str) -> list[str]:
        return [fact["key"] for fact in cli("facts", "list", *options, "--json").json]

    assert keys() == ["profile.language", "profile.name", "profiler", "zoo"]
    assert keys("profile") == ["profile.language", "profile.name"]
    assert keys("--domain", "d") == ["zoo"]
    assert keys("--limit", "1") == ["profile.language"]
    text = cli("facts", "list").out
    assert text.splitlines()[0].split() == ["key", "value", "version", "updated", "expires"]
    assert "profiler" in text


def test_an_empty_list_is_no_failure(cli):
    cli("facts", "set", "k", "v")
    done = cli("facts", "list", "--user", "nobody")
    assert (done.code, done.out, done.err) == (0, "", "No facts in user:nobody.\n")
    assert cli("facts", "list", "--user", "nobody", "--json").json == []
    assert cli("facts", "list", "kk").err == "No facts at or below kk in (shared).\n"


def test_tables_fit_eighty_columns_and_keep_keys_whole(cli):
    cli(
        "facts",
        "set",
        "a.rather.long.key.that.goes.on.and.on.and.on.and.does.not.stop.before.column.seventy",
        "v" * 500,
    )
    text = cli("facts", "list").out
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" in text


def test_history_and_the_past(cli):
    first = cli("facts", "set", "k", "old", "--json").json
    cli("facts", "set", "k", "new")
    cli("facts", "delete", "k")
    versions = cli("facts", "history", "k", "--json").json
    assert [(one["version"], one["change"], one["value"]) for one in versions] == [
        (1, "set", "old"),
        (2, "set", "new"),
        (3, "deleted", None),
    ]
    assert cli("facts", "history", "k").out.splitlines()[2].split()[:3] == ["1", "set", "old"]
    assert cli("facts", "get", "k", "--as-of", first["updated_at"]).out == "old\n"
    assert [fact["value"] for fact in cli("facts", "list", "--as-of", first["updated_at"], "--json").json] == ["old"]
    assert cli("facts", "get", "k", "--as-of", "yesterday").code == 2


def test_delete_says_so(cli):
    cli("facts", "set", "k", "v", "--user", "ada")
    done = cli("facts", "delete", "k", "--user", "ada", "--json")
    assert done.json == {"tenant": "default", "scope": "user:ada", "key": "k", "deleted": True}
    cli("facts", "set", "k", "v")
    assert cli("facts", "delete", "k").out == "k is deleted from (shared)\n"


def test_no_value_can_steer_the_terminal(cli):
    cli("facts", "set", "k", "a\x1b[2Jb\u202ec[red]d[/red]")
    assert "a\\x1b[2Jb\\u202ec[red]d[/red]" in cli("facts", "list").out
    assert cli("facts", "get", "k").out == "a\x1b[2Jb\u202ec[red]d[/red]\n"  # a pipe gets it as it is


def test_a_scope_is_named_one_way(cli):
    done = cli("facts", "set", "k", "v", "--scope", "user:ada", "--user", "ada")
    assert done.code == 2
    assert "--scope and --user cannot be combined" in done.err
    assert cli("facts", "set", "k", "v", "--scope", "planet:mars").code == 2
    assert not Path("memory.db").exists()


def test_tenants_do_not_see_each_other(cli):
    cli("facts", "set", "k", "v", "--tenant", "one")
    assert cli("facts", "get", "k", "--tenant", "one").code == 0
    assert cli("facts", "get", "k", "--tenant", "two").code == 1


@pytest.mark.parametrize("ttl", ["soon", "0d", "-1d", "1.5h"])
def test_a_wrong_duration_is_usage(cli, ttl):
    assert cli("facts", "set", "k", "v", f"--ttl={ttl}").err.startswith("error[invalid_duration]:")
