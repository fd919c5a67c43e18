"""Run jobs when they are due, in this process."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2s
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

from petsync.config.model import Configuration, Job
from petsync.config.schedule import last_due, next_due
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Round
from petsync.reconcile.notify import Notifier
from petsync.reconcile.observe import Endpoint, logging_to
from petsync.reconcile.state import History, StatePaths
from petsync.settings import HiddenEnvironment

__all__ = [
    "Daemon",
    "DueJobs",
    "LiveConfiguration",
    "Load",
    "every",
    "parse_interval",
    "send_error",
]


# DueJobs: which jobs are due now, and when others will be due.


class DueJobs:
    """Finds the jobs that are due, from each job's last run in this process or in the history."""

    def __init__(self, state: Path) -> None:
        self.began = datetime.now(UTC)
        self._history = History(state)
        self._last: dict[str, datetime] = {}

    def is_due(self, job: Job, *, all_of: bool) -> bool:
        """Return true if the job is due; a job without a schedule is due only in a full pass
        (`all_of`).
        """
        if not job.schedule:
            return all_of
        now = datetime.now(UTC)
        # A last run in the future means that the clock was set back.
        last = self._last[job.name] = min(
            self._last.get(job.name) or self._find_last_start(job), now
        )
        due = last_due(job.schedule, now)
        return due is not None and due > last

    def note_start(self, job: Job) -> None:
        """Record that the job runs now."""
        self._last[job.name] = datetime.now(UTC)

    def iter_pauses(self, jobs: Iterable[Job]) -> Iterator[float]:
        """Yield the seconds until the next scheduled start of each enabled job with a schedule."""
        now = datetime.now(UTC)
        for job in jobs:
            due = next_due(job.schedule, now) if job.enabled else None
            if due is not None:
                yield (due - now).total_seconds()

    def _find_last_start(self, job: Job) -> datetime:
        """Return when the job last ran before this process; if never, when this process started."""
        rounds = self._history.rounds(job.name)
        starts = (datetime.fromisoformat(each.started) for each in rounds if not each.dry_run)
        return max(starts, default=self.began)


# LiveConfiguration: the last valid content of the configuration file.


log = logging.getLogger(__name__)

Load = Callable[[Path, Mapping[str, str]], Configuration]
"""The type of `petsync.config.load.load`."""


@dataclass(slots=True)
class LiveConfiguration:
    """The active configuration, reloaded when its file changes."""

    config: Configuration
    """The last valid configuration."""
    environ: Mapping[str, str]
    load: Load
    is_valid: bool = True
    """False while the current file is invalid."""
    _seen: bytes = field(init=False)
    _listens: str = field(init=False)

    def __post_init__(self) -> None:
        self._listens = self.config.metrics.listen
        self._seen = _content(self.config.path)

    def reload(self) -> None:
        """Read the file again if it has changed.

        An invalid file is reported; the last valid configuration stays active.
        """
        content = _content(self.config.path)
        if content == self._seen:
            return
        self._seen = content
        try:
            self._takes(self.load(self.config.path, self.environ))
        except (PetsyncError, OSError) as error:
            self.is_valid = False
            with logging_to(self.config):
                log.error("the previous configuration stays in use: %s", error)
            send_error(self.config, self.config.path.name, error)

    def _takes(self, changed: Configuration) -> None:
        with logging_to(changed):
            log.info("%s was read again", changed.path)
            if changed.metrics.listen != self._listens:
                log.warning(
                    "the new [metrics] listen takes effect after a restart; until then the old one "
                    "is used"
                )
        if not self.is_valid:
            _notify(changed, _round(changed.path.name))
        self.is_valid, self.config = True, changed


def send_error(config: Configuration, name: str, error: Exception) -> None:
    """Send a notice about an error that no round reports, as if a round had failed."""
    facts = {"problem": type(error).__name__, "hint": "The log has details.", "exit_code": 1}
    if isinstance(error, PetsyncError):
        facts = {"problem": error.problem, "hint": error.cure, "exit_code": error.exit_code}
    _notify(config, _round(name, status="error", **facts))


