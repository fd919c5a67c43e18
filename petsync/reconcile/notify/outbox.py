"""Notices that are to be sent: tried until they arrive, for a week, and a hundred at most."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2s

from petsync.reconcile.config.model import Event
from petsync.reconcile.notify.memory import Memory, Pending
from petsync.settings import Secret

__all__ = ["Deliver", "mark_of", "put", "sent"]

log = logging.getLogger(__name__)

Deliver = Callable[[Secret, Event, str, str, float], str]
_MOST = 100
_WEEK = 7 * 86_400.0
_EACH, _ALL = 15.0, 60.0
"""Seconds for one notice to one address, and for all that a pass has to tell."""


def mark_of(address: Secret) -> str:
    """Tells the addresses of one configuration apart, and is too short to find one by it."""
    text = address.reveal().encode("utf-8", "surrogatepass")
    return blake2s(text, digest_size=2).hexdigest()


def put(memory: Memory, pending: Sequence[Pending]) -> tuple[str, ...]:
    """Have these sent too. Returns what had to be given up for them, in words."""
    every = (*memory.outbox, *pending)
    memory.outbox = every[-_MOST:]
    return tuple(_given_up(each, "too many wait") for each in every[:-_MOST])


def sent(
    memory: Memory, addresses: Sequence[Secret], now: datetime, deliver: Deliver
) -> Iterator[str]:
    """Send what is to be sent, oldest first; yields what could not be, in words.

    An address that fails is not asked again in this pass.
    """
    until = time.monotonic() + _ALL
    by_mark = {mark_of(address): address for address in addresses}
    failed: dict[str, str] = {}
    left = []
    for pending in memory.outbox:
        _try(pending, by_mark, failed, now, until, deliver)
        if not pending.to:
            continue
        if now.timestamp() - pending.made > _WEEK:
            yield _given_up(pending, "it could not be sent for a week")
            continue
        left.append(pending)
        yield _not_sent(pending, list(by_mark), failed)
    memory.outbox = tuple(left)


def _try(
    pending: Pending,
    by_mark: Mapping[str, Secret],
    failed: dict[str, str],
    now: datetime,
    until: float,
    deliver: Deliver,
) -> None:
    """Send one notice to those of its addresses that still stand in the configuration."""
    pending.to = tuple(mark for mark in pending.to if mark in by_mark)
    body = pending.body if not pending.tries else f"{pending.body}\n{_late(pending, now)}"
    pending.tries += 1
    for mark in pending.to:
        if mark in failed:
            continue
        seconds = min(_EACH, until - time.monotonic())
        why = "no time was left" if seconds <= 0 else ""
        why = why or deliver(by_mark[mark], pending.event, pending.title, body, seconds)
        if why:
            failed[mark] = why
        else:
            pending.to = tuple(each for each in pending.to if each != mark)


def _late(pending: Pending, now: datetime) -> str:
    made = datetime.fromtimestamp(pending.made, UTC).astimezone(now.tzinfo)
    return f"(This is from {made:%Y-%m-%d %H:%M %z}; it could not be sent then.)"


def _not_sent(pending: Pending, marks: Sequence[str], failed: Mapping[str, str]) -> str:
    whys = (f"address {marks.index(m) + 1}: {failed.get(m, 'not tried')}" for m in pending.to)
    said = (
        f"the notice {pending.title!r} could not be sent ({'; '.join(whys)}); "
        "it is tried again after the next round"
    )
    log.warning("%s", said)
    return said


def _given_up(pending: Pending, why: str) -> str:
    said = f"the notice {pending.title!r} is given up: {why}"
    log.error("%s", said)
    return said
