"""`python -m recollect.cli`, which is `recollect`."""

from recollect.cli import main

main()
