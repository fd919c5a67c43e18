"""What does not go together in one job, although each option of it is as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from petsync.reconcile.config.draft import Draft
from petsync.reconcile.config.reader import Found
from petsync.settings import nearest, read_file

__all__ = ["ENVIRONMENT_TOO", "NEEDS", "READ", "SOURCES", "checked"]

READ = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm")
"""The endings of the sheets that are read."""
SOURCES = ("sheet", "folder", "query", "query_file")
_QUERIES = ("query", "query_file")
NEEDS = {
    "tab": ("sheet", "folder"),
    "encoding": ("sheet", "folder"),
    "files": ("folder",),
    "database": _QUERIES,
    "query": ("database",),
    "query_file": ("database",),
    "client_secret": ("client_id",),
}
"""What an option is of no use without: one of these."""
ENVIRONMENT_TOO = {"client_secret": "client_id"}
"""Of these, what the environment may have."""


def checked(draft: Draft) -> Iterator[Found]:
    """Every such mistake of a job."""
    for check in _CHECKS:
        yield from check(draft)


def _source(draft: Draft) -> Iterator[Found]:
    given = [key for key in SOURCES if key in draft.raw]
    if not given:
        yield draft.told(
            "",
            "the job has nothing to compare with the store",
            'Write sheet = "catalogue.xlsx", or a folder, or a query.',
        )
    for key in given[1:]:
        yield draft.told(
            key,
            f"the job has {given[0]} too, and can have only one of them",
            f"Keep {given[0]} or {key}, and make another job for the other.",
        )


def _companions(draft: Draft) -> Iterator[Found]:
    for key, needed in NEEDS.items():
        if key in draft.raw and not any(name in draft.raw for name in needed):
            if key in ENVIRONMENT_TOO and draft.values.get(ENVIRONMENT_TOO[key]):
                continue
            names = " or ".join(needed)
            yield draft.told(
                key, f"it means nothing without {names}", f"Write {names} too, or take {key} out."
            )


def _query_file(draft: Draft) -> Iterator[Found]:
    path = draft.values.get("query_file")
    if path is None:
        return
    try:
        if read_file(path).strip():
            return
        reason = "it is empty"
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    yield draft.told(
        "query_file",
        f"{path} cannot be used: {reason}",
        "Write the SELECT into it, or name the file that has it.",
    )


def _of_mode(draft: Draft) -> Iterator[Found]:
    for key in _QUERIES:
        if key in draft.raw and draft.mode in ("pull", "two-way"):
            yield draft.told(
                key,
                f'mode "{draft.mode}" writes to the sheet, and nothing is written to a database',
                'Write mode = "push" or mode = "check", or name a sheet.',
            )
    if "on_conflict" in draft.raw and draft.mode and draft.mode != "two-way":
        yield draft.told(
            "on_conflict",
            f'in mode "{draft.mode}" there are no conflicts to decide',
            'Take it out, or write mode = "two-way".',
        )


def _endings(draft: Draft) -> Iterator[Found]:
    for key in ("sheet", "files"):
        # A name that the environment completes is told as it is written.
        name = str(draft.raw[key] if draft.is_filled(key) else draft.own.get(key, ""))
        ending = name[name.rfind(".") :].casefold() if "." in name else ""
        is_open = key == "files" and ("*" in ending or not ending)
        told = draft.own.get(key, "")
        if not told or is_open or str(told).casefold().endswith(READ):
            continue
        near = f"{name[: len(name) - len(ending)]}{nearest(ending, READ) or '.xlsx'}"
        advice = "" if draft.is_filled(key) else f', and write {key} = "{near}"'
        yield draft.told(
            key,
            f"{ending or 'a file without an ending'} is not a kind of sheet that is read; these "
            f"are: {', '.join(READ)}",
            f"Save it as one of these{advice}.",
        )


def _statuses(draft: Draft) -> Iterator[Found]:
    profile = draft.profile
    for status in draft.own.get("statuses", ()):
        if status in profile.statuses or profile.any_status:
            continue
        near = nearest(status, profile.statuses)
        meant = f'Did you mean "{near}"? ' if near else ""
        yield draft.told(
            "statuses",
            f'the service has no status "{status}"; it has {", ".join(profile.statuses)}',
            f"{meant}If it does have it, name it under [service] in statuses.",
        )


def _columns(draft: Draft) -> Iterator[Found]:
    seen: dict[str, str] = {}
    for header, column in draft.values["columns"].items():
        if column in seen:
            yield draft.told(
                "columns",
                f'"{seen[column]}" and "{header}" are both the column {column}',
                "Keep the header that the sheet has.",
            )
        seen[column] = header


def _ways_in(draft: Draft) -> Iterator[Found]:
    if "token" in draft.raw and "client_secret" in draft.raw:
        yield draft.told(
            "client_secret", "the job has a token too: two ways to sign in", "Keep one of them."
        )


def _address(draft: Draft) -> Iterator[Found]:
    url = draft.values.get("url", "")
    if "url" not in {**draft.values, **draft.raw}:
        yield draft.told(
            "",
            "no service is named, neither here nor at the top of the file",
            'Write url = "https://shop.example/v2" at the top, or set PETSYNC_URL.',
        )
    if not url or not any(draft.values.get(key) for key in ("token", "api_key", "auth")):
        return
    from petsync.client.origin import is_loopback

    parts = urlsplit(url)
    host = parts.hostname or ""
    allowed = draft.values.get("allow_http", ())
    if parts.scheme == "http" and not is_loopback(host) and host not in allowed:
        yield draft.told(
            "url" if "url" in draft.raw else "",
            f"a secret for {host} would travel unencrypted over http",
            f'Use https, or write allow_http = ["{host}"].',
        )


_CHECKS: tuple[Callable[[Draft], Iterator[Found]], ...] = (
    _source,
    _companions,
    _query_file,
    _of_mode,
    _endings,
    _statuses,
    _columns,
    _ways_in,
    _address,
)
