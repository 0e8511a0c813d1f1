"""Who may, and what was done: the gate that every effect passes, and the ledger that remembers each passing."""
