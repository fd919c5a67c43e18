"""Notify people about rounds: what to send, to whom, and what waits to be sent."""

from __future__ import annotations

import datetime as dt
import logging
import re
import shlex
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2s
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout

from petsync._files import check_state_folder, make_private_folder, write_atomically
from petsync._json import decoder_of
from petsync.config.model import Configuration, Event, Job
from petsync.config.schedule import is_overdue, next_due
from petsync.config.templates import DEFAULTS, NAMES, fill, mistakes_in
from petsync.errors import PetsyncError
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Counts, Difference, Round, exit_code_of
from petsync.reconcile.send import deliver_by_apprise as by_apprise
from petsync.reconcile.state import StatePaths
from petsync.redact import Redactor
from petsync.report.words import count, duration, shorten
from petsync.settings import Secret
from petsync.table.cells import make_visible

__all__ = [
    "NAMES",
    "Deliver",
    "DigestTally",
    "JobHealth",
    "Memory",
    "Notice",
    "Notifier",
    "PendingNotice",
    "as_plain_line",
    "decide",
    "digest_lines",
    "enqueue",
    "find_due_day",
    "is_new",
    "mark_of",
    "mistakes_in",
    "note_digest",
    "open_memory",
    "open_of",
    "origins",
    "send_pending",
    "values_of",
]


# The state of the notices, kept in the state folder between rounds.


log = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 180.0
"""Seconds to wait for another process that is sending notices."""


class DigestTally(msgspec.Struct):
    """The numbers of a job's rounds and changes since the last digest."""

    rounds: int = 0
    well: int = 0
    applied: int = 0
    failed: int = 0


_STORED_NAMES = {
    "failing_notified": "failing_told",
    "waiting_notified": "waiting_told",
    "locked_notified": "locked_told",
    "awaits_recovery": "owed",
    "problem_since": "owed_since",
}


class JobHealth(msgspec.Struct, rename=_STORED_NAMES):
    """The health of a job, or of one file if the job has a folder. Times are seconds since the
    epoch.

    Some fields have other names in notify.json.
    """

    job: str
    status: str = ""
    exit_code: int = 0
    started: str = ""
    failing: str = ""
    """A digest of the reason of the current failure, "" if the last round did not fail."""
    failing_since: float = 0.0
    failing_notified: float = 0.0
    """When the last notice about this failure was made."""
    is_violated: bool = False
    """True if the last comparison found differences that need a decision."""
    open: tuple[str, ...] = ()
    """Digests of the differences that were open at the last comparison."""
    open_count: int = 0
    waiting: str = ""
    """A digest of the plan that waits for approval, "" if none waits."""
    waiting_since: float = 0.0
    waiting_notified: float = 0.0
    locked_since: float = 0.0
    locked_notified: float = 0.0
    awaits_recovery: bool = False
    """True if a problem was reported, and its recovery was not reported yet."""
    problem_since: float = 0.0
    tally: DigestTally = msgspec.field(default_factory=DigestTally)


class PendingNotice(msgspec.Struct):
    """A notice that is still to be sent, to the addresses whose digests (`mark_of`) are in `to`."""

    event: Event
    title: str
    body: str
    made: float
    to: tuple[str, ...]
    tries: int = 0


class Memory(msgspec.Struct):
    """The whole content of notify.json."""

    version: int = 1
    health_by_sheet: dict[str, JobHealth] = msgspec.field(default_factory=dict, name="standings")
    digests: tuple[str, ...] = ()
    """The last days that had a digest, as ISO dates."""
    digested: float = 0.0
    """When the last digest was made, in seconds since the epoch."""
    outbox: tuple[PendingNotice, ...] = ()

    def limit_times(self, now: float) -> None:
        """Replace each stored time that is later than `now` with `now`.

        If the clock was set back, a time in the future must not suppress a notice.
        """
        self.digested = min(self.digested, now)
        for pending in self.outbox:
            pending.made = min(pending.made, now)
        for health in self.health_by_sheet.values():
            for name in health.__struct_fields__:
                if name.endswith(("_since", "_notified")):
                    setattr(health, name, min(getattr(health, name), now))


