"""Parsed documents in, diagnostics about what they mean out: a file for each subject, and `check.py` for all."""
