"""The command line: results on stdout, messages on stderr."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

__all__ = ["COMPLETION_VARIABLE", "main"]

COMPLETION_VARIABLE = "_PETSYNC_COMPLETE"
"""The variable by which click recognises a request for completions."""

_INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `args`, by default the arguments of the process, and exit with its code.

    A signal before the command starts ends the process with code 130. This handling is in place
    before the rest of petsync is imported, because an exception during an import would print a
    traceback.
    """
    if args is None and os.environ.get(COMPLETION_VARIABLE, "").endswith("_complete"):
        # A shell asks for completions, and shows what this process prints in the user's line.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    unraisable = sys.unraisablehook
    sys.unraisablehook = _end_process
    try:
        from petsync.cli import signals

        if args is None:
            import atexit
            import gc

            # Loading creates up to 260,000 objects that stay. With the default threshold, the
            # collector visits them again and again, which takes a fifth of the start-up time.
            gc.set_threshold(400_000)
            # petsync calls nothing of OpenBLAS, whose threads wait busily after NumPy's import.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            # Arrow's other pools keep freed memory: the peak of a large plan would be a tenth
            # higher.
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
            # The first registered function runs last.
            atexit.register(signals.exit_if_interrupted)
        with signals.exiting_on_signal():
            sys.unraisablehook = unraisable
            from petsync.cli import entry

            entry.main(args)
    except KeyboardInterrupt:
        _end_process()


def _end_process(_: object = None) -> NoReturn:
    """End the process. Also called for an interrupt in a callback, from which no exception can
    propagate.
    """
    os._exit(_INTERRUPTED)
