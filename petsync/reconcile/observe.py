"""Observe rounds: log, metrics, health endpoint and traces."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, TextIO, get_args
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from filelock import FileLock

from petsync._extras import needs_extra
from petsync._files import make_folder, make_private_folder, open_own, write_atomically
from petsync._json import decoder_of
from petsync.config.model import Configuration, Log
from petsync.config.schedule import next_due
from petsync.errors import PetsyncError, SettingsError
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Round, Status
from petsync.reconcile.context import Step, Watcher, in_terms_of_jobs
from petsync.reconcile.state import StatePaths
from petsync.redact import Redactor
from petsync.report.round import format_open
from petsync.report.text import log_text
from petsync.report.words import count
from petsync.table.cells import make_visible

__all__ = [
    "FIELDS",
    "GAUGES",
    "Endpoint",
    "JsonLines",
    "LatestRound",
    "LogWatcher",
    "MetricsWatcher",
    "TextLines",
    "TraceWatcher",
    "keep_only",
    "logging_to",
    "measure",
    "note_round",
    "open_watchers",
    "page_of",
    "read_latest",
    "trace",
]


# Formatters of log records: JSON lines for machines, text lines for people.


FIELDS = (
    "event",
    "job",
    "part",
    "round",
    "run",
    "step",
    "status",
    "exit_code",
    "seconds",
    "drift",
    "applied",
    "conflicts",
    "findings",
    "failed",
    "left",
    "waiting",
    "report",
)
"""The fields of a record besides time, level, logger and message."""

Clean = Callable[[str], str]


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object on one line, without secrets."""

    def __init__(self, clean: Clean) -> None:
        super().__init__()
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        """Return `{"time": …, "level": …, "logger": …, "message": …, …}`."""
        data = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
            **{name: self._clean_value(value) for name, value in _fields(record)},
        }
        if trace := _trace(record):
            data["traceback"] = self._clean(trace)
        return msgspec.json.encode(_escape_surrogates(data)).decode()

    def _clean_value(self, value: Any) -> Any:
        return self._clean(value) if isinstance(value, str) else value


class TextLines(logging.Formatter):
    """Formats a record as a line of text, without secrets and without terminal control characters.

    If `stream` is a terminal, the line is wrapped to its width.
    """

    def __init__(self, clean: Clean, *, stream: TextIO | None = None) -> None:
        super().__init__()
        self._clean, self._stream = clean, stream

    def format(self, record: logging.LogRecord) -> str:
        """Return `2026-11-21T02:00:04.120Z INFO catalogue [ROUND] logger: message`."""
        about = dict(_fields(record))
        names = [str(about[name]) for name in ("job", "part") if about.get(name)]
        where = f" {'/'.join(names)} [{about.get('round', '')}]" if names else ""
        message = f"{record.name}: {record.getMessage()}"
        line = f"{_time(record)} {record.levelname}{where} {message}"
        every = (line, *_trace(record).splitlines())
        return log_text(map(self._clean, every), self._stream)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name in FIELDS:
        value = getattr(record, name, None)
        if value is not None and value != "":
            yield name, value


def _time(record: logging.LogRecord) -> str:
    created = datetime.fromtimestamp(record.created, UTC)
    return created.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(record: logging.LogRecord) -> str:
    """Return the lines of the traceback, without the values of variables; "" if there is none."""
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")


def _escape_surrogates(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the same data with lone surrogates, which a file name may contain, escaped."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in data.items()
    }


# The log of a round: each record has the id of the round.


log = logging.getLogger(__name__)

_LEVELS: Mapping[int, int] = {0: logging.INFO, 1: logging.ERROR, 64: logging.ERROR}
"""Log level by exit code; all other exit codes are warnings."""
_here: ContextVar[LogWatcher | None] = ContextVar("petsync_logged", default=None)


