"""A compiled agent and the user's words in; messages, memory and a trace out."""
