"""`reconcile --every`: which jobs run when, and what ends the process."""

from __future__ import annotations

import json
import logging
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from receiver import Receiver, build_report, configured
from scenarios import PETS, Scenario, changed

from petsync.config.model import Configuration, Job, Log, Metrics, Notify
from petsync.errors import ConfigurationError, InterruptedRunError, SettingsError
from petsync.plan.report import RoundReport
from petsync.reconcile.daemon import Daemon, DueJobs, LiveConfiguration, every, parse_interval
from petsync.reconcile.observe import Endpoint, measure, page_of
from petsync.reconcile.state import History
from petsync.sandbox import Sandbox

PLAIN, NIGHTLY = (
    Job(name="plain", mode="push"),
    Job(name="nightly", mode="push", schedule="0 2 * * *"),
)


@dataclass
class Runs:
    """A replacement for a reconciliation: it records the jobs' names, answers, and finally sets
    `stop`.
    """

    stop: threading.Event
    most: int
    answer: Callable[[str], Sequence[RoundReport]] = lambda job: (build_report(job=job),)
    names: list[str] = field(default_factory=list)
    configs: list[Configuration] = field(default_factory=list)

    def __call__(self, config: Configuration, *, job: str) -> Sequence[RoundReport]:
        self.names.append(job)
        self.configs.append(config)
        if len(self.names) >= self.most:
            self.stop.set()
        return self.answer(job)


class Waits(threading.Event):
    """A stop event whose waiting ends at once, and calls `between` each time."""

    def __init__(self, between: Callable[[float], object] = lambda _: None) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._between = between

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether the event is set."""
        self.seconds.append(timeout or 0.0)
        self._between(self.seconds[-1])
        return self.is_set()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), (" 1.5H ", 5400)]
)
def test_an_interval_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    """An interval is a number of seconds, minutes, hours or days."""
    assert parse_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "m", "0s", "0.5s", "-5m", "5 weeks", "1e9s", "९m9"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    """An invalid interval is refused, with valid examples in the message."""
    with pytest.raises(SettingsError, match="90s, 15m, 2h or 1d"):
        parse_interval(text)


def test_jobs_without_a_schedule_run_with_each_pass(tmp_path: Path) -> None:
    """Enabled jobs without a schedule run in order with each pass until the stop."""
    off, other = Job(name="off", mode="push", enabled=False), Job(name="other", mode="pull")
    stop = Waits()
    runs = Runs(stop, most=4)
    config = configured(tmp_path, PLAIN, off, other)
    assert every(config, 0.0, stop=stop, run=runs) == 0
    assert runs.names == ["plain", "other"] * 2


def test_a_scheduled_job_runs_once_when_it_is_due(tmp_path: Path) -> None:
    """A scheduled job that missed its time runs once at the start; a job that never ran waits for
    its time.
    """
    config = configured(tmp_path, PLAIN, NIGHTLY, NIGHTLY.model_copy(update={"name": "fresh"}))
    long_ago = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    History(config.state).append(build_report(job="nightly", started=long_ago).round)
    stop = Waits()
    runs = Runs(stop, most=5)
    every(config, 0.0, stop=stop, run=runs)
    assert runs.names == ["plain", "nightly", "plain", "plain", "plain"]


def test_a_last_round_in_the_future_keeps_no_job_from_its_time(tmp_path: Path) -> None:
    """A last round in the future, from a wrong clock, does not delay a job beyond its next time."""
    minutely = Job(name="minutely", mode="push", schedule="* * * * *")
    config = configured(tmp_path, minutely, PLAIN)
    ahead = (datetime.now(UTC) + timedelta(days=3650)).isoformat()
    History(config.state).append(build_report(job="minutely", started=ahead).round)
    stop = Waits(lambda seconds: stop.seconds[2:] and stop.set())
    runs = Runs(stop, most=9)
    every(config, 1000.0, stop=stop, run=runs)
    assert runs.names[0] == "plain"
    assert all(seconds <= 60 for seconds in stop.seconds)


def test_it_sleeps_until_the_next_pass_or_the_next_time(tmp_path: Path) -> None:
    """The process sleeps until the next pass or the next scheduled time, whichever is first, but
    reads the time again every minute: it may have been set, or the machine may have slept.
    """
    stop = Waits(lambda _: stop.set())
    every(configured(tmp_path, PLAIN), 50.0, stop=stop, run=Runs(stop, most=9))
    assert 49 < stop.seconds[0] <= 50
    stop = Waits(lambda _: stop.seconds[1:] and stop.set())
    runs = Runs(stop, most=9)
    every(configured(tmp_path, NIGHTLY, PLAIN), parse_interval("999999d"), stop=stop, run=runs)
    assert (runs.names, stop.seconds[0]) == (["plain"], 60)


def test_an_error_ends_only_its_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error in a job is logged and notified, and the other jobs run in this pass and
    the next.
    """

    def broken(job: str) -> Sequence[RoundReport]:
        if job == "broken":
            raise ZeroDivisionError("hush")
        return (build_report(job=job),)

    with Receiver() as receiver:
        notify = Notify(urls=(receiver.url,), on=("failure",))
        log = Log(file=tmp_path / "log")
        config = configured(
            tmp_path, Job(name="broken", mode="push"), PLAIN, notify=notify, log=log
        )
        stop = Waits()
        runs = Runs(stop, most=4, answer=broken)
        assert every(config, 0.0, stop=stop, run=runs) == 0
    assert runs.names == ["broken", "plain"] * 2
    assert receiver.titles == ["petsync: broken failed (error)"]
    assert "ZeroDivisionError" in receiver.got[0]["message"]
    assert "hush" not in receiver.got[0]["message"]
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()


