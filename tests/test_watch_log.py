"""The log of a reconciliation: the round of each line, and no secrets."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from receiver import build_report, configured
from scenarios import PETS, Scenario, changed

from petsync.cli.context import Context
from petsync.config.model import Configuration, Log
from petsync.reconcile.observe import open_watchers
from petsync.sandbox import Sandbox
from petsync.settings import Secret

HUSH = 'h0sh/+="<pä>'


def json_config(folder: Path, **log: Any) -> Configuration:
    """Return a configuration that logs JSON lines of every level to a file."""
    given = {"format": "json", "level": "debug", "file": folder / "logs/petsync.log", **log}
    return configured(folder, log=Log(**given), secrets=(Secret(HUSH),))


def lines(config: Configuration) -> list[dict[str, Any]]:
    """Return the records of the log."""
    assert config.log.file is not None
    return [json.loads(line) for line in config.log.file.read_text("utf-8").splitlines()]


def test_a_round_is_reported_in_json_lines(tmp_path: Path) -> None:
    """JSON lines log a round's begin, steps and end with time, level, logger, message, job, round,
    run and counts.
    """
    config, round_ = (
        json_config(tmp_path),
        build_report("conflicts", conflicts=2, runs=("r7",)).round,
    )
    with open_watchers(config) as (watcher,):
        watcher.on_begin(round_)
        with watcher.step(round_, "snapshot"):
            logging.getLogger("petsync.client.retry").info("again in %d s", 2)
        watcher.on_end(build_report("conflicts", conflicts=2, runs=("r7",)))
    began, again, step, ended = lines(config)
    assert began["message"] == "catalogue begins (check)"
    assert {again[name] for name in ("job", "round", "run", "step")} == {
        *("catalogue", round_.id, "r7", "snapshot")
    }
    assert (again["level"], again["logger"]) == ("info", "petsync.client.retry")
    assert again["time"].endswith("Z")
    assert (step["event"], step["step"]) == ("step", "snapshot")
    assert (ended["status"], ended["exit_code"], ended["conflicts"]) == ("conflicts", 5, 2)
    assert (ended["level"], ended["message"]) == (
        "warning",
        "catalogue ended: conflicts: 2 conflicts",
    )


def test_a_step_that_fails_says_why_and_passes_the_error_on(tmp_path: Path) -> None:
    """A failed or interrupted step is logged with its error, and the error is raised again."""
    config, round_ = json_config(tmp_path), build_report().round
    with open_watchers(config) as (watcher,):
        for error in (KeyError("x"), KeyboardInterrupt()):
            with pytest.raises(type(error)), watcher.step(round_, "apply"):
                raise error
        logging.getLogger("petsync").info("after")
    first, second, after = lines(config)
    assert first["message"] == "apply: failed: KeyError: 'x'"
    assert second["message"].startswith("apply: failed: KeyboardInterrupt")
    assert "step" not in after


def test_records_of_other_threads_are_the_rounds_too(tmp_path: Path) -> None:
    """Records of other threads have the round's id, too."""
    config, round_ = json_config(tmp_path), build_report().round
    with open_watchers(config) as (watcher,):
        watcher.on_begin(round_)
        thread = threading.Thread(target=logging.getLogger("petsync.apply").info, args=("from it",))
        thread.start()
        thread.join()
    assert [each["round"] for each in lines(config)] == [round_.id] * 2


def test_two_reconciliations_at_once_keep_their_lines_apart(tmp_path: Path) -> None:
    """Two concurrent reconciliations in one process each log only their own lines."""
    here, there = tmp_path / "a", tmp_path / "b"
    meet = threading.Barrier(2, timeout=120)

    def one(folder: Path) -> None:
        with open_watchers(json_config(folder)) as (watcher,):
            meet.wait()
            watcher.on_begin(build_report(job=folder.name).round)
            meet.wait()

    threads = [threading.Thread(target=one, args=(folder,)) for folder in (here, there)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[each["job"] for each in lines(json_config(f))] for f in (here, there)] == [
        ["a"],
        ["b"],
    ]


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_in_the_log(form: str, tmp_path: Path) -> None:
    """No secret is in a message, a field or a traceback of the log at any level."""
    config = json_config(tmp_path, format=form)
    with open_watchers(config) as (watcher,):
        log = logging.getLogger("petsync.x")
        log.debug("token %s and %r", HUSH, HUSH)
        log.info("of a file", extra={"part": HUSH})
        try:
            raise ValueError(HUSH)
        except ValueError:
            log.exception("it failed")
        watcher.on_end(build_report("error", problem=HUSH))
    assert config.log.file is not None
    text = config.log.file.read_text("utf-8")
    assert text.count("***") >= 5
    for piece in (HUSH, json.dumps(HUSH)[1:-1], repr(HUSH)[1:-1], HUSH[:6]):
        assert piece not in text
    assert "Traceback" in text


