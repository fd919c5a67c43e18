"""The progress bar: its text, where it is shown, and that no run waits for it or ends because of
it.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pexpect
import pytest
from effort import steps
from hypothesis import given
from hypothesis import strategies as st
from render_samples import result

from petsync.plan.report import Progress
from petsync.plan.uploads import UploadProgress
from petsync.protocol.operations import Traffic
from petsync.report import progress as bar
from petsync.report.meter import Meter
from petsync.report.progress import TerminalBar, run_bar

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent
PATHS = [str(TESTS), str(TESTS / "support")]
SHOWN = re.compile(r" *\d+% \|.*\| [\d,]+/3,000.*")
RUN = """
import sys, time
sys.path[:0] = {paths!r}
from test_render_bar import progress
from petsync.report.progress import TerminalBar, run_bar

drawn, show = [], TerminalBar.show
TerminalBar.show = lambda self, meter: (show(self, meter), drawn.append(meter))
with run_bar(3000) as step:
    for n in range({start}, 3000):
        step(progress(n, problems=n // 700, retries=n // 100))
        time.sleep(0.001)
    while len(drawn) < {times}:
        time.sleep(0.01)
print("the run has ended")
"""


class Terminal(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        """Return true."""
        return True


def drawn(text: str, terminal: io.StringIO) -> None:
    """Wait until the bar's thread has written the text."""
    latest = time.monotonic() + 120
    while text not in terminal.getvalue() and time.monotonic() < latest:
        time.sleep(0.01)
    assert text in terminal.getvalue()


def progress(
    done: int, *, problems: int = 0, retries: int = 0, waiting: float = 0.0, total: int = 3000
) -> Progress:
    """Return the progress of a run with this number of finished changes."""
    traffic = Traffic(limit=16, retries=retries, waiting=waiting)
    return Progress(done, total, result(0, "applied"), problems, traffic)


def meter(**more: object) -> Meter:
    """Return a meter in the middle of a run with some problems."""
    values: dict[str, object] = {"done": 2_100, "total": 5_000, "rate": 210.4, "limit": 16}
    values |= {"text": "Applying", "unit": "changes"}
    return Meter(**{**values, **more})  # type: ignore[arg-type]


def format_sides(meter: Meter, width: int | None) -> str:
    """Return both sides of the bar."""
    return " | ".join(meter.sides(width))


def written(terminal: Terminal) -> list[str]:
    """Return the lines that were drawn over each other, without blank ones."""
    return [line for line in terminal.getvalue().split("\r") if line.strip()]


def ran(columns: int) -> list[str]:
    """Return the lines that a run shows on a terminal of this width, without colours."""
    code = RUN.format(paths=PATHS, start=1500, times=20)
    terminal = pexpect.spawn(
        sys.executable, ["-c", code], dimensions=(24, columns), encoding="utf-8", timeout=120
    )
    with closing(terminal):
        terminal.expect(pexpect.EOF)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.before or "")
        return re.split(r"[\r\n]+", plain)


def threads() -> list[str]:
    """Return the names of the drawing threads."""
    return [thread.name for thread in threading.enumerate() if thread.name == "petsync-bar"]


def test_a_meter_says_everything_where_there_is_room() -> None:
    """A meter with enough room shows done and total, percent, rate, concurrency, retries, problems
    and remaining time.
    """
    text = format_sides(meter(retries=3, problems=2), None)
    assert text == (
        "Applying  42% | 2,100/5,000 changes, 210/s, 16 at once, 3 retries, 2 problems, 0:14 left"
    )


def test_a_terminal_of_80_columns_has_room_for_all() -> None:
    """In 80 columns the obvious words are left out, and every number is shown."""
    text = format_sides(meter(retries=3, problems=2), 79)
    assert text == " 42% | 2,100/5,000, 210/s, 16 at once, 3 retries, 2 problems, 0:14 left"


def test_a_narrow_terminal_keeps_what_matters_most() -> None:
    """In a narrow terminal the remaining time and the problems stay, and other parts are left out
    in order.
    """
    text = format_sides(meter(retries=3, problems=2), 59)
    assert text == " 42% | 2,100/5,000, 210/s, 2 problems, 0:14 left"
    assert format_sides(meter(retries=3, problems=2), 20) == " 42% | 2,100/5,000"


def test_only_the_end_is_a_hundred_percent() -> None:
    """100 percent is shown only when every change is done."""
    assert meter(done=4_999).sides(79)[0] == " 99%"
    assert meter(done=5_000).sides(79)[0] == "100%"


def test_a_pause_says_who_asked_for_it_and_how_long() -> None:
    """A pause that the service asked for is shown with its length, instead of rate and remaining
    time.
    """
    text = format_sides(meter(waiting=11.2, problems=2), 79)
    assert text == " 42% | 2,100/5,000 changes, the service asked to wait 12 s, 2 problems"


def test_a_slow_run_has_a_rate_and_hours() -> None:
    """A rate below ten has a decimal, and hours are shown as hours."""
    text = format_sides(meter(rate=0.5), None)
    assert "0.5/s" in text
    assert "1:36:40 left" in text


def test_an_upload_is_measured_in_bytes() -> None:
    """The bar of an upload counts files; its percent, rate and remaining time are of the bytes."""
    now = meter(done=3, total=12, unit="files", sent=15 << 20, size=20 << 20, rate=2.5 * 2**20)
    assert format_sides(now, None) == (
        "Applying  75% | 3/12 files, 2.5 MiB/s, 16 at once, 0:02 left"
    )
    assert now.line() == "3 of 12 files"
    terminal = Terminal()
    with run_bar(text="Uploading", unit="files", file=terminal, delay=0) as step:
        step(UploadProgress(sent=1500, total=2000, done=1, files=4, problems=1))
        drawn("1/4 files", terminal)
    assert re.search(r"Uploading  75% \|.*\| 1/4 files, .*1 problem", written(terminal)[-1])


def test_a_line_now_and_then_is_short() -> None:
    """A line without a terminal shows the progress, the pause and the problems."""
    assert meter().line() == "2,100 of 5,000 changes"
    assert meter(problems=1, waiting=3.0).line() == (
        "2,100 of 5,000 changes, the service asked to wait 3 s, 1 problem"
    )


@given(
    st.integers(0, 10**7),
    st.integers(1, 10**7),
    st.floats(0, 10**5),
    st.integers(0, 128),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(0, 4000),
    st.integers(60, 200),
)
def test_a_meter_fits(
    done: int,
    total: int,
    rate: float,
    limit: int,
    retries: int,
    problems: int,
    waiting: float,
    width: int,
) -> None:
    """A meter of any run leaves room for a bar, and shows done and total."""
    numbers = {"limit": limit, "retries": retries, "problems": problems, "waiting": waiting}
    left, right = meter(done=done, total=total, rate=rate, **numbers).sides(width)
    assert len(left) + len(" |") + 3 + len("| ") + len(right) <= width
    assert right.startswith(f"{done:,}/{total:,}")


@pytest.mark.parametrize("columns", [80, 60])
def test_a_bar_in_a_terminal(columns: int) -> None:
    """The bar is one line that fits, is drawn at most ten times a second, and is removed at the
    end.
    """
    begun = time.monotonic()
    lines = ran(columns)
    seconds = time.monotonic() - begun
    bars = [line for line in lines if "/3,000" in line]
    assert all(SHOWN.fullmatch(line) for line in bars)
    assert all(len(line) < columns for line in lines)
    assert 20 <= len(bars) < 10 * seconds
    assert "16 at once" in bars[-1] or columns < 80
    assert "4 problems" in bars[-1]
    # The line is cleared before the next output.
    assert not lines[-3].strip()
    assert lines[-2:] == ["the run has ended", ""]


def test_a_pause_counts_down_without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remaining seconds of a pause are updated although no change is done."""
    now, terminal = [1000.0], Terminal()
    monkeypatch.setattr("petsync.report.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    with run_bar(3000, file=terminal, delay=0) as step:
        step(progress(7, waiting=3.0))
        for left in ("3", "2", "1"):
            drawn(f"asked to wait {left} s", terminal)
            now[0] += 1.0
    seconds = re.findall(r"asked to wait (\d) s", terminal.getvalue())
    assert [*dict.fromkeys(seconds)] == ["3", "2", "1"]


def test_a_short_run_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is shorter than the delay writes nothing to a terminal."""
    assert 0.2 <= TerminalBar.delay <= 1.0
    # Any run is shorter than this delay.
    monkeypatch.setattr(TerminalBar, "delay", 3600.0)
    terminal = Terminal()
    with run_bar(100, file=terminal) as step:
        step(progress(100, total=100))
    assert terminal.getvalue() == ""


def test_a_live_view_of_the_traffic_is_used() -> None:
    """With a live view of the traffic, a pause is shown at once, without a step."""
    terminal = Terminal()
    with run_bar(3000, file=terminal, delay=0, traffic=lambda: Traffic(waiting=30.0)):
        drawn("0/3,000", terminal)
    assert "0/3,000 changes, the service asked to wait 30 s" in written(terminal)[-1]


def test_progress_that_is_not_wanted_is_not_shown() -> None:
    """Nothing is drawn with `show=False`, or if the steps have another receiver."""
    terminal, seen = Terminal(), list[object]()
    with run_bar(10, file=terminal, show=False, delay=0) as step:
        step(progress(1))
    with run_bar(10, file=terminal, on_step=seen.append, delay=0) as step:
        step(progress(2))
        time.sleep(0.2)
    assert terminal.getvalue() == ""
    assert seen == [progress(2)]


def test_steps_go_on_to_whoever_wants_them_too() -> None:
    """A bar with `show=True` is drawn, and each step is passed on."""
    terminal, seen = Terminal(), list[object]()
    with run_bar(10, file=terminal, show=True, on_step=seen.append, delay=0) as step:
        step(progress(7))
        drawn("7/3,000", terminal)
    assert "7/3,000" in written(terminal)[-1]
    assert seen == [progress(7)]


def test_it_is_quiet_elsewhere() -> None:
    """In a file or a pipe nothing is written, unless lines are requested."""
    quiet, asked = io.StringIO(), io.StringIO()
    with run_bar(10, file=quiet, delay=0) as step:
        step(progress(7))
        time.sleep(0.1)
    with run_bar(10, file=asked, show=True, delay=0) as step:
        step(progress(7))
        drawn("changes\n", asked)
    assert quiet.getvalue() == ""
    assert set(asked.getvalue().splitlines()) <= {"0 of 10 changes", "7 of 3,000 changes"}
    assert asked.getvalue()


def test_quiet_costs_no_import() -> None:
    """A script whose output is not a terminal does not import rich's console."""
    code = (
        "import sys\nfrom petsync.report.progress import run_bar\n"
        "with run_bar(10) as step:\n    step(None)\nprint('rich.console' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


class Stopped(Terminal):
    """A terminal whose user has pressed Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written, self.goes_on = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        """Block until the terminal goes on."""
        self.is_written.set()
        assert self.goes_on.wait(120)
        return super().write(text)


class Gone(Terminal):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        """Raise the error of a closed terminal."""
        raise OSError(5, "Input/output error")


class Broken(Terminal):
    """A terminal that raises an unexpected error."""

    def write(self, text: str) -> int:
        """Raise an unexpected error."""
        raise RuntimeError("no terminal at all")


def test_a_stopped_terminal_holds_no_run() -> None:
    """A blocked terminal delays no step, and the end of a run by at most a second."""
    assert bar._JOIN_TIMEOUT_S <= 1.0
    terminal = Stopped()
    with run_bar(10, file=terminal, delay=0) as step:
        step(progress(1))
        assert terminal.is_written.wait(120)
        for n in range(1000):
            step(progress(n))
    assert threads() == ["petsync-bar"]
    assert terminal.getvalue() == ""
    terminal.goes_on.set()


@pytest.mark.parametrize("kind", [Gone, Broken])
def test_a_terminal_that_went_away_ends_no_run(kind: Callable[[], Terminal]) -> None:
    """If the terminal raises an error, no step raises it, no thread is left, and the next bar is
    drawn.
    """
    with run_bar(10, file=kind(), delay=0) as step:
        for n in range(3):
            step(progress(n))
            time.sleep(0.1)
    assert threads() == []
    # A living thread keeps the ident of the ended one from being reused.
    held = threading.Event()
    alive = threading.Thread(target=held.wait)
    alive.start()
    terminal = Terminal()
    with run_bar(10, file=terminal, delay=0) as step:
        step(progress(5))
        drawn("5/3,000", terminal)
    held.set()


def test_a_terminal_closed_in_mid_run_ends_no_run(tmp_path: Path) -> None:
    """A process whose terminal is closed runs to its end."""
    ours, theirs = os.openpty()
    code = RUN.format(paths=PATHS, start=1000, times=0)
    code = code.replace('print("the run has ended")', f"open({str(tmp_path / 'end')!r}, 'w')")
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        assert os.read(ours, 10)
        os.close(ours)
        assert running.wait(60) in (0, 120)
    assert (tmp_path / "end").exists()


def test_a_block_that_raises_takes_its_bar_away() -> None:
    """An error in the block reaches the caller, and the line is cleared."""
    terminal = Terminal()

    def fails() -> None:
        with run_bar(10, file=terminal, delay=0) as step:
            step(progress(5))
            drawn("5/3,000", terminal)
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="disk"):
        fails()
    assert "5/3,000" in terminal.getvalue()
    assert not terminal.getvalue().rpartition("\r")[2]
    assert not terminal.getvalue().split("\r")[-2].strip()
    assert threads() == []


def test_steps_from_many_threads() -> None:
    """Steps can come from many threads at once."""
    terminal = Terminal()

    def work(step: Callable[[Progress], None]) -> None:
        for n in range(2000):
            step(progress(n))

    with run_bar(3000, file=terminal, delay=0) as step:
        workers = [threading.Thread(target=work, args=(step,)) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        drawn("1,999/3,000", terminal)


def test_a_step_costs_little() -> None:
    """A step costs only a few lines of Python."""
    step_of = progress(7)
    with run_bar(3000, file=Terminal(), delay=0) as step:
        assert steps(lambda: [step(step_of) for _ in range(1000)]) < 20_000


def test_a_bar_can_be_turned_off() -> None:
    """TQDM_DISABLE, which turns off the bars of many programs, suppresses the bar."""
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    code = (
        f"import sys; sys.path[:0] = {PATHS!r}\n"
        "import time\nfrom test_render_bar import Terminal, progress, run_bar\n"
        "terminal = Terminal()\n"
        "with run_bar(10, file=terminal, delay=0) as step:\n"
        "    step(progress(1))\n    time.sleep(0.2)\n"
        "print(repr(terminal.getvalue()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    assert (done.stdout, done.stderr) == ("''\n", "")
