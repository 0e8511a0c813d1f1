"""The expression core that the languages share.

A grammar makes nodes (`nodes`), a `Dialect` defines the operators, functions and names of its language, and
`compile_node` turns a node into a closure, once, to be run many times. It never uses `eval`, and leaves no way from an
expression to a Python attribute, a file or a socket.
"""
