"""Ranked retrieval by words and vectors. Independent of stores, permissions and files."""