class LogWatcher(logging.Filter):
    """The watcher that logs rounds, and the filter that adds the round and the step to each record.

    It accepts records that are made in the context of its reconciliation, and records of
    threads without such a context.
    """

    def __init__(self) -> None:
        super().__init__()
        self._round: Round | None = None
        self._step: Step | None = None

    def on_begin(self, round_: Round) -> None:
        """Log the start of the round."""
        self._round, self._step = round_, None
        log.info("%s begins (%s)", round_.name, round_.mode, extra={"event": "began"})

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Log the duration of the step and, if it fails, the exception."""
        before, self._round, self._step = self._step, round_, name
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            text = error.text if isinstance(error, PetsyncError) else str(error)
            why = in_terms_of_jobs(f"{type(error).__name__}: {text}", round_.job)
            self._after(name, began, f"failed: {why}", logging.WARNING)
            raise
        else:
            self._after(name, began, "done", logging.DEBUG)
        finally:
            self._step = before

    def on_end(self, report: RoundReport) -> None:
        """Log the end of the round, with its numbers."""
        self._round, self._step = report.round, None
        round_ = report.round
        level = _LEVELS.get(round_.exit_code, logging.WARNING)
        reason = round_.problem or format_open(round_)
        reason = reason or (count(round_.applied, "change") if round_.applied else "")
        ending = ": ".join(filter(None, (round_.status, reason)))
        log.log(level, "%s ended: %s", round_.name, ending, extra=_numbers(round_))
        self._round = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return false for a record of another reconciliation, else add the round's fields."""
        owner = _here.get()
        if owner is not None and owner is not self:
            return False
        for name, value in self._about().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True

    def _after(self, name: Step, began: float, ending: str, level: int) -> None:
        extra = {"event": "step", "seconds": round(time.monotonic() - began, 3)}
        log.log(level, "%s: %s", name, ending, extra=extra)

    def _about(self) -> Mapping[str, Any]:
        each = self._round
        if each is None:
            return {}
        run = each.runs[-1] if each.runs else ""
        return {
            "job": each.job,
            "part": each.part,
            "round": each.id,
            "run": run,
            "step": self._step,
        }


def _numbers(round_: Round) -> dict[str, Any]:
    names = ("status", "exit_code", "drift", "applied", "conflicts", "findings", "failed")
    numbers = {name: getattr(round_, name) for name in names} | {"left": round_.unexplained}
    paths = {"waiting": round_.waiting, "report": round_.report}
    return {"event": "ended", "seconds": round(round_.seconds, 3), **numbers, **paths}


@contextmanager
def logging_to(config: Configuration) -> Iterator[LogWatcher]:
    """Send petsync's log records to the destination in `[log]`; yield the watcher.

    Each record names its round. Warnings about notices also go to standard error.
    """
    watcher, clean = LogWatcher(), Redactor((*config.secrets, *config.notify.urls))
    token = _here.set(watcher)
    try:
        with ExitStack() as stack:
            for handler in _handlers(config.log):
                handler.setFormatter(_formatter(config.log, handler, clean))
                handler.addFilter(watcher)
                stack.enter_context(_attach(handler))
            yield watcher
    finally:
        with suppress(ValueError):  # the exit runs in a different context than the entry
            _here.reset(token)


def _formatter(config: Log, handler: logging.Handler, clean: Redactor) -> logging.Formatter:
    """Return the formatter of a handler; only lines for a terminal are wrapped."""
    if config.format == "json":
        return JsonLines(clean)
    return TextLines(clean, stream=getattr(handler, "stream", None))


@contextmanager
def _attach(handler: logging.Handler) -> Iterator[None]:
    """Add the handler to petsync's logger, and remove the logger's other handlers of the same
    stream, such as that of `-v`.

    At the end, the removed handlers are restored.
    """
    mine, level = logging.getLogger("petsync"), logging.getLogger("petsync").level
    doubles = [each for each in mine.handlers if _is_duplicate(each, handler)]
    for each in doubles:
        mine.removeHandler(each)
    mine.addHandler(handler)
    mine.setLevel(min(handler.level, level or handler.level))
    try:
        yield
    finally:
        mine.removeHandler(handler)
        mine.setLevel(level)
        for each in doubles:
            mine.addHandler(each)
        handler.close()


def _is_duplicate(other: logging.Handler, handler: logging.Handler) -> bool:
    """Return true if both handlers write to one stream, and no reconciliation added `other`."""
    is_own = any(isinstance(each, LogWatcher) for each in other.filters)
    stream = getattr(other, "stream", None)
    return not is_own and stream is not None and stream is getattr(handler, "stream", None)


class _File(WatchedFileHandler):
    """A handler for a log file; if petsync creates the file, only its owner can write to it."""

    def _open(self) -> TextIOWrapper:
        path = self.baseFilename
        return open(path, "a", encoding=self.encoding, errors=self.errors, opener=open_own)


