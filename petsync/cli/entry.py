"""The console script: what is typed becomes a command, and whatever happens an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from petsync.cli import apply, check, demo, doctor, export, failure, plan, serve
from petsync.cli.command import Group
from petsync.cli.context import Context

__all__ = ["cli", "main"]

_EPILOG = """
\b
Try it, without a service of your own:
  petsync demo

\b
Then with yours:
  petsync export catalogue.xlsx --url https://shop.example/v2
  petsync plan catalogue.xlsx -o plan.json
  petsync apply plan.json

\b
In place of options:
  PETSYNC_URL, PETSYNC_PROFILE, PETSYNC_STATE; the access token is
  PETSYNC_TOKEN, the api key PETSYNC_API_KEY. petsync.toml in the folder
  where petsync is run may set url, profile, state, allow_http, timeout.

\b
Exit codes:
  0 done or in sync      1 error               2 changes pending
  3 some rows failed     4 guard refused       5 conflicts or stale
  6 locked               7 interrupted         64 usage
"""


@click.group("petsync", cls=Group, epilog=_EPILOG)
@click.version_option(package_name="petsync", message="petsync %(version)s")
def cli() -> None:
    """Keep a pet store's catalogue and a team's spreadsheets in agreement.

    petsync compares a spreadsheet with the store, shows exactly what would change, and changes
    it when you say so. Nothing is sent without a plan that you have seen.
    """


for _command in (
    demo.command,
    export.command,
    check.command,
    plan.command,
    apply.command,
    doctor.command,
    serve.command,
):
    cli.add_command(_command)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (the process's, if none is given) and exit with its code."""
    given = sys.argv[1:] if args is None else list(args)
    context = Context()
    _encode_everything()
    try:
        code = cli.main(given, "petsync", standalone_mode=False, obj=context)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        code = 1
    except Exception as error:  # noqa: BLE001 - the last resort, which tells it in one line
        code = failure.tell(error, context, given)
    sys.exit(code)


def _encode_everything() -> None:
    """A name in another script must not end a command on a terminal that cannot show it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """The reader went away (`petsync plan … | head`): the last flush must not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
