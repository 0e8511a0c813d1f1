"""Agents written in ABL: text in, a document, diagnostics and compiled programs out."""
