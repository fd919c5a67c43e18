"""What went wrong, in words or as JSON, and the exit code that says it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import click

from petsync.cli.context import Context
from petsync.errors import PetsyncError

__all__ = ["INTERRUPTED", "exit_code", "tell"]

_USAGE = 64
INTERRUPTED = 130
_ABORTED = (click.Abort, KeyboardInterrupt)


def exit_code(error: BaseException) -> int:
    """The exit code that says this error."""
    return _words(error)[2]


def tell(error: BaseException, context: Context, arguments: Sequence[str]) -> int:
    """The exit code, after the error was told; `arguments` are asked where reading them failed."""
    as_json = context.as_json or "--json" in arguments
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        error.show()
        return _USAGE
    message, hint, code = _words(error)
    if context.verbose and not isinstance(error, (click.ClickException, *_ABORTED)):
        context.say("".join(traceback.format_exception(error)).rstrip(), fold=False)
    if as_json:
        said = {"type": _kind(error), "message": message, "hint": hint, "exit_code": code}
        context.show_json({"error": said})
    else:
        context.say(f"error: {message}", "bold red")
        for line in hint.splitlines():
            context.say(line)
    return code


def _words(error: BaseException) -> tuple[str, str, int]:
    if isinstance(error, PetsyncError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, _ABORTED):
        return "interrupted", "", INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return "no command was given", _where_to_look(error), _USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), _where_to_look(error), _USAGE
    if isinstance(error, MemoryError):
        return "there is not enough memory for this", "", 1
    reason = " ".join(str(error).split())[:300]
    return (
        f"unexpected: {type(error).__name__}: {reason}",
        "This is a fault in petsync. Please report it, with what the same command says with -v.",
        1,
    )


def _kind(error: BaseException) -> str:
    if isinstance(error, _ABORTED):
        return "Interrupted"
    return "UsageError" if isinstance(error, click.ClickException) else type(error).__name__


def _where_to_look(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"See `{ctx.command_path} --help`." if ctx is not None else "See `petsync --help`."
