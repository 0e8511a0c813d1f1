"""`memoranda blocks`: its output, its errors, and its exit codes."""

from __future__ import annotations

import pytest

BEES = "- Keeps bees\n- Never phones before noon"


def write(cli, block="core", text=BEES, *options):
    return cli("blocks", "set", block, "--user", "ada", "--json", *options, "--", text).json


def test_set_then_show_prints_the_text_alone(cli):
    done = cli("blocks", "set", "core", "--user", "ada", "--", BEES)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("core in user:ada holds 39 characters, updated 20")
    shown = cli("blocks", "show", "core", "--user", "ada")
    assert (shown.code, shown.out, shown.err) == (0, BEES + "\n", "")


def test_json_of_a_block_has_its_fields_and_iso_dates(cli):
    made = write(cli, "archival", "one", "--agent", "mail")
    assert made["id"].startswith("mem_")
    assert (made["block_type"], made["content"], made["scope"], made["agent_id"]) == (
        "archival",
        "one",
        "agent",
        "mail",
    )
    assert made["created_at"] == made["updated_at"]
    assert cli("blocks", "show", "archival", "--user", "ada", "--agent", "mail", "--json").json == made


def test_a_dash_reads_stdin_less_one_line_break(cli):
    done = cli("blocks", "set", "archival", "-", "--user", "ada", "--json", input="- one\n- two\n")
    assert done.json["content"] == "- one\n- two"


