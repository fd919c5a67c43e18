"""Telling people of rounds: Notifier decides what they should know, and sends it by apprise."""

from __future__ import annotations

from petsync.reconcile.notify.notifier import Notifier
from petsync.reconcile.notify.templates import NAMES, mistakes_in

__all__ = ["NAMES", "Notifier", "mistakes_in"]
