"""The expression core that languages share: nodes in, closures out, under limits.

A grammar makes nodes (`nodes`); a `Dialect` says what the operators, functions and names of its language mean;
`compile_node` turns a node into a closure, once, to be run many times. There is no `eval`, and no way from an
expression to a Python attribute, a file or a socket.
"""
