"""`petsync reconcile --every`: the jobs that are due, one after another, until somebody ends it."""

from __future__ import annotations

import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2s
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.history import History
from petsync.reconcile.notify import Notifier
from petsync.reconcile.schedule import last_due, next_due
from petsync.reconcile.watch.endpoint import Endpoint
from petsync.reconcile.watch.log import logged

__all__ = ["Every", "every", "interval"]

log = logging.getLogger(__name__)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_INTERRUPTED = 7


def interval(text: str) -> float:
    """The seconds of `90s`, `15m`, `2h` or `1d`. Raises SettingsError for anything else."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds < 1:
        raise SettingsError(
            f"--every is {text!r}, and must be a time of a second or more",
            hint="Such as 90s, 15m, 2h or 1d.",
        )
    return seconds


class Run(Protocol):
    """`petsync.reconcile.run`, as far as it is used here."""

    def __call__(self, config: Configuration, *, job: str) -> Sequence[RoundReport]:
        """Reconcile one job."""


Load = Callable[[Path, Mapping[str, str] | None], Configuration]
"""`petsync.reconcile.config.load`."""


def every(
    config: Configuration | Path | str,
    seconds: float,
    *,
    stop: threading.Event,
    environ: Mapping[str, str] | None = None,
    run: Run | None = None,
    load: Load | None = None,
    served: Callable[[str], object] = lambda _: None,
) -> int:
    """Run the jobs that are due, every so many seconds, until `stop` is set or an interrupt comes.

    A job with a schedule is due when its time has come since it ran last, all others each time.
    Rounds never overlap: what takes longer than `seconds` makes the next ones begin later. The
    configuration is read again when its file has changed; `served` is told the metrics' address.

    Returns 0 where it was ended between rounds, 7 where in one. Raises SettingsError where the
    configuration cannot be read at the start.
    """
    run, load = run or _run(), load or _load()
    first = config if isinstance(config, Configuration) else load(Path(config), environ)
    loop = Every(first, seconds, stop=stop, environ=environ, run=run, load=load)
    with loop.served(served), _heard(stop):
        return loop.go()


@dataclass(slots=True)
class Every:
    """What a `--every` knows: the configuration, its jobs' last times, and how it is."""

    config: Configuration
    seconds: float
    stop: threading.Event
    environ: Mapping[str, str] | None
    run: Run
    load: Load
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    passes: int = 0
    errors: int = 0
    problem: str = ""
    is_ended: bool = False
    _last: dict[str, datetime] = field(default_factory=dict)
    _seen: bytes = b""

    def __post_init__(self) -> None:
        self._seen = _content(self.config.path)

    def go(self) -> int:
        """Passes, until it is ended. Returns the exit code."""
        at, code = time.monotonic(), 0
        try:
            while not self.stop.is_set():
                is_pass = time.monotonic() >= at
                code = self._pass(all_of=is_pass)
                if is_pass:
                    at = max(at + self.seconds, time.monotonic())
                self.stop.wait(self._pause(at))
        except KeyboardInterrupt:
            self.stop.set()
        finally:
            self.is_ended = True
        return code if code == _INTERRUPTED else 0

    def health(self) -> Mapping[str, Any]:
        """What `/healthz` tells."""
        return {
            "ok": not self.is_ended and not self.stop.is_set(),
            "since": self.began.isoformat(timespec="seconds"),
            "passes": self.passes,
            "failed_passes": self.errors,
            "configuration": "invalid" if self.problem else "valid",
        }

    def own(self) -> Mapping[str, tuple[str, float]]:
        """Its own metrics: help and value by name."""
        return {
            "petsync_every_passes": ("Passes since it was started", self.passes),
            "petsync_every_failed_passes": ("Jobs that raised instead of ending", self.errors),
            "petsync_every_configuration_valid": (
                "0 while petsync.toml was changed so that it cannot be used",
                not self.problem,
            ),
        }

    @contextmanager
    def served(self, told: Callable[[str], object]) -> Iterator[None]:
        """Meanwhile the metrics and the health can be asked for, if the configuration says so."""
        endpoint = self._endpoint()
        if endpoint is not None:
            told(endpoint.address)
        try:
            yield
        finally:
            if endpoint is not None:
                endpoint.close()

    def _endpoint(self) -> Endpoint | None:
        listen = self.config.metrics.listen
        if not listen:
            return None
        from petsync.reconcile.watch.metrics import page_of

        try:
            endpoint = Endpoint(listen, page_of(lambda: self.config, self.own), self.health)
            endpoint.start()
        except (OSError, SettingsError) as error:
            log.error("there are no metrics at %s: %s", listen, error)
            return None
        return endpoint

    def _pass(self, *, all_of: bool) -> int:
        """Reconcile what is due; 7 where somebody ended all of this in the middle of a round."""
        self.passes += all_of
        self._reread()
        for job in self.config.jobs:
            if job.enabled and self._is_due(job, all_of=all_of):
                codes = self._job(job)
                if self.stop.is_set():
                    return _INTERRUPTED if _INTERRUPTED in codes else 0
        return 0

    def _is_due(self, job: Job, *, all_of: bool) -> bool:
        if not job.schedule:
            return all_of
        now = datetime.now(UTC)
        # A last time in the future is one from before the clock was set back.
        last = self._last[job.name] = min(self._last.get(job.name) or self._before(job), now)
        due = last_due(job.schedule, now)
        return due is not None and due > last

    def _before(self, job: Job) -> datetime:
        """When the job ran last before this was started; a job that never ran is due from now."""
        rounds = History(self.config.state).rounds(job.name)
        starts = [datetime.fromisoformat(each.started) for each in rounds if not each.dry_run]
        return max(starts, default=self.began)

    def _job(self, job: Job) -> tuple[int, ...]:
        """Reconcile it, and give its rounds' exit codes. An error that no round tells of is told
        here, and ends only this.
        """
        self._last[job.name] = datetime.now(UTC)
        try:
            return tuple(t.round.exit_code for t in self.run(self.config, job=job.name))
        except (KeyboardInterrupt, InterruptedRunError):
            self.stop.set()
            return (_INTERRUPTED,)
        except Exception as error:
            self.errors += 1
            with logged(self.config):
                log.exception("%s could not be reconciled", job.name)
            self._tell(job.name, error)
            return ()

    def _pause(self, at: float) -> float:
        """Seconds until the next pass, or until a schedule's next time, whichever is first."""
        now = datetime.now(UTC)
        dues = [next_due(job.schedule, now) for job in self.config.jobs if job.enabled]
        waits = [(due - now).total_seconds() for due in dues if due is not None]
        return max(0.0, min([at - time.monotonic(), *waits]))

    def _reread(self) -> None:
        """The configuration anew, if its file has changed; an invalid one is told, not used."""
        content = _content(self.config.path)
        if content == self._seen:
            return
        self._seen = content
        try:
            changed = self.load(self.config.path, self.environ)
        except (PetsyncError, OSError) as error:
            self.problem = str(error)
            with logged(self.config):
                log.error("the configuration as it was before is used: %s", error)
            self._tell(self.config.path.name, error)
            return
        with logged(changed):
            log.info("%s was read again", changed.path)
        if self.problem:
            self.problem = ""
            Notifier(changed).told((RoundReport(round=_round(changed.path.name)),), _now())
        self.config = changed

    def _tell(self, name: str, error: Exception) -> None:
        """Tell people of what is no round, as if it were one that failed."""
        code = error.exit_code if isinstance(error, PetsyncError) else 1
        message = error.message if isinstance(error, PetsyncError) else type(error).__name__
        hint = error.hint if isinstance(error, PetsyncError) else "The log has more."
        failed = _round(name, status="error", exit_code=code, problem=message, hint=hint)
        Notifier(self.config).told((RoundReport(round=failed),), _now())


def _round(job: str, **said: Any) -> Round:
    now = _now()
    return Round(id=f"{now:%Y%m%dT%H%M%S}-every", job=job, started=now.isoformat(), **said)


def _now() -> datetime:
    return datetime.now(UTC)


def _content(path: Path) -> bytes:
    """A digest of the file, b"" while it cannot be read: an editor may be replacing it."""
    try:
        return blake2s(path.read_bytes()).digest()
    except OSError:
        return b""


@contextmanager
def _heard(stop: threading.Event) -> Iterator[None]:
    """Meanwhile a request to end sets `stop` too: a round that it ends tells only of itself."""
    is_main = threading.current_thread() is threading.main_thread()
    names = [n for n in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(n))]
    before = {name: signal.getsignal(name) for name in names} if is_main else {}

    def told(number: int, frame: FrameType | None) -> None:
        stop.set()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for name in before:
        signal.signal(name, told)
    try:
        yield
    finally:
        for name, was in before.items():
            signal.signal(name, was)


def _run() -> Run:
    from petsync.reconcile import run

    return run


def _load() -> Load:
    load: Load = import_module("petsync.reconcile.config").load
    return load
