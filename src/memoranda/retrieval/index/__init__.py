"""The search index in memory: derived from entries, and rebuilt from them at any time."""
