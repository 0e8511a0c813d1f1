"""How language models are asked, and how remembered data enters a prompt."""
