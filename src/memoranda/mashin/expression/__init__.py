"""mashin expressions: `parser` reads them, `compiler` makes closures of them.

`operators`, `methods` and `functions` are what they can use.
"""
