"""Draft: one job as the file has it, with what it takes from the top, before it is a Job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from petsync.profile import ServiceProfile, profile_from
from petsync.reconcile.config.kinds import VARIABLE
from petsync.reconcile.config.options import INHERITED
from petsync.reconcile.config.reader import Found

__all__ = ["CREDENTIALS", "Draft", "drafts"]

CREDENTIALS = ("token", "api_key", "client_id", "client_secret")


@dataclass(frozen=True, slots=True)
class Draft:
    """`raw` is the job's table as it is written, `own` the values of it that can be, `values` these
    with what the file's top and the environment add; paths in it are absolute. `home` is the
    file's folder.
    """

    name: str
    raw: Mapping[str, Any]
    own: Mapping[str, Any]
    values: Mapping[str, Any]
    home: Path

    def placed(self, path: Path) -> Path:
        """A path of the file as it is from anywhere."""
        return self.home / path.expanduser()

    def told(self, key: str, message: str, suggestion: str) -> Found:
        """A mistake in one of the job's options."""
        path = ("jobs", self.name, *([key] if key else []))
        return Found(path, message, suggestion)

    def is_filled(self, key: str) -> bool:
        """Whether the environment completes an option, so that its value is not to be shown."""
        return re.search(VARIABLE, str(self.raw.get(key, ""))) is not None

    @property
    def mode(self) -> str:
        """The mode, "" where that is not known."""
        return str(self.own.get("mode", ""))

    @property
    def profile(self) -> ServiceProfile:
        """How the service behaves."""
        name = self.values.get("profile", "standard")
        return profile_from(name, self.values.get("service", {}))

    @property
    def source(self) -> str:
        """`sheet`, `folder` or `query`; "" where it is none or more than one."""
        named = [key for key in ("sheet", "folder", "query") if self.values.get(key)]
        return named[0] if len(named) == 1 else ""


def drafts(
    raw: Mapping[str, Any],
    values: Mapping[str, Any],
    credentials: Mapping[str, Any],
    folder: Path,
) -> Iterator[Draft]:
    """A draft of each job of a file in `folder`. `credentials` are those of the environment."""
    jobs = values.get("jobs", {})
    urls = {own.get("url", values.get("url")) for own in jobs.values()}
    # Whose secrets the environment has: the default store's, or the only one's.
    home = values.get("url", next(iter(urls)) if len(urls) == 1 else None)
    for name, own in jobs.items():
        if isinstance(raw["jobs"][name], dict):
            is_home = own.get("url", home) == home
            joined = _joined(own, values, credentials if is_home else None, folder)
            if "url" in raw:
                # One that is wrong is told where it stands.
                joined.setdefault("url", "")
            yield Draft(name, raw["jobs"][name], own, joined, folder)


def _joined(
    own: Mapping[str, Any],
    top: Mapping[str, Any],
    credentials: Mapping[str, Any] | None,
    folder: Path,
) -> dict[str, Any]:
    """What a job has; `credentials` is None where it is of another store than these are for."""
    joined = {key: top[key] for key in INHERITED if key in top} | dict(own)
    joined["service"] = {**top.get("service", {}), **own.get("service", {})}
    # A header that this job maps to a column stands for the one that the top maps to it.
    mapped = own.get("columns", {})
    joined["columns"] = {
        **{
            h: column
            for h, column in top.get("columns", {}).items()
            if column not in mapped.values()
        },
        **mapped,
    }
    if credentials is None and "auth" not in own:
        # Where one signs in to another store must not get this one's secrets.
        joined.pop("auth", None)
    if credentials is not None and not any(key in own for key in CREDENTIALS):
        joined |= credentials
    for key in ("sheet", "folder", "query_file"):
        if key in joined:
            joined[key] = folder / joined[key].expanduser()
    return joined
