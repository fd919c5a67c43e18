"""Watching rounds: the log, metrics for Prometheus, spans for OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from petsync.errors import SettingsError
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.watch.log import logged
from petsync.reconcile.watcher import Watcher

__all__ = ["watching"]


log = logging.getLogger(__name__)


@contextmanager
def watching(config: Configuration) -> Iterator[list[Watcher]]:
    """The watchers that `[log]`, `[metrics]` and `[tracing]` ask for, while rounds are made.

    An extra that is not installed is told in the log: it keeps no job from its work.
    """
    with ExitStack() as stack:
        watchers: list[Watcher] = [stack.enter_context(logged(config))]
        for enter in (_measured, _traced):
            try:
                watchers += enter(config, stack)
            except SettingsError as error:
                log.error("%s", error)
        yield watchers


def _measured(config: Configuration, stack: ExitStack) -> list[Watcher]:
    if config.metrics.textfile is None and not config.metrics.listen:
        return []
    from petsync.reconcile.watch.metrics import measured

    return [stack.enter_context(measured(config))]


def _traced(config: Configuration, stack: ExitStack) -> list[Watcher]:
    if not config.tracing:
        return []
    from petsync.reconcile.watch.tracing import traced

    return [stack.enter_context(traced(config))]
