"""Telling: the watchers of a round, none of whom can end it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import TracebackType

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.reconcile.watcher import Step, Watcher

__all__ = ["Telling"]

_LOG = logging.getLogger(__name__)


class Telling:
    """Tells each of the watchers; what one raises is logged, and the others are told all the same.

    An interrupt is no error of a watcher, and passes.
    """

    def __init__(self, watchers: Iterable[Watcher] = ()) -> None:
        self._watchers = tuple(watchers)

    def began(self, told: Round) -> None:
        """A round begins."""
        for watcher in self._watchers:
            _safely(watcher, partial(watcher.began, told))

    @contextmanager
    def step(self, told: Round, name: Step) -> Iterator[None]:
        """Around a step; an error of it reaches every watcher, and then the caller."""
        with ExitStack() as stack:
            for watcher in self._watchers:
                stack.enter_context(_Step(watcher, told, name))
            yield

    def ended(self, told: RoundReport) -> None:
        """A round is over."""
        for watcher in self._watchers:
            _safely(watcher, partial(watcher.ended, told))


class _Step(AbstractContextManager[None]):
    """A watcher's own step, from which nothing comes out."""

    def __init__(self, watcher: Watcher, told: Round, name: Step) -> None:
        self._watcher, self._told, self._name = watcher, told, name
        self._inner: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        def enter() -> None:
            inner = self._watcher.step(self._told, self._name)
            inner.__enter__()
            self._inner = inner

        _safely(self._watcher, enter)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        inner = self._inner
        if inner is None:
            return
        try:
            inner.__exit__(kind, error, trace)
        except Exception as raised:  # noqa: BLE001 - whatever a watcher does, the round goes on
            if raised is not error:
                _complain(self._watcher)


def _safely(watcher: Watcher, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - whatever a watcher does, the round goes on
        _complain(watcher)


def _complain(watcher: Watcher) -> None:
    _LOG.exception("%s failed; the round goes on", type(watcher).__name__)