@contextmanager
def open_memory(state: Path, now: datetime) -> Iterator[tuple[Memory, Path]]:
    """Lock the memory against other processes, and yield it with the file to save it in.

    Raises OSError, and filelock.Timeout if another process holds the lock.
    """
    folder = StatePaths(state).join()
    check_state_folder(state)
    make_private_folder(folder)
    path = folder / "notify.json"
    with FileLock(folder / "notify.lock", timeout=_LOCK_TIMEOUT_S, mode=0o600):
        memory = _read_memory(path)
        memory.limit_times(now.timestamp())
        yield memory, path


def save(memory: Memory, path: Path) -> None:
    """Write the memory atomically. Raises OSError if it cannot be written."""
    write_atomically(path, msgspec.json.encode(memory), follow=False, private=True)


def _read_memory(path: Path) -> Memory:
    """Return the saved memory, empty if there is none.

    A damaged file is renamed, and the memory starts empty.
    """
    try:
        return decoder_of(Memory).decode(path.read_bytes())
    except FileNotFoundError:
        return Memory()
    except msgspec.DecodeError:
        aside = path.with_suffix(".damaged")
        try:
            path.replace(aside)
            place = f"was moved to {aside}"
        except OSError as error:
            place = f"cannot be moved: {error.strerror}"
        log.warning("%s is damaged, and %s; notices may be sent again", path, place)
        return Memory()


# Decide which notices are due, from the rounds, the memory and the time.
#
# Nothing here reads a clock or sends anything.


_FAILED = ("error", "failed-rows", "interrupted", "refused")
_TO_DECIDE = ("conflict", "finding", "drift")
_DIGITS = re.compile(r"\b(?![45]\d\d\b)\d+")
"""Numbers that change from round to round, but not HTTP statuses such as 404 and 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice about a round."""

    event: Event
    name: str
    """The job, with the file if the job has a folder."""
    report: RoundReport
    also: tuple[str, ...] = ()
    """Names of other files of the job that have the same problem."""
    others: tuple[RoundReport, ...] = ()
    """The reports of the files in `also`."""
    since: float = 0.0
    """When the problem began, in seconds since the epoch; 0 if it began with this round."""
    new: frozenset[str] = frozenset()
    """Digests of the differences that were not open at the previous comparison."""
    reason: str = ""


def decide(
    memory: Memory, rounds: Sequence[RoundReport], now: float, remind: float
) -> tuple[Notice, ...]:
    """Return the notices that these rounds need; update `memory` in place."""
    real = [report for report in rounds if not report.round.dry_run]
    notices: list[Notice] = []
    for report in real:
        health = memory.health_by_sheet.setdefault(report.round.name, JobHealth(report.round.job))
        _count(health, report.round)
        notices += _notice_lock(health, report, now, remind)
        if report.round.status != "locked":
            notices += _notices_of(health, report, now, remind)
    return tuple(_merge([*notices, *_notice_missing(memory, real)]))


def open_of(report: RoundReport) -> tuple[Difference, ...]:
    """Return the differences of a round that need a decision."""
    return tuple(each for each in report.open if each.kind in _TO_DECIDE)


def is_new(each: Difference, new: frozenset[str]) -> bool:
    """Return true if `new` has the digest of this difference."""
    return _key(each) in new


def _notices_of(
    health: JobHealth, report: RoundReport, now: float, remind: float
) -> Iterator[Notice]:
    was_failing = bool(health.failing)
    failures = [*_failure(health, report, now, remind)]
    violations = [*_violation(health, report, after_failure=was_failing)]
    # A failure notice also lists the open differences.
    notices = [replace(failures[0], new=violations[0].new)] if failures and violations else failures
    yield from notices or violations
    waits = [*_waiting_notices(health, report.round, report, now, remind)]
    yield from waits
    if notices or violations or waits:
        health.problem_since = health.problem_since if health.awaits_recovery else now
        health.awaits_recovery = True
    elif report.round.is_well and health.awaits_recovery:
        health.awaits_recovery = False
        yield _notice("recovery", report, since=health.problem_since)


