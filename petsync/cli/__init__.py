"""The command line: one thin command a file; results on stdout, everything said on stderr."""

from petsync.cli.entry import main

__all__ = ["main"]
