"""`petsync init`: a petsync.toml to begin with, in which every option is explained."""

from __future__ import annotations

from pathlib import Path

import click

from petsync._file import make_folder, open_new
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.signals import loading
from petsync.errors import SettingsError

__all__ = ["command"]

_EXAMPLES = """
petsync init
petsync init nightly
"""


@as_command("init", examples=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.pass_obj
def command(context: Context, folder: Path) -> int:
    """Write a petsync.toml into FOLDER (this one), in which every option is explained.

    It has one job, `catalogue`, that keeps a spreadsheet and a store in agreement; set url and
    sheet, and it can run. A petsync.toml that is there already is left alone.

    Exits with 0 if it was written, and with 64 if there is one already.
    """
    with loading():
        from petsync.reconcile.config.example import example

    path = folder / "petsync.toml"
    try:
        make_folder(folder)
        with open(path, "x", encoding="utf-8", opener=open_new) as file:
            file.write(example())
    except FileExistsError:
        raise SettingsError(
            f"{path} is there already, and was left as it is",
            hint="`petsync config check` says what it means.",
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
    if context.as_json:
        context.show_json({"file": str(path)})
    else:
        context.say(f"{path} is written. Set url and sheet in it; then:")
        where = "" if folder == Path() else f" {path}"
        context.say(f"petsync config check{where}", fold=False)
        context.say(f"petsync reconcile{where} --dry-run", fold=False)
    return 0