def _count(health: JobHealth, round_: Round) -> None:
    health.status, health.exit_code = round_.status, round_.exit_code
    health.started = round_.started
    tally = health.tally
    tally.rounds += 1
    tally.well += round_.is_well
    tally.applied += round_.applied
    tally.failed += round_.failed


def _notice_lock(
    health: JobHealth, report: RoundReport, now: float, remind: float
) -> Iterator[Notice]:
    """Yield a failure notice if the job was locked for longer than `remind` seconds.

    A shorter lock only means that another process is at work.
    """
    if report.round.status != "locked":
        health.locked_since = health.locked_notified = 0.0
    elif not health.locked_since:
        health.locked_since = health.locked_notified = now
    elif now - health.locked_notified >= remind:
        health.locked_notified = now
        health.problem_since = (
            health.problem_since if health.awaits_recovery else health.locked_since
        )
        health.awaits_recovery = True
        yield _notice("failure", report, since=health.locked_since, reason="locked")


def _is_failing(round_: Round) -> bool:
    return round_.status in _FAILED or round_.failed > 0 or round_.exit_code in (1, 7, 64)


def _has_compared(round_: Round) -> bool:
    """Return true if the round compared the sheet with the store."""
    return round_.status not in ("error", "interrupted", "refused")


def _failure(health: JobHealth, report: RoundReport, now: float, remind: float) -> Iterator[Notice]:
    if not _is_failing(report.round):
        health.failing = ""
        return
    reason = _reason(report.round)
    is_new_one = reason != health.failing
    if not health.failing:
        health.failing_since = now
    if is_new_one or now - health.failing_notified >= remind:
        since = 0.0 if health.failing_since == now else health.failing_since
        health.failing, health.failing_notified = reason, now
        yield _notice("failure", report, since=since, reason=reason)


def _violation(health: JobHealth, report: RoundReport, *, after_failure: bool) -> Iterator[Notice]:
    if not _has_compared(report.round):
        return
    keys = {_key(each) for each in open_of(report)}
    count = max(
        len(keys), report.round.conflicts + report.round.findings + report.round.unexplained
    )
    new = keys.difference(health.open)
    has_grown = bool(new) or count > health.open_count
    is_first = not health.is_violated or (after_failure and not _is_failing(report.round))
    health.open, health.open_count = tuple(sorted(keys)), count
    health.is_violated = count > 0
    if count and (has_grown or is_first):
        yield _notice("violation", report, new=frozenset(new))


def _waiting_notices(
    health: JobHealth, round_: Round, report: RoundReport, now: float, remind: float
) -> Iterator[Notice]:
    if round_.status == "waiting":
        plan = _plan(report)
        is_first = plan != health.waiting
        if is_first:
            health.waiting, health.waiting_since = plan, now
        if is_first or now - health.waiting_notified >= remind:
            health.waiting_notified = now
            since = 0.0 if is_first else health.waiting_since
            yield _notice("waiting", report, since=since, reason=round_.name)
    elif _has_compared(round_):
        health.waiting = ""


def _notice_missing(memory: Memory, rounds: Sequence[RoundReport]) -> Iterator[Notice]:
    """Remove the health of files that are no longer in the folder of their job.

    Yields a recovery notice for a removed file with an unresolved problem, once no other file of
    the job has a problem.
    """
    for job, each in groupby(rounds, key=lambda report: report.round.job):
        of_job = list(each)
        present = {report.round.name for report in of_job}
        are_well = all(report.round.is_well for report in of_job)
        if job in present and not are_well:
            continue  # the round ended before it read its files
        absent = {
            n: s for n, s in memory.health_by_sheet.items() if s.job == job and n not in present
        }
        for name, health in absent.items():
            if are_well or not health.awaits_recovery:
                del memory.health_by_sheet[name]
            if are_well and health.awaits_recovery:
                notice = _notice("recovery", of_job[0], since=health.problem_since)
                yield replace(notice, name=name)


