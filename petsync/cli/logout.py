"""`petsync logout`: the end of what `petsync login` began."""

from __future__ import annotations

import click

from petsync.cli.account import print_account
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.wire.account import NOBODY

__all__ = ["command"]

_EXAMPLES = """
petsync logout
petsync logout --url https://shop.example/v2
"""


@as_command("logout", examples=_EXAMPLES)
@click.pass_obj
def command(context: Context) -> int:
    """Sign out: end the tokens of `petsync login`, and forget them.

    The service is told to end them, where it can; and they are taken out of the computer's
    keyring. What PETSYNC_TOKEN or a file holds is yours to take away.

    Exits with 0, also if nobody was signed in.
    """
    with context.connect() as store, context.busy("Signing out"):
        account = store.sign_out()
    nobody = account.problem == NOBODY
    if context.as_json:
        print_account(context, account)
    else:
        said = "Nobody was signed in at" if nobody else "Signed out of"
        context.out.print(f"{said} {account.url}.", soft_wrap=True)
    if account.problem and not nobody:
        context.say(f"warning: {account.problem}", "yellow")
    return 0
