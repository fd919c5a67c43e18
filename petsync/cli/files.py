"""Files that commands write: never over the sheet they read."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import click

__all__ = ["free", "keep_apart"]


def keep_apart(target: Path, source: Path) -> None:
    """Raise UsageError where the target is the file that is read."""
    if target.exists() and source.exists() and target.samefile(source):
        raise click.UsageError(f"{target} is what is read: it would be overwritten.")


def free(path: Path) -> Path:
    """The path itself, else the first of `name-2.ext`, `name-3.ext`, … that is not there yet."""
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return path if not path.exists() else next(name for name in names if not name.exists())