def _merge(notices: Iterable[Notice]) -> Iterator[Notice]:
    """Merge notices with the same event, job and reason into one; the notice is about the file with
    the most urgent exit code, and lists the others.
    """
    found: dict[tuple[str, str, str], list[Notice]] = {}
    for each in notices:
        found.setdefault((each.event, each.report.round.job, each.reason), []).append(each)
    for group in found.values():
        worst = exit_code_of(each.report.round.exit_code for each in group)
        first, *rest = sorted(group, key=lambda each: each.report.round.exit_code != worst)
        yield replace(
            first,
            also=tuple(each.name for each in rest),
            others=tuple(each.report for each in rest),
            new=first.new.union(*(each.new for each in rest)),
            since=min((each.since for each in (first, *rest) if each.since), default=0.0),
        )


def _notice(
    event: Event,
    report: RoundReport,
    *,
    since: float = 0.0,
    new: frozenset[str] = frozenset(),
    reason: str = "",
) -> Notice:
    return Notice(
        event=event, name=report.round.name, report=report, since=since, new=new, reason=reason
    )


def _reason(round_: Round) -> str:
    return _digest(f"{round_.status} {round_.exit_code} {_DIGITS.sub('#', round_.problem)}")


def _plan(report: RoundReport) -> str:
    """Return a digest that identifies the waiting plan; a later plan may have the same file."""
    parts = sorted(_key(each) + each.problem for each in report.open if each.kind == "waiting")
    return _digest("\n".join((report.round.waiting, *parts)))


def _key(each: Difference) -> str:
    """Return a digest that identifies a difference, even if its row has moved."""
    who = str(each.pet_id) if each.pet_id is not None else each.name or each.problem
    return _digest("\n".join((each.kind, who, *each.fields)))


