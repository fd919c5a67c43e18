"""What the sign-in form says of an account, above all of what one may not do."""

from __future__ import annotations

from petsync.wire.account import READ, WRITE, Account

__all__ = ["Said", "lack", "until_here", "welcome"]

Said = tuple[str, str]
"""What is, and what to do about it ("" if nothing is)."""


def lack(account: Account) -> Said | None:
    """What a person who is signed in should know before trying to change anything; None if
    nothing stands in the way.
    """
    if not account.signed_in:
        return None
    if account.kind == "api key":
        return (
            "With an API key alone you can look up single pets, and nothing else.",
            "Sign in another way to see the whole catalogue, or to change it.",
        )
    if account.can_write is False:
        return (
            f"You can look, but not change anything: {WRITE} is missing.",
            f"Sign in again and ask for it, or ask who runs the service to let you have {WRITE}.",
        )
    if account.can_read is False:
        return (
            f"You cannot read the catalogue: {READ} is missing.",
            "Nothing can be compared without it. Sign in again and ask for it.",
        )
    return None


def welcome(account: Account) -> Said:
    """What is said right after signing in."""
    if lack(account) is not None:
        missing = READ if account.can_read is False else WRITE
        how = "but only for single pets" if account.kind == "api key" else f"but without {missing}"
        return f"You are signed in, {how}.", "What that means is said above."
    who = f" as {account.user}" if account.user else ""
    if account.can_write is None:
        return (
            f"You are signed in{who}.",
            "The service does not tell what you may do; a change that it refuses is reported.",
        )
    return f"You are signed in{who}, and may read and change pets.", ""


def until_here(account: Account) -> str:
    """Until when the sign-in lasts by the clock of the computer that runs this; "" where that is
    not known, or the clock shows UTC anyway.
    """
    if account.expires is None or not account.signed_in:
        return ""
    local = account.expires.astimezone()
    if not local.utcoffset():
        return ""
    ending = "is renewed at" if account.renews else "ends at"
    return f"It {ending} {local:%H:%M} on {local:%Y-%m-%d} by this computer's clock ({local:%Z})."
