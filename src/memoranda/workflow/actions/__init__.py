"""The actions that tasks run: the built-in ones, and how all of them are declared and called."""