def _digest(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# External text in a notice: one line that no receiver renders as markup.


_WIDEST = 300
_LIKE = str.maketrans("<>*|_`", "‹›∗¦‗'")
_MARKUP = re.compile(
    r"(?P<like>[<>*|`]|(?<![^\W_])_|_(?![^\W_]))"  # HTML, mentions, emphasis; not name_with_words
    r"|\](?=[(\[:])|~(?=~)"  # a link, strikethrough
    r"|(?<![^\W_])@(?=\w)"  # @everyone; an underscore before it is replaced
    r"|(?P<address>\b[A-Za-z][A-Za-z0-9+.-]*)?:(?=//)"  # an address that would become a link
    r"|(?P<start>^[#>+-])"  # a heading, a quotation, a list
)
_ENDS = re.compile(r"[/?#'\",;)\s]|[.:]?(?:\s|$)")
"""What may follow the host of a URL."""


def origins(urls: Collection[str]) -> tuple[str, ...]:
    """Return scheme, host and port of each service URL, without duplicates.

    In a notice, URLs on these hosts stay intact and can be copied.
    """
    split = (urlsplit(url) for url in urls)
    return tuple(dict.fromkeys(f"{u.scheme}://{u.netloc}" for u in split if u.netloc))


def as_plain_line(text: str, width: int = _WIDEST, *, known: Collection[str] = ()) -> str:
    """Return the text as one line that no chat or mail program renders as markup.

    The line is at most about `width` terminal cells wide. A control or invisible character becomes
    a name such as `[NUL]`. Markup is broken by a space or replaced by a similar character. URLs of
    the `known` origins stay intact.
    """

    def break_word(found: re.Match[str]) -> str:
        if found["like"]:
            return found[0].translate(_LIKE)
        if found["start"]:
            return f"· {found[0]}"
        return found[0] if found["address"] and _is_known(found, known) else f"{found[0]} "

    return _MARKUP.sub(break_word, shorten(make_visible(text), width))


def _is_known(found: re.Match[str], known: Collection[str]) -> bool:
    rest = found.string[found.start() :]
    return any(rest.startswith(one) and _ENDS.match(rest, len(one)) for one in known)


# The digest: once a day, one line for each job, even if no job has a problem.


_DAYS = 7
_JUMP = timedelta(days=2)


def find_due_day(memory: Memory, at: dt.time, now: datetime) -> str:
    """Return the local day whose digest is due now, "" if none is.

    A day has one digest, even if the clock is set back. If all recorded days are more than two days
    ahead, they do not count: the clock was wrong then.
    """
    local = now.astimezone()
    day = local.date() if local.time() >= at else local.date() - timedelta(days=1)
    days = [date.fromisoformat(each) for each in memory.digests]
    if not days:
        return day.isoformat() if day == local.date() else ""
    is_due = day not in days and (day > min(days) or min(days) - day > _JUMP)
    return day.isoformat() if is_due else ""


def note_digest(memory: Memory, day: str, now: datetime) -> None:
    """Record that this day has its digest, and reset the tallies."""
    memory.digests = (*memory.digests, day)[-_DAYS:]
    memory.digested = now.timestamp()
    for health in memory.health_by_sheet.values():
        health.tally = DigestTally()


def digest_lines(memory: Memory, config: Configuration, now: datetime) -> tuple[str, ...]:
    """Return a line for each enabled job, and for each job that is no longer configured and has an
    unresolved problem.
    """
    known = {job.name for job in config.jobs}
    others = [
        s for n, s in memory.health_by_sheet.items() if s.job not in known and s.awaits_recovery
    ]
    lines = [_line(job, _health_of(memory, job.name), now) for job in config.jobs if job.enabled]
    lines += [f"{as_plain_line(each.job)}: {each.status}" for each in others]
    return tuple(lines) or ("No job is enabled.",)


def _health_of(memory: Memory, job: str) -> tuple[JobHealth, ...]:
    return tuple(each for each in memory.health_by_sheet.values() if each.job == job)


def _line(job: Job, sheets: Sequence[JobHealth], now: datetime) -> str:
    return "; ".join((f"{job.name}: {_status(sheets)}", *_facts(job, sheets, now)))


def _status(sheets: Sequence[JobHealth]) -> str:
    """Return the status of the last round; for a folder, the status of its most severe file."""
    if not sheets:
        return "no round yet"
    worst = exit_code_of(each.exit_code for each in sheets)
    first = next(each for each in sheets if each.exit_code == worst)
    files = f" ({count(len(sheets), 'sheet')})" if len(sheets) > 1 else ""
    return f"{first.status}{files}"


def _facts(job: Job, sheets: Sequence[JobHealth], now: datetime) -> Iterator[str]:
    if not sheets:
        yield from _time(job, sheets, now)
        return
    tallies = [each.tally for each in sheets]
    rounds, well = (sum(getattr(t, n) for t in tallies) for n in ("rounds", "well"))
    yield f"{count(rounds, 'round')}, {well} successful"
    if applied := sum(each.applied for each in tallies):
        yield count(applied, "change")
    if failed := sum(each.failed for each in tallies):
        yield f"{failed} failed"
    if number := sum(each.open_count for each in sheets):
        yield f"{number} to resolve"
    if waiting := sum(bool(each.waiting) for each in sheets):
        yield f"{count(waiting, 'plan')} waiting"
    yield from _time(job, sheets, now)


def _time(job: Job, sheets: Sequence[JobHealth], now: datetime) -> Iterator[str]:
    if sheets:
        last = max(datetime.fromisoformat(each.started) for each in sheets)
        yield f"last began {last.astimezone():%Y-%m-%d %H:%M}"
        if is_overdue(job.schedule, last, now):
            yield f"overdue (schedule: {job.schedule})"
            return
    due = next_due(job.schedule, now)
    if due is not None:
        yield f"next due {due:%Y-%m-%d %H:%M}"


# The outbox: notices that could not be sent are retried for a week. At most a hundred wait.


Deliver = Callable[[Secret, Event, str, str, float], str]
_MAX_WAITING = 100
_WEEK = 7 * 86_400.0
_EACH, _ALL = 15.0, 60.0
"""The time limits in seconds: for one notice to one address, and for all notices of a pass."""


def mark_of(address: Secret) -> str:
    """Return a short digest that distinguishes the addresses of one configuration.

    It is too short to reveal an address.
    """
    text = address.reveal().encode("utf-8", "surrogatepass")
    return blake2s(text, digest_size=2).hexdigest()


def enqueue(memory: Memory, pending: Sequence[PendingNotice]) -> tuple[str, ...]:
    """Add notices to the outbox. Return a message for each old notice that is dropped."""
    every = (*memory.outbox, *pending)
    memory.outbox = every[-_MAX_WAITING:]
    return tuple(_drop(each, "too many notices are waiting") for each in every[:-_MAX_WAITING])


def send_pending(
    memory: Memory, addresses: Sequence[Secret], now: datetime, deliver: Deliver
) -> Iterator[str]:
    """Send the notices of the outbox, the oldest first; yield a message for each that could not be
    sent to all its addresses.

    After an address fails, this pass does not use it again.
    """
    until = time.monotonic() + _ALL
    by_mark = {mark_of(address): address for address in addresses}
    failed: dict[str, str] = {}
    rest = []
    for pending in memory.outbox:
        _try(pending, by_mark, failed, now, until, deliver)
        if not pending.to:
            continue
        if now.timestamp() - pending.made > _WEEK:
            yield _drop(pending, "it could not be sent for a week")
            continue
        rest.append(pending)
        yield _not_sent(pending, list(by_mark), failed)
    memory.outbox = tuple(rest)


def _try(
    pending: PendingNotice,
    by_mark: Mapping[str, Secret],
    failed: dict[str, str],
    now: datetime,
    until: float,
    deliver: Deliver,
) -> None:
    """Send one notice to those of its addresses that are still in the configuration."""
    pending.to = tuple(mark for mark in pending.to if mark in by_mark)
    body = pending.body if not pending.tries else f"{pending.body}\n{_describe_delay(pending, now)}"
    pending.tries += 1
    for mark in pending.to:
        if mark in failed:
            continue
        seconds = min(_EACH, until - time.monotonic())
        why = "no time was left" if seconds <= 0 else ""
        why = why or deliver(by_mark[mark], pending.event, pending.title, body, seconds)
        if why:
            failed[mark] = why
        else:
            pending.to = tuple(each for each in pending.to if each != mark)


def _describe_delay(pending: PendingNotice, now: datetime) -> str:
    created = datetime.fromtimestamp(pending.made, UTC).astimezone(now.tzinfo)
    return f"(This is from {created:%Y-%m-%d %H:%M %z}; it could not be sent then.)"


def _not_sent(pending: PendingNotice, marks: Sequence[str], failed: Mapping[str, str]) -> str:
    whys = (f"address {marks.index(m) + 1}: {failed.get(m, 'not tried')}" for m in pending.to)
    message = (
        f"the notice {pending.title!r} could not be sent ({'; '.join(whys)}); "
        "petsync tries again after the next round"
    )
    log.warning("%s", message)
    return message


def _drop(pending: PendingNotice, why: str) -> str:
    message = f"the notice {pending.title!r} is dropped: {why}"
    log.error("%s", message)
    return message


# The values of a template's names: texts about a round, without secrets.


_MAX_LINES, _NAME, _PROBLEM = 12, 60, 300
Safe = Callable[..., str]
_EXACT = re.compile(r"[^<>\[\]`*|\n\r]*")


def values_of(
    notice: Notice, config: Configuration, clean: Callable[[str], str]
) -> Mapping[str, str]:
    """Return a text for each name in NAMES. `clean` removes secrets before texts are cut or
    escaped.
    """
    round_ = notice.report.round
    job = next((each for each in config.jobs if each.name == round_.job), None)

    known = origins((round_.store, *(each.url for each in config.jobs)))

    def safe(text: str, width: int = _PROBLEM) -> str:
        return as_plain_line(clean(text), width, known=known)

    return {
        **dict.fromkeys(NAMES, ""),
        **_numbers(notice),
        "event": notice.event,
        "job": safe(notice.name),
        "also": safe(_format_first(notice.also)),
        "status": round_.status,
        "problem": safe(round_.problem),
        "hint": safe(round_.hint),
        "mode": round_.mode,
        "store": safe(round_.store),
        "source": safe(round_.source),
        "host": safe(socket.gethostname()),
        "round": safe(round_.id),
        "started": _format_local(datetime.fromisoformat(round_.started)),
        "seconds": duration(round_.seconds),
        "to_store": _describe_counts(round_.to_store),
        "to_sheet": _describe_counts(round_.to_sheet),
        "open": "\n".join(_open(notice, safe)),
        "waiting": _format_exact(clean(round_.waiting)),
        "command": _format_exact(clean(_command(round_, job, config))),
        "report": _format_exact(clean(round_.report)),
        "since": _format_local(datetime.fromtimestamp(notice.since, UTC)) if notice.since else "",
    }


def _numbers(notice: Notice) -> Mapping[str, str]:
    """Return the counts, summed over all sheets of the notice.

    The exit code and the number of pets are those of the first sheet, whose exit code is the most
    urgent.
    """
    rounds = [report.round for report in (notice.report, *notice.others)]
    names = ("rows", "drift", "applied", "conflicts", "findings", "failed", "notes")
    totals = {name: str(sum(getattr(each, name) for each in rounds)) for name in names}
    totals["left"] = str(sum(each.unexplained for each in rounds))
    return totals | {name: str(getattr(rounds[0], name)) for name in ("exit_code", "pets")}


def _format_local(time: datetime) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S %z}"


