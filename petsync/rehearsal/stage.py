"""The stage: a fresh sandbox with the store's pets, and a Store of its own that speaks to it.

Nothing of the real store's settings that is secret gets here: the sandbox has a token of its own,
which nobody is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os.path import lexists
from pathlib import Path
from tempfile import TemporaryDirectory

from petsync.client import auth
from petsync.client.session import Session
from petsync.errors import SettingsError
from petsync.model import Pet
from petsync.profile import ServiceProfile
from petsync.rehearsal.imitation import imitated
from petsync.sandbox import Sandbox
from petsync.settings import Settings
from petsync.store import AsyncStore, Store

__all__ = ["must_be_new", "stage"]

_LONG_ENOUGH = 7 * 24 * 3600.0


@contextmanager
def stage(
    profile: ServiceProfile, pets: Sequence[Pet], *, keep: Path | None = None
) -> Iterator[tuple[Sandbox, Store]]:
    """A running sandbox with these pets that behaves as the profile says, and a store for it whose
    journals are in a folder of its own; all of it gone at the end, but for the file `keep`.
    """
    with ExitStack() as held:
        state = Path(held.enter_context(TemporaryDirectory(prefix="petsync-rehearsal-")))
        if keep is not None:
            held.enter_context(_whole(keep))
        box = held.enter_context(
            Sandbox(profile=imitated(profile)[0], pets=pets, db=keep, token_lifetime=_LONG_ENOUGH)
        )
        session = Session(box.url, credentials=auth.bearer(box.token()), profile=profile)
        settings = Settings(url=box.url, profile=profile.name, state=state)
        yield box, held.enter_context(Store(AsyncStore(session, settings)))


def must_be_new(keep: Path) -> Path:
    """The path itself. Raises SettingsError where something is there: it may be a store."""
    if lexists(keep):
        raise SettingsError(
            f"{keep} is there already, and the copy needs a new file", hint="Name another one."
        )
    return keep


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Leave the file behind whole, or not at all."""
    try:
        yield
    except BaseException:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}.lock"):
            path.with_name(name).unlink(missing_ok=True)
        raise
