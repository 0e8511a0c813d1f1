"""mashin machines: steps that compute, ask, remember and recall, each effect of them governed.

`expression` holds what machines compute with: pure values in, a value out.
"""
