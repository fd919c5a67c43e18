"""`--env-file`: variables from a file, for the commands that read all of petsync.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from petsync.cli.context import Context
from petsync.settings import Unshown
from petsync.trust import allowed_names

__all__ = ["environment", "names", "option"]

option = click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Variables from lines NAME=value, as in petsync.env; those that are set come first.",
)
"""The option of a command."""


def names(environ: Mapping[str, str], file: Path | None) -> frozenset[str]:
    """The variables that a petsync.toml may use which nobody has confirmed: petsync's own, the
    secrets among them only as secrets, and those that the person lists, in the file or in
    PETSYNC_VARIABLES. Raises SettingsError.
    """
    from petsync.reconcile.config.envfile import read_variables

    return allowed_names(environ, read_variables(file) if file is not None else ())


def environment(context: Context, file: Path | None) -> Mapping[str, str]:
    """The process's variables, and those of the file that it has not. Raises SettingsError."""
    if file is None:
        return os.environ
    from petsync.reconcile.config.envfile import read_variables

    variables = read_variables(file)
    if os.name == "posix" and file.stat().st_mode & 0o077:
        context.say(f"warning: others can read {file}; `chmod 600 {file}` keeps it yours", "yellow")
    return Unshown({**variables, **{name: text for name, text in os.environ.items() if text}})
