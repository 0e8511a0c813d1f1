"""Runs: executions of a program that pause, resume, and are replayed and verified.

A run resumes in one of two ways: it executes again from its beginning and takes what it could not compute from its
journal, or it continues from a stored position. Nothing here knows a language.
"""
