"""Store: one service, for scripts and notebooks."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pandas as pd

from petsync._loop import LoopThread, blocking
from petsync.client.api import Api
from petsync.diff.plan import Plan
from petsync.store.aio import AsyncStore
from petsync.store.signed import Keep, Pending
from petsync.table.sheet import Sheet
from petsync.wire.account import READ, WRITE

__all__ = ["Store"]


class Store:
    """One service: loaders, plan and apply, and the eight operations as `api`.

    `aio` is the same, asynchronous. A store can be used in a `with` block, and closes itself.
    """

    def __init__(self, aio: AsyncStore, *, owned: ExitStack | None = None) -> None:
        self.aio = aio
        self._loop = LoopThread()
        self._owned = owned or ExitStack()
        self.api = Api(aio.api, self._loop)
        # A script that forgets to close its store leaves no connection and no noise behind. Its
        # `aio` may live longer, as in `async with ps.connect(url).aio`.
        self._end = weakref.finalize(self, _release, aio, self._loop, self._owned)

    find_by_status = blocking(AsyncStore.find_by_status)
    find_by_tags = blocking(AsyncStore.find_by_tags)
    snapshot = blocking(AsyncStore.snapshot)
    look_up = blocking(AsyncStore.look_up)
    compared = blocking(AsyncStore.compared)
    plan = blocking(AsyncStore.plan)
    why = blocking(AsyncStore.why)
    apply = blocking(AsyncStore.apply)
    edit = blocking(AsyncStore.edit)
    pictures = blocking(AsyncStore.pictures)
    pictures_of = blocking(AsyncStore.pictures_of)
    photo = blocking(AsyncStore.photo)
    upload = blocking(AsyncStore.upload)
    resume = blocking(AsyncStore.resume)
    undo = blocking(AsyncStore.undo)
    runs = blocking(AsyncStore.runs)
    run = blocking(AsyncStore.run)
    sign_in = blocking(AsyncStore.sign_in)
    who = blocking(AsyncStore.who)
    sign_out = blocking(AsyncStore.sign_out)

    def begin_sign_in(
        self,
        *,
        scopes: str | Sequence[str] = (READ, WRITE),
        client_id: str | None = None,
        implicit: bool = False,
        listen: bool = True,
        keep: Keep = "memory",
    ) -> Pending:
        """A sign-in that waits for a person at a browser: open its `url`, and `wait`, or `paste`
        the address that the browser ended on. As `aio.begin_sign_in` says.
        """
        beginning = self.aio.begin_sign_in(
            scopes=scopes, client_id=client_id, implicit=implicit, listen=listen, keep=keep
        )
        return Pending(self._loop.run(beginning), self._loop)

    @property
    def url(self) -> str:
        """The service's base URL."""
        return self.api.aio.session.base_url

    def read(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        tab: str | None = None,
        mapping: Mapping[str, str] | None = None,
        corrections: Mapping[str, str] | None = None,
        encoding: str | None = None,
    ) -> Sheet:
        """The sheet as it is read for this store. `corrections` are texts by the address of a cell,
        as findings have it: it is read as this text, and the file stays as it is.
        """
        return self.aio.read(
            sheet, tab=tab, mapping=mapping, corrections=corrections, encoding=encoding
        )

    def serves(self, url: str) -> bool:
        """Whether a photo's address is this service's own, so that `photo` asks for it."""
        return self.aio.serves(url)

    def check(self, plan: Plan) -> None:
        """Raise PlanError where the plan is for another store, or was applied already."""
        self.aio.check(plan)

    def close(self) -> None:
        """Close the connections, and the embedded store of a `demo()`."""
        self._end.detach()
        self._loop.run(self.aio.close(for_good=True))
        _end(self._loop, self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<petsync.Store {self.url} ({self.api.aio.session.profile.name})>"


def _release(aio: AsyncStore, loop: LoopThread, owned: ExitStack) -> None:
    loop.run(aio.close())
    _end(loop, owned)


def _end(loop: LoopThread, owned: ExitStack) -> None:
    loop.close()
    owned.close()
