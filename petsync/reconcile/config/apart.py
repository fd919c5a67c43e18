"""What does not go together in a whole file: jobs that undo each other's work, and the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import combinations
from typing import Any

from petsync.reconcile.config.checks import READ
from petsync.reconcile.config.draft import Draft
from petsync.reconcile.config.reader import Found
from petsync.reconcile.notify.templates import mistakes_in

__all__ = ["checked"]

_WRITES_SHEET = ("pull", "two-way")
_WRITES_STORE = ("push", "two-way")


def checked(
    drafts: Sequence[Draft], raw: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[Found]:
    """Every such mistake: `raw` and `values` are those of the whole file."""
    if not raw.get("jobs"):
        yield Found((), "there is no job", "Write [jobs.catalogue]; `petsync init` shows how.")
    for first, second in combinations(drafts, 2):
        yield from _pair(first, second)
    for output in (("log", "file"), ("metrics", "textfile")):
        yield from _output(output, drafts, values)
    yield from _metrics(values.get("metrics", {}))
    for event, texts in values.get("notify", {}).get("templates", {}).items():
        for part, text in texts.items():
            for mistake in mistakes_in(text):
                path = ("notify", "templates", event, part)
                yield Found(path, mistake, "docs/notifications.md lists the names.")


def _pair(first: Draft, second: Draft) -> Iterator[Found]:
    """What is wrong with two jobs together, told of the second."""
    modes = (first.mode, second.mode)
    if first.name.casefold() == second.name.casefold():
        yield second.told(
            "",
            f'its name differs from "{first.name}" in capital letters alone; files are named '
            "after it",
            "Give one of the jobs another name.",
        )
    for owner, other in ((first, second), (second, first)):
        if _has_file_of(owner, other):
            yield second.told(
                "",
                f'what is kept for job "{other.name}" would have the name of a file of job '
                f'"{owner.name}"',
                "Give one of the jobs another name.",
            )
    if "check" in modes or "" in modes:
        return
    if _share_sheet(first, second):
        yield from _same_sheet(first, second)
    elif _same_store(first, second) and _overlap(first, second):
        yield from _same_pets(first, second)


def _has_file_of(owner: Draft, other: Draft) -> bool:
    """Whether the other's name is that of the owner's plan for a sheet, or of a file of its
    folder.
    """
    name, rest = owner.name.casefold(), other.name.casefold()
    is_part = owner.source == "folder" and rest.startswith(f"{name}--")
    return is_part or rest == f"{name}.sheet"


def _same_sheet(first: Draft, second: Draft) -> Iterator[Found]:
    writer = next((job for job in (first, second) if job.mode in _WRITES_SHEET), None)
    key = second.source
    if writer is not None:
        yield second.told(
            key,
            f'job "{first.name}" works with the same sheet, and job "{writer.name}" writes it: '
            "each would undo what the other does",
            'Make one job of them with mode = "two-way", or give each a sheet of its own.',
        )
    elif _same_store(first, second) and first.own.get("tab") == second.own.get("tab"):
        yield second.told(
            key,
            f'job "{first.name}" brings the same sheet into the same store',
            "Take one of the two out, or name another tab, sheet or url.",
        )


def _same_pets(first: Draft, second: Draft) -> Iterator[Found]:
    """A push that adds again every night what a two-way job deletes."""
    for pushed, other in ((first, second), (second, first)):
        deletes = other.mode == "two-way" and other.own.get("delete_missing")
        if pushed.mode == "push" and deletes:
            yield second.told(
                "delete_missing" if other is second else "mode",
                f'what job "{other.name}" deletes in the store, job "{pushed.name}" adds again, '
                "as its own sheet leads",
                f"Give each of them pets of its own (statuses, tags), or take delete_missing out "
                f'of "{other.name}".',
            )


def _same_store(first: Draft, second: Draft) -> bool:
    return first.values.get("url") == second.values.get("url")


def _overlap(first: Draft, second: Draft) -> bool:
    """Whether a pet may be in the scope of both."""
    return all(
        _meet(first.own.get(key, ()), second.own.get(key, ())) for key in ("statuses", "tags")
    )


def _meet(ours: Sequence[str], others: Sequence[str]) -> bool:
    return not ours or not others or bool({*ours} & {*others})


def _share_sheet(first: Draft, second: Draft) -> bool:
    for one, other in ((first, second), (second, first)):
        if one.source == "sheet" == other.source:
            return _plain(one, "sheet") == _plain(other, "sheet")
        if one.source == "sheet" and other.source == "folder":
            folder, name = os.path.split(_plain(one, "sheet"))
            return folder == _plain(other, "folder") and fnmatch(name, _files(other))
    if first.source == "folder" == second.source:
        # Patterns that are not the same may still name the same file; nobody can tell of all.
        same = _plain(first, "folder") == _plain(second, "folder")
        return same and (_files(first) == _files(second) or "*" in (_files(first), _files(second)))
    return False


def _plain(draft: Draft, key: str) -> str:
    return _normal(draft.values[key])


def _files(draft: Draft) -> str:
    return str(draft.own.get("files", "*"))


def _output(
    path: tuple[str, str], drafts: Sequence[Draft], values: Mapping[str, Any]
) -> Iterator[Found]:
    """What is wrong with a file that is written again and again: it must be nobody's source."""
    table, key = path
    file = values.get(table, {}).get(key)
    if file is None:
        return
    for draft in drafts:
        own = [draft.values[name] for name in ("sheet", "query_file") if name in draft.values]
        folder = draft.values.get("folder")
        where = draft.placed(file)
        is_in = folder is not None and _same(folder, where.parent) and where.suffix in READ
        if is_in or any(_same(each, where) for each in own):
            yield Found(
                path,
                f'is "{file}", from which job "{draft.name}" reads',
                f'Write {key} = "petsync.{"log" if table == "log" else "prom"}", say.',
            )


def _same(first: object, second: object) -> bool:
    return _normal(first) == _normal(second)


def _normal(path: object) -> str:
    return os.path.normcase(os.path.normpath(str(path)))


def _metrics(metrics: Mapping[str, Any]) -> Iterator[Found]:
    textfile = metrics.get("textfile")
    if textfile is not None and textfile.suffix != ".prom":
        yield Found(
            ("metrics", "textfile"),
            f'is "{textfile}", and node_exporter reads only names that end in .prom',
            f'Write textfile = "{textfile.with_suffix(".prom")}".',
        )
    listen = metrics.get("listen", "")
    if not listen or metrics.get("public"):
        return
    from petsync.client.origin import is_loopback

    host, _, port = listen.rpartition(":")
    if not is_loopback(host.strip("[]")):
        yield Found(
            ("metrics", "listen"),
            f'at "{host}" other machines can read the metrics too',
            f'Write listen = "127.0.0.1:{port}", or, if they are meant to, public = true.',
        )
