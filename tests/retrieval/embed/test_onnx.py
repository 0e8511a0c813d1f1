"""A model in a folder, run by onnxruntime: compared with what numpy makes of the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from memoranda.errors import EmbeddingFailed, UsageError
from memoranda.retrieval.embed import onnx
from memoranda.retrieval.embed.onnx import Onnx
from memoranda.retrieval.embed.registry import resolve
from memoranda.testing.conformance.embedder import TEXTS, EmbedderConformance

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({word for text in TEXTS for word in text.split()}), "noon"]
VOCABULARY = {word: number for number, word in enumerate(dict.fromkeys(WORDS))}
DIMENSION = 12
# The vector of the padding is large: were it counted, no vector here would be right.
TABLE = np.random.default_rng(5).normal(size=(len(VOCABULARY), DIMENSION)).astype(np.float32)
TABLE[0] = 50.0

Build = Callable[..., Path]


def write_model(path: Path, *, inputs: tuple[str, ...], output: str, pooled: bool = False) -> None:
    """Write a model that looks each token up in the table; `pooled` gives twice the first token's vector instead."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    shape: list[Any] = ["batch", "length", DIMENSION]
    if pooled:
        nodes += [
            helper.make_node("Gather", ["tokens", "zero"], ["first"], axis=1),
            helper.make_node("Add", ["first", "first"], [output]),
        ]
        shape = ["batch", DIMENSION]
    else:
        nodes.append(helper.make_node("Identity", ["tokens"], [output]))
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(np.array(0), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(model, path)


def write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", VOCABULARY["[CLS]"]), ("[SEP]", VOCABULARY["[SEP]"])]
    )
    tokenizer.enable_padding(length=64)  # as hubs ship it; it must not be heeded
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def build(
        name: str = "tiny",
        *,
        where: str = "model.onnx",
        inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
        output: str = "last_hidden_state",
        pooled: bool = False,
        **configs: dict[str, Any],
    ) -> Path:
        folder = tmp_path / name
        write_model(folder / where, inputs=inputs, output=output, pooled=pooled)
        write_tokenizer(folder)
        for file, content in configs.items():
            (folder / f"{file}.json").write_text(json.dumps(content))
        return folder

    return build


def expected(text: str, *, longest: int = 512) -> np.ndarray:
    """Return the unit vector of the mean of a text's tokens, by numpy alone."""
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    words = tokenizer.encode(text).ids[: longest - 2]
    mean = TABLE[[VOCABULARY["[CLS]"], *words, VOCABULARY["[SEP]"]]].mean(axis=0)
    return mean / np.linalg.norm(mean)


class TestOnnx(EmbedderConformance):
    @pytest.fixture
    def embedder(self, build: Build) -> Onnx:
        return Onnx(build(), threads=1)


@pytest.mark.parametrize(
    "inputs", [("input_ids",), ("input_ids", "attention_mask"), ("input_ids", "attention_mask", "token_type_ids")]
)
def test_vectors_are_the_means_over_the_tokens(build: Build, inputs: tuple[str, ...]) -> None:
    vectors = Onnx(build(inputs=inputs), threads=1, batch=4).embed(TEXTS)
    for vector, text in zip(vectors, TEXTS, strict=True):
        assert vector == pytest.approx(expected(text), abs=1e-5)


@pytest.mark.parametrize("output", ["sentence_embedding", "pooled"])
def test_a_vector_that_the_model_pools_itself_is_used(build: Build, output: str) -> None:
    vectors = Onnx(build(output=output, pooled=True), threads=1).embed(TEXTS[:2])
    first = TABLE[VOCABULARY["[CLS]"]]
    assert vectors[0] == pytest.approx(first / np.linalg.norm(first), abs=1e-5)
    assert vectors[0] != pytest.approx(expected(TEXTS[0]), abs=1e-3)


