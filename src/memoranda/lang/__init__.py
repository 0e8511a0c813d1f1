"""What the languages share below their grammars: sources, diagnostics, expressions, templates, test scripts.

A file is a `Source`; findings in it are `Diagnostic`s, collected and shown together. Expressions are nodes that a
`Dialect` compiles to closures once, to be run many times. Nothing here knows a memory.
"""