def _handlers(config: Log) -> Iterator[logging.Handler]:
    """Yield a handler for standard error or, with a log file, one for the file and one that shows
    warnings about notices on standard error.

    If the file cannot be opened, all records go to standard error. Log rotation may move the file
    at any time.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if config.file is not None:
        handler.setLevel(logging.WARNING)
        handler.addFilter(logging.Filter("petsync.reconcile.notify"))
        try:
            make_folder(config.file.parent)
            file = _File(config.file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            log.warning("%s cannot be written (%s); the log goes to stderr", config.file, error)
            handler = logging.StreamHandler(sys.stderr)
        else:
            yield handler
            handler = file
    handler.setLevel(config.least.upper())
    yield handler


# Watching rounds: the log, metrics for Prometheus, spans for OpenTelemetry.


@contextmanager
def open_watchers(config: Configuration) -> Iterator[list[Watcher]]:
    """Yield the watchers that `[log]`, `[metrics]` and `[tracing]` enable.

    A missing optional dependency is only logged: it does not stop a job.
    """
    with ExitStack() as stack:
        watchers: list[Watcher] = [stack.enter_context(logging_to(config))]
        for enter in (_metrics_watchers, _tracing_watchers):
            try:
                watchers += enter(config, stack)
            except SettingsError as error:
                log.error("%s", error)
        yield watchers


def _metrics_watchers(config: Configuration, stack: ExitStack) -> list[Watcher]:
    if config.metrics.textfile is None and not config.metrics.listen:
        return []

    return [stack.enter_context(measure(config))]


def _tracing_watchers(config: Configuration, stack: ExitStack) -> list[Watcher]:
    if not config.tracing:
        return []

    return [stack.enter_context(trace(config))]


# The HTTP endpoint of `petsync reconcile --every`.


_MAX_REQUESTS = 16
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Endpoint:
    """Serves `/metrics` and `/healthz` in a thread, between `start` and `close`.

    `/healthz` answers with the values of `health`, with status 503 unless its `"ok"` is true.
    Raises SettingsError if `listen` is not an address with a port.
    """

    def __init__(self, listen: str, metrics: Any, health: Callable[[], Mapping[str, Any]]) -> None:
        self._host, self._port = _split(listen)
        self._metrics, self._health = metrics, health
        self._server: WSGIServer | None = None

    @property
    def address(self) -> str:
        """The address, such as `127.0.0.1:9464`; "" while the endpoint is closed."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._server.server_port}" if self._server is not None else ""

    def start(self) -> None:
        """Start serving. Raises OSError if it cannot listen at the address."""
        if self._host not in _LOCAL:
            log.warning("the metrics at %s:%d can be read by others", self._host, self._port)
        kind = _Server6 if ":" in self._host else _Server
        self._server = make_server(
            self._host, self._port, self._answer, server_class=kind, handler_class=_Silent
        )
        thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._host in _LOCAL and _host_of(environ) not in _LOCAL:
            # DNS rebinding: a web page could point its host name here, and read the responses.
            return _respond(start, "421 Misdirected Request", "text/plain", "Unknown host name.\n")
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start)
            return answer
        if path == "/healthz":
            health = dict(self._health())
            status = "200 OK" if health.get("ok") else "503 Service Unavailable"
            return _respond(start, status, "application/json", json.dumps(health))
        return _respond(start, "404 Not Found", "text/plain", "Available: /metrics and /healthz.\n")


