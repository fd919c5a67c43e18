"""The command reference in docs/cli.md, made from the commands themselves.

`python -m petsync.cli.reference --write docs/cli.md` brings the page up to date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from petsync.cli.context import Command, Group
from petsync.cli.entry import cli

__all__ = ["BEGIN", "END", "reference", "with_reference"]


BEGIN = "<!-- commands -->"
END = "<!-- /commands -->"
_WIDTH = 80


def reference() -> str:
    """Return the help of petsync and of each command as Markdown, the same on every machine.
    Options that several commands share are explained once.
    """
    settings = cli.context_settings
    whole = click.Context(cli, info_name="petsync", terminal_width=_WIDTH, **settings)
    parts = [_format_part(whole, cli.get_help(whole))]
    return "\n\n".join([*parts, *_iter_parts(cli, whole, {})])


def with_reference(text: str) -> str:
    """Return the text with the reference between its two markers. Raises ValueError unless it has
    each marker once and in this order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in before + after:
        raise ValueError(f"the text needs one {BEGIN} and, after it, one {END}")
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def _iter_parts(
    group: click.Group, whole: click.Context, explained: dict[tuple[str, str], str]
) -> Iterator[str]:
    """Yield the part of the reference for each command of a group. `explained` maps each option
    that an earlier part explains to the command of that part.
    """
    for name in group.list_commands(whole):
        command = group.get_command(whole, name)
        assert command is not None
        ctx = click.Context(command, parent=whole, info_name=name, terminal_width=_WIDTH)
        yield _format_part(ctx, _help(command, ctx, explained))
        if isinstance(command, click.Group):
            yield from _iter_parts(command, ctx, explained)


def _format_part(ctx: click.Context, text: str) -> str:
    lines = (line.rstrip() for line in text.rstrip().splitlines())
    return f"## {ctx.command_path}\n\n```text\n" + "\n".join(lines) + "\n```"


def _help(command: click.Command, ctx: click.Context, explained: dict[tuple[str, str], str]) -> str:
    """Return the command's help. It omits `--help`, the options of every command, and options that
    an earlier part explains.
    """
    formatter = ctx.make_formatter()
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    assert isinstance(command, (Command, Group))
    (_, records), *_ = command.option_sections(ctx)
    own = [record for record in records if record[0] != ", ".join(ctx.help_option_names)]
    elsewhere: dict[str, list[str]] = {}
    for record in own:
        if record in explained:
            elsewhere.setdefault(explained[record], []).append(record[0].split()[0].strip(","))
    new = [record for record in own if record not in explained]
    explained |= dict.fromkeys(new, ctx.command_path)
    if new:
        with formatter.section("Options"):
            formatter.write_dl(new)
    for path, names in elsewhere.items():
        with formatter.section(f"Same options as for {path}"):
            for line in textwrap.wrap(", ".join(names), _WIDTH - 2, break_on_hyphens=False):
                formatter.write(f"  {line}\n")
    if isinstance(command, Group):
        command.format_commands(ctx, formatter)
    command.format_epilog(ctx, formatter)
    return formatter.getvalue()


@click.command()
@click.option(
    "--write",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help=f"Put the reference between {BEGIN} and {END} in this file.",
)
def _main(write: Path | None) -> None:
    """Print the command reference, or write it into a file."""
    if write is None:
        click.echo(reference())
    else:
        write.write_text(with_reference(write.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
