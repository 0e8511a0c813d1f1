"""What the languages share below their grammars: sources, diagnostics, expressions and templates.

A file is a `Source`; what is wrong with it is a list of `Diagnostic`, collected and shown together. Expressions are
nodes that a `Dialect` compiles to closures once, to be run many times. Nothing here knows a memory.
"""
