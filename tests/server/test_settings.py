from __future__ import annotations

import json
import os
import subprocess

import pytest
import warm_memoranda

import memoranda
from memoranda.errors import UsageError
from memoranda.server.app import open_memory
from memoranda.server.auth.principals import Principal
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings


def show(tmp_path, *flags, **variables):
    done = subprocess.run(
        [warm_memoranda.folder() / "memoranda", "config", "show", "--json", *flags],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")} | variables,
        timeout=60,
    )
    return json.loads(done.stdout) if done.returncode == 0 else json.loads(done.stderr)["error"]


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path):
    (tmp_path / "r.toml").write_text(
        'db = "file.db"\nport = 9000\nworkers = 3\ncors = ["https://a.example"]\nrate = 5\n'
    )
    told = show(tmp_path, "--config", "r.toml", "--db", "flag.db", MEMORANDA_PORT="9001", MEMORANDA_DB="env.db")
    assert told["db"] == {"value": "flag.db", "origin": "flag", "variable": "MEMORANDA_DB"}
    assert told["port"] == {"value": 9001, "origin": "environment", "variable": "MEMORANDA_PORT"}
    assert told["workers"] == {"value": 3, "origin": "file", "variable": "MEMORANDA_WORKERS"}
    assert told["cors"]["value"] == ["https://a.example"]
    assert told["rate"]["value"] == 5.0
    assert told["host"] == {"value": "127.0.0.1", "origin": "default", "variable": "MEMORANDA_HOST"}
    assert show(tmp_path, MEMORANDA_CONFIG="r.toml")["db"] == {
        "value": "file.db",
        "origin": "file",
        "variable": "MEMORANDA_DB",
    }


def test_a_server_sleeps_unless_it_is_told_not_to(tmp_path):
    (tmp_path / "r.toml").write_text('sleep = false\nsleep_delay = 60\nsleep_model = "openai:gpt-5.2"\n')
    told = show(tmp_path, "--config", "r.toml", MEMORANDA_SLEEP_EVERY="2.5")
    assert told["sleep"] == {"value": False, "origin": "file", "variable": "MEMORANDA_SLEEP"}
    assert [told[f"sleep_{name}"]["value"] for name in ("delay", "every", "model")] == [60, 2.5, "openai:gpt-5.2"]
    assert show(tmp_path)["sleep"]["value"] is True
    assert show(tmp_path, "--config", "r.toml", MEMORANDA_SLEEP="yes")["sleep"]["value"] is True


def test_the_file_holds_for_every_command(tmp_path):
    (tmp_path / "r.toml").write_text('db = "team.db"\n')
    done = subprocess.run(
        [warm_memoranda.folder() / "memoranda", "facts", "set", "a", "b", "--user", "ada"],
        cwd=tmp_path,
        env={**os.environ, "MEMORANDA_CONFIG": "r.toml"},
        timeout=60,
    )
    assert done.returncode == 0
    assert (tmp_path / "team.db").exists()


def test_secrets_are_not_shown(tmp_path):
    told = show(
        tmp_path, MEMORANDA_JWT_SECRET="a-very-long-secret-text-of-forty-signs-xx", MEMORANDA_ADMIN_KEY="keykey-key-key"
    )
    assert told["jwt_secret"]["value"] == told["admin_key"]["value"] == "(set)"
    assert "secret-text" not in json.dumps(told)
    assert show(tmp_path)["jwt_secret"]["value"] == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "Did you mean `port`?"),
        ('port = "80"', "whole number"),
        ("cors = [1]", "list of texts"),
        ("jwt = 1", "true or false"),
        ("durability = 'maybe'", "full or normal"),
        ("port =", "name = value"),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_do(tmp_path, text, said):
    (tmp_path / "r.toml").write_text(text)
    told = show(tmp_path, "--config", "r.toml")
    assert told["code"] == "usage_error"
    assert said in told["hint"]


def test_a_missing_file_is_refused(tmp_path):
    assert "cannot be read" in show(tmp_path, "--config", "none.toml")["message"]


@pytest.mark.parametrize(("name", "value"), [("PORT", "x"), ("JWT", "maybe"), ("LOG_LEVEL", "loud"), ("RATE", "nan")])
def test_a_wrong_variable_is_named(tmp_path, name, value):
    told = show(tmp_path, **{f"MEMORANDA_{name}": value})
    assert f"MEMORANDA_{name}" in told["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 65_536},
        {"workers": 0},
        {"body_bytes": 1},
        {"read_timeout": 0},
        {"rate": -1},
        {"log_level": "loud"},
        {"sleep_delay": -1},
        {"sleep_every": 0},
    ],
)
def test_a_server_cannot_be_started_with_numbers_it_cannot_run_with(wrong):
    with pytest.raises(UsageError):
        Settings(**wrong)
    assert Settings(port=0, workers=2, sleep_delay=0, sleep_every=1).port == 0


def test_what_workflows_do_about_stale_records_is_a_setting(tmp_path):
    (tmp_path / "flow.yaml").write_text("outputs: {done: true}\ndefs: {}\nflow: []\n")
    with memoranda.open(":memory:") as memory:
        for given in ("raise", "skip"):
            programs = load_programs(Settings(workflows=str(tmp_path), on_invalid=given), memory)
            principal = Principal(tenant="default", user="ada", role="member", key_id="k")
            assert programs.program("workflow", "flow", principal).behaviour.on_invalid == given
    with pytest.raises(UsageError, match="on_invalid"):
        Settings(on_invalid="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "opened"), [({}, 32), ({"threads": 80}, 80), ({"threads": 80, "pool": 20}, 20)])
def test_a_server_has_a_connection_for_each_thread_unless_said(monkeypatch, given, opened):
    options = {}
    monkeypatch.setattr(memoranda, "open", lambda url, **said: options.update(said, url=url))
    open_memory(Settings(db="postgresql://db.example/team", statement_timeout=2.0, read_from="standby", **given))
    assert options["pool"] == opened
    assert (options["statement_timeout"], options["read_from"]) == (2.0, "standby")
    open_memory(Settings())
    assert (options["statement_timeout"], options["read_from"]) == (None, "primary")
