"""Commands whose help tells their own options from those that every command has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from petsync.cli.context import Context

__all__ = ["Command", "Group", "command"]

_FLAGS = frozenset({"as_json", "verbose"})


class _Everywhere(click.Option):
    """An option that every command has, before or after the command's name; the later one counts,
    and one that can be repeated adds up.
    """

    def __init__(self, *declarations: str, **attributes: Any) -> None:
        super().__init__(list(declarations), expose_value=False, callback=_remember, **attributes)


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value and option.name is not None:
        context = ctx.ensure_object(Context)
        before = getattr(context, option.name)
        adds_up = isinstance(value, tuple) or (isinstance(value, int) and value is not True)
        setattr(context, option.name, before + value if adds_up else value)


def _everywhere() -> list[click.Parameter]:
    return [
        _Everywhere("--url", metavar="URL", help="The service's address, such as https://host/v2."),
        _Everywhere(
            "--profile",
            metavar="NAME",
            help="How the service behaves: standard or live (docs/profiles.md).",
        ),
        _Everywhere("--state", metavar="DIR", help="Where runs are journalled.  [.petsync]"),
        _Everywhere(
            "--token-file",
            metavar="FILE",
            help="A file that holds the access token; - for standard input.",
        ),
        _Everywhere(
            "--allow-http",
            metavar="HOST",
            multiple=True,
            help="A host that may get the token over plain http.",
        ),
        _Everywhere(
            "--json", "as_json", is_flag=True, help="One JSON document on stdout, for machines."
        ),
        _Everywhere("-v", "--verbose", count=True, help="Say more; tracebacks too.  [-vv: all]"),
    ]


class _Sections(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in two sections, the command's own first."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if isinstance(option, click.Option) and record is not None:
                (shared if isinstance(option, _Everywhere) else own).append(record)
        for title, records in (("Options", own), ("Options of every command", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Command(_Sections):
    """A command; its function's result is the exit code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _everywhere()

    def invoke(self, ctx: click.Context) -> Any:
        """What the command's function returns, its log on stderr where -v asks for it."""
        with ctx.ensure_object(Context).logged():
            return super().invoke(ctx)


class Group(_Sections, click.Group):
    """The commands, in the order in which they were added."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _everywhere()

    def list_commands(self, _: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def command(name: str, *, examples: str) -> Callable[[Callable[..., int]], Command]:
    """A decorator: the function as the command of that name. Its docstring is the help, each line
    of `examples` an invocation, and its result the exit code.
    """
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return click.command(name, cls=Command, epilog=epilog)
