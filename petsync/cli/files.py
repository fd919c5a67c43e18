"""Files that commands write: never over the sheet they read."""

from __future__ import annotations

import os
from itertools import count
from os.path import lexists
from pathlib import Path

import click

from petsync._file import landing
from petsync.cli.signals import loading

__all__ = ["free", "keep_apart", "must_be_writable"]


def keep_apart(target: Path, source: Path) -> None:
    """Raise UsageError where the target is the file that is read, or carries its base."""
    with loading():
        from petsync.sheets.delimited.sidecar import beside
    for each in (source, beside(source)):
        if lexists(target) and each.exists() and target.exists() and target.samefile(each):
            raise click.UsageError(f"{target} is what is read: it would be overwritten.")


def must_be_writable(target: Path) -> None:
    """Raise UsageError where a file cannot be put there."""
    try:
        folder = landing(target).parent
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written: {error.strerror}.") from None
    if not folder.is_dir():
        raise click.UsageError(f"{target}: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.UsageError(f"{target}: you may not write into the folder {folder}.")


def free(path: Path) -> Path:
    """The path itself, else the first of `name-2.ext`, `name-3.ext`, … that is not there yet. A
    symbolic link is there, wherever it leads.
    """
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return path if not lexists(path) else next(name for name in names if not lexists(name))
