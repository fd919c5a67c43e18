"""Photos: the pictures that a pet has. Only what the service itself serves is fetched and shown;
of all others, which anybody may have written there, the address.
"""

from __future__ import annotations

import asyncio
from typing import Any

from petsync.apply.pictures.thumbnail import thumbnail
from petsync.errors import PetsyncError
from petsync.model import Pet
from petsync.render.pictures_words import of_pet
from petsync.render.visible import shorten
from petsync.store import Store
from petsync.widgets.parts.table import Table
from petsync.widgets.work import Work

__all__ = ["Photos"]

_A_PAGE = 6
_AT_A_TIME = 3
_LONGEST = 200
_COLUMNS = [
    {"key": "picture", "title": "Picture", "kind": "image"},
    {"key": "address", "title": "Address", "kind": "link"},
]


class Photos:
    """A table of a pet's photos, `table`, filled page by page."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store, self._work = store, work
        self._urls: tuple[str, ...] = ()
        self._known: dict[str, str] = {}
        self._turn = 0
        self.table = Table(columns=_COLUMNS, empty="This pet has no pictures.")
        self.table.observe(work.guarded(lambda _: self._show()), "page")

    def show(self, pet: Pet | None) -> None:
        """Show the pet's photos, or none."""
        self._urls = () if pet is None else pet.photo_urls
        self._known = {url: said for url, said in self._known.items() if said.startswith("data:")}
        name = "" if pet is None else shorten(of_pet(pet.id, pet.name or ""), 100)
        with self.table.hold_sync():
            self.table.caption = f"Pictures of {name}" if name else ""
            self.table.total = len(self._urls)
            self.table.pages = max(1, -(-len(self._urls) // _A_PAGE))
            self.table.page = 0
        self._show()

    def _show(self) -> None:
        self._turn += 1
        turn, urls = self._turn, self._page()
        self._draw()
        unknown = [url for url in urls if url not in self._known and self._store.serves(url)]
        if unknown:
            self._work.start(self._fetched(unknown), lambda known: self._take(turn, known))

    def _page(self) -> list[str]:
        first = self.table.page * _A_PAGE
        return list(self._urls[first : first + _A_PAGE])

    def _draw(self) -> None:
        self.table.rows = [self._row(n, url) for n, url in enumerate(self._page())]

    def _row(self, number: int, url: str) -> dict[str, Any]:
        place = self.table.page * _A_PAGE + number + 1
        said = self._known.get(url)
        picture: dict[str, str] | str = "elsewhere, not fetched"
        if said is not None and said.startswith("data:"):
            picture = {"src": said, "alt": f"Picture {place}"}
        elif self._store.serves(url):
            picture = "is fetched …" if said is None else said
        address = {"href": url, "text": shorten(url, _LONGEST)}
        return {
            "key": str(place),
            "label": f"picture {place}",
            "cells": {"picture": picture, "address": address},
        }

    async def _fetched(self, urls: list[str]) -> dict[str, str]:
        gate = asyncio.Semaphore(_AT_A_TIME)

        async def one(url: str) -> str:
            async with gate:
                try:
                    content = await self._store.aio.photo(url)
                except PetsyncError as error:
                    return f"cannot be shown: {error.message}"
                small = await asyncio.to_thread(thumbnail, content)
                return small or "cannot be shown: it is no whole picture"

        return dict(zip(urls, await asyncio.gather(*map(one, urls)), strict=True))

    def _take(self, turn: int, known: dict[str, str]) -> None:
        self._known |= known
        if turn == self._turn:
            self._draw()
