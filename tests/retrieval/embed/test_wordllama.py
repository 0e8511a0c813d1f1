"""The default embedder: equal to WordLlama's own, without importing it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from recollect.errors import EmbeddingFailed
from recollect.retrieval.embed import wordllama
from recollect.retrieval.embed.wordllama import WordLlama
from recollect.testing.conformance.embedder import EmbedderConformance


class TestWordLlama(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> WordLlama:
        return WordLlama()


@pytest.fixture(scope="module")
def package() -> Path:
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="module")
def original(package: Path) -> Any:
    """The package's own embedder, put together from its files: its loader looks for one of them in the wrong folder."""
    from safetensors.numpy import load_file
    from wordllama.inference import WordLlamaInference

    weights = load_file(package / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(package / "tokenizers/l2_supercat_tokenizer_config.json"))
    return WordLlamaInference(weights, tokenizer)


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


def test_vectors_equal_those_of_the_package(original: Any) -> None:
    ours = WordLlama().embed(SAMPLES)
    theirs = np.concatenate([original.embed([text], norm=True) for text in SAMPLES])
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(ours - np.roll(theirs, 1, axis=0)).max() > 1e-2


@given(text=st.text(alphabet=st.sampled_from([*"abzABZ019 .,-'<s>/▁ \n\té漢👩"]), min_size=1, max_size=60))
def test_vectors_equal_those_of_the_package_for_any_text(original: Any, text: str) -> None:
    if text.strip():
        theirs = original.embed([text], norm=True)
        assert np.abs(WordLlama().embed([text]) - theirs).max() < 1e-5


def test_random_words_in_one_batch_equal_those_of_the_package(original: Any) -> None:
    source = random.Random(11)
    vocabulary = [token.replace("▁", " ") for token in original.tokenizer.get_vocab() if not token.startswith("<")]
    texts = ["".join(source.choices(vocabulary, k=source.randint(2, 40))) for _ in range(500)]
    texts = [text for text in texts if text.strip()]
    assert np.abs(WordLlama().embed(texts) - original.embed(texts, norm=True)).max() < 1e-5


@pytest.mark.parametrize("word", ["harbour", " harbour", "  harbour", "harbour "])
def test_a_word_that_was_seen_is_read_as_it_stands(original: Any, word: str) -> None:
    WordLlama().embed(["harbour", "the harbour", "the  harbour "])
    assert np.abs(WordLlama().embed([word]) - original.embed([word], norm=True)).max() < 1e-5
    assert np.abs(WordLlama().embed(["harbours"]) - original.embed([word], norm=True)).max() > 1e-2


def test_a_full_memory_of_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = WordLlama().embed(SAMPLES)
    monkeypatch.setattr(wordllama, "_loaded", None)
    monkeypatch.setattr(wordllama, "_KNOWN_PIECES", 3)
    assert np.array_equal(WordLlama().embed(SAMPLES), before)
    assert len(wordllama._load()._pieces) <= 3


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


def test_making_one_loads_nothing_and_the_package_is_never_imported() -> None:
    program = """
import sys
from recollect.retrieval.embed import wordllama
embedder = wordllama.WordLlama()
assert (embedder.id, embedder.dimension) == ("wordllama:256", 256)
assert wordllama._loaded is None
embedder.embed(["noon"])
assert wordllama._loaded is not None
print("wordllama" in sys.modules, "pydantic" in sys.modules, "tokenizers" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


def test_importing_recollect_imports_neither_numpy_nor_a_tokenizer() -> None:
    program = (
        "import sys, recollect; print('numpy' in sys.modules, 'tokenizers' in sys.modules, 'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


class TestAPackageThatIsNotWhole:
    @pytest.fixture
    def copy(self, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A copy of the package's files that may be damaged, and that the embedder takes for the package."""
        for name in (wordllama._WEIGHTS, wordllama._TOKENIZER):
            (tmp_path / name).parent.mkdir()
            shutil.copy(package / name, tmp_path / name)
        monkeypatch.setattr(wordllama, "_loaded", None)
        monkeypatch.setattr(wordllama, "_package_folder", lambda: tmp_path)
        return tmp_path

    def test_a_whole_copy_works(self, copy: Path) -> None:
        assert WordLlama().embed(["noon"]).shape == (1, 256)

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wordllama, "_loaded", None)
        monkeypatch.setattr(wordllama, "find_spec", lambda name: None)
        with pytest.raises(EmbeddingFailed, match="`wordllama`, which is not installed") as caught:
            WordLlama().embed(["noon"])
        assert "pip install wordllama" in caught.value.hint
        assert caught.value.retryable is False

    @pytest.mark.parametrize("name", [wordllama._WEIGHTS, wordllama._TOKENIZER])
    def test_a_missing_file_is_named(self, copy: Path, name: str) -> None:
        (copy / name).unlink()
        with pytest.raises(EmbeddingFailed, match=Path(name).name):
            WordLlama().embed(["noon"])

    def test_it_can_be_used_once_the_file_is_back(self, copy: Path, package: Path) -> None:
        (copy / wordllama._WEIGHTS).unlink()
        with pytest.raises(EmbeddingFailed):
            WordLlama().embed(["noon"])
        shutil.copy(package / wordllama._WEIGHTS, copy / wordllama._WEIGHTS)
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
