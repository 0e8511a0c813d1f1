"""Checks of a parsed document: a module per subject, and `check.py` that runs them all."""
