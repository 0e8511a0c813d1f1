"""A document in, everything there is to say about what it means out: a file for each subject."""
