"""Sentence models in ONNX format, run on this machine.

A model is a folder as model hubs provide it: `model.onnx` (or `onnx/model.onnx`), `tokenizer.json`, and the JSON files
with the maximum length of a text. Longer texts are truncated.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed, Hint, UsageError
from memoranda.model.text import quote, without_halves
from memoranda.retrieval.embed.base import Vectors, to_unit

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from memoranda.model.entry import Calibration

_MODELS = ("model.onnx", "onnx/model.onnx")
_TOKENIZER = "tokenizer.json"
# Where the maximum length may be given, the most specific first.
_LENGTHS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)
_USUAL_LENGTH = 512
# Some tokenizers give 10^30 if they have no limit.
_LONGEST_LENGTH = 32_768
_POOLED = "sentence_embedding"

Tokens = NDArray[np.int64]


class Onnx:
    """A sentence model from a folder, loaded on first use. Thread-safe."""

    reproducible = True

    def __init__(self, folder: str | Path, *, threads: int | None = None, batch: int = 32) -> None:
        """Take the folder, the number of threads for one text (None: all) and the number of texts to run at once."""
        self._folder = Path(folder).expanduser()
        if batch < 1 or (threads is not None and threads < 1):
            raise UsageError(
                f"a model cannot run {quote(batch)} texts at once in {quote(threads)} threads",
                hint="Both must be at least 1",
            )
        self._threads = threads
        self._batch = batch
        self._path = _find_model(self._folder)
        self._loading = threading.Lock()
        self._loaded: _Model | None = None
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Return the name of the folder with a digest of the model file."""
        if self._id is None:
            with self._path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self._id = f"onnx:{self._folder.resolve().name}@{digest[:8]}"
        return self._id

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors; this loads the model."""
        return self._load().dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return None: the calibration is measured when the model is first used."""
        return None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order."""
        model = self._load()
        tokens = [model.tokens(text) for text in texts]
        sums = np.empty((len(texts), self.dimension), np.float32)
        for rows in _batches([len(one) for one in tokens], self._batch):
            sums[rows] = model.run([tokens[row] for row in rows])
        return to_unit(sums)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"Onnx({str(self._folder)!r})"

    def _load(self) -> _Model:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = _Model(self._folder, self._path, self._threads)
        return self._loaded


class _Model:
    """A loaded model with its tokenizer."""

    def __init__(self, folder: Path, path: Path, threads: int | None) -> None:
        self._path = path
        self._session, self._failures = _open_session(path, threads)
        self._tokenizer = _open_tokenizer(folder)
        self._inputs: set[str] = {one.name for one in self._session.get_inputs()}
        unknown = self._inputs - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown or "input_ids" not in self._inputs:
            _refuse(path, f"its inputs are {quote(', '.join(sorted(self._inputs)))}, not those of a sentence model")
        outputs: list[str] = [one.name for one in self._session.get_outputs()]
        self._output = _POOLED if _POOLED in outputs else outputs[0]
        self.dimension = self.run([self.tokens("a")]).shape[1]

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, truncated to the model's maximum length."""
        return self._tokenizer.encode(without_halves(text)).ids

    def run(self, tokens: Sequence[list[int]]) -> Vectors:
        """Return one vector for each list of tokens: the model's own, or the mean over the tokens."""
        ids, mask = _pad(tokens)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            given = self._session.run([self._output], {name: inputs[name] for name in self._inputs})[0]
        except self._failures as error:
            raise EmbeddingFailed(
                f"the model {quote(str(self._path), longest=250)} failed on {len(tokens)} texts: {quote(str(error))}",
                hint="Nothing was stored; check that the model and the tokenizer in its folder belong together",
                retryable=False,
            ) from error
        vectors: NDArray[Any] = np.asarray(given, np.float32)
        if vectors.ndim == 3:
            return np.einsum("ijk,ij->ik", vectors, mask.astype(np.float32))
        if vectors.ndim != 2 or len(vectors) != len(tokens):
            _refuse(self._path, f"its output {quote(self._output)} has the shape {vectors.shape}")
        return vectors


def _find_model(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(
            f"the folder {quote(str(folder), longest=250)} does not exist", hint="Name a folder with `model.onnx` in it"
        )
    found = [folder / name for name in _MODELS if (folder / name).is_file()]
    if not found or not (folder / _TOKENIZER).is_file():
        missing = _TOKENIZER if found else _MODELS[0]
        raise UsageError(
            f"the folder {quote(str(folder), longest=250)} has no {quote(missing)}",
            hint="It needs `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`",
        )
    return found[0]


def _open_session(path: Path, threads: int | None) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a session of the model, and the exceptions that it raises."""
    try:
        # By name, because the package has no types to check against.
        runtime: Any = import_module("onnxruntime")
        state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    except ImportError as error:
        raise _not_installed("onnxruntime") from error
    # They have no common base class.
    failures = tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]), failures
    except failures as error:
        _refuse(path, str(error), cause=error)


def _open_tokenizer(folder: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _not_installed("tokenizers") from error
    tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()  # a batch is padded to its own longest text, not to a length from the file
    tokenizer.enable_truncation(_longest(folder))
    return tokenizer


def _longest(folder: Path) -> int:
    for name, field in _LENGTHS:
        path = folder / name
        if path.is_file():
            try:
                length = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get(field)
            except msgspec.DecodeError as error:
                _refuse(path, f"it is not JSON ({error})", cause=error)
            if isinstance(length, int) and 0 < length <= _LONGEST_LENGTH:
                return length
    return _USUAL_LENGTH


def _batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the rows of each batch, by length, to reduce padding."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _pad(tokens: Sequence[list[int]]) -> tuple[Tokens, Tokens]:
    """Return the tokens as a padded matrix with at least one column, and its mask."""
    ids = np.zeros((len(tokens), max(1, *map(len, tokens))), np.int64)
    mask = np.zeros_like(ids)
    for row, one in enumerate(tokens):
        ids[row, : len(one)] = one
        mask[row, : len(one)] = 1
    return ids, mask


def _not_installed(package: str) -> EmbeddingFailed:
    return EmbeddingFailed(
        f"an embedder from an ONNX folder needs the package `{package}`, which is not installed",
        hint=Hint("install", "onnx"),
        retryable=False,
    )


def _refuse(path: Path, why: str, *, cause: Exception | None = None) -> NoReturn:
    raise EmbeddingFailed(
        f"the file {quote(str(path), longest=250)} cannot be used: {quote(why, longest=200) if cause else why}",
        hint="Give the folder of a sentence model that was exported to ONNX",
        retryable=False,
    ) from cause
