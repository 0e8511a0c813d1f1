"""Tests of programs, written down in YAML: what reading, comparing and reporting them has in common everywhere."""