@pytest.mark.parametrize(
    ("configs", "longest"),
    [
        ({}, 512),
        ({"sentence_bert_config": {"max_seq_length": 5}, "tokenizer_config": {"model_max_length": 9}}, 5),
        ({"tokenizer_config": {"model_max_length": 9}, "config": {"max_position_embeddings": 20}}, 9),
        ({"tokenizer_config": {"model_max_length": 10**30}, "config": {"max_position_embeddings": 20}}, 20),
        ({"config": {"max_position_embeddings": "many"}}, 512),
    ],
)
def test_a_long_text_is_cut_where_the_model_says(build: Build, configs: dict[str, Any], longest: int) -> None:
    text = "Ada keeps bees behind the house " * 200
    vector = Onnx(build(**configs), threads=1).embed([text])[0]
    assert vector == pytest.approx(expected(text, longest=longest), abs=1e-4)
    assert vector != pytest.approx(expected(text, longest=longest + 1), abs=1e-7)


def test_the_id_tells_one_model_file_from_another(build: Build, tmp_path: Path) -> None:
    one, same, other = Onnx(build("one")), Onnx(build("copies/one")), Onnx(build("other/one", output="else"))
    assert one.id.startswith("onnx:one@")
    assert len(one.id) == len("onnx:one@") + 8
    assert one.id == same.id
    assert one.id != other.id
    assert repr(one) == f"Onnx({str(tmp_path / 'one')!r})"


def test_a_model_in_a_folder_of_its_own_is_found(build: Build) -> None:
    folder = build(where="onnx/model.onnx")
    embedder = resolve(f"onnx:{folder}")
    assert isinstance(embedder, Onnx)
    assert embedder.embed(["noon"])[0] == pytest.approx(expected("noon"), abs=1e-5)
    assert embedder.dimension == DIMENSION
    assert embedder.calibration is None


def test_texts_of_a_length_go_together() -> None:
    assert list(onnx._batches([5, 1, 4, 2, 3], 2)) == [[1, 3], [4, 2], [0]]


def test_nothing_is_loaded_before_the_first_text(build: Build) -> None:
    embedder = Onnx(build(), threads=1)
    assert embedder.id
    assert embedder._loaded is None
    embedder.embed(["noon"])
    assert embedder._loaded is not None


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_extra_is_named(package: str, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Onnx(build())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EmbeddingFailed, match=f"`{package}`, which is not installed") as caught:
        embedder.embed(["noon"])
    assert 'pip install "memoranda[onnx]"' in caught.value.hint
    monkeypatch.undo()
    assert embedder.embed(["noon"]).shape == (1, DIMENSION)


def test_a_file_that_is_no_model_is_refused(build: Build) -> None:
    folder = build()
    (folder / "model.onnx").write_bytes(b"no model at all")
    with pytest.raises(EmbeddingFailed, match=r"model\.onnx` cannot be used"):
        Onnx(folder).embed(["noon"])


def test_a_model_of_another_kind_is_refused(build: Build) -> None:
    with pytest.raises(EmbeddingFailed, match="its inputs are `input_ids, pixels`"):
        Onnx(build(inputs=("input_ids", "pixels"))).embed(["noon"])


def test_a_tokenizer_of_another_model_is_refused(build: Build) -> None:
    folder = build()
    assert Onnx(folder, threads=1).embed(["noon"]).shape == (1, DIMENSION)
    described = json.loads((folder / "tokenizer.json").read_text())
    described["model"]["vocab"]["noon"] = 10_000
    (folder / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(EmbeddingFailed, match="failed on 1 texts"):
        Onnx(folder, threads=1).embed(["noon"])


def test_settings_that_are_no_json_are_refused(build: Build) -> None:
    folder = build()
    (folder / "config.json").write_text("{max:")
    with pytest.raises(EmbeddingFailed, match=r"config\.json` cannot be used"):
        Onnx(folder).embed(["noon"])


@pytest.mark.parametrize("options", [{"threads": 0}, {"batch": 0}])
def test_no_threads_and_no_batch_are_refused(build: Build, options: dict[str, int]) -> None:
    folder = build()
    with pytest.raises(UsageError, match="Both must be at least 1"):
        Onnx(folder, **options)
    assert Onnx(folder, threads=1, batch=1)
