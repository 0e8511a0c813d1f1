"""ABL's expressions and templates: text in, programs that are compiled once and run many times out.

`programs` is the way in. `tokens`, `parser` and `template` are the grammar, `semantics` says what the operators mean.
"""
