"""`python -m recollect.cli`, which is `recollect`."""

from recollect.cli import main

# Workers of the server are processes that import this file again.
if __name__ == "__main__":
    main()
