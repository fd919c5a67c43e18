"""The command reference in docs/cli.md, made from the commands themselves.

`python -m petsync.cli.reference --write docs/cli.md` brings the page up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from petsync.cli.entry import cli

__all__ = ["BEGIN", "END", "reference", "with_reference"]


BEGIN = "<!-- commands -->"
END = "<!-- /commands -->"
_WIDTH = 80


def reference() -> str:
    """The help of petsync and of each command as Markdown, the same on every machine."""
    whole = click.Context(cli, info_name="petsync", terminal_width=_WIDTH)
    parts = [_part(cli, whole)]
    return "\n\n".join([*parts, *_of_group(cli, whole)])


def with_reference(text: str) -> str:
    """The text with the reference between its two markers. Raises ValueError if they are not
    there, each once and in this order.
    """
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended) or BEGIN in rest or END in before + after:
        raise ValueError(f"the text needs one {BEGIN} and, after it, one {END}")
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def _of_group(group: click.Group, whole: click.Context) -> Iterator[str]:
    for name in group.list_commands(whole):
        command = group.commands[name]
        ctx = click.Context(command, parent=whole, info_name=name, terminal_width=_WIDTH)
        yield _part(command, ctx)
        if isinstance(command, click.Group):
            yield from _of_group(command, ctx)


def _part(command: click.Command, ctx: click.Context) -> str:
    lines = (line.rstrip() for line in command.get_help(ctx).splitlines())
    return f"## {ctx.command_path}\n\n```text\n" + "\n".join(lines) + "\n```"


@click.command()
@click.option(
    "--write",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help=f"Put it between {BEGIN} and {END} in this file.",
)
def _main(write: Path | None) -> None:
    """Print the command reference."""
    if write is None:
        click.echo(reference())
    else:
        write.write_text(with_reference(write.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