def test_a_round_that_an_outage_stopped_ends_nothing(tmp_path: Path) -> None:
    """A round that an outage interrupted does not end the process, which later ends with 0."""
    stop = Waits()
    runs = Runs(
        stop,
        most=3,
        answer=lambda job: (build_report("interrupted", job=job),) if len(runs.names) < 3 else (),
    )
    assert every(configured(tmp_path, PLAIN), 0.0, stop=stop, run=runs) == 0
    assert len(runs.names) == 3


def test_ctrl_c_in_a_round_ends_all_with_7(tmp_path: Path) -> None:
    """Ctrl-C during a round ends the process with 7, whether the round reports it or raises, and no
    further job begins.
    """

    def interrupt(job: str) -> Sequence[RoundReport]:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return (build_report("interrupted", job=job),)

    def raised(_: str) -> Sequence[RoundReport]:
        raise InterruptedRunError("run 7 was interrupted")

    before = signal.getsignal(signal.SIGINT)
    for answer in (interrupt, raised):
        stop = threading.Event()
        runs = Runs(stop, most=9, answer=answer)
        config = configured(tmp_path, PLAIN, PLAIN.model_copy(update={"name": "b"}))
        assert every(config, 1000.0, stop=stop, run=runs) == 7
        assert runs.names == ["plain"]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_it_waits_ends_with_0(tmp_path: Path) -> None:
    """Ctrl-C between rounds ends the process with 0."""
    stop = Waits(lambda _: signal.raise_signal(signal.SIGINT))
    assert every(configured(tmp_path, PLAIN), 1000.0, stop=stop, run=Runs(stop, most=9)) == 0


