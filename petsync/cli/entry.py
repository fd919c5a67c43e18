"""The console script: parse the command line, run the command, and return its exit code."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from petsync import __version__
from petsync.cli import signals
from petsync.cli.context import (
    INTERRUPTED,
    Context,
    Group,
    as_output_error,
    exit_code,
    flush_output,
    prepare_streams,
    report_error,
)
from petsync.errors import InterruptedRunError

__all__ = ["cli", "main"]


_M_MMAP_THRESHOLD, _LARGE = -3, 2 << 20
"""The option of glibc's mallopt(3), and the size in bytes from which blocks are mapped."""
_M_TRIM_THRESHOLD, _SPARE = -1, 64 << 20
"""The option of mallopt, and the number of freed bytes in smaller blocks that glibc keeps."""
_INTERRUPTED_CODES = (INTERRUPTED, InterruptedRunError.exit_code)
_SENDING = frozenset({"apply", "reconcile", "resume", "undo"})
"""The commands that send changes."""
_EPILOG = """
\b
Try it without a service:
  petsync demo

\b
Then with your service:
  petsync login --url https://shop.example/v2
  petsync export catalogue.xlsx
  petsync plan catalogue.xlsx -o plan.json
  petsync apply plan.json

\b
Instead of options:
  PETSYNC_URL, PETSYNC_PROFILE, PETSYNC_STATE. Instead of petsync login:
  PETSYNC_TOKEN, PETSYNC_API_KEY, or PETSYNC_CLIENT_ID with
  PETSYNC_CLIENT_SECRET. petsync.toml in the folder where petsync is run
  may set url, profile, state, allow_http, timeout, [service], [columns]
  and [auth].

\b
Exit codes:
  0 done or in sync      1 error               2 changes or differences
  3 some rows failed     4 guard refused       5 conflicts or stale
  6 locked               7 interrupted         64 usage
  130 interrupted, and nothing was sent
"""


_PLACES = {
    "demo": "petsync.cli.tools:demo_command",
    "export": "petsync.cli.plan:export_command",
    "check": "petsync.cli.plan:check_command",
    "plan": "petsync.cli.plan:plan_command",
    "diff": "petsync.cli.diff:command",
    "rehearse": "petsync.cli.plan:rehearse_command",
    "apply": "petsync.cli.run:apply_command",
    "resume": "petsync.cli.run:resume_command",
    "undo": "petsync.cli.run:undo_command",
    "runs": "petsync.cli.runs:command",
    "reconcile": "petsync.cli.reconcile:reconcile_command",
    "upload": "petsync.cli.upload:command",
    "init": "petsync.cli.reconcile:init_command",
    "config": "petsync.cli.reconcile:config_command",
    "trust": "petsync.cli.account:trust_command",
    "login": "petsync.cli.account:login_command",
    "logout": "petsync.cli.account:logout_command",
    "whoami": "petsync.cli.account:whoami_command",
    "app": "petsync.cli.tools:app_command",
    "doctor": "petsync.cli.tools:doctor_command",
    "serve": "petsync.cli.tools:serve_command",
    "completion": "petsync.cli.tools:completion_command",
}


@click.group(
    "petsync",
    cls=Group,
    epilog=_EPILOG,
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="petsync %(version)s")
def cli() -> None:
    """Keep a pet store's catalogue and a team's spreadsheets in agreement.

    petsync compares a spreadsheet with the store, shows exactly what would change, and sends the
    changes when you confirm them.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `args`, by default the arguments of the process, and exit with its
    code.
    """
    arguments = sys.argv[1:] if args is None else list(args)
    context = Context()
    code = None
    try:
        with signals.interruptible():
            try:
                _map_large_blocks()
                prepare_streams()
                code = cli.main(arguments, "petsync", standalone_mode=False, obj=context)
                sys.stdout.flush()
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported in one line
                # A command that is interrupted in its last steps has completed.
                if code is None or not isinstance(error, KeyboardInterrupt):
                    cause = _find_interrupt(error) or error
                    code = exit_code(cause)
                    code = _report_error(cause, context, arguments)
            if args is None:
                signals.finish(code, is_interrupted=code in _INTERRUPTED_CODES)
                # The collections of Python's shutdown would visit every object.
                gc.freeze()
    except KeyboardInterrupt:
        # Interrupted again while an error is printed: end at once.
        os._exit(INTERRUPTED if code is None else code)
    sys.exit(code)


def _find_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt during which a RuntimeError was raised, if any: Python's own `with lock`
    and event loops can fail when they are left by an interrupt.
    """
    cause: BaseException | None = error if type(error) is RuntimeError else None
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause


def _map_large_blocks() -> None:
    """Let glibc return each large block to the system when it is freed, and keep smaller ones.

    By default, glibc keeps freed blocks of up to 32 MiB that lie between others: a tenth of the
    peak memory at a million pets. With this option set, glibc would also return the memory of small
    blocks at every opportunity, and request it again page by page. Without glibc, this does
    nothing.
    """
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, _SPARE)


def _report_error(
    error: Exception | KeyboardInterrupt, context: Context, given: Sequence[str]
) -> int:
    """Print the error, and return its exit code; return 1 if an output stream fails."""
    output_error = flush_output() or as_output_error(error)
    if output_error is None and not isinstance(error, BrokenPipeError):
        try:
            return report_error(error, context, given)
        except OSError as error_:
            output_error = flush_output() or error_
    # A closed pipe (`petsync plan … | head`) needs no message.
    if output_error is not None and not isinstance(output_error, BrokenPipeError):
        with suppress(OSError):
            context.say(
                f"error: standard output cannot be written: {output_error.strerror}", "bold red"
            )
            if not _SENDING.isdisjoint(given):
                context.say("Changes may have been sent: `petsync runs` shows each run's result.")
    flush_output()
    return 1
