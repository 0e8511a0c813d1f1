"""Tests of workflows that are written down: read, run on a memory of their own, and compared with what they expect."""