def _notify(config: Configuration, round_: Round) -> None:
    Notifier(config).notify((RoundReport(round=round_),), datetime.now(UTC))


def _round(job: str, **facts: Any) -> Round:
    now = datetime.now(UTC)
    return Round(id=f"{now:%Y%m%d-%H%M%S-%f}-every", job=job, started=now.isoformat(), **facts)


def _content(path: Path) -> bytes:
    """Return a digest of the file, b"" if it cannot be read."""
    try:
        return blake2s(path.read_bytes()).digest()
    except OSError:
        return b""


# `petsync reconcile --every`: run due jobs one after another, until it is stopped.


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_INTERRUPTED = 7
_LONGEST_WAIT_S = 60.0
"""The seconds until the time is read again: the clock may be set, or the machine may sleep."""


def parse_interval(text: str) -> float:
    """Return a duration such as `90s`, `15m`, `2h` or `1d` in seconds. Raises SettingsError if the
    text is not a duration of at least one second.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds < 1:
        raise SettingsError(
            f"--every is {text!r}, but must be a duration of at least one second",
            hint="For example: 90s, 15m, 2h or 1d.",
        )
    return seconds


class RunFunction(Protocol):
    """The part of the signature of `petsync.reconcile.run` that the daemon uses."""

    def __call__(self, config: Configuration, *, job: str) -> Sequence[RoundReport]:
        """Reconcile one job."""


def every(
    config: Configuration | Path | str,
    seconds: float,
    *,
    stop: threading.Event,
    environ: Mapping[str, str] | None = None,
    run: RunFunction | None = None,
    load: Load | None = None,
    log_format: Literal["text", "json"] | None = None,
    served: Callable[[str], object] = lambda _: None,
) -> int:
    """Run the enabled jobs when they are due, until `stop` is set or an interrupt occurs.

    A job with a schedule is due as soon as a scheduled time has passed since its last run; all
    others are due every `seconds`. Rounds never overlap: a round longer than `seconds` delays the
    next ones. The configuration is read again when its file has changed. `log_format` overrides its
    log format. If metrics are served, `served` is called with their address. Returns 7 if a round
    was interrupted, else 0. Raises SettingsError if the configuration cannot be read at the start,
    PetsyncError if the state folder cannot be used.
    """
    environ = HiddenEnvironment(os.environ if environ is None else environ)
    run, load = run or _run(), _logging(load or _load(), log_format)
    first = config if isinstance(config, Configuration) else load(Path(config), environ)
    StatePaths(first.state).check()
    fresh = LiveConfiguration(first, environ, load)
    loop = Daemon(fresh, DueJobs(first.state), seconds, stop, run)
    with loop.serve(served), _stopping_on_signal(stop):
        return loop.run_until_stopped()


@dataclass(slots=True)
class Daemon:
    """The loop of `petsync reconcile --every`."""

    fresh: LiveConfiguration
    due: DueJobs
    seconds: float
    stop: threading.Event
    run: RunFunction
    passes: int = 0
    """The number of passes in which jobs without a schedule were due."""
    errors: int = 0
    """How often a job raised an exception."""
    is_ended: bool = False
    """True after the loop has ended."""

    def run_until_stopped(self) -> int:
        """Run passes until the daemon is stopped. Return the exit code."""
        at, code = time.monotonic(), 0
        try:
            while not self.stop.is_set():
                is_pass = time.monotonic() >= at
                code = self._pass(all_of=is_pass)
                if is_pass:
                    at = max(at + self.seconds, time.monotonic())
                pauses = self.due.iter_pauses(self.fresh.config.jobs)
                self.stop.wait(max(0.0, min(at - time.monotonic(), _LONGEST_WAIT_S, *pauses)))
        except KeyboardInterrupt:
            self.stop.set()
        finally:
            self.is_ended = True
        return code if code == _INTERRUPTED else 0

    def health(self) -> Mapping[str, Any]:
        """Return the content of `/healthz`."""
        return {
            "ok": not self.is_ended and not self.stop.is_set(),
            "since": self.due.began.isoformat(timespec="seconds"),
            "passes": self.passes,
            "failed_passes": self.errors,
            "configuration": "valid" if self.fresh.is_valid else "invalid",
        }

    def own_metrics(self) -> Mapping[str, tuple[str, float]]:
        """Return the help text and value of each of the daemon's metrics, by name."""
        return {
            "petsync_every_passes": ("Passes over the jobs without a schedule", self.passes),
            "petsync_every_failed_passes": ("Times that a job raised an exception", self.errors),
            "petsync_every_configuration_valid": (
                "0 while a changed petsync.toml is invalid",
                self.fresh.is_valid,
            ),
        }

    @contextmanager
    def serve(self, announce: Callable[[str], object]) -> Iterator[None]:
        """Serve metrics and health inside the context, if the configuration enables this."""
        endpoint = self._endpoint()
        if endpoint is not None:
            announce(endpoint.address)
        try:
            yield
        finally:
            if endpoint is not None:
                endpoint.close()

    def _endpoint(self) -> Endpoint | None:
        listen = self.fresh.config.metrics.listen
        if not listen:
            return None
        from petsync.reconcile.observe import page_of

        with logging_to(self.fresh.config):
            try:
                metrics = page_of(lambda: self.fresh.config, self.own_metrics)
                endpoint = Endpoint(listen, metrics, self.health)
                endpoint.start()
            except (OSError, SettingsError) as error:
                log.error("metrics cannot be served at %s: %s", listen, error)
                return None
        return endpoint

    def _pass(self, *, all_of: bool) -> int:
        """Reconcile the jobs that are due; return 7 if a round was interrupted, else 0."""
        self.passes += all_of
        self.fresh.reload()
        for job in self.fresh.config.jobs:
            if job.enabled and self.due.is_due(job, all_of=all_of):
                codes = self._job(job)
                if self.stop.is_set():
                    return _INTERRUPTED if _INTERRUPTED in codes else 0
        return 0

    def _job(self, job: Job) -> tuple[int, ...]:
        """Reconcile a job, and return the exit codes of its rounds.

        An error that no round reports is logged and sent as a notice; other jobs continue.
        """
        self.due.note_start(job)
        config = self.fresh.config
        try:
            return tuple(report.round.exit_code for report in self.run(config, job=job.name))
        except (KeyboardInterrupt, InterruptedRunError):
            self.stop.set()
            return (_INTERRUPTED,)
        except Exception as error:
            self.errors += 1
            with logging_to(config):
                log.exception("job %s could not be reconciled", job.name)
            send_error(config, job.name, error)
            return ()


def _logging(load: Load, form: Literal["text", "json"] | None) -> Load:
    """Return a `load` with "info" as the default log level and, if given, `form` as log format."""

    def reload(path: Path, environ: Mapping[str, str]) -> Configuration:
        config = load(path, environ)
        changes = {"level": config.log.level or "info", "format": form or config.log.format}
        return replace(config, log=config.log.model_copy(update=changes))

    return reload


@contextmanager
def _stopping_on_signal(stop: threading.Event) -> Iterator[None]:
    """Inside the context, set `stop` on SIGINT and SIGTERM before the existing Python handler runs.

    The existing handler would only end the current round.
    """
    is_main = threading.current_thread() is threading.main_thread()
    names = [n for n in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(n))]
    before = {name: signal.getsignal(name) for name in names} if is_main else {}

    def note_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for name in before:
        signal.signal(name, note_signal)
    try:
        yield
    finally:
        for name, was in before.items():
            signal.signal(name, was)


def _run() -> RunFunction:
    from petsync.reconcile import run

    return run


def _load() -> Load:
    from petsync.config.load import load

    return load