def test_text_lines_steer_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text record is one line with its round and without control characters; the default is
    standard error.
    """
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with open_watchers(configured(tmp_path)) as (watcher,):
        watcher.on_begin(build_report(job="inbox", part="dogs.csv").round)
        logging.getLogger("petsync.x").warning("a pet called %s", "A\x1b[31m\nB")
        logging.getLogger("petsync.x").info("not at this level, as people see how it ended")
    (line,) = stream.getvalue().splitlines()
    stamp, rest = line.split(" ", 1)
    assert stamp.endswith("Z")
    assert rest == (
        "WARNING inbox/dogs.csv [20261121-inbox-dogs.csv] petsync.x: "
        "a pet called A[ESC][31m[line break]B"
    )


def test_output_of_v_on_the_same_stream_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning is logged once beside -v; afterwards the handler and the level are restored."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log, handler = logging.getLogger("petsync"), logging.StreamHandler(stream)
    with attached(handler):
        level = log.level
        with open_watchers(configured(tmp_path)):
            log.warning("once")
        assert handler in log.handlers
        assert log.level == level
    assert stream.getvalue().count("once") == 1


@contextmanager
def attached(handler: logging.Handler) -> Iterator[None]:
    """Attach the handler to petsync's logger during the block."""
    log = logging.getLogger("petsync")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def test_a_log_that_is_rotated_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """After a rotation during a round, the log continues in a new file."""
    config = json_config(tmp_path)
    assert config.log.file is not None
    with open_watchers(config):
        logging.getLogger("petsync").info("before")
        config.log.file.rename(tmp_path / "petsync.log.1")
        logging.getLogger("petsync").info("after")
    assert [each["message"] for each in lines(config)] == ["after"]


def test_a_log_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that cannot be written goes to standard error, and the run continues."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    (tmp_path / "logs").write_text("a file")
    with open_watchers(json_config(tmp_path)):
        logging.getLogger("petsync").info("all the same")
    assert json.loads(stream.getvalue().splitlines()[-1])["message"] == "all the same"


def test_a_real_round_is_logged_with_its_id(tmp_path: Path) -> None:
    """Every line of a push has the round's id, whatever its thread."""
    with Sandbox(pets=PETS, auth=False) as box:
        scenario = Scenario(box, tmp_path)
        scenario.write(changed(PETS, 3, name="Rex"))
        config = replace(scenario.config(), log=json_config(tmp_path).log)
        with open_watchers(config) as watchers:
            report = scenario.run(watchers=watchers)
    records = lines(config)
    assert {each.get("round") for each in records} == {report.round.id}
    assert [each["step"] for each in records if each.get("event") == "step"][:3] == [
        *("resume", "read", "snapshot")
    ]
    assert records[-1]["applied"] == report.round.applied == 1


class _Terminal(io.StringIO):
    """A stream that reports itself as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_folded"), [(_Terminal, True), (io.StringIO, False)])
def test_lines_fit_a_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stream: type[io.StringIO],
    is_folded: bool,
) -> None:
    """On a terminal, lines fold at 80 columns except long paths; elsewhere a record is one line."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", shown := stream())
    path = "/shared/" + "x" * 90 + "/catalogue.csv"
    ended = build_report(
        "error", exit_code=1, problem=f"{path}: there is no such file, or it is away"
    )
    with open_watchers(configured(tmp_path, log=Log())) as (watcher,):
        watcher.on_end(ended)
    (*lines,) = shown.getvalue().splitlines()
    assert path in shown.getvalue()
    assert "there is no such file" in " ".join(lines)
    assert all(len(line) <= 80 or " " not in line for line in lines) == is_folded
    assert (len(lines) == 1) != is_folded


def test_lines_of_any_command_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """-v folds lines of any command to the terminal's width."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", shown := _Terminal())
    with Context(verbose=1).log_to_stderr():
        logging.getLogger("petsync.apply").info("a word and another " * 9)
    (*lines,) = shown.getvalue().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 80 for line in lines)
