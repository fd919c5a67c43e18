"""A log record as a line: of JSON for machines, of text for people."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from petsync.render.lines import unbroken
from petsync.table.visible import visible

__all__ = ["FIELDS", "JsonLines", "TextLines"]

FIELDS = (
    "event",
    "job",
    "part",
    "round",
    "run",
    "step",
    "status",
    "exit_code",
    "seconds",
    "drift",
    "applied",
    "conflicts",
    "findings",
    "failed",
    "left",
    "waiting",
    "report",
)
"""What a record may carry besides time, level, logger and message."""

Clean = Callable[[str], str]


class JsonLines(logging.Formatter):
    """A record as one JSON object, in one line, without secrets."""

    def __init__(self, clean: Clean) -> None:
        super().__init__()
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        """`{"time": …, "level": …, "logger": …, "message": …, …}`."""
        told = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
            **{name: self._said(value) for name, value in _fields(record)},
        }
        if trace := _trace(record):
            told["traceback"] = self._clean(trace)
        return msgspec.json.encode(_encodable(told)).decode()

    def _said(self, value: Any) -> Any:
        return self._clean(value) if isinstance(value, str) else value


class TextLines(logging.Formatter):
    """A record as a line of text, in which nothing steers a terminal, without secrets. With a
    `width` in columns, a terminal's, it is folded.
    """

    def __init__(self, clean: Clean, *, width: int | None = None) -> None:
        super().__init__()
        self._clean, self._width = clean, width

    def format(self, record: logging.LogRecord) -> str:
        """`2026-11-21T02:00:04.120Z INFO catalogue [ROUND] logger: message`."""
        about = dict(_fields(record))
        names = [str(about[name]) for name in ("job", "part") if about.get(name)]
        where = f" {'/'.join(names)} [{about.get('round', '')}]" if names else ""
        said = f"{record.name}: {record.getMessage()}"
        line = f"{_time(record)} {record.levelname}{where} {said}"
        every = (line, *_trace(record).splitlines())
        shown = (visible(self._clean(each)) for each in every)
        if self._width is None:
            return "\n".join(shown)
        return "\n".join(part.plain for line in shown for part in unbroken(line, self._width))


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name in FIELDS:
        value = getattr(record, name, None)
        if value is not None and value != "":
            yield name, value


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(record: logging.LogRecord) -> str:
    """The traceback's own lines, without what variables held."""
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")


def _encodable(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same without halves of characters, as a file's name may have them."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in told.items()
    }
