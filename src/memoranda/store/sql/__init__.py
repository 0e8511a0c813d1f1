"""What SQL stores share: the statements, the methods of the store contract on top of them, and row decoding.

`queries.sql` and `entries.sql` contain the statements, and `dialect.py` loads them in the dialect of one database.
`rows.py` and `entries.py` implement `memoranda.store.base.Transaction`; a backend adds how statements run on its
connections.
"""
