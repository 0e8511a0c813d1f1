"""ABL's expressions and templates.

`compiler` is the entry point. `parser` and `template` are the grammar, `semantics` and `functions` give the meaning.
"""
