"""Spans of rounds and steps, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from receiver import build_report, configured
from scenarios import PETS, Scenario, changed

from petsync.reconcile.observe import trace
from petsync.sandbox import Sandbox
from petsync.settings import Secret

HUSH = 'h0sh/+="<pä>'


def test_a_real_round_is_a_span_with_its_steps(tmp_path: Path) -> None:
    """A round is one span with its counts, and each step is a child span."""
    exporter = InMemorySpanExporter()
    with Sandbox(pets=PETS, auth=False) as box:
        scenario = Scenario(box, tmp_path)
        scenario.write(changed(PETS, 3, name="Rex"))
        with trace(scenario.config(), exporter) as watcher:
            report = scenario.run(watchers=[watcher])
    *steps, round_ = exporter.get_finished_spans()
    assert round_.name == "petsync.round"
    assert {"petsync.read", "petsync.snapshot", "petsync.apply"} < {each.name for each in steps}
    assert {each.parent.span_id for each in steps if each.parent} == {round_.context.span_id}
    assert {each.attributes["petsync.round"] for each in steps} == {report.round.id}
    assert round_.attributes["petsync.applied"] == 1
    assert round_.attributes["petsync.runs"] == report.round.runs
    assert round_.attributes["petsync.status"] == "done"
    assert round_.status.status_code is StatusCode.UNSET


def test_an_error_is_its_type_and_its_message(tmp_path: Path) -> None:
    """A failed step and its round record the error's type and message without traceback or secrets,
    and the error is raised again.
    """
    exporter, config = InMemorySpanExporter(), configured(tmp_path, secrets=(Secret(HUSH),))
    with trace(config, exporter) as watcher:
        watcher.on_begin(build_report(part=HUSH).round)
        with pytest.raises(KeyError), watcher.step(build_report(part=HUSH).round, "read"):
            raise KeyError(HUSH)
        watcher.on_end(build_report("error", part=HUSH, problem=f"no {HUSH}"))
    step, round_ = exporter.get_finished_spans()
    (event,) = step.events
    assert dict(event.attributes or {}) == {
        "exception.type": "KeyError",
        "exception.message": "'***'",
    }
    assert round_.status.description == "no ***"
    assert round_.status.status_code is StatusCode.ERROR
    text = step.to_json() + round_.to_json()
    assert HUSH[:6] not in text
    assert "Traceback" not in text


def test_a_round_that_never_began_is_a_span_too(tmp_path: Path) -> None:
    """A locked job has a span of its own trace when it ends, separate from the next round's."""
    exporter = InMemorySpanExporter()
    with trace(configured(tmp_path), exporter) as watcher:
        watcher.on_end(build_report("locked"))
        watcher.on_begin(build_report().round)
        watcher.on_end(build_report())
    locked, done = exporter.get_finished_spans()
    assert locked.attributes["petsync.exit_code"] == 6
    assert locked.context.trace_id != done.context.trace_id
