"""Files and programs from when the project was called Recollect still work, and its old settings are not ignored."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

import memoranda
from memoranda.cli.app import app
from memoranda.client import Client
from memoranda.errors import ForeignDatabase, Unauthenticated, UsageError
from memoranda.retrieval.embed.openai import OpenAI
from memoranda.server.auth.keys import SYSTEM_TENANT, create_key, find_key
from memoranda.store.sqlite.connection import APPLICATION_ID

RELEASED = Path(__file__).parents[1] / "fixtures" / "databases" / "0.1.0.db"


def mark_of(file: Path) -> bytes:
    return file.read_bytes()[68:72]


def test_a_file_of_the_release_gets_the_new_mark(tmp_path: Path) -> None:
    file = Path(shutil.copyfile(RELEASED, tmp_path / "memory.db"))
    assert mark_of(file) == b"RCLT"
    memoranda.open(file).close()
    assert mark_of(file) == b"MMRD" == APPLICATION_ID.to_bytes(4, "big")
    memoranda.open(file).close()


def test_a_file_with_another_mark_is_refused(tmp_path: Path) -> None:
    file = Path(shutil.copyfile(RELEASED, tmp_path / "memory.db"))
    apsw.Connection(str(file)).pragma("application_id", 7)
    with pytest.raises(ForeignDatabase):
        memoranda.open(file)


def test_a_key_that_the_release_gave_out_is_still_valid() -> None:
    token = "rk_abc123_" + "s" * 43
    with memoranda.open(":memory:") as memory:
        made = create_key(memory, tenant="acme", user="ada", role="member")
        assert made.token.startswith("mk_")
        place = memory.in_tenant(SYSTEM_TENANT).scope()
        (fact,) = place.list("keys")
        place.set("keys.abc123", {**fact.value, "digest": hashlib.sha256(token.encode()).hexdigest()})
        assert find_key(memory, token).user == "ada"
        with pytest.raises(Unauthenticated):
            find_key(memory, token.replace("rk_", "mk_"))
        assert find_key(memory, made.token).id != find_key(memory, token).id


def test_an_export_of_the_release_is_imported(tmp_path: Path) -> None:
    with memoranda.open(":memory:") as memory:
        memory.scope(user="ada").set("city", "Lisbon")
        memory.export(tmp_path / "new.jsonl")
    text = (tmp_path / "new.jsonl").read_text()
    assert text.startswith('{"memoranda":1')
    for name, header in (("released", "recollect"), ("foreign", "elsewhere")):
        (tmp_path / f"{name}.jsonl").write_text(text.replace("memoranda", header, 1))
    with memoranda.open(":memory:") as memory:
        assert memory.import_file(tmp_path / "released.jsonl").written == 1
        with pytest.raises(UsageError):
            memory.import_file(tmp_path / "foreign.jsonl")


def test_an_old_variable_is_an_error_that_names_the_new_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["facts", "set", "city", "Lisbon", "--user", "ada"]).exit_code == 0
    monkeypatch.setenv("RECOLLECT_DB", "team.db")
    result = CliRunner().invoke(app, ["facts", "list", "--user", "ada"])
    assert result.exit_code == 2
    assert "MEMORANDA_DB" in result.stderr
    assert not (tmp_path / "team.db").exists()


def test_the_client_and_embedders_refuse_old_variables_that_they_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_API_KEY", "secret")
    with pytest.raises(UsageError, match="MEMORANDA_API_KEY") as refused:
        Client("http://127.0.0.1:1")
    assert "secret" not in str(refused.value)
    Client("http://127.0.0.1:1", api_key="another").close()
    monkeypatch.setenv("RECOLLECT_OPENAI_BASE_URL", "http://127.0.0.1:1")
    with pytest.raises(UsageError, match="MEMORANDA_OPENAI_BASE_URL"):
        OpenAI("small")
    monkeypatch.setenv("MEMORANDA_OPENAI_BASE_URL", "http://127.0.0.1:1")
    OpenAI("small").close()
