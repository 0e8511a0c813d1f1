"""Authentication: API keys, signed tokens, rate limits, and the principals that they identify."""
