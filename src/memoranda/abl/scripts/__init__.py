"""Conversations that are written down: YAML beside an agent in, a report of what it said and kept out."""
