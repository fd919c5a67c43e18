"""Rounds: every job of a configuration, one after the other; none keeps the others from running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from difflib import get_close_matches

from petsync.diff.agreed import named_ids
from petsync.diff.round_report import RoundReport
from petsync.diff.rounds import Rounds
from petsync.errors import SettingsError, SheetError
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.connection import connected
from petsync.reconcile.course import Course, Pass
from petsync.reconcile.footing import remember_backups
from petsync.reconcile.lock import locked, turn
from petsync.reconcile.look import Looker
from petsync.reconcile.sources import Source, check_apart, sources_of
from petsync.reconcile.telling import Telling
from petsync.reconcile.watcher import Watcher
from petsync.reconcile.work import work
from petsync.store import Store
from petsync.table.sheet import Sheet

__all__ = ["reconciled"]


def reconciled(
    config: Configuration,
    *,
    job: str = "",
    dry_run: bool = False,
    moved: bool = False,
    watchers: Iterable[Watcher] = (),
) -> Rounds:
    """The rounds of all enabled jobs, or of the one that is named, enabled or not.

    With `moved` a base of another address is this store's. What goes wrong in a round is in its
    report; a person's interrupt ends it and what would have followed. Raises SettingsError where
    there is no such job.
    """
    owner = Pass(config=config, telling=Telling(watchers), dry_run=dry_run, moved=moved)
    told: list[RoundReport] = []
    for each in _chosen(config, job):
        for course in _rounds(owner, each):
            told.append(course.close())
            if course.is_ended:
                return Rounds(told)
    return Rounds(told)


def _chosen(config: Configuration, name: str) -> list[Job]:
    if not name:
        return [job for job in config.jobs if job.enabled]
    chosen = [job for job in config.jobs if job.name == name]
    if chosen:
        return chosen
    names = [job.name for job in config.jobs]
    near = get_close_matches(name, names, 1)
    raise SettingsError(
        f"{config.path} has no job {name!r}",
        hint=f"Did you mean {near[0]}?" if near else f"Its jobs are: {', '.join(names) or 'none'}.",
    )


def _rounds(owner: Pass, job: Job) -> Iterator[Course]:
    """The job's rounds, each when it is over: one for each sheet, or the one in which it failed."""
    course = Course.begun(owner, job)
    with ExitStack() as held:
        ready: list[Looker] = []
        with course.guarded():
            ready = _prepared(owner, job, held)
        if not ready:
            yield course
            return
        for looker in ready:
            yield _one(owner, job, looker)


def _prepared(owner: Pass, job: Job, held: ExitStack) -> list[Looker]:
    """The job's lock and its store, held until the end, and a look for each of its sheets."""
    if not owner.dry_run:
        held.enter_context(locked(owner.kept, job.name))
    store = held.enter_context(connected(job, owner.config.state))
    sources = sources_of(job)
    if job.mode in ("push", "two-way") and not owner.dry_run:
        held.enter_context(turn(owner.kept, store.url))
    return [*_lookers(owner, job, store, sources)]


def _lookers(owner: Pass, job: Job, store: Store, sources: Iterable[Source]) -> Iterator[Looker]:
    sources = tuple(sources)
    if job.folder is None:
        yield from (Looker(job, source, store) for source in sources)
        return
    read: dict[str, Sheet] = {source.part: source.read(store) for source in sources}
    try:
        check_apart(read)
    except SheetError:
        if job.mode != "check" and not owner.dry_run:
            remember_backups(owner.kept, job.name, read)
        raise
    ids = {part: named_ids(sheet) for part, sheet in read.items()}
    for number, source in enumerate(sources):
        others = (named for part, named in ids.items() if part != source.part)
        elsewhere = frozenset[int]().union(*others)
        yield Looker(job, source, store, elsewhere, is_first=not number)


def _one(owner: Pass, job: Job, looker: Looker) -> Course:
    """A round, over."""
    course = Course.begun(owner, job, part=looker.source.part, source=looker.source.name)
    course.note(store=looker.store.url)
    owner.telling.began(course.told)
    with course.guarded():
        work(course, looker)
    return course
