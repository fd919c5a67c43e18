"""Open the page of `petsync app` in Chromium, and measure how long a user waits.

    python benchmarks/app.py [RUNS]

Prints the seconds from the start of the command until the terminal has the link, until the page
shows something, and until the first form can be used; and the processor's seconds until then, of
petsync (the server and the kernel) and of Chromium. Each figure is the least of the runs. Chromium
runs before the command starts, as a user's browser does, but it has none of the page's files. On a
busy machine, the processor's seconds say more than those of the clock.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from playwright.sync_api import Browser

from petsync.sandbox import Sandbox

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from chromium import open_chromium

RUNS = 5
_IS_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"


def main(runs: str = str(RUNS)) -> None:
    """Print the table."""
    with Sandbox() as box, open_chromium() as chromium:
        measured = [_measure(chromium, box.url) for _ in range(int(runs))]
    least = [min(figures) for figures in zip(*measured, strict=True)]
    names = ("link", "shown", "usable", "petsync", "Chromium")
    print(f"{'seconds until':^30}{'processor':^20}")
    print("".join(f"{name:>10}" for name in names))
    print("".join(f"{figure:>10.2f}" for figure in least))


def _measure(chromium: Browser, url: str) -> tuple[float, ...]:
    command = [sys.executable, "-m", "petsync.cli", "--url", url, "app", "--no-browser", "--json"]
    context = chromium.new_context()
    page = context.new_page()
    before = _processor_time(psutil.Process())
    with TemporaryDirectory(prefix="petsync-app-") as folder:
        start = time.perf_counter()
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server:
            try:
                assert server.stdout is not None
                lines = iter(server.stdout.readline, b"")
                link = next(line for line in lines if b'"url"' in line).decode().split('"')[3]
                times = [time.perf_counter() - start]
                page.goto(link, wait_until="commit")
                page.wait_for_function(_IS_PAINTED)
                times.append(time.perf_counter() - start)
                page.get_by_label("How", exact=True).click(trial=True)
                times.append(time.perf_counter() - start)
                used = _processor_time(psutil.Process(server.pid))
                others = _processor_time(psutil.Process()) - before - used
            finally:
                server.terminate()
    context.close()
    return *times, used, others


def _processor_time(process: psutil.Process) -> float:
    """Return the processor's seconds of the process and of those that it started and that run."""
    used = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in used)


if __name__ == "__main__":
    main(*sys.argv[1:])
