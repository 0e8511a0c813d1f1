"""The tokenizer of the default embedder gives the ids of Hugging Face's `tokenizers`, in bounded time."""

from __future__ import annotations

import random
import sys
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Reference

from memoranda.model.text import without_halves
from memoranda.retrieval.embed import wordllama
from memoranda.retrieval.embed.wordllama import Tokenizer

FILE = wordllama._FOLDER / wordllama._TOKENIZER
SPECIAL = ("<unk>", "<s>", "</s>")


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference.from_file(str(FILE))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(FILE.read_bytes())


@pytest.fixture(scope="module")
def tokens(reference: Reference) -> list[str]:
    """Every token as it is written in a text."""
    return [token.replace("▁", " ") for token in sorted(reference.get_vocab())]


def expected(reference: Reference, text: str) -> list[int]:
    """Return what the reference gives; the embedder leaves out texts of white space alone."""
    return reference.encode(without_halves(text), add_special_tokens=False).ids if text.strip() else []


def test_every_character_has_the_ids_of_the_reference(tokenizer: Tokenizer, reference: Reference) -> None:
    # All that the vocabulary may know, and a sample of the large planes, whose characters are bytes to it.
    codes = [*range(0x3000), *range(0x3000, sys.maxunicode, 41)]
    some = [chr(code) for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]
    some = [one for one in some if not one.isspace()]
    ids = [one.ids for one in reference.encode_batch(some, add_special_tokens=False)]
    assert len(ids) > 10_000
    assert [one for one, known in zip(some, ids, strict=True) if tokenizer.encode(one) != known] == []


def test_any_sequence_of_tokens_has_the_ids_of_the_reference(
    tokenizer: Tokenizer, reference: Reference, tokens: list[str]
) -> None:
    source = random.Random(7)
    words = [
        *("<unk>", "<s>", "</s>", "<", "s>", "▁", "▁▁", "<0x0A>"),
        *(" " * length for length in (1, 2, 3, 15, 16, 17, 40)),
        *("漢字", "🙂", "👩\u200d👩\u200d👧", "\n", "\t", "\x00", "\ud83d", "\u3000", "aaaaaaa", "e" * 50),
    ]
    texts = ["".join(source.choices([*source.choices(tokens, k=40), *words], k=12)) for _ in range(1_000)]
    assert [text for text in texts if tokenizer.encode(text) != expected(reference, text)] == []
    assert sum(any(special in text for special in SPECIAL) for text in texts) > 50


@given(text=st.text(alphabet=st.characters(codec=None), max_size=80))
@example("half a pair: \ud83d, both \ud83d\ude00")
@example("▁<s>▁</s>▁▁<unk>")
@example("<<s>s><</s>/s>")
@example(" leading and trailing ")
@example("\u2581\u3000\xa0\u200b")
def test_any_text_has_the_ids_of_the_reference(tokenizer: Tokenizer, reference: Reference, text: str) -> None:
    assert tokenizer.encode(text) == expected(reference, text)
    assert tokenizer.encode(text) == expected(reference, text)  # now from the cache


@pytest.mark.parametrize("alphabet", ["x", "ab", "▁", " ▁", "etaoinshrdlu", "漢字", "🙂", "<s>", "0123456789abcdef"])
def test_long_runs_have_the_ids_of_the_reference(tokenizer: Tokenizer, reference: Reference, alphabet: str) -> None:
    text = "".join(random.Random(3).choices(alphabet, k=5_000)) + "."
    assert tokenizer.encode(text) == expected(reference, text)


def test_a_long_word_takes_time_in_proportion_to_its_length(tokenizer: Tokenizer) -> None:
    def seconds(length: int) -> float:
        words = ["".join(random.Random(seed).choices("etaoinshrdlu", k=length)) for seed in range(3)]
        took: list[float] = []
        for word in words:
            begun = time.process_time()
            tokenizer.encode(word)
            took.append(time.process_time() - begun)
        return min(took)

    # Sixteen times the length: about 20 times the time with a queue, 256 times where every pair is looked at each time.
    assert seconds(16_000) < 80 * seconds(1_000)
