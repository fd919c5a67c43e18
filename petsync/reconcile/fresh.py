"""Fresh: the configuration as its file says now, or said when it was right last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2s
from pathlib import Path
from typing import Any

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.errors import PetsyncError
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.notify import Notifier
from petsync.reconcile.watch.log import logged

__all__ = ["Fresh", "Load", "tell"]

log = logging.getLogger(__name__)

Load = Callable[[Path, Mapping[str, str]], Configuration]
"""`petsync.reconcile.config.load`."""


@dataclass(slots=True)
class Fresh:
    """`config` is what to work with; `is_valid` is False while the file cannot be used as it is."""

    config: Configuration
    environ: Mapping[str, str]
    load: Load
    is_valid: bool = True
    _seen: bytes = field(init=False)
    _listens: str = field(init=False)

    def __post_init__(self) -> None:
        self._listens = self.config.metrics.listen
        self._seen = _content(self.config.path)

    def again(self) -> None:
        """Read the file again, if it has changed. One that is not right is told, and not used."""
        content = _content(self.config.path)
        if content == self._seen:
            return
        self._seen = content
        try:
            self._takes(self.load(self.config.path, self.environ))
        except (PetsyncError, OSError) as error:
            self.is_valid = False
            with logged(self.config):
                log.error("the configuration as it was before is used: %s", error)
            tell(self.config, self.config.path.name, error)

    def _takes(self, changed: Configuration) -> None:
        with logged(changed):
            log.info("%s was read again", changed.path)
            if changed.metrics.listen != self._listens:
                log.warning("[metrics] listen is used after a restart; until then it is as it was")
        if not self.is_valid:
            _told(changed, _round(changed.path.name))
        self.is_valid, self.config = True, changed


def tell(config: Configuration, name: str, error: Exception) -> None:
    """Tell people of an error that no round tells of, as if it were one that failed."""
    said = {"problem": type(error).__name__, "hint": "The log has more.", "exit_code": 1}
    if isinstance(error, PetsyncError):
        said = {"problem": error.message, "hint": error.hint, "exit_code": error.exit_code}
    _told(config, _round(name, status="error", **said))


def _told(config: Configuration, round_: Round) -> None:
    Notifier(config).told((RoundReport(round=round_),), datetime.now(UTC))


def _round(job: str, **said: Any) -> Round:
    now = datetime.now(UTC)
    return Round(id=f"{now:%Y%m%d-%H%M%S-%f}-every", job=job, started=now.isoformat(), **said)


def _content(path: Path) -> bytes:
    """A digest of the file, b"" while it cannot be read."""
    try:
        return blake2s(path.read_bytes()).digest()
    except OSError:
        return b""
