"""Item: one file of an upload form, and how it is said to a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from petsync.diff.pictures import Picture, PictureProblem
from petsync.diff.uploaded import FileProgress, UploadedFile
from petsync.render.markup import capital
from petsync.render.pictures_words import size
from petsync.render.words import sentences
from petsync.widgets.parts.files import Received

__all__ = ["Item", "State", "columns_for", "limit_in", "plain"]

State = Literal[
    "looking",
    "ready",
    "left alone",
    "cannot be sent",
    "too large",
    "waiting",
    "sending",
    "cancelled",
    "done",
    "failed",
    "unknown",
]

_COLUMNS: list[dict[str, Any]] = [
    {"key": "picture", "title": "Picture", "kind": "image"},
    {"key": "name", "title": "File"},
    {"key": "size", "title": "Size"},
    {"key": "state", "title": "State", "kind": "mark"},
    {"key": "said", "title": "What there is to say"},
    {"key": "address", "title": "Link", "kind": "link"},
]
_WHERE_ANY = ("said", "address")
_MARKS: dict[State, tuple[str, str]] = {
    "looking": ("…", ""),
    "ready": ("+", "add"),
    "left alone": ("=", "muted"),
    "cannot be sent": ("x", "problem"),
    "too large": ("x", "problem"),
    "waiting": ("…", ""),
    "sending": ("↑", "update"),
    "cancelled": ("-", "muted"),
    "done": ("✓", "done"),
    "failed": ("x", "problem"),
    "unknown": ("?", "conflict"),
}
_LEFT_ALONE = {
    "already": "It was uploaded to this pet before.",
    "twice": "The same picture is in this list twice.",
    "doubtful": "It was sent before without an answer, and the service does not show whether it "
    "came through. Look at the pet's pictures in the store.",
}
_NO_PET = "Choose the pet first: find it above."
_ANEW = "Choose the pet once more, and all files are looked at again."
_AGAIN = "An earlier upload of it did not come through."
_WAITS = "Waits for as long as the earlier upload may still arrive."
_NOWHERE = "The service has it, and does not say where."
_CUT = "cut-off"


@dataclass(slots=True, eq=False)
class Item:
    """A file on its way to a pet. `number` is its place in the run that is under way."""

    key: str
    name: str
    path: Path
    received: Received | None = None
    small: str = ""
    bytes: int = 0
    picture: Picture | None = None
    state: State = "looking"
    said: str = ""
    urls: tuple[str, ...] = ()
    number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether an upload may still have to do with it."""
        return self.state not in ("done", "cancelled")

    def look(self, found: Picture | PictureProblem) -> None:
        """Be as it was found to be; what failed is still said, until it is sent again."""
        if self.state in ("failed", "unknown", "too large"):
            self.picture = found if isinstance(found, Picture) else None
            return
        if isinstance(found, PictureProblem):
            self.picture, self.state = None, "cannot be sent"
            self.said = sentences(capital(found.problem), plain(found.cure))
            return
        self.picture, self.bytes, self.said = found, found.size, ""
        self.state = "ready" if found.is_item else "left alone"
        if not found.is_item:
            self.said = _LEFT_ALONE.get(found.fate, "")
        elif found.fate in ("retry", "confirm"):
            self.said = _AGAIN
        elif not found.pet_id:
            self.said = _NO_PET
        elif found.done and found.sent_size != found.size:
            self.said = f"Is sent as {found.sent_width:,} × {found.sent_height:,}, " + size(
                found.sent_size
            )

    def not_looked(self, why: str) -> None:
        """Be one that could not be looked at; the next look may find it fit."""
        if self.state == "looking":
            self.state = "cannot be sent"
            self.said = sentences(f"It was not looked at: {why}", _ANEW)

    def follow(self, step: FileProgress) -> None:
        """Be as the upload says."""
        if step.result is not None:
            self.end(step.result)
            return
        if self.state not in ("cancelled",):
            self.state = "sending"
        if self.picture is not None and self.picture.fate == "retry":
            self.said = "" if step.sent else _WAITS
        if step.why:
            self.said = f"Attempt {step.attempt}, as the one before failed: {plain(step.why)}"

    def end(self, result: UploadedFile) -> None:
        """Be as it ended."""
        self.urls = result.urls
        self.state = _state_of(result, is_cancelled=self.state == "cancelled")
        cure = "" if self.state == "cancelled" else plain(result.cure)
        self.said = sentences(capital(plain(result.message)), cure)
        if self.state == "done" and not self.urls and not self.said:
            self.said = _NOWHERE
        self.number = None

    @property
    def row(self) -> dict[str, Any]:
        """Its row in a parts.table.Table."""
        symbol, tone = _MARKS[self.state]
        alt = f"Small copy of {self.name}" if self.small else "no picture"
        cells = {
            "picture": {"src": self.small, "alt": alt} if self.small else "",
            "name": self.name,
            "size": ", ".join(filter(None, (size(self.bytes), _pixels(self.picture)))),
            "state": {"symbol": symbol, "text": self.state},
            "said": self.said,
            "address": {"href": self.urls[0], "text": f"See {self.name}"} if self.urls else "",
        }
        return {"key": self.key, "label": self.name, "cells": cells, "tone": tone}


def columns_for(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The columns for these files: what is said of none, and a link that none has, take no room."""
    rows = [item.row["cells"] for item in items]
    empty = {key for key in _WHERE_ANY if not any(cells[key] for cells in rows)}
    return [column for column in _COLUMNS if column["key"] not in empty]


def _pixels(picture: Picture | None) -> str:
    if picture is None:
        return ""
    frames = f", {picture.frames:,} frames" if picture.frames > 1 else ""
    return f"{picture.width:,} × {picture.height:,}{frames}"


def _state_of(result: UploadedFile, *, is_cancelled: bool) -> State:
    if result.outcome == "applied":
        return "done"
    if result.cause == "already-so":
        return "left alone"
    if is_cancelled:
        return "cancelled"
    if result.cause == _CUT:
        return "unknown"
    if result.outcome == "skipped":
        return "ready" if result.cause in ("not-begun", "held-back") else "left alone"
    return "failed" if result.outcome == "failed" else "unknown"


_OF_COMMANDS = re.compile(r"[^.;]*(?:--[a-z]|[Tt]he same command)[^.;]*[.;]?")
_CURES = {
    "--max-side": "Tick “Make large pictures smaller”.",
    "The same command again": "Press Upload again: it does what is left, and nothing twice.",
}


def plain(text: str) -> str:
    """The text without options of the command line; what a form has instead, in their place."""
    cures = [cure for name, cure in _CURES.items() if name in text]
    return " ".join(filter(None, [_OF_COMMANDS.sub("", text).rstrip(" ;").lstrip(), *cures]))


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_LIMIT = re.compile(r"(\d[\d,_ ]*(?:\.\d+)?)\s*([kmg])?i?(?:b\b|bytes?\b)", re.IGNORECASE)


def limit_in(said: str) -> int | None:
    """How many bytes a service takes that says so where it refuses more; None if it says none."""
    found = _LIMIT.search(said)
    if found is None:
        return None
    number = float(re.sub(r"[,_ ]", "", found[1]))
    return int(number * _UNITS[(found[2] or "").lower()]) or None
