"""The default embedder: the vectors that WordLlama's own package gives, without that package."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from memoranda.errors import EmbeddingFailed
from memoranda.retrieval.embed import wordllama
from memoranda.retrieval.embed import wordllama as tokenizer
from memoranda.retrieval.embed.wordllama import WordLlama
from memoranda.testing.conformance.embedder import EmbedderConformance

PUBLISHED = {
    wordllama._WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    wordllama._TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
"""SHA-256 of the two files in the wheel of wordllama 0.4.0.post1, as its RECORD says."""


class TestWordLlama(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> WordLlama:
        return WordLlama()


class Original:
    """What the package does, from the same files: Hugging Face's tokenizer, the mean of the vectors, unit length."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(wordllama._FOLDER / wordllama._TOKENIZER))
        self._weights = load_file(wordllama._FOLDER / wordllama._WEIGHTS)["embedding.weight"].astype(np.float32)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        means = np.stack([self._weights[one.ids].mean(axis=0) for one in encoded])
        return means / np.linalg.norm(means, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def original() -> Original:
    return Original()


def test_the_files_are_those_that_wordllama_published() -> None:
    found = {name: hashlib.sha256((wordllama._FOLDER / name).read_bytes()).hexdigest() for name in PUBLISHED}
    assert found == PUBLISHED
    assert "MIT License" in (wordllama._FOLDER / "LICENSE").read_text("utf-8")


SAMPLES = (
    "The ferry to the island leaves at noon.",
    " leading, trailing and   inner    spaces  ",
    "tabs\tand\nnew lines\r\n\r\nbetween",
    "</s> special <s>tokens</s> inside <unk> a text",
    "a ▁ that the tokenizer reads ▁▁as a space",
    "Zoë’s naïve coöperation — 50 % off…",
    "漢字かな交じり文と English",
    "שלום עולם, مرحبا",
    "👩‍👩‍👧 ",
    "\x00\x07 control",
    "x" * 500,
    "long " * 3_000,
)


def test_vectors_equal_those_of_the_package(original: Original) -> None:
    ours = WordLlama().embed(SAMPLES)
    theirs = np.concatenate([original.embed([text]) for text in SAMPLES])
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(ours - np.roll(theirs, 1, axis=0)).max() > 1e-2


@given(text=st.text(alphabet=st.sampled_from([*"abzABZ019 .,-'<s>/▁ \n\té漢👩"]), min_size=1, max_size=60))
def test_vectors_equal_those_of_the_package_for_any_text(original: Original, text: str) -> None:
    if text.strip():
        theirs = original.embed([text])
        assert np.abs(WordLlama().embed([text]) - theirs).max() < 1e-5


def test_random_words_in_one_batch_equal_those_of_the_package(original: Original) -> None:
    source = random.Random(11)
    vocabulary = [token.replace("▁", " ") for token in original.tokenizer.get_vocab() if not token.startswith("<")]
    texts = ["".join(source.choices(vocabulary, k=source.randint(2, 40))) for _ in range(500)]
    texts = [text for text in texts if text.strip()]
    assert np.abs(WordLlama().embed(texts) - original.embed(texts)).max() < 1e-5


@pytest.mark.parametrize("word", ["harbour", " harbour", "  harbour", "harbour "])
def test_a_word_that_was_seen_is_read_as_it_stands(original: Original, word: str) -> None:
    WordLlama().embed(["harbour", "the harbour", "the  harbour "])
    assert np.abs(WordLlama().embed([word]) - original.embed([word])).max() < 1e-5
    assert np.abs(WordLlama().embed(["harbours"]) - original.embed([word])).max() > 1e-2


def test_a_full_memory_of_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = WordLlama().embed(SAMPLES)
    monkeypatch.setattr(wordllama, "_loaded", None)
    monkeypatch.setattr(tokenizer, "_CACHED_PIECES", 3)
    assert np.array_equal(WordLlama().embed(SAMPLES), before)
    assert len(wordllama._load().tokenizer._cache) <= 3


def test_many_texts_have_the_vectors_that_each_has_alone() -> None:
    """To the bit, however many tokens they have together."""
    texts = [f"note {number} about boats, {'and the harbour ' * (number % 40)}" for number in range(300)]
    texts += ["", " ", "word " * 3_000, "ferry"]
    together = WordLlama().embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert WordLlama().embed([text])[0].tobytes() == vector.tobytes()


def test_texts_without_words_are_like_each_other_and_like_little_else() -> None:
    empty, blank, other = WordLlama().embed(["", " \n", "The ferry leaves at noon."])
    assert empty @ blank == pytest.approx(1.0)
    assert abs(empty @ other) < 0.3


def test_paraphrases_are_nearer_than_strangers() -> None:
    asked, near, far = WordLlama().embed(
        ["How do I get my money back?", "Refunds are paid within five days.", "The cello needs new strings."]
    )
    assert asked @ near > asked @ far + 0.1


def test_it_is_loaded_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "_loaded", None)
    reads: list[Path] = []
    read = wordllama._read

    def count(folder: Path) -> Any:
        reads.append(folder)
        return read(folder)

    monkeypatch.setattr(wordllama, "_read", count)
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda _: WordLlama().embed(["noon"]), range(16)))
    assert len(reads) == 1
    assert all(np.array_equal(one, vectors[0]) for one in vectors)


