"""The name of an embedder in settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.errors import UsageError
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.embed.openai import OpenAI
from memoranda.retrieval.embed.registry import resolve
from memoranda.retrieval.embed.wordllama import WordLlama


@pytest.mark.parametrize(
    ("name", "kind", "id"),
    [
        ("wordllama", WordLlama, "wordllama:256"),
        ("wordllama:256", WordLlama, "wordllama:256"),
        (" wordllama ", WordLlama, "wordllama:256"),
        ("hashing", Hashing, "hashing:256"),
        ("hashing:64", Hashing, "hashing:64"),
        ("openai:text-embedding-3-small", OpenAI, "openai:text-embedding-3-small"),
        ("openai:text-embedding-3-small:512", OpenAI, "openai:text-embedding-3-small:512"),
        ("openai:nomic-embed-text:latest", OpenAI, "openai:nomic-embed-text:latest"),
    ],
)
def test_a_name_gives_its_embedder(name: str, kind: type, id: str) -> None:
    embedder = resolve(name)
    assert isinstance(embedder, kind)
    assert embedder.id == id


def test_a_number_after_the_model_is_its_dimension() -> None:
    assert resolve("openai:text-embedding-3-small:512").dimension == 512


@pytest.mark.parametrize("name", ["wordllama", "hashing:64", "openai:some-model", "openai:some-model:512"])
def test_an_id_is_a_name_too(name: str) -> None:
    assert resolve(resolve(name).id).id == resolve(name).id


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("wordlama", "Did you mean `wordllama`"),
        ("WordLlama", "Did you mean `wordllama`"),
        ("OPENAI:text-embedding-3-small", "Did you mean `openai`"),
        ("open-ai:text-embedding-3-small", "Did you mean `openai`"),
        ("hash:256", "Did you mean `hashing`"),
        ("", "Write `wordllama`, `onnx:"),
        ("word2vec", "Write `wordllama`"),
        ("wordllama:512", "It has 256 dimensions"),
        ("hashing:many", "as in `hashing:256`"),
        ("hashing:0", "as in `hashing:256`"),
        ("hashing:-3", "as in `hashing:256`"),
        ("hashing:٣", "as in `hashing:256`"),
        ("onnx", "as in `onnx:/path/to/folder`"),
        ("openai:", "as in `openai:text-embedding-3-small`"),
        ("onnx:/there/is/no/such/folder", "Name a folder"),
    ],
)
def test_a_name_of_nothing_says_what_to_write(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(name)
    assert hint in caught.value.hint
    assert name.removeprefix("onnx:").strip(" :") in caught.value.message


def test_a_folder_that_lacks_a_file_is_named_with_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no `model.onnx`"):
        resolve(f"onnx:{tmp_path}")
    (tmp_path / "model.onnx").touch()
    with pytest.raises(UsageError, match=r"has no `tokenizer.json`"):
        resolve(f"onnx:{tmp_path}")
