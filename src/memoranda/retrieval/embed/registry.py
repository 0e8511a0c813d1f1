"""Embedders by name, as written in settings."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from memoranda.errors import UsageError
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Embedder

_HINT = "Write `wordllama`, `onnx:/path/to/folder`, `openai:text-embedding-3-small` or `hashing:256`"


def resolve(name: str) -> Embedder:
    """Create an embedder by name: `wordllama`, `hashing:256`, `onnx:/path/to/folder`, `openai:<model>`.

    >>> resolve("hashing:64").id
    'hashing:64'
    """
    kind, _, rest = name.strip().partition(":")
    make = _KINDS.get(kind)
    if make is None:
        near = get_close_matches(kind.casefold(), _KINDS, n=1, cutoff=0.5)
        hint = f"Did you mean `{near[0]}`? {_HINT}" if near else _HINT
        raise UsageError(f"{quote(name)} is not a known embedder", hint=hint, value=name)
    return make(rest)


# Each is imported on demand: a program that uses one of them should not load the others.


def _wordllama(rest: str) -> Embedder:
    from memoranda.retrieval.embed.wordllama import DIMENSION, WordLlama

    if rest not in ("", str(DIMENSION)):
        raise _unusable("wordllama", rest, f"It has {DIMENSION} dimensions, so write `wordllama`")
    return WordLlama()


def _hashing(rest: str) -> Embedder:
    from memoranda.retrieval.embed.hashing import Hashing

    if rest and not _is_number(rest):
        raise _unusable("hashing", rest, "Write a dimension, as in `hashing:256`")
    return Hashing(int(rest)) if rest else Hashing()


def _onnx(rest: str) -> Embedder:
    from memoranda.retrieval.embed.onnx import Onnx

    if not rest:
        raise _unusable("onnx", rest, "Write the folder of the model, as in `onnx:/path/to/folder`")
    return Onnx(rest)


def _openai(rest: str) -> Embedder:
    from memoranda.retrieval.embed.openai import OpenAI

    if not rest:
        raise _unusable("openai", rest, "Write the model, as in `openai:text-embedding-3-small`")
    model, _, dimension = rest.rpartition(":")
    if model and _is_number(dimension):
        return OpenAI(model, dimension=int(dimension))
    return OpenAI(rest)


_KINDS: dict[str, Callable[[str], Embedder]] = {
    "wordllama": _wordllama,
    "onnx": _onnx,
    "openai": _openai,
    "hashing": _hashing,
}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < len(text) < 7 and int(text) > 0


def _unusable(kind: str, rest: str, hint: str) -> UsageError:
    name = f"{kind}:{rest}" if rest else kind
    return UsageError(f"{quote(name)} is not a valid embedder name", hint=hint, value=name)
