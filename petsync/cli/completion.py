"""`petsync completion`: the script by which a shell completes petsync's commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from petsync.cli.command import command as as_command
from petsync.cli.context import Context

__all__ = ["command"]

_EXAMPLES = """
petsync completion bash > ~/.local/share/bash-completion/completions/petsync
petsync completion zsh > ~/.zfunc/_petsync
petsync completion fish > ~/.config/fish/completions/petsync.fish
"""
_ASKED_BY = "_PETSYNC_COMPLETE"
"""The variable in which click tells petsync that a shell asks."""


@as_command("completion", examples=_EXAMPLES)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def command(context: Context, shell: str) -> int:
    """Print the script by which a shell completes petsync's commands, options and files.

    Save it where the shell looks, as below, and open a new shell; or, for this one alone:
    eval "$(petsync completion bash)". A zsh looks in the folders of fpath, which ~/.zshrc sets
    before it calls compinit. A bash needs to be 4.4 or newer, with the package bash-completion.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(_root(), {}, "petsync", _ASKED_BY).source().strip()
    if context.as_json:
        context.show_json({"shell": shell, "script": script})
    else:
        context.show(script.encode())
    return 0


def _root() -> click.Command:
    """All of petsync: the command of which this is one."""
    return click.get_current_context().find_root().command
