"""`petsync trust`: confirm once what a folder's petsync.toml does with secrets."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from petsync.cli.asked import is_interactive
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.errors import SettingsError
from petsync.settings import read_file
from petsync.trust import confirm, is_confirmed, names_in, record_path, relevant, withdraw

__all__ = ["command"]

_NAME = "petsync.toml"
_EXAMPLES = """
petsync trust
petsync trust nightly/petsync.toml --yes
petsync trust --withdraw
"""


@as_command("trust", examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path), default=_NAME)
@click.option("--yes", "-y", "is_sure", is_flag=True, help="Confirm it without being asked.")
@click.option("--withdraw", "is_over", is_flag=True, help="Confirm it no longer.")
@click.pass_obj
def command(context: Context, file: Path, is_sure: bool, is_over: bool) -> int:
    """Confirm that FILE (petsync.toml) may say where secrets and data go.

    Shows which addresses FILE names, which environment variables it uses, and which files outside
    of its folder it reads or writes, and asks. What you confirm is recorded in your own
    configuration folder; when one of these settings changes, it has to be confirmed again. Until
    then no token, sign-in or password goes where only FILE says. A FILE that is named on the
    command line of `petsync reconcile` needs no confirmation.

    Exits with 0 if it is confirmed (or, with --withdraw, no longer), and with 1 if it is not.
    """
    path = file / _NAME if file.is_dir() else file
    if is_over:
        was = withdraw(path)
        context.say(f"{path} is not confirmed any more." if was else f"{path} was not confirmed.")
        return 0
    content = _content(path)
    facts = _facts(content)
    if context.as_json:
        context.show_json({"file": str(path), "settings": [list(fact) for fact in facts]})
    else:
        context.say(f"{path} says where secrets and data go:", "bold")
        for name, value in facts:
            context.say(f"  {name} = {value}", fold=False)
    if not (is_sure or is_confirmed(path, content) or _agreed()):
        context.say(f"{path} is not confirmed.", "yellow")
        return 1
    confirm(path, content)
    context.say(f"{path} is confirmed: {record_path()} has the record.")
    return 0


def _content(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(read_file(path))
    except FileNotFoundError:
        raise SettingsError(f"there is no {path}", hint="There is nothing to confirm.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}", hint="`petsync config check` says more."
        ) from None


def _facts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings that are confirmed, each with its path."""
    names = [f"${{{name}}}" for name in sorted(set(names_in(content)))]
    found = relevant(content)
    found.pop("${}", None)
    return [*_flat(found), *([("variables", ", ".join(names))] if names else [])]


def _flat(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _agreed() -> bool:
    if not is_interactive():
        raise SettingsError(
            "nobody is there to confirm it", hint="`petsync trust --yes` confirms it unasked."
        )
    return click.confirm("Is that right?", default=False, err=True)
