"""What a configuration means, in words and for machines; no secret is in either."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from petsync.diff.guard import Guard
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.schedule import next_due

__all__ = ["as_data", "lines"]

_MODES = {
    "push": "the sheet leads, and the store follows",
    "pull": "the store leads, and the sheet follows; nothing is sent",
    "two-way": "both sides are merged",
    "check": "nothing is changed, drift is told",
}
_CONFLICTS = {
    "ask": "both sides stay until a person decides",
    "store": "the store's value stands",
    "sheet": "the sheet's value stands",
}
_SECRETS = {"token": "a token", "api_key": "an api key", "client_secret": "a client's secret"}


def lines(configuration: Configuration, now: datetime) -> Iterator[tuple[str, str]]:
    """A few labelled texts on each job, and on what concerns all of them; others have no label."""
    count = len(configuration.jobs)
    jobs = "1 job" if count == 1 else f"{count} jobs"
    yield "", f"{configuration.path}: {jobs}, no mistakes"
    for job in configuration.jobs:
        yield "", ""
        off = "" if job.enabled else ", off"
        yield "", f"{job.name} (line {job.line}{off}): {job.mode}, {_MODES[job.mode]}"
        yield from ((label, text) for label, text in _job(job, now) if text)
    yield "", ""
    yield from ((label, text) for label, text in _rest(configuration) if text)


def _job(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    yield _source(job)
    secrets = [words for name, words in _SECRETS.items() if getattr(job, name)]
    means = f" with {' and '.join(secrets)}" if secrets else ""
    yield "store", f"{job.url}{means}" + ("" if job.profile == "standard" else f" ({job.profile})")
    scopes = (("status", job.statuses), ("tagged", job.tags))
    yield (
        "pets",
        "; ".join(f"{word} {', '.join(names)}" for word, names in scopes if names) or "all",
    )
    yield "deletions", "travel too" if job.delete_missing else "stay where they are"
    yield "conflicts", _CONFLICTS[job.on_conflict] if job.mode == "two-way" else ""
    yield "guard", _guard(job.guard) if job.mode != "check" else ""
    yield "when", _when(job, now)


def _source(job: Job) -> tuple[str, str]:
    tab = f", tab {job.tab}" if job.tab else ""
    tab += f", {job.encoding}" if job.encoding else ""
    if job.folder is not None:
        return "folder", f"{job.folder}, each {job.files}{tab}"
    return ("sheet", f"{job.sheet}{tab}") if job.sheet is not None else ("query", _short(job.query))


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _guard(guard: Guard) -> str:
    most = f"at most {guard.max_delete} deleted, {guard.max_update} changed"
    added = f", {guard.max_add} added" if guard.max_add is not None else ""
    empty = "; an empty sheet may pass" if guard.allow_empty else ""
    ids = ", ".join(map(str, guard.sentinels))
    return f"{most}{added}{empty}" + (f"; only while {ids} are there" if ids else "")


def _when(job: Job, now: datetime) -> str:
    due = next_due(job.schedule, now)
    return f"{job.schedule}, next {due:%Y-%m-%d %H:%M}" if due else "whenever it is started"


def _rest(configuration: Configuration) -> Iterator[tuple[str, str]]:
    yield "state", str(configuration.state)
    told, count = configuration.notify, len(configuration.notify.urls)
    where = "1 address" if count == 1 else f"{count} addresses"
    digest = f", from {told.digest:%H:%M}" if "digest" in told.on else ""
    yield "notices", f"to {where}: {', '.join(told.on)}{digest}" if count else "to nobody"
    keep = configuration.report.keep
    kept = "all are kept" if keep is None else f"the last {keep} of each job"
    yield "reports", f"{configuration.report.folder}, {kept}"
    log = configuration.log
    yield "log", f"{log.format}, {log.least}" + (f", to {log.file}" if log.file else "")
    metrics = configuration.metrics
    yield "metrics", " and ".join(filter(None, [str(metrics.textfile or ""), metrics.listen]))
    yield "tracing", "on" if configuration.tracing else ""


def as_data(configuration: Configuration) -> dict[str, Any]:
    """The same for machines; of a secret it says only whether there is one."""
    metrics = configuration.metrics
    return {
        "file": str(configuration.path),
        "state": str(configuration.state),
        "jobs": [_job_data(job) for job in configuration.jobs],
        "notify": {
            "addresses": len(configuration.notify.urls),
            "on": list(configuration.notify.on),
            "digest": f"{configuration.notify.digest:%H:%M}",
            "remind": configuration.notify.remind,
        },
        "report": {
            "folder": str(configuration.report.folder),
            "keep": configuration.report.keep,
        },
        "log": {
            "format": configuration.log.format,
            "level": configuration.log.least,
            "file": _path(configuration.log.file),
        },
        "metrics": {"textfile": _path(metrics.textfile), "listen": metrics.listen or None},
        "tracing": configuration.tracing,
    }


def _job_data(job: Job) -> dict[str, Any]:
    guard = job.guard
    return {
        "name": job.name,
        "line": job.line,
        "mode": job.mode,
        "enabled": job.enabled,
        "sheet": _path(job.sheet),
        "tab": job.tab,
        "encoding": job.encoding,
        "folder": _path(job.folder),
        "files": job.files if job.folder else None,
        "query": job.query or None,
        "url": job.url,
        "profile": job.profile,
        "secrets": [name for name in (*_SECRETS, "database") if getattr(job, name)],
        "statuses": list(job.statuses),
        "tags": list(job.tags),
        "columns": dict(job.columns),
        "delete_missing": job.delete_missing,
        "match_on": list(job.match_on),
        "on_conflict": job.on_conflict,
        "strict": job.strict,
        "guard": {
            "max_delete": str(guard.max_delete),
            "max_update": str(guard.max_update),
            "max_add": None if guard.max_add is None else str(guard.max_add),
            "allow_empty": guard.allow_empty,
            "sentinels": list(guard.sentinels),
        },
        "concurrency": job.concurrency,
        "rate": job.rate,
        "verify": job.verify,
        "max_failures": job.max_failures,
        "schedule": job.schedule or None,
    }


def _path(path: object) -> str | None:
    return None if path is None else str(path)
