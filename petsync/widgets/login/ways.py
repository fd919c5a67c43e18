"""The ways to sign in, in the words of a form: what each is for, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["WAYS", "Field", "Way"]

Field = Literal["client_id", "client_secret", "token", "api_key", "can_write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way: its title in the list, what to know before (`words`), the fields that it asks for,
    and the button's text. With `opens` a page of the service is opened first, and `then` says what
    to do with it.
    """

    name: Literal["browser", "elsewhere", "token", "client", "implicit", "key"]
    title: str
    words: str
    fields: tuple[Field, ...]
    button: str = "Sign in"
    opens: bool = False
    then: str = ""


_AGREE = "Open the link below, and agree there. "
WAYS: tuple[Way, ...] = (
    Way(
        name="browser",
        title="In the browser (usual)",
        words="The service's own page asks you whether petsync may use the store in your name. "
        "petsync never sees your password.",
        fields=("can_write", "client_id"),
        button="Begin",
        opens=True,
        then=_AGREE + "This form goes on by itself. Should your browser end on a page that cannot "
        "be reached, copy that page's address and paste it here.",
    ),
    Way(
        name="elsewhere",
        title="In the browser, and petsync runs on another computer",
        words="For a notebook or a page on a server or a hub. As above; but the browser cannot "
        "reach petsync there, so you carry an address over by hand.",
        fields=("can_write", "client_id"),
        button="Begin",
        opens=True,
        then=_AGREE + "Your browser then ends on a page that cannot be reached, which is as it "
        "should be: copy that page's whole address and paste it here.",
    ),
    Way(
        name="token",
        title="An access token that I have",
        words="For a token that somebody gave you, or that you made at the service. petsync "
        "cannot renew it: when it ends, bring another.",
        fields=("token", "api_key"),
    ),
    Way(
        name="client",
        title="A client id and its secret",
        words="For programs and teams: who runs the service gives them out. petsync gets itself a "
        "new token whenever one ends.",
        fields=("client_id", "client_secret", "can_write", "api_key"),
    ),
    Way(
        name="implicit",
        title="In the browser, for a service that offers only a token",
        words="The older way (implicit), for services that have no other. The token comes in the "
        "address of a page, cannot be renewed, and ends soon.",
        fields=("can_write", "client_id"),
        button="Begin",
        opens=True,
        then=_AGREE + "This form goes on by itself. Should it not, copy the whole address of the "
        "page on which your browser ends and paste it here; the token alone will do, too.",
    ),
    Way(
        name="key",
        title="An API key alone",
        words="Enough to look up single pets by their id. Lists, changes and pictures need one of "
        "the other ways.",
        fields=("api_key",),
    ),
)
