"""`petsync whoami`: who the service says one is, and what one may do."""

from __future__ import annotations

import click

from petsync.cli.account import print_account
from petsync.cli.command import command as as_command
from petsync.cli.context import Context

__all__ = ["command"]

_EXAMPLES = """
petsync whoami
petsync whoami --url https://shop.example/v2 --json
"""


@as_command("whoami", examples=_EXAMPLES)
@click.pass_obj
def command(context: Context) -> int:
    """Tell who you are at the service, and what you may do there.

    Asks the service, and changes nothing: who you are, which scopes you have, until when, whether
    petsync renews that by itself, and where it is kept. What comes first counts: --token-file,
    then PETSYNC_TOKEN and PETSYNC_API_KEY, then what `petsync login` keeps.

    Exits with 0 if you are signed in, else with 1.
    """
    with context.connect() as store, context.busy("Asking the service"):
        account = store.who()
    print_account(context, account)
    if not account.signed_in:
        context.say("`petsync login` signs you in.")
    return 0 if account.signed_in else 1
