"""Texts from anywhere in, texts that a tokenizer and a network accept out."""

from __future__ import annotations


def whole(text: str) -> str:
    """Return the text with a `?` for each half of a surrogate pair, which is no character and has no UTF-8."""
    return text.encode("utf-8", "replace").decode()
