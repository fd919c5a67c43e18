"""Entries: what a person fills in to sign in, one set of fields for all ways."""

from __future__ import annotations

from typing import Any

import ipywidgets

from petsync.render import markup
from petsync.settings import Secret
from petsync.widgets.login.ways import WAYS, Way
from petsync.widgets.parts.secret import SecretField
from petsync.wire.account import READ, WRITE

__all__ = ["Entries"]


class Entries:
    """The fields, and `box`, in which only those of the chosen way are. What is secret is in no
    widget's state, and every field is empty once they were read.
    """

    def __init__(self) -> None:
        titles = [(way.title, way.name) for way in WAYS]
        self.way = ipywidgets.Dropdown(options=titles, value=WAYS[0].name, description="How")
        self.client_id = ipywidgets.Text(description="Client id")
        self.client_secret = SecretField(label="Client secret")
        self.token = SecretField(label="Access token")
        self.api_key = SecretField(label="API key")
        self.can_write = ipywidgets.Checkbox(
            value=True, description=f"I want to change pets too ({WRITE})", **_tick()
        )
        self.keep = ipywidgets.Checkbox(
            value=False,
            description="Keep me signed in: in the keyring of the computer petsync runs on",
            **_tick(),
        )
        self._words = ipywidgets.HTML()
        self._fields = ipywidgets.VBox()
        self.box = ipywidgets.VBox([self.way, self._words, self._fields, self.keep])
        self.show()

    @property
    def chosen(self) -> Way:
        """The way that is chosen."""
        return next(way for way in WAYS if way.name == self.way.value)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are asked for."""
        return (READ, WRITE) if self.can_write.value else (READ,)

    @property
    def secrets(self) -> tuple[SecretField, ...]:
        """The fields whose text nobody keeps."""
        return (self.token, self.client_secret, self.api_key)

    def show(self) -> None:
        """Show the fields of the chosen way, and no others; what was typed elsewhere is gone."""
        way = self.chosen
        self.take()
        self._words.value = markup.element("p", markup.text(way.words))
        self.client_id.placeholder = "leave it empty if you were given none" if way.opens else ""
        self.api_key.hint = "" if way.name == "key" else "only if the service wants one besides"
        self._fields.children = [getattr(self, name) for name in way.fields]

    def take(self) -> dict[str, Secret]:
        """What was typed into the secret fields, by their names; they are empty from here on."""
        names = ("token", "client_secret", "api_key")
        return {name: getattr(self, name).take() for name in names}


def _tick() -> dict[str, Any]:
    # Without `indent` a tick box stands at the left, and its label has all the room it needs.
    return {"indent": False, "layout": {"width": "auto"}}