def _format_first(names: tuple[str, ...]) -> str:
    rest = len(names) - _MAX_LINES
    return ", ".join(names[:_MAX_LINES]) + (f" and {rest} more" if rest > 0 else "")


def _describe_counts(counts: Counts) -> str:
    parts = [(counts.add, "to add"), (counts.update, "to change"), (counts.delete, "to delete")]
    text = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"{text} ({count(counts.total, 'pet')})" if text else ""


def _open(notice: Notice, safe: Safe) -> Iterator[str]:
    """Yield a line for each open difference, new ones first."""
    every = [
        each for report in (notice.report, *notice.others) for each in _select_open(notice, report)
    ]
    every.sort(key=lambda each: not is_new(each, notice.new))
    for each in every[:_MAX_LINES]:
        yield f"- {_place(each, safe)}: {safe(each.problem)}"
    if len(every) > _MAX_LINES:
        yield f"- and {len(every) - _MAX_LINES} more, which the report lists"


def _select_open(notice: Notice, report: RoundReport) -> tuple[Difference, ...]:
    if notice.event == "failure":
        # The changes of a refused plan are not worth listing.
        passed = ("note", "waiting", "drift" if report.round.status == "refused" else "")
        return tuple(each for each in report.open if each.kind not in passed)
    return open_of(report) if notice.event == "violation" else ()


