"""Lines of one section in, its part of the document out: a file for each subject."""
