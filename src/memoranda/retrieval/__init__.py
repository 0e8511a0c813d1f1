"""How memory is found: words and vectors in, an order with reasons out. Knows no store, no permission, no disk."""