def _place(each: Difference, safe: Safe) -> str:
    pet = f"pet {each.pet_id}" if each.pet_id is not None else "a row"
    name = f" {safe(each.name, _NAME)}" if each.name else ""
    address = f" ({safe(each.address, _NAME)})" if each.address else ""
    names_fields = each.problem.startswith(tuple(f"{name}:" for name in each.fields))
    fields = f", {', '.join(each.fields)}" if each.fields and not names_fields else ""
    return f"{each.kind}, {pet}{name}{address}{fields}"


def _command(round_: Round, job: Job | None, config: Configuration) -> str:
    """Return the command that applies the waiting plan and works in any folder, "" if none
    waits.
    """
    if not round_.waiting:
        return ""
    url = (job.url if job is not None else "") or round_.store
    return shlex.join(["petsync", "apply", round_.waiting, *config.common_options(job, url)])


def _format_exact(text: str) -> str:
    """Return a path or a command unchanged, unless it has control characters or markup."""
    shown = make_visible(text)
    return shown if _EXACT.fullmatch(shown) and shown == text else as_plain_line(text, 1000)


# Notifier: send the notices after the rounds.


_TITLE, _BODY = 160, 3_500
"""Maximum length in characters; longer texts are cut."""
_STARS = "\ue000"
"""A placeholder for masked secrets; asterisks would be escaped as markup."""


