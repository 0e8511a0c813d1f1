"""`python -m memoranda.cli`, which is `memoranda`."""

from memoranda.cli import main

# Workers of the server are processes that import this file again.
if __name__ == "__main__":
    main()
