"""Tests of workflows, written in YAML."""
