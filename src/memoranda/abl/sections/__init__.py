"""Readers of the parts of an ABL file, which turn lines into the nodes of `abl.document`."""
