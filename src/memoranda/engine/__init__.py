"""What memory means: one verb for each effect, each a function of a transaction.

A verb reads and writes rows through `store.base` and says what happened in notes. It neither opens the
transaction nor asks who may: the gate in `memoranda.governance` does both, so a verb cannot be reached around it.
"""
