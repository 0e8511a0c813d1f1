"""mashin's expressions: text in, programs that are compiled once and run many times out.

`programs` is the way in. `tokens` and `parser` are the grammar, `semantics` says what the operators mean, `methods` and
`namespaces` are what can be called, and `compiling` puts names and calls together.
"""
