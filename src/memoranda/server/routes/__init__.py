"""One file for each kind of memory: a request in, one call of the memory's handle, its answer out."""
