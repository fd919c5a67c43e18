"""The command reference of the site: docs/cli.md with the options of each command in a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

import click

from petsync.cli.context import Command, Group
from petsync.cli.entry import cli
from petsync.cli.reference import BEGIN, END

__all__ = ["with_tables"]

_CODE = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([\\*_<>\[\]])")


def with_tables(text: str) -> str:
    """Return the page with a section for each command between its two markers."""
    before, _, rest = text.partition(BEGIN)
    sections = "\n\n".join(_sections(cli, click.Context(cli, info_name="petsync")))
    return f"{before}{sections}\n{rest.partition(END)[2]}"


def _sections(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of its subcommands."""
    assert isinstance(command, (Command, Group))
    usage = " ".join((ctx.command_path, *command.collect_usage_pieces(ctx)))
    yield f"## {ctx.command_path}\n\n```text\n{usage}\n```"
    yield from map(_paragraph, _split(command.help))
    for title, records in command.option_sections(ctx):
        own = [record for record in records if record[0] != "--help"]
        if own and (ctx.parent is None or title == "Options"):
            yield f"**{title}**\n\n{_table('option', 'what it does', own)}"
    inner = [click.Context(c, parent=ctx, info_name=name) for name, c in _commands(command, ctx)]
    if inner:
        rows = [(each.command_path, each.command.get_short_help_str(200)) for each in inner]
        yield f"**Commands**\n\n{_table('command', 'what it does', rows, linked=True)}"
    yield from map(_paragraph, _split(command.epilog))
    for each in inner:
        yield from _sections(each.command, each)


def _commands(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield name, found


def _split(text: str | None) -> list[str]:
    return dedent(text or "").strip().split("\n\n")


def _paragraph(text: str) -> str:
    r"""Return a paragraph of a help text; after a title, lines that click does not wrap (`\b`) are
    code.
    """
    if not text.startswith("\b\n"):
        return _escape(" ".join(text.split()))
    title, _, lines = text.removeprefix("\b\n").partition("\n")
    return f"**{title.rstrip(':')}**\n\n```text\n{dedent(lines)}\n```"


def _table(first: str, second: str, rows: list[tuple[str, str]], *, linked: bool = False) -> str:
    lines = [f"| {first} | {second} |", "|---|---|"]
    for name, text in rows:
        code = f"`{name}`"
        cell = f"[{code}](#{name.replace(' ', '-')})" if linked else code
        lines.append(f"| {cell} | {_escape(text).replace('|', '&#124;')} |")
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Return the text as Markdown that shows it; words in backticks stay code."""
    return "".join(
        part if part.startswith("`") else _MARKUP.sub(r"\\\1", part) for part in _CODE.split(text)
    )
