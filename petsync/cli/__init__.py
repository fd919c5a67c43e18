"""The command line: one thin command a file; results on stdout, everything said on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from petsync.cli.streams import loading

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (the process's, if none is given) and exit with its code."""
    with loading():
        from petsync.cli import entry
    entry.main(args)
