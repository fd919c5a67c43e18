"""Panel: the sign-in form's widgets, of which those are shown that can be used now."""

from __future__ import annotations

import ipywidgets

from petsync.render import markup
from petsync.widgets.login.entries import Entries
from petsync.widgets.login.shown import account_html
from petsync.widgets.login.ways import Way
from petsync.widgets.parts.link import Link
from petsync.widgets.parts.secret import SecretField
from petsync.wire.account import Account

__all__ = ["Panel"]


class Panel:
    """Who one is, with what can be done about it; the entries; and, once a page of the service is
    to be opened, the link and the field for the address on which the browser ends.
    """

    def __init__(self) -> None:
        self.entries = Entries()
        self.go = _button("", primary=True)
        self.link = Link(label="Open the sign-in page (in a new tab)")
        self.address = SecretField(label="Address", masked=False)
        self.paste = _button("Go on with this address")
        self.stop = _button("Cancel")
        self.check = _button("Ask again")
        self.other = _button("Sign in differently")
        self.sign_out = _button("Sign out")
        self._who, self._then = ipywidgets.HTML(), ipywidgets.HTML()
        self._entry = ipywidgets.VBox([self.entries.box, self.go])
        self._open = ipywidgets.VBox([self._then, self.link, self.address])
        signed = ipywidgets.HBox([self.check, self.other, self.sign_out])
        under_way = ipywidgets.HBox([self.paste, self.stop])
        self.box = ipywidgets.VBox([self._who, signed, self._entry, self._open, under_way])

    def open(self, url: str, way: Way) -> None:
        """Lead to the service's page."""
        self._then.value = markup.element("p", markup.text(way.then))
        self.link.show(url)

    def leave(self) -> None:
        """Lead nowhere any more."""
        self.address.take()
        self.link.clear()

    def show(self, account: Account | None, *, busy: bool, opened: bool, anew: bool) -> None:
        """Show what can be done while the account is this, something is under way (`busy`), a page
        is `opened`, or a person who is signed in wants to sign in `anew`.
        """
        is_in = account is not None and account.signed_in
        self._who.value = "" if account is None else account_html(account)
        self.go.description = self.entries.chosen.button
        self.other.description = "Stay as I am" if anew else "Sign in differently"
        _shown(self.check, account is None or is_in)
        _shown(self.other, is_in and not opened)
        _shown(self.sign_out, is_in and not opened)
        _shown(self._entry, not opened and (anew or not is_in))
        _shown(self._open, opened)
        _shown(self.paste, opened)
        _shown(self.stop, busy or opened)


def _button(words: str, *, primary: bool = False) -> ipywidgets.Button:
    style = "primary" if primary else ""
    return ipywidgets.Button(description=words, button_style=style, layout={"width": "max-content"})


def _shown(widget: ipywidgets.DOMWidget, wanted: bool) -> None:
    widget.layout.display = None if wanted else "none"
