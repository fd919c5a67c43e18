"""The log: what petsync says while a round goes on, with the round's id in every line."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Any

from petsync._file import make_folder, open_new
from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.reconcile.config.model import Configuration, Log
from petsync.reconcile.watch.records import JsonLines, TextLines
from petsync.reconcile.watcher import Step
from petsync.redact import Redactor
from petsync.render.round_words import brief
from petsync.render.words import count

__all__ = ["Logged", "logged"]

log = logging.getLogger(__name__)

_LEVELS: Mapping[int, int] = {0: logging.INFO, 1: logging.ERROR, 64: logging.ERROR}
"""By exit code; all others are warnings."""
_here: ContextVar[Logged | None] = ContextVar("petsync_logged", default=None)


class Logged(logging.Filter):
    """The watcher that logs, and the filter that tells each record which round and which step it
    belongs to: those of the reconciliation in whose context it is made, and of threads that know
    none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._round: Round | None = None
        self._step: Step | None = None

    def began(self, begun: Round) -> None:
        """Log that it began."""
        self._round, self._step = begun, None
        log.info("%s begins (%s)", begun.name, begun.mode, extra={"event": "began"})

    @contextmanager
    def step(self, begun: Round, name: Step) -> Iterator[None]:
        """Log how long the step took, and what ended it, if anything did."""
        before, self._round, self._step = self._step, begun, name
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self._after(name, began, f"failed: {type(error).__name__}: {error}", logging.WARNING)
            raise
        else:
            self._after(name, began, "done", logging.DEBUG)
        finally:
            self._step = before

    def ended(self, told: RoundReport) -> None:
        """Log how it ended, with its numbers."""
        self._round, self._step = told.round, None
        round_ = told.round
        level = _LEVELS.get(round_.exit_code, logging.WARNING)
        reason = round_.problem or brief(round_)
        reason = reason or (count(round_.applied, "change") if round_.applied else "")
        said = ": ".join(filter(None, (round_.status, reason)))
        log.log(level, "%s ended: %s", round_.name, said, extra=_numbers(round_))
        self._round = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is this reconciliation's; it then says which round's."""
        owner = _here.get()
        if owner is not None and owner is not self:
            return False
        for name, value in self._about().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True

    def _after(self, name: Step, began: float, said: str, level: int) -> None:
        extra = {"event": "step", "seconds": round(time.monotonic() - began, 3)}
        log.log(level, "%s: %s", name, said, extra=extra)

    def _about(self) -> Mapping[str, Any]:
        each = self._round
        if each is None:
            return {}
        run = each.runs[-1] if each.runs else ""
        return {
            "job": each.job,
            "part": each.part,
            "round": each.id,
            "run": run,
            "step": self._step,
        }


def _numbers(round_: Round) -> dict[str, Any]:
    names = ("status", "exit_code", "drift", "applied", "conflicts", "findings", "failed", "left")
    numbers = {name: getattr(round_, name) for name in names}
    paths = {"waiting": round_.waiting, "report": round_.report}
    return {"event": "ended", "seconds": round(round_.seconds, 3), **numbers, **paths}


@contextmanager
def logged(config: Configuration) -> Iterator[Logged]:
    """Meanwhile, what petsync logs goes where `[log]` says, each record with its round. That people
    could not be told goes to standard error in any case.
    """
    watcher, clean = Logged(), Redactor((*config.secrets, *config.notify.urls))
    token = _here.set(watcher)
    try:
        with ExitStack() as stack:
            for handler in _handlers(config.log):
                handler.setFormatter(_formatter(config.log, handler, clean))
                handler.addFilter(watcher)
                stack.enter_context(_attached(handler))
            yield watcher
    finally:
        with suppress(ValueError):  # left in another context than it was entered in
            _here.reset(token)


def _formatter(config: Log, handler: logging.Handler, clean: Redactor) -> logging.Formatter:
    """The records' form; lines of text are folded for a terminal, and for nothing else."""
    if config.format == "json":
        return JsonLines(clean)
    stream = getattr(handler, "stream", None)
    is_terminal = stream is not None and stream.isatty()
    return TextLines(clean, width=shutil.get_terminal_size().columns if is_terminal else None)


@contextmanager
def _attached(handler: logging.Handler) -> Iterator[None]:
    """The handler gets what petsync logs, and none of -v's repeats it on the same stream."""
    mine, level = logging.getLogger("petsync"), logging.getLogger("petsync").level
    doubles = [each for each in mine.handlers if _doubles(each, handler)]
    for each in doubles:
        mine.removeHandler(each)
    mine.addHandler(handler)
    mine.setLevel(min(handler.level, level or handler.level))
    try:
        yield
    finally:
        mine.removeHandler(handler)
        mine.setLevel(level)
        for each in doubles:
            mine.addHandler(each)
        handler.close()


def _doubles(other: logging.Handler, handler: logging.Handler) -> bool:
    """Whether both write to one stream, and the other is no reconciliation's own."""
    is_own = any(isinstance(each, Logged) for each in other.filters)
    stream = getattr(other, "stream", None)
    return not is_own and stream is not None and stream is getattr(handler, "stream", None)


class _File(WatchedFileHandler):
    """The log's file, which only its owner may write where it is made."""

    def _open(self) -> TextIOWrapper:
        path = self.baseFilename
        return open(path, "a", encoding=self.encoding, errors=self.errors, opener=open_new)


def _handlers(config: Log) -> Iterator[logging.Handler]:
    """One to the file, which a log's rotation may take away at any time, or to standard error."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if config.file is not None:
        handler.setLevel(logging.WARNING)
        handler.addFilter(logging.Filter("petsync.reconcile.notify"))
        try:
            make_folder(config.file.parent)
            file = _File(config.file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            log.warning("%s cannot be written (%s); this goes to stderr", config.file, error)
            handler = logging.StreamHandler(sys.stderr)
        else:
            yield handler
            handler = file
    handler.setLevel(config.least.upper())
    yield handler
