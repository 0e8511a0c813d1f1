"""The command line interface."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command in `sys.argv` and exit with its exit code."""
    import sys

    try:
        from memoranda.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
