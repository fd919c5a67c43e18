"""Metrics for Prometheus: the textfile, shared by several processes."""

from __future__ import annotations

import logging
import re
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_fd_to_metric_families
from receiver import build_report, configured

from petsync.config.model import Configuration, Job, Metrics
from petsync.plan.report import RoundReport
from petsync.reconcile.observe import (
    GAUGES,
    MetricsWatcher,
    measure,
    note_round,
    open_watchers,
    read_latest,
)

DOCS = Path(__file__).parents[1] / "docs" / "monitoring.md"


def config_of(folder: Path, *names: str) -> Configuration:
    """Return a configuration with a textfile and jobs of these names, the first with a schedule."""
    jobs = [Job(name=name, mode="push") for name in names[1:]]
    first = Job(name=names[0], mode="push", schedule="0 2 * * *")
    metrics = Metrics(textfile=folder / "prom/petsync.prom")
    return configured(folder, first, *jobs, metrics=metrics)


def samples(config: Configuration) -> dict[str, float]:
    """Return every sample of the textfile by name and labels, as Prometheus reads it."""
    assert config.metrics.textfile is not None
    with config.metrics.textfile.open(encoding="utf-8") as file:
        families = [*text_fd_to_metric_families(file)]
    return {
        " ".join((s.name, *(f"{k}={v}" for k, v in sorted(s.labels.items()) if v))): s.value
        for family in families
        for s in family.samples
    }


def test_the_textfile_tells_each_jobs_last_round(tmp_path: Path) -> None:
    """The textfile has each job's last status, exit code, counts, success and next time."""
    config = config_of(tmp_path, "catalogue")
    start = datetime(2026, 11, 21, 2, tzinfo=UTC)
    measured = MetricsWatcher(config)
    measured.on_end(
        build_report("done", started=start.isoformat(), seconds=4.5, applied=3, drift=5)
    )
    measured.on_end(
        build_report("conflicts", started=start.isoformat(), conflicts=2, rows=40, pets=41)
    )
    found = samples(config)
    assert found["petsync_round_exit_code job=catalogue"] == 5
    assert found["petsync_round_conflicts job=catalogue"] == 2
    assert found["petsync_round_rows job=catalogue"] == 40
    assert found["petsync_last_success_timestamp_seconds job=catalogue"] == start.timestamp() + 4.5
    assert found["petsync_round_status job=catalogue status=conflicts"] == 1
    assert found["petsync_round_status job=catalogue status=done"] == 0
    assert found["petsync_rounds_total job=catalogue status=done"] == 1
    due = found["petsync_next_due_timestamp_seconds job=catalogue"]
    assert 0 < due - datetime.now(UTC).timestamp() <= 25 * 3600


def test_jobs_of_other_processes_stay_in_the_textfile(tmp_path: Path) -> None:
    """A run of job a keeps the samples of job b; a job that is no longer configured is removed."""
    config = config_of(tmp_path, "a", "b")
    MetricsWatcher(config).on_end(build_report("done", job="a"))
    MetricsWatcher(config).on_end(build_report("error", job="b"))
    found = samples(config)
    assert found["petsync_round_exit_code job=a"] == 0
    assert found["petsync_round_exit_code job=b"] == 1
    fewer = config_of(tmp_path, "a")
    MetricsWatcher(fewer).on_end(build_report("done", job="a"))
    assert not [name for name in samples(fewer) if "job=b" in name]


def test_rounds_that_end_at_the_same_moment_are_all_counted(tmp_path: Path) -> None:
    """Rounds that end at the same time do not overwrite each other's numbers."""
    rounds = [build_report("done", job=f"job{n}").round for n in range(6)]
    threads = [threading.Thread(target=note_round, args=(tmp_path, each)) for each in rounds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_latest(tmp_path)) == [f"job{n}" for n in range(6)]


def test_a_locked_start_hides_nothing_of_the_last_round(tmp_path: Path) -> None:
    """A locked round is counted and keeps the last round's numbers; a dry run is not counted."""
    config = config_of(tmp_path, "catalogue")
    measured = MetricsWatcher(config)
    for round_ in (
        build_report("conflicts", conflicts=2),
        build_report("locked"),
        build_report("done", dry_run=True),
    ):
        measured.on_end(round_)
    found = samples(config)
    assert found["petsync_round_conflicts job=catalogue"] == 2
    assert found["petsync_rounds_total job=catalogue status=locked"] == 1
    assert "petsync_rounds_total job=catalogue status=done" not in found


def test_a_missing_file_is_no_longer_reported(tmp_path: Path) -> None:
    """A removed file loses its samples after a complete pass over its folder; a failed or
    interrupted pass removes none.
    """
    config = config_of(tmp_path, "inbox", "other")

    def after(*rounds: RoundReport) -> set[str]:
        with measure(config) as watcher:
            for each in rounds:
                watcher.on_end(each)
        return {name.split("part=")[1] for name in samples(config) if "exit_code" in name}

    a, b = (build_report("error", job="inbox", part=f"{name}.csv") for name in "ab")
    assert after(a, b) == {"a.csv", "b.csv"}
    stopped = build_report("interrupted", job="inbox", part="b.csv")
    assert after(stopped) == {"a.csv", "b.csv"}
    with measure(config) as watcher:
        watcher.on_end(build_report("error", job="inbox"))
    assert {*read_latest(config.state)} == {"inbox", "inbox/a.csv", "inbox/b.csv"}
    assert after(b) == {"b.csv"}
    assert {*read_latest(config.state)} == {"inbox/b.csv"}


def test_a_files_name_is_a_label_whatever_it_is(tmp_path: Path) -> None:
    """A file name with quotes, backslashes or line breaks is a valid label."""
    config = config_of(tmp_path, "inbox")
    MetricsWatcher(config).on_end(build_report("done", job="inbox", part='a"b\\\n.csv'))
    (name,) = [each for each in samples(config) if each.startswith("petsync_round_rows")]
    assert name == 'petsync_round_rows job=inbox part=a"b\\[line break].csv'


def test_a_damaged_file_of_numbers_begins_again(tmp_path: Path) -> None:
    """A damaged latest.json is renamed, and the next round is recorded."""
    note_round(tmp_path, build_report("done").round)
    kept = tmp_path / "reconcile/latest.json"
    kept.write_bytes(b"{")
    assert sorted(note_round(tmp_path, build_report("done", job="b").round)) == ["b"]
    assert kept.with_suffix(".damaged").exists()


def test_without_the_extra_the_jobs_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the metrics and tracing libraries, jobs run and the log names the missing extras."""
    for name in ("prometheus_client", "opentelemetry.sdk"):
        monkeypatch.setitem(sys.modules, name, None)
    config = configured(tmp_path, tracing=True, metrics=Metrics(textfile=tmp_path / "x.prom"))
    with caplog.at_level(logging.ERROR, logger="petsync"), open_watchers(config) as watchers:
        assert len(watchers) == 1
    assert "pip install 'petsync[metrics]'" in caplog.text
    assert "pip install 'petsync[tracing]'" in caplog.text


def test_every_metric_is_documented(tmp_path: Path) -> None:
    """The table of docs/monitoring.md lists exactly the metrics that petsync writes."""
    table = {*re.findall(r"^\| `(petsync_\w+)`", DOCS.read_text("utf-8"), re.MULTILINE)}
    config = config_of(tmp_path, "catalogue")
    MetricsWatcher(config).on_end(build_report("done"))
    written = {name.split(" ")[0] for name in samples(config)}
    own = {name for name in table if name.startswith("petsync_every_")}
    assert {*GAUGES} < written
    assert table - own == written
