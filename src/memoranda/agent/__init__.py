"""The model side: what is asked of a language model, and how remembered data enters a prompt."""
