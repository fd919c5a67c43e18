"""The journal: an SQLite file with the intents and results of runs; docs/journal.md describes it.

The intent of a change is on disk before its request is sent. So after a crash, the journal shows
which changes were started.
"""

from __future__ import annotations

from petsync.apply.journal.journal import Journal, find_runs_named
from petsync.apply.journal.rows import build_row_payload
from petsync.apply.journal.writer import RunSession

__all__ = ["Journal", "RunSession", "build_row_payload", "find_runs_named"]
