"""The Configuration that checked values make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from petsync.diff.guard import Guard
from petsync.reconcile.config.draft import Draft
from petsync.reconcile.config.lines import lines_of
from petsync.reconcile.config.model import (
    Configuration,
    Job,
    Log,
    Metrics,
    Notify,
    Reports,
)
from petsync.reconcile.notify.templates import DEFAULTS
from petsync.settings import Secret, read_file

__all__ = ["configuration"]

_FIELDS = {each.name for each in fields(Job)}
_KEPT_BY_DEFAULT = 90


def configuration(
    path: Path,
    text: str,
    values: Mapping[str, Any],
    drafts: Sequence[Draft],
    secrets: Sequence[Secret],
) -> Configuration:
    """The configuration of a file that has no mistake."""
    folder = path.parent
    state = folder / values.get("state", Path(".petsync")).expanduser()
    lines = _Lines(text)
    return Configuration(
        path=path,
        state=state,
        jobs=tuple(_job(draft, lines) for draft in drafts),
        notify=_notify(values.get("notify", {})),
        report=_reports(values.get("report", {}), folder, state),
        log=Log(**_placed(values.get("log", {}), "file", folder)),
        metrics=Metrics(
            **{
                key: value
                for key, value in _placed(values.get("metrics", {}), "textfile", folder).items()
                if key != "public"
            }
        ),
        tracing=values.get("tracing", {}).get("enabled", False),
        secrets=tuple(dict.fromkeys(secrets)),
    )


class _Lines:
    """On which line each job begins; where that is hard to see, the whole file is gone through."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, job: str) -> int:
        """The line of the job's header."""
        name = f"(?:{re.escape(job)}|\"{re.escape(job)}\"|'{re.escape(job)}')"
        header = re.compile(rf"^[ \t]*\[[ \t]*jobs[ \t]*\.[ \t]*{name}[ \t]*\]", re.MULTILINE)
        found = header.search(self._text)
        if found is not None:
            return self._text.count("\n", 0, found.start()) + 1
        return lines_of(self._text).get(("jobs", job), 1)


def _job(draft: Draft, lines: _Lines) -> Job:
    values = {key: value for key, value in draft.values.items() if key in _FIELDS}
    if "query_file" in draft.values:
        values["query"] = read_file(draft.values["query_file"])
    for key in ("statuses", "tags", "allow_http", "match_on"):
        values[key] = tuple(values.get(key, ()))
    values["guard"] = Guard(**draft.own.get("guard", {}))
    return Job(name=draft.name, line=lines.of(draft.name), **values)


def _notify(values: Mapping[str, Any]) -> Notify:
    templates = {
        event: (texts.get("title", usual[0]), texts.get("body", usual[1]))
        for event, usual in DEFAULTS.items()
        if (texts := values.get("templates", {}).get(event))
    }
    return Notify(**{**values, "templates": templates})


def _reports(values: Mapping[str, Any], folder: Path, state: Path) -> Reports:
    placed = _placed(values, "folder", folder)
    where = placed.get("folder", state / "reconcile" / "reports")
    return Reports(
        folder=where,
        keep=values.get("keep", _KEPT_BY_DEFAULT) or None,
        is_private="folder" not in placed,
    )


def _placed(values: Mapping[str, Any], key: str, folder: Path) -> dict[str, Any]:
    """The values, the path of that key from the file's folder on."""
    placed = {key: folder / values[key].expanduser()} if key in values else {}
    return {**values, **placed}
