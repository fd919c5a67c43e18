"""ConnectForm: which store, where nobody has named one yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import ipywidgets

from petsync.errors import SettingsError
from petsync.render import markup
from petsync.store import Store, connect, demo
from petsync.widgets.form import Form

__all__ = ["ConnectForm"]

_WORDS = "The address of the store's service, as whoever runs it gives it to you."


class ConnectForm(Form):
    """Asks for a service's address, or starts a sample store on this machine. `connect(url)` and
    `demo()` do the same.
    """

    title = "Choose the store"

    def __init__(self) -> None:
        super().__init__()
        self._on_store: list[Callable[[Store], object]] = []

    def on_store(self, act: Callable[[Store], object]) -> None:
        """Call the function with the store that was chosen."""
        self._on_store.append(act)

    def html(self) -> str:
        """What can be chosen."""
        return markup.element("p", markup.text(self.text()))

    def text(self) -> str:
        """What can be chosen."""
        return "No store is named. Connect to one: ps.connect(url), or ps.demo() for a sample."

    def _body(self) -> ipywidgets.Widget:
        self.url = ipywidgets.Text(
            description="Address", placeholder="https://shop.example/v2", continuous_update=False
        )
        self.go = ipywidgets.Button(description="Use this store", button_style="primary")
        self.sample = ipywidgets.Button(description="Try it with a sample store")
        self.go.on_click(self.work.guarded(lambda _: self._connect()))
        self.sample.on_click(self.work.guarded(lambda _: self._demo()))
        words = ipywidgets.HTML(markup.element("p", markup.text(_WORDS)))
        return ipywidgets.VBox([words, self.url, ipywidgets.HBox([self.go, self.sample])])

    def _connect(self) -> None:
        address = self.url.value.strip()
        if not address:
            raise SettingsError("there is no address yet", hint="Fill it in above.")
        self._chosen(connect(address))

    def _demo(self) -> None:
        self.sample.disabled = True
        self.tell("Starting a sample store on this machine …")
        self.work.start(asyncio.to_thread(demo), self._chosen)

    def _chosen(self, store: Store) -> None:
        self.go.disabled = self.sample.disabled = True
        self.notice.say(f"This is the store at {store.url}", done=True)
        for act in self._on_store:
            act(store)