def _respond(start: Callable[..., Any], status: str, kind: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store")])
    return [text.encode()]


def _split(listen: str) -> tuple[str, int]:
    """Return host and port of `127.0.0.1:9464`, `[::1]:9464` or `:9464`. Raises SettingsError."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 0xFFFF:
        raise SettingsError(
            f"[metrics] listen is {listen!r}, but must be an address with a port",
            hint='For example: "127.0.0.1:9464".',
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _host_of(environ: Mapping[str, Any]) -> str:
    """Return the host of the Host header, without the port."""
    try:
        return urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    except ValueError:
        return ""


class _Server(ThreadingMixIn, WSGIServer):
    """A server that answers at most `_MAX_REQUESTS` requests at a time, and closes further
    connections.
    """

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._room = threading.BoundedSemaphore(_MAX_REQUESTS)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the request in a new thread, or close the connection if too many requests are in
        progress.
        """
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the request, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: scrapes are too frequent."""


# The latest round of each job, stored for the metrics of all processes.


_LOCK_TIMEOUT = 30.0


class LatestRound(msgspec.Struct):
    """The last round of a job, or of one file if the job has a folder."""

    round: Round
    succeeded: float = 0.0
    """When a round last ended successfully, in seconds since the epoch; 0 for never."""
    statuses: dict[str, int] = {}
    """The number of rounds by status."""


def note_round(state: Path, round_: Round) -> Mapping[str, LatestRound]:
    """Store this round, and return the latest rounds of all jobs, by name.

    A round with the status `locked` only counts in `statuses`, unless it is the first one stored
    under its name. Raises OSError, filelock.Timeout.
    """
    with _edit_latest(state) as every:
        before = every.get(round_.name, LatestRound(round_))
        statuses = {**before.statuses, round_.status: before.statuses.get(round_.status, 0) + 1}
        is_locked = round_.status == "locked" and round_.name in every
        every[round_.name] = LatestRound(
            before.round if is_locked else round_,
            _end(round_) if round_.is_well else before.succeeded,
            statuses,
        )
    return every


def keep_only(state: Path, job: str, names: Collection[str]) -> Mapping[str, LatestRound]:
    """Remove the job's rounds whose names are not in `names`; return the latest rounds of all jobs.

    The removed rounds belong to files that are no longer in the folder.
    """
    with _edit_latest(state) as every:
        for name in [n for n, each in every.items() if each.round.job == job and n not in names]:
            del every[name]
    return every


@contextmanager
def _edit_latest(state: Path) -> Iterator[dict[str, LatestRound]]:
    """Lock the stored rounds against other processes, yield them for changes, then write them."""
    path = _path(state)
    make_private_folder(path.parent)
    with FileLock(path.with_suffix(".lock"), timeout=_LOCK_TIMEOUT, mode=0o600):
        every = read_latest(state)
        yield every
        write_atomically(path, msgspec.json.encode(every), follow=False, private=True)


def read_latest(state: Path) -> dict[str, LatestRound]:
    """Return the stored rounds by name, {} if there are none. A damaged file is renamed."""
    path = _path(state)
    try:
        return decoder_of(dict[str, LatestRound]).decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError:
        log.warning("%s was damaged; the metrics start again from zero", path)
        with suppress(OSError):
            path.replace(path.with_suffix(".damaged"))
        return {}


def _path(state: Path) -> Path:
    return StatePaths(state).join("latest.json")


def _end(round_: Round) -> float:
    return datetime.fromisoformat(round_.started).timestamp() + round_.seconds


# Metrics for Prometheus: a textfile for cron, and an endpoint for `--every`.


GAUGES: Mapping[str, tuple[str, Callable[[LatestRound], float]]] = {
    "petsync_round_exit_code": (
        "Exit code of the last round",
        lambda each: each.round.exit_code,
    ),
    "petsync_round_started_timestamp_seconds": (
        "When the last round began",
        lambda each: _seconds(each.round.started),
    ),
    "petsync_round_duration_seconds": (
        "How long the last round took",
        lambda each: each.round.seconds,
    ),
    "petsync_last_success_timestamp_seconds": (
        "When a round last ended with exit code 0; 0 for never",
        lambda each: each.succeeded,
    ),
    "petsync_round_rows": ("Rows in the sheet", lambda each: each.round.rows),
    "petsync_round_pets": ("Pets in the store, in the job's scope", lambda each: each.round.pets),
    "petsync_round_drift": (
        "Differences between rows and pets at the start of the last round",
        lambda each: each.round.drift,
    ),
    "petsync_round_applied": (
        "Changes that were applied in the last round",
        lambda each: each.round.applied,
    ),
    "petsync_round_failed": ("Changes that failed", lambda each: each.round.failed),
    "petsync_round_conflicts": ("Conflicts that are open", lambda each: each.round.conflicts),
    "petsync_round_findings": ("Rows that need fixing", lambda each: each.round.findings),
    "petsync_round_left": (
        "Differences without an explanation",
        lambda each: each.round.unexplained,
    ),
    "petsync_round_waiting": (
        "1 if a plan waits for approval",
        lambda each: each.round.status == "waiting",
    ),
}
"""The gauges of a job's last round: help text and getter, by name."""

_LABELS = ("job", "part")
_INTERRUPTED = 7


class MetricsWatcher:
    """The watcher that stores each job's latest round, and then writes the textfile."""

    def __init__(self, config: Configuration) -> None:
        _client()
        self._config = config
        self._seen: dict[str, dict[str, Round]] = {}

    def on_begin(self, round_: Round) -> None:
        """Do nothing: a round counts when it has ended."""

    def step(self, round_: Round, name: Step) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return an empty context: a round counts as a whole."""
        return nullcontext()

    def on_end(self, report: RoundReport) -> None:
        """Store the round and write the textfile; do nothing after a dry run. Raises OSError or
        filelock.Timeout.
        """
        if report.round.dry_run:
            return
        self._seen.setdefault(report.round.job, {})[report.round.name] = report.round
        self._write_textfile(note_round(self._config.state, report.round))

    def close(self) -> None:
        """Remove the metrics of files that are no longer in their folder. Jobs that failed before
        their first file, or were interrupted, are skipped.
        """
        for job, rounds in self._seen.items():
            is_whole = job not in rounds or rounds[job].is_well
            if is_whole and all(each.exit_code != _INTERRUPTED for each in rounds.values()):
                self._write_textfile(keep_only(self._config.state, job, rounds))

    def _write_textfile(self, latest: Mapping[str, LatestRound]) -> None:
        if self._config.metrics.textfile is not None:
            _write(self._config.metrics.textfile, _Families(self._config, latest, {}))


@contextmanager
def measure(config: Configuration) -> Iterator[MetricsWatcher]:
    """Yield the metrics watcher of one pass. Raises MissingExtraError without prometheus_client."""
    watcher = MetricsWatcher(config)
    yield watcher
    try:
        watcher.close()
    except (OSError, PetsyncError) as error:
        log.warning("the metrics could not be brought up to date: %s", error)


def page_of(
    config: Callable[[], Configuration], own: Callable[[], Mapping[str, tuple[str, float]]]
) -> Any:
    """Return a WSGI application that answers with the current metrics. Raises SettingsError without
    prometheus_client.

    `own` returns further gauges without labels: help text and value, by name.
    """
    client = _client()

    class Scrape:
        """A collector that reads the stored rounds at each scrape."""

        def collect(self) -> Iterable[Any]:
            """Return the current metric families."""
            # Call `own` first: the rounds that its gauges count are then already stored.
            gauges = own()
            return _Families(config(), read_latest(config().state), gauges).collect()

    registry = client.CollectorRegistry()
    registry.register(Scrape())
    return client.make_wsgi_app(registry)


class _Families:
    """A Prometheus collector: the metrics of the jobs' latest rounds, the next due times, and the
    gauges in `own`.
    """

    def __init__(
        self,
        config: Configuration,
        latest: Mapping[str, LatestRound],
        own: Mapping[str, tuple[str, float]],
    ) -> None:
        self._config, self._own = config, own
        known = {job.name for job in config.jobs}
        # Leave out jobs that are no longer configured: no round could clear their alerts.
        self._latest = [each for each in latest.values() if each.round.job in known]

    def collect(self) -> Iterator[Any]:
        """Yield every metric family once."""
        from prometheus_client.core import GaugeMetricFamily

        for name, (help_, value) in GAUGES.items():
            family = GaugeMetricFamily(name, help_, labels=_LABELS)
            for each in self._latest:
                family.add_metric(_labels(each.round), float(value(each)))
            yield family
        yield self._statuses()
        yield self._totals()
        yield self._due_times()
        for name, (help_, number) in self._own.items():
            yield GaugeMetricFamily(name, help_, value=number)

    def _statuses(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        help_ = "1 for the status that the last round ended with"
        family = GaugeMetricFamily("petsync_round_status", help_, labels=(*_LABELS, "status"))
        for each in self._latest:
            for status in get_args(Status):
                is_it = float(each.round.status == status)
                family.add_metric((*_labels(each.round), status), is_it)
        return family

    def _totals(self) -> Any:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "petsync_rounds", "Rounds by final status", labels=(*_LABELS, "status")
        )
        for each in self._latest:
            for status, number in sorted(each.statuses.items()):
                family.add_metric((*_labels(each.round), status), number)
        return family

    def _due_times(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        help_ = "Time of the next scheduled start, in seconds since the epoch"
        family = GaugeMetricFamily("petsync_next_due_timestamp_seconds", help_, labels=("job",))
        now = datetime.now(UTC)
        for job in self._config.jobs:
            due = next_due(job.schedule, now) if job.enabled else None
            if due is not None:
                family.add_metric((job.name,), due.timestamp())
        return family


def _labels(round_: Round) -> tuple[str, str]:
    return round_.job, make_visible(round_.part)


def _seconds(started: str) -> float:
    return datetime.fromisoformat(started).timestamp()


def _write(path: Path, families: _Families) -> None:
    """Write the metrics atomically: node_exporter never reads a partial file."""
    client = _client()
    registry = client.CollectorRegistry()
    registry.register(families)
    make_folder(path.parent)
    write_atomically(path, client.generate_latest(registry))


def _client() -> Any:
    """Return the module prometheus_client. Raises MissingExtraError if it is not installed."""
    with needs_extra("metrics", "[metrics]"):
        import prometheus_client
    return prometheus_client


# Spans for OpenTelemetry: one for each round, with a child for each step.


_NUMBERS = (
    "rows",
    "pets",
    "drift",
    "applied",
    "conflicts",
    "findings",
    "failed",
    "notes",
    "resumed",
)
_EXPORT_TIMEOUT = 10.0
"""Seconds for the collector to receive the last spans."""


class TraceWatcher:
    """The watcher that creates spans of rounds and steps.

    For an error, a span gets the type and the message, but no traceback.
    """

    def __init__(self, tracer: Any, clean: Redactor) -> None:
        self._tracer, self._clean = tracer, clean
        self._span: Any = None
        self._context: Any = None

    def on_begin(self, round_: Round) -> None:
        """Start the span of the round."""
        from opentelemetry.trace import set_span_in_context

        self._span = self._tracer.start_span("petsync.round", attributes=self._about(round_))
        self._context = set_span_in_context(self._span)

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Run the step in a child span of the round's span."""
        with self._tracer.start_as_current_span(
            f"petsync.{name}",
            context=self._context,
            attributes=self._about(round_),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                self._note_failure(span, type(error).__name__, str(error))
                raise

    def on_end(self, report: RoundReport) -> None:
        """End the round's span with the result; start the span first if the round never began."""
        if self._span is None:
            self.on_begin(report.round)
        span, self._span = self._span, None  # later steps, such as notices, are its children too
        round_ = report.round
        span.set_attribute("petsync.status", round_.status)
        span.set_attribute("petsync.exit_code", round_.exit_code)
        span.set_attribute("petsync.runs", round_.runs)
        for name in _NUMBERS:
            span.set_attribute(f"petsync.{name}", getattr(round_, name))
        span.set_attribute("petsync.left", round_.unexplained)
        if round_.exit_code in (1, 7, 64) or round_.failed:
            self._note_failure(span, round_.status, round_.problem)
        span.end()

    def _about(self, round_: Round) -> dict[str, Any]:
        return {
            "petsync.job": self._clean(round_.job),
            "petsync.part": self._clean(round_.part),
            "petsync.round": self._clean(round_.id),
            "petsync.mode": round_.mode,
            "petsync.dry_run": round_.dry_run,
        }

    def _note_failure(self, span: Any, kind: str, message: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        clean = self._clean(message)
        span.add_event("exception", {"exception.type": kind, "exception.message": clean})
        span.set_status(Status(StatusCode.ERROR, clean))


@contextmanager
def trace(config: Configuration, exporter: Any = None) -> Iterator[TraceWatcher]:
    """Yield a watcher whose spans go to `exporter`, by default as the OTEL_* variables say.

    Raises MissingExtraError if OpenTelemetry is not installed.
    """
    with needs_extra("tracing", "[tracing]"):
        provider = _provider(exporter)
    clean = Redactor((*config.secrets, *config.notify.urls))
    try:
        yield TraceWatcher(provider.get_tracer("petsync"), clean)
    finally:
        _shut_down(provider)


def _provider(exporter: Any) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override this name.
    resource = Resource({"service.name": "petsync"}).merge(Resource.create())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _shut_down(provider: Any) -> None:
    """Send the last spans, and wait for at most `_EXPORT_TIMEOUT` seconds."""
    thread = threading.Thread(target=provider.shutdown, name="spans", daemon=True)
    thread.start()
    thread.join(_EXPORT_TIMEOUT)
    if thread.is_alive():
        log.warning("the last spans were not received within %d seconds", _EXPORT_TIMEOUT)