def test_making_one_loads_nothing() -> None:
    program = """
import sys
from memoranda.retrieval.embed import wordllama
embedder = wordllama.WordLlama()
assert (embedder.id, embedder.dimension) == ("wordllama:256", 256)
assert wordllama._loaded is None
embedder.embed(["noon"])
assert wordllama._loaded is not None
print("wordllama" in sys.modules, "pydantic" in sys.modules, "tokenizers" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


def test_importing_memoranda_imports_neither_numpy_nor_a_tokenizer() -> None:
    program = (
        "import sys, memoranda; print('numpy' in sys.modules, 'tokenizers' in sys.modules, 'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


class TestFilesThatAreNotWhole:
    @pytest.fixture
    def copy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A copy of the files that may be damaged, and that the embedder reads."""
        for name in PUBLISHED:
            shutil.copy(wordllama._FOLDER / name, tmp_path / name)
        monkeypatch.setattr(wordllama, "_loaded", None)
        monkeypatch.setattr(wordllama, "_FOLDER", tmp_path)
        return tmp_path

    def test_a_whole_copy_works(self, copy: Path) -> None:
        assert WordLlama().embed(["noon"]).shape == (1, 256)

    @pytest.mark.parametrize("name", [wordllama._WEIGHTS, wordllama._TOKENIZER])
    def test_a_missing_file_is_named(self, copy: Path, name: str) -> None:
        (copy / name).unlink()
        with pytest.raises(EmbeddingFailed, match=name) as caught:
            WordLlama().embed(["noon"])
        assert "pip install --force-reinstall memoranda" in caught.value.hint
        assert caught.value.retryable is False

    def test_it_can_be_used_once_the_file_is_back(self, copy: Path) -> None:
        path = copy / wordllama._WEIGHTS
        path.rename(copy / "elsewhere")
        with pytest.raises(EmbeddingFailed):
            WordLlama().embed(["noon"])
        (copy / "elsewhere").rename(path)
        assert WordLlama().embed(["noon"]).shape == (1, 256)

    @pytest.mark.parametrize("kept", [0, 5, 8, 60, 96, 1_000_000])
    def test_a_cut_file_is_refused_wherever_it_is_cut(self, copy: Path, kept: int) -> None:
        path = copy / wordllama._WEIGHTS
        path.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(EmbeddingFailed, match="cannot be used"):
            WordLlama().embed(["noon"])

    @pytest.mark.parametrize(
        ("described", "reason"),
        [
            ({"other": {"dtype": "F16", "shape": [2, 256], "data_offsets": [0, 1024]}}, "embedding.weight"),
            ({"embedding.weight": {"dtype": "F32", "shape": [1, 256], "data_offsets": [0, 1024]}}, "F32"),
            ({"embedding.weight": {"dtype": "F16", "shape": [4, 128], "data_offsets": [0, 1024]}}, "128 columns"),
            ({"embedding.weight": {"dtype": "F16", "shape": [2, 256], "data_offsets": [0, 1024]}}, "fewer vectors"),
            ({"embedding.weight": {"dtype": "F16", "shape": [3, 256], "data_offsets": [0, 1024]}}, "shorter"),
        ],
    )
    def test_another_table_is_refused(self, copy: Path, described: dict[str, Any], reason: str) -> None:
        header = json.dumps(described).encode()
        (copy / wordllama._WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(1024))
        with pytest.raises(EmbeddingFailed, match=reason):
            WordLlama().embed(["noon"])

    @pytest.mark.parametrize(
        "change",
        [
            lambda description: description.clear(),
            lambda description: description["model"].update(type="WordPiece"),
            lambda description: description["model"].update(byte_fallback=False),
            lambda description: description["model"]["vocab"].pop("<0xFF>"),
            lambda description: description["model"].update(merges=[1, 2]),
            lambda description: description["model"]["vocab"].update(x="1"),
            lambda description: description.pop("added_tokens"),
        ],
    )
    def test_another_tokenizer_is_refused(self, copy: Path, change: Any) -> None:
        path = copy / wordllama._TOKENIZER
        description = json.loads(path.read_bytes())
        change(description)
        path.write_text(json.dumps(description), "utf-8")
        with pytest.raises(EmbeddingFailed, match="does not describe the tokenizer"):
            WordLlama().embed(["noon"])
