"""What memory means: effects and their verbs, one module for each subject.

A verb neither opens the transaction it runs in nor asks who may: the gate in `memoranda.governance` does both, so a
verb cannot be reached around it.
"""
