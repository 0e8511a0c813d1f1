"""Runs: what a program that reaches out has done, kept so that it can go on, be looked at again and be verified.

A run is executed from its beginning whenever it goes on, and takes from its `journal` what it could not compute. Its
events go to the ledger through `recording`; `keeping` turns it into facts, and `waiting` says what it waits for. The
languages whose programs run are above, and this knows none of them.
"""
