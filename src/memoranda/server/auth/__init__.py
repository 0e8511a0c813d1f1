"""Who is calling: a token in, a caller out. Keys and signed tokens; what a caller may do is in `callers.py`."""
