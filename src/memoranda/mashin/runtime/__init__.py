"""A compiled machine and its input in; a run with its output, its journal and its events out."""
