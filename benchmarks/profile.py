"""Where the time of a petsync command goes, in all threads.

    python benchmarks/profile.py COMMAND…       (such as: export pets.csv --url http://…/v2)

Runs `petsync COMMAND…` in this process. A thread looks at every Python thread's stack each few
milliseconds, and gives the processor time and the clock time since the last look to the functions
in it. So a long call into C counts in full, on the line that makes it. Printed on stderr: for
petsync's functions, the time with all that they call; and the lines where the stacks end. A thread
that waits has clock time, and no processor time.
"""

from __future__ import annotations

import sys
from pathlib import Path

# This folder's names, such as `profile` and `requests`, are also those of imported modules.
sys.path.remove(str(Path(__file__).resolve().parent))

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FrameType

from petsync.cli import main

INTERVAL_S = 0.002
PACKAGE = str(Path(sys.modules["petsync"].__file__ or "").parent)
ROWS = 30


class Sampler(threading.Thread):
    """Adds up the times, (processor, clock) in seconds, of functions and of lines."""

    def __init__(self) -> None:
        super().__init__(name="sampler", daemon=True)
        self.functions: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.lines: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.processor = 0.0
        self._used: dict[int, float] = {}
        self._is_ended = threading.Event()

    def run(self) -> None:
        """Look at all other threads until `end` is called."""
        last = time.perf_counter()
        for thread in threading.enumerate():
            self._processor_since(thread)
        while not self._is_ended.wait(INTERVAL_S):
            now = time.perf_counter()
            frames = sys._current_frames()
            for thread in threading.enumerate():
                used = self._processor_since(thread)
                if thread is not self and (frame := frames.get(thread.ident or 0)):
                    self._add(frame, used, now - last)
            last = now

    def end(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._is_ended.set()
        self.join()

    def _processor_since(self, thread: threading.Thread) -> float:
        """Return the thread's processor time since its last look; 0 if it has ended."""
        number = thread.native_id or 0
        try:
            # Linux's clock of a thread, by its number. pthread_getcpuclockid crashes for a thread
            # that has ended.
            now = time.clock_gettime((~number << 3) | 6)
        except OSError:
            return 0.0
        before, self._used[number] = self._used.get(number, 0.0), now
        return max(now - before, 0.0)

    def _add(self, frame: FrameType, processor: float, clock: float) -> None:
        self.processor += processor
        leaf = f"{_name(frame.f_code)} line {frame.f_lineno}"
        codes = {code for code in _codes(frame) if code.co_filename.startswith(PACKAGE)}
        for times in (self.lines[leaf], *(self.functions[_name(code)] for code in codes)):
            times[0] += processor
            times[1] += clock


def run(command: list[str]) -> int:
    """Run the command, print its profile, and return its exit code."""
    # Else the sampler gets its turn mostly where a thread lets others run, such as in a wait.
    sys.setswitchinterval(INTERVAL_S / 10)
    sampler = Sampler()
    begun, used = time.perf_counter(), time.process_time()
    sampler.start()
    code: object = 0
    try:
        main(command)
    except SystemExit as ended:
        code = ended.code
    sampler.end()
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    print(
        f"\n{seconds:.2f} s, processor {processor:.2f} s, of these {sampler.processor:.2f} s in "
        "Python threads; the rest is the sampler and threads of libraries",
        file=sys.stderr,
    )
    show("petsync's functions, with what they call", sampler.functions)
    show("lines where the stacks end", sampler.lines)
    return code if isinstance(code, int) else 1


def show(title: str, times: dict[str, list[float]]) -> None:
    """Print the functions or lines with the most processor time."""
    print(f"\n{'processor':>9}{'clock':>9}  {title}", file=sys.stderr)
    for name, (processor, clock) in sorted(times.items(), key=lambda each: -each[1][0])[:ROWS]:
        print(f"{processor:9.2f}{clock:9.2f}  {name}", file=sys.stderr)


def _codes(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _name(code: CodeType) -> str:
    return f"{'/'.join(Path(code.co_filename).parts[-3:])} {code.co_qualname}"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
