"""Learning from conversations: read messages of any provider, and find what they state about their user.

Pure functions. Nothing here knows a store, a gate or a scope.
"""