def test_a_changed_configuration_is_used_and_an_invalid_one_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An invalid configuration is reported and the last valid one stays active until the file is
    fixed, which is reported too; a new metrics address needs a restart.
    """
    contents = iter(["[broken", "[broken again", "mended"])
    path = tmp_path / "petsync.toml"
    path.write_text("first")

    def load(file: Path, _: Mapping[str, str]) -> Configuration:
        if "broken" in (text := file.read_text()):
            raise ConfigurationError(f"petsync.toml:1: {text.split()[0]}", hint="Mend it.")
        metrics = Metrics(listen="127.0.0.1:9465" if text == "mended" else "")
        return replace(config, jobs=(PLAIN.model_copy(update={"name": text}),), metrics=metrics)

    def between(_: float) -> None:
        path.write_text(next(contents, "mended"))

    with Receiver() as receiver:
        config = configured(
            tmp_path, PLAIN, notify=Notify(urls=(receiver.url,), on=("failure", "recovery"))
        )
        stop = Waits(between)
        runs = Runs(stop, most=5)
        assert every(path, 0.0, stop=stop, run=runs, load=load, log_format="json") == 0
    assert runs.names == ["first", "first", "first", "mended", "mended"]
    assert receiver.titles == [
        "petsync: petsync.toml failed (error)",
        "petsync: petsync.toml has recovered",
    ]
    assert "exit code 64" in receiver.got[0]["message"]
    assert runs.configs[-1].log.format == "json"
    assert "the new [metrics] listen takes effect after a restart" in caplog.text


def test_what_ends_is_not_healthy(tmp_path: Path) -> None:
    """The health check fails from the request to end, and also after an unexpected end."""
    config = configured(tmp_path, PLAIN)
    asked, ended = threading.Event(), threading.Event()
    loops = [
        Daemon(
            LiveConfiguration(config, {}, lambda *_: config),
            DueJobs(tmp_path),
            1.0,
            stop,
            Runs(stop, 1),
        )
        for stop in (asked, ended)
    ]
    assert [each.health()["ok"] for each in loops] == [True, True]
    asked.set()
    loops[1].is_ended = True
    assert [each.health()["ok"] for each in loops] == [False, False]


def test_the_first_configuration_has_to_be_right(tmp_path: Path) -> None:
    """The first configuration must be valid, because there is no earlier one to use."""
    with pytest.raises(SettingsError, match="there is no"):
        every(tmp_path / "petsync.toml", 1.0, stop=threading.Event(), environ={})


def test_a_real_job_can_be_watched_from_outside(tmp_path: Path) -> None:
    """Metrics and health of a running process are served at a local address until it ends."""
    served: list[str] = []
    is_served, stop = threading.Event(), threading.Event()

    def hear(address: str) -> None:
        served.append(address)
        is_served.set()

    with Sandbox(pets=PETS, auth=False) as box:
        scenario = Scenario(box, tmp_path)
        scenario.write(changed(PETS, 3, name="Rex"))
        log = Log(file=tmp_path / "log")
        config = replace(scenario.config(), metrics=Metrics(listen="127.0.0.1:0"), log=log)
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(every(config, 0.02, stop=stop, served=hear))
        )
        thread.start()
        try:
            assert is_served.wait(120)
            page = until(served[0], "petsync_every_passes 2.0")
            told_health = json.loads(get(served[0], "/healthz"))
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(served[0], "/")
        finally:
            stop.set()
            thread.join()
    assert 'petsync_round_applied{job="catalogue",part=""}' in page
    assert 'petsync_round_exit_code{job="catalogue",part=""} 0.0' in page
    assert told_health["ok"]
    assert told_health["configuration"] == "valid"
    assert codes == [0]
    with pytest.raises(OSError, match="refused"):
        get(served[0], "/healthz")


def test_counted_rounds_are_on_the_page(tmp_path: Path) -> None:
    """A round that is stored while the page is made, and that its counters include, is on it."""
    with Sandbox(pets=PETS, auth=False) as box:
        scenario = Scenario(box, tmp_path)
        scenario.write()

        def run_and_count() -> dict[str, tuple[str, float]]:
            with measure(scenario.config()) as watcher:
                scenario.run(watchers=[watcher])
            return {"petsync_every_passes": ("Passes", 1.0)}

        app = page_of(scenario.config, run_and_count)
        page = b"".join(app({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *_: None)).decode()
    assert "petsync_every_passes 1.0" in page
    assert 'petsync_round_applied{job="catalogue",part=""} 0.0' in page


def test_ipv6_is_an_address_too() -> None:
    """An IPv6 address in brackets is served, and failed health answers 503."""
    endpoint = Endpoint("[::1]:0", None, lambda: {"ok": False})
    endpoint.start()
    try:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            get(endpoint.address, "/healthz")
    finally:
        endpoint.close()
    assert endpoint.address == ""


def test_an_address_that_is_taken_keeps_no_job_from_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A metrics address that is taken or invalid is logged, and the jobs run."""
    with Receiver() as receiver, caplog.at_level(logging.ERROR, logger="petsync"):
        taken = receiver.url.reveal().removeprefix("json://").split("/")[0]
        for listen in (taken, "nonsense"):
            stop = Waits()
            runs = Runs(stop, most=1)
            config = configured(tmp_path, PLAIN, metrics=Metrics(listen=listen))
            assert every(config, 0.0, stop=stop, run=runs) == 0
            assert runs.names == ["plain"]
    assert caplog.text.count("metrics cannot be served at") == 2


def get(address: str, path: str) -> str:
    """Return the answer at the path."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=120) as answer:
        return str(answer.read().decode())


def until(address: str, wanted: str) -> str:
    """Return the metrics once they contain the wanted text."""
    for _ in range(3000):
        if wanted in (page := get(address, "/metrics")):
            return page
    raise AssertionError(f"{wanted} is not in {page}")
