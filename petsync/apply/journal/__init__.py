"""The journal: the intents and results of runs, on disk before and after each request.

One SQLite file holds the runs of many stores; docs/journal.md describes it. An intent is on disk
before its request is sent. So after a crash at any point the journal shows which changes were
started.
"""

from __future__ import annotations

from petsync.apply.journal.journal import Journal, runs_named
from petsync.apply.journal.rows import row_payload
from petsync.apply.journal.writer import RunSession

__all__ = ["Journal", "RunSession", "row_payload", "runs_named"]
