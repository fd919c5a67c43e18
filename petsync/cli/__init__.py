"""The command line: one thin command a file; results on stdout, everything said on stderr."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

__all__ = ["main"]

_INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (the process's, if none is given) and exit with its code.

    A request to end that comes before the command begins ends the process with 130. Nothing is
    imported before that is so: an exception in the middle of an import shows as a traceback.
    """
    unraisable = sys.unraisablehook
    sys.unraisablehook = _end
    try:
        from petsync.cli import signals

        if args is None:
            import atexit

            # Registered first, it runs last.
            atexit.register(signals.leave)
        with signals.loading():
            sys.unraisablehook = unraisable
            from petsync.cli import entry

            entry.main(args)
    except KeyboardInterrupt:
        _end()


def _end(_: object = None) -> NoReturn:
    """End the process, also where the interrupt came out of a callback, which cannot raise it."""
    os._exit(_INTERRUPTED)
