"""One file for each part of the pages. A page calls the same Python as a route: nothing is decided here."""
