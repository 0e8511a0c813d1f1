"""Checks of a parsed workflow, beyond its syntax."""
