"""The command line: words in, one effect through the gate, a table or one JSON document out."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command that `sys.argv` asks for, and leave with its exit code."""
    import sys

    try:
        from memoranda.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
