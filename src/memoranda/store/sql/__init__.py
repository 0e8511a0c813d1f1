"""What stores that speak SQL share: the verbs of the contract as named statements, and rows as values of the model.

A store gives a way to run a statement (`Statements`) and a text for each name; the verbs, in `rows.py` and
`entries.py`, are the same everywhere.
"""
