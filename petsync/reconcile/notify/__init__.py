"""Telling people of rounds: Notifier decides what they should know, and sends it by apprise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from petsync.reconcile.notify.templates import NAMES, mistakes_in

if TYPE_CHECKING:
    from petsync.reconcile.notify.notifier import Notifier

__all__ = ["NAMES", "Notifier", "mistakes_in"]

if not TYPE_CHECKING:

    def __getattr__(name):
        # Whoever checks a template should not wait for pandas.
        if name != "Notifier":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from petsync.reconcile.notify.notifier import Notifier

        return Notifier
