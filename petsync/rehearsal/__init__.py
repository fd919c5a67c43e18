"""Rehearse a plan on a copy of the store, without changes in the store itself."""

from __future__ import annotations

from petsync.rehearsal.run import rehearse

__all__ = ["rehearse"]
