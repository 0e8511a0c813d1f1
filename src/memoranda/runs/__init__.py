"""Runs: what a program that reaches out has done, kept so that it can go on, be looked at again and be verified.

A run that goes on after a pause is executed from its beginning, and takes from its `journal` what it could not compute;
or it goes on from where it stood, if its language keeps that. Its events go to the ledger through `recording`,
`keeping` turns it into facts, and `waiting` says what it waits for. The languages whose programs run are above, and
this knows none of them.
"""
