"""The console script: parse the command line, run the command, and return its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from petsync import __version__
from petsync.cli import account, plan, reconcile, run, runs, signals, tools, upload
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


_INTERRUPTED_CODES = (INTERRUPTED, InterruptedRunError.exit_code)
_EPILOG = """
\b
Try it, without a service of your own:
  petsync demo

\b
Then with yours:
  petsync login --url https://shop.example/v2
  petsync export catalogue.xlsx --url https://shop.example/v2
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
  0 done or in sync      1 error               2 changes pending
  3 some rows failed     4 guard refused       5 conflicts or stale
  6 locked               7 interrupted         64 usage
  130 interrupted, and nothing was sent
"""


@click.group("petsync", cls=Group, epilog=_EPILOG)
@click.version_option(__version__, message="petsync %(version)s")
def cli() -> None:
    """Keep a pet store's catalogue and a team's spreadsheets in agreement.

    petsync compares a spreadsheet with the store, shows exactly what would change, and sends the
    changes when you confirm them.
    """


for _command in (
    tools.demo_command,
    plan.export_command,
    plan.check_command,
    plan.plan_command,
    plan.rehearse_command,
    run.apply_command,
    run.resume_command,
    run.undo_command,
    runs.command,
    reconcile.reconcile_command,
    upload.command,
    reconcile.init_command,
    reconcile.config_command,
    account.trust_command,
    account.login_command,
    account.logout_command,
    account.whoami_command,
    tools.app_command,
    tools.doctor_command,
    tools.serve_command,
    tools.completion_command,
):
    cli.add_command(_command)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (the process's, if none is given) and exit with its code."""
    arguments = sys.argv[1:] if args is None else list(args)
    context = Context()
    code = None
    try:
        with signals.interruptible():
            try:
                prepare_streams()
                code = cli.main(arguments, "petsync", standalone_mode=False, obj=context)
                sys.stdout.flush()
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported in one line
                # A command that is interrupted in its last steps has completed.
                if code is None or not isinstance(error, KeyboardInterrupt):
                    code = exit_code(error)
                    code = _report_error(error, context, arguments)
            if args is None:
                signals.finish(code, is_interrupted=code in _INTERRUPTED_CODES)
    except KeyboardInterrupt:
        # Interrupted again while an error is printed: end at once.
        os._exit(INTERRUPTED if code is None else code)
    sys.exit(code)


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
    # A closed pipe (`petsync plan … | head`) is not an error.
    if output_error is not None and not isinstance(output_error, BrokenPipeError):
        with suppress(OSError):
            context.say(
                f"error: standard output cannot be written: {output_error.strerror}", "bold red"
            )
    flush_output()
    return 1
