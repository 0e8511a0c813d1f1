"""Tools: a declared tool and its arguments in, a result or a failure as a value out."""