class Notifier:
    """Sends notices as `[notify]` configures, and records in the state folder what it sent."""

    def __init__(self, config: Configuration, *, deliver: Deliver | None = None) -> None:
        self._config, self._notify = config, config.notify
        secrets = (*config.secrets, *config.notify.urls)
        self._clean, self._marked = Redactor(secrets), Redactor(secrets, stars=_STARS)
        self._deliver = deliver or by_apprise

    def notify(self, rounds: Sequence[RoundReport], now: datetime) -> tuple[str, ...]:
        """Decide which notices these latest rounds need, and send them. `now` has a time zone.

        Returns a sentence for each notice that could not be sent. Raises nothing, not even if it is
        interrupted: a failed notice must not change the result of a round.
        """
        real = [report for report in rounds if not report.round.dry_run]
        if not self._notify.urls or not real:
            return ()
        try:
            return self._notify_rounds(real, now)
        except KeyboardInterrupt:
            message = "petsync was stopped while it sent notices; a later round sends the rest"
            log.warning("%s", message)
            return (message,)
        except Timeout:
            why = "another process has been sending notices for minutes"
        except (OSError, PetsyncError) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - an unexpected error must not change a round
            why = f"{type(error).__name__} while they were prepared"
        message = self._clean(f"no notices were sent for these rounds: {why}")
        log.error("%s", message)
        return (message,)

    def _notify_rounds(self, rounds: Sequence[RoundReport], now: datetime) -> tuple[str, ...]:
        with open_memory(self._config.state, now) as (memory, path):
            notices = decide(memory, rounds, now.timestamp(), self._notify.remind)
            pending = [self._pending(notice, now) for notice in notices if self._wants(notice)]
            given_up = enqueue(memory, [*pending, *self._digest(memory, rounds[-1], now)])
            # Save before sending: a notice that is sent twice is better than a lost one.
            save(memory, path)
            if not memory.outbox:
                return given_up
            failed = send_pending(memory, self._notify.urls, now, self._deliver)
            messages = (*given_up, *failed)
            save(memory, path)
        return messages

    def _wants(self, notice: Notice) -> bool:
        return notice.event in self._notify.on

    def _digest(
        self, memory: Memory, last: RoundReport, now: datetime
    ) -> tuple[PendingNotice, ...]:
        day = find_due_day(memory, self._notify.digest, now)
        if "digest" not in self._notify.on or not day:
            return ()
        lines = digest_lines(memory, self._config, now)
        note_digest(memory, day, now)
        notice = Notice(event="digest", name=last.round.job, report=last)
        return (self._pending(notice, now, "\n".join(lines)),)

    def _pending(self, notice: Notice, now: datetime, lines: str = "") -> PendingNotice:
        title, body = self._notify.templates.get(notice.event) or DEFAULTS[notice.event]
        default_title, default_body = DEFAULTS[notice.event]
        values = {**values_of(notice, self._config, self._marked), "lines": lines}
        return PendingNotice(
            event=notice.event,
            title=self._finish(fill(title or default_title, values), _TITLE, keep=""),
            body=self._finish(fill(body or default_body, values), _BODY, keep="\n"),
            made=now.timestamp(),
            to=tuple(dict.fromkeys(mark_of(address) for address in self._notify.urls)),
        )

    def _finish(self, text: str, most: int, *, keep: str) -> str:
        """Return the text without secrets and control characters, cut to `most` characters."""
        shown = make_visible(self._clean(text.strip()), keep=keep).replace(_STARS, "***")
        return shown if len(shown) <= most else f"{shown[: most - 6]} (cut)"