def test_what_is_there_is_replaced_only_when_that_is_said(cli):
    first = write(cli)
    refused = cli("blocks", "set", "core", "two", "--user", "ada", "--json")
    assert refused.code == 1
    assert refused.error["code"] == "conflict"
    assert refused.error["details"]["current_updated_at"] == first["updated_at"]
    second = write(cli, "core", "two", "--expected-updated-at", first["updated_at"])
    assert (
        cli("blocks", "set", "core", "three", "--user", "ada", "--expected-updated-at", first["updated_at"]).code == 1
    )
    assert cli("blocks", "show", "core", "--user", "ada").out == "two\n"
    third = write(cli, "core", "three", "--replace")
    assert third["id"] == second["id"] == first["id"]
    assert write(cli, "archival", "new", "--replace")["content"] == "new"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["set", "core", "x" * 4_001], "limit_exceeded", "4,001 characters, the limit is 4,000"),
        (["set", "core", "x", "--expected-updated-at", "soon"], "usage_error", "`soon` is not a moment"),
        (
            ["set", "core", "x", "--expected-updated-at", "2026-01-01", "--replace"],
            "usage_error",
            "--replace and --expected-updated-at",
        ),
        (["set", "diary", "x"], "usage_error", "diary"),
        (["recall", "x", "--limit", "0"], "usage_error", "`0` is not a limit"),
        (["recall", "x", "--limit", "101"], "limit_exceeded", "above the maximum of 100"),
        (["recall", "x", "--agent", ""], "invalid_scope", "agent"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input_is_usage_and_changes_nothing(cli, arguments, code, said):
    write(cli)
    done = cli("blocks", *arguments, "--user", "ada", "--json")
    assert done.code == 2 or code == "conflict"
    if "diary" in arguments:
        assert said in done.err
    else:
        assert done.error["code"] == code
        assert said in done.error["message"]
    assert cli("blocks", "show", "core", "--user", "ada").out == BEES + "\n"


def test_blocks_belong_to_a_user(cli):
    for options in ([], ["--project", "hull"], ["--user", "ada", "--thread", "t"]):
        done = cli("blocks", "set", "core", "x", *options, "--json")
        assert done.code == 2
        assert done.error["code"] == "invalid_scope"
    assert write(cli)["content"] == BEES


def test_list_shows_sizes_stamps_and_on_request_agents(cli):
    empty = cli("blocks", "list", "--user", "ada", "--db", ":memory:")
    assert (empty.code, empty.out) == (0, "")
    assert "No blocks in user:ada." in empty.err
    core = write(cli)
    write(cli, "archival", "one", "--agent", "mail")
    listed = cli("blocks", "list", "--user", "ada", "--json").json
    assert [block["block_type"] for block in listed] == ["core"]
    everything = cli("blocks", "list", "--user", "ada", "--all", "--json").json
    assert [(block["block_type"], block["agent_id"]) for block in everything] == [("core", None), ("archival", "mail")]
    table = cli("blocks", "list", "--user", "ada", "--all").out
    assert core["updated_at"].removesuffix("Z") in table
    assert "mail" in table


@pytest.mark.parametrize("value", ["- Keeps bees", "-5", "-.5", "-what is it"])
def test_a_value_that_begins_with_a_dash_is_taken_after_two_of_them(value: str, process):
    refused = process("blocks", "set", "core", value, "--user", "ada")
    assert refused.code == 2
    assert refused.err.startswith("error[usage_error]: a value that begins with a dash was read as an option\n")
    assert "then `--`" in refused.err
    assert process("blocks", "set", "core", "--user", "ada", "--", value).code == 0
    assert process("blocks", "show", "core", "--user", "ada").out == f"{value}\n"
    assert "No such option: --all" in process("blocks", "show", "core", "--all", "--user", "ada").err


def test_undo_of_what_was_never_written_says_so(cli):
    write(cli, "archival", "one")
    done = cli("blocks", "undo", "core", "--user", "ada")
    assert (done.code, done.err.splitlines()[1]) == (1, "hint: There is nothing to undo: write it first")
    assert "hint: Delete it instead" in cli("blocks", "undo", "archival", "--user", "ada").err


def test_delete_leaves_the_history_and_undo_brings_the_text_back(cli):
    first = write(cli)
    second = write(cli, "core", "two", "--replace")
    assert cli("blocks", "undo", "core", "--user", "ada", "--expected-updated-at", first["updated_at"]).code == 1
    back = cli("blocks", "undo", "core", "--user", "ada", "--json").json
    assert back["content"] == BEES
    assert back["updated_at"] > second["updated_at"]
    assert cli("blocks", "delete", "core", "--user", "ada", "--expected-updated-at", first["updated_at"]).code == 1
    done = cli("blocks", "delete", "core", "--user", "ada")
    assert (done.code, done.out) == (0, "core is deleted from user:ada\n")
    for again in ("delete", "show"):
        missing = cli("blocks", again, "core", "--user", "ada", "--json")
        assert missing.code == 1
        assert missing.error["code"] == "not_found"
    assert "holds again 39 characters" in cli("blocks", "undo", "core", "--user", "ada").out
    revisions = cli("blocks", "history", "core", "--user", "ada", "--json").json
    assert [one["change"] for one in revisions] == ["set", "set", "set", "deleted", "set"]
    shown = cli("blocks", "history", "core", "--user", "ada").out
    assert "deleted" in shown
    assert " UTC " in shown
    assert "+00:00" not in shown
    assert cli("blocks", "history", "archival", "--user", "ada").code == 1


def test_recall_prints_lines_with_their_numbers(cli):
    write(cli, "archival", "- The boiler was serviced\n\n- The spare key is with Noor")
    write(cli, "archival", "- Keys are in the drawer", "--agent", "mail")
    found = cli("blocks", "recall", "spare key", "--user", "ada", "--json").json
    assert [(match["line_number"], match["scope"]) for match in found] == [(3, "user")]
    both = cli("blocks", "recall", "spare key", "--user", "ada", "--agent", "mail", "--json").json
    assert [(match["line_number"], match["agent_id"]) for match in both] == [(3, None), (1, "mail")]
    table = cli("blocks", "recall", "spare key", "--user", "ada").out
    assert "- The spare key is with Noor" in table
    listed = cli("blocks", "recall", "", "--user", "ada", "--limit", "1", "--json").json
    assert [match["line_number"] for match in listed] == [1]
    least = both[0]["score"]
    some = cli("blocks", "recall", "spare key", "--user", "ada", "--agent", "mail", "--min-score", str(least), "--json")
    assert len(some.json) == 1
    nothing = cli("blocks", "recall", "zeppelin", "--user", "ada")
    assert (nothing.code, nothing.out) == (0, "")
    assert "Nothing found" in nothing.err
