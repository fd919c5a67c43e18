"""Metrics for Prometheus: a textfile for cron, and an endpoint for `--every`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from petsync._file import make_folder, replace
from petsync.diff.round import Round, Status
from petsync.diff.round_report import RoundReport
from petsync.errors import PetsyncError, SettingsError
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.schedule import next_due
from petsync.reconcile.watch.latest import Latest, kept_only, noted, read
from petsync.reconcile.watcher import Step
from petsync.table.visible import visible

__all__ = ["GAUGES", "Measured", "measured", "page_of"]

log = logging.getLogger(__name__)

GAUGES: Mapping[str, tuple[str, Callable[[Latest], float]]] = {
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
        "When a round ended with exit code 0 last; 0 for never",
        lambda each: each.succeeded,
    ),
    "petsync_round_rows": ("Rows in the sheet", lambda each: each.round.rows),
    "petsync_round_pets": ("Pets in the store, in the job's scope", lambda each: each.round.pets),
    "petsync_round_drift": (
        "Rows and pets that were apart when the last round began",
        lambda each: each.round.drift,
    ),
    "petsync_round_applied": (
        "Changes that arrived in the last round",
        lambda each: each.round.applied,
    ),
    "petsync_round_failed": ("Changes that failed", lambda each: each.round.failed),
    "petsync_round_conflicts": ("Conflicts that are open", lambda each: each.round.conflicts),
    "petsync_round_findings": ("Rows that are blocked", lambda each: each.round.findings),
    "petsync_round_left": (
        "Differences that nothing explains yet",
        lambda each: each.round.left,
    ),
    "petsync_round_waiting": (
        "1 if a plan waits for somebody to release it",
        lambda each: each.round.status == "waiting",
    ),
}
"""Each gauge of a job's last round: what it tells, and how it is read."""

_LABELS = ("job", "part")
_INTERRUPTED = 7


class Measured:
    """The watcher that keeps each job's latest round, and writes the textfile anew after it."""

    def __init__(self, config: Configuration) -> None:
        _client()
        self._config = config
        self._seen: dict[str, dict[str, Round]] = {}

    def began(self, begun: Round) -> None:
        """Nothing: a round counts when it has ended."""

    def step(self, begun: Round, name: Step) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing: a round counts as a whole."""
        return nullcontext()

    def ended(self, told: RoundReport) -> None:
        """Keep it. Raises OSError or filelock.Timeout where it cannot be kept."""
        if told.round.dry_run:
            return
        self._seen.setdefault(told.round.job, {})[told.round.name] = told.round
        self._written(noted(self._config.state, told.round))

    def close(self) -> None:
        """Take away the numbers of files that their folder has no more."""
        for job, rounds in self._seen.items():
            is_whole = job not in rounds or rounds[job].is_well
            if is_whole and all(each.exit_code != _INTERRUPTED for each in rounds.values()):
                self._written(kept_only(self._config.state, job, rounds))

    def _written(self, latest: Mapping[str, Latest]) -> None:
        if self._config.metrics.textfile is not None:
            _write(self._config.metrics.textfile, _Families(self._config, latest, {}))


@contextmanager
def measured(config: Configuration) -> Iterator[Measured]:
    """The watcher of one pass. Raises SettingsError where prometheus_client is not installed."""
    watcher = Measured(config)
    yield watcher
    try:
        watcher.close()
    except (OSError, PetsyncError) as error:
        log.warning("the metrics could not be brought up to date: %s", error)


def page_of(
    config: Callable[[], Configuration], own: Callable[[], Mapping[str, tuple[str, float]]]
) -> Any:
    """A WSGI application that answers with the metrics as they are; `own` are gauges without
    labels, as help and value by name.
    """
    client = _client()

    class Now:
        """What a scrape finds."""

        def collect(self) -> Iterable[Any]:
            """The families, of what is kept now."""
            return _Families(config(), read(config().state), own()).collect()

    registry = client.CollectorRegistry()
    registry.register(Now())
    return client.make_wsgi_app(registry)


class _Families:
    """Prometheus' collector: each metric with a sample for every job."""

    def __init__(
        self,
        config: Configuration,
        latest: Mapping[str, Latest],
        own: Mapping[str, tuple[str, float]],
    ) -> None:
        self._config, self._own = config, own
        known = {job.name for job in config.jobs}
        # What is not configured any more has nobody who would make it well again.
        self._latest = [each for each in latest.values() if each.round.job in known]

    def collect(self) -> Iterator[Any]:
        """Every family once."""
        from prometheus_client.core import GaugeMetricFamily

        for name, (help_, value) in GAUGES.items():
            family = GaugeMetricFamily(name, help_, labels=_LABELS)
            for each in self._latest:
                family.add_metric(_labels(each.round), float(value(each)))
            yield family
        yield self._statuses()
        yield self._totals()
        yield self._due()
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
            "petsync_rounds", "Rounds by how they ended", labels=(*_LABELS, "status")
        )
        for each in self._latest:
            for status, number in sorted(each.statuses.items()):
                family.add_metric((*_labels(each.round), status), number)
        return family

    def _due(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        help_ = "When the job is due next by its schedule"
        family = GaugeMetricFamily("petsync_next_due_timestamp_seconds", help_, labels=("job",))
        now = datetime.now(UTC)
        for job in self._config.jobs:
            due = next_due(job.schedule, now) if job.enabled else None
            if due is not None:
                family.add_metric((job.name,), due.timestamp())
        return family


def _labels(round_: Round) -> tuple[str, str]:
    return round_.job, visible(round_.part)


def _seconds(started: str) -> float:
    return datetime.fromisoformat(started).timestamp()


def _write(path: Path, families: _Families) -> None:
    """Put them into the file in one step: node_exporter never sees half of it."""
    client = _client()
    registry = client.CollectorRegistry()
    registry.register(families)
    make_folder(path.parent)
    replace(path, client.generate_latest(registry))


def _client() -> Any:
    """prometheus_client. Raises SettingsError where it is not installed."""
    try:
        import prometheus_client
    except ImportError:
        raise SettingsError(
            "[metrics] needs prometheus-client, which is not installed",
            hint="pip install 'petsync[metrics]'",
        ) from None
    return prometheus_client
