"""A process that works on a run, and obeys the commands on its standard input.

It answers each line with one line: "ok", or the error's type and message. Its arguments are the
state folder, the run's id and the store's URL; a run that the journal knows is resumed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from journals import begin_run, intended, result, small_plan

from petsync.apply.journal import Journal, RunSession
from petsync.errors import PetsyncError

PLAN = small_plan()


def write_line(text: str) -> None:
    """Write an answer."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def keep_busy(seconds: float) -> None:
    """Block the loop, so that no other task runs."""
    time.sleep(seconds)


async def obey(session: RunSession, line: str) -> str:
    """Carry out a command and return the answer."""
    match line.split():
        case ["intend", number]:
            await intended(session, int(number), PLAN.changes[int(number) % len(PLAN.changes)])
        case ["done", number]:
            session.record_result(
                result(int(number), PLAN.changes[int(number) % len(PLAN.changes)])
            )
            await session.flush()
        case ["repeat", number]:
            session.record_retry(int(number), "503")
        case ["limit", size]:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
        case ["block", seconds]:
            keep_busy(float(seconds))
        case ["race"]:
            await race(session)
        case ["finish"]:
            await session.finish()
        case ["close"]:
            await session.close()
        case _:
            os.abort()
    return "ok"


async def race(session: RunSession) -> None:
    """Write changes until the process is killed, and print which ones are on disk."""
    for number in range(10**9):
        await intended(session, number, PLAN.changes[number % len(PLAN.changes)])
        write_line(f"i{number}")
        session.record_result(result(number, PLAN.changes[number % len(PLAN.changes)]))
        if number % 3 == 0:
            await session.flush()
            write_line(f"d{number}")


async def work(state: Path, run: str, store: str) -> None:
    """Open the run, and obey commands until the end of the input."""
    try:
        journal = Journal.open(state, create=True)
        known = any(past.run_id == run for past in journal.runs())
        session = journal.resume(run) if known else begin_run(journal, run, store=store, total=6)
        write_line("sat")
    except PetsyncError as error:
        return write_line(f"{type(error).__name__} {error.message}")
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            write_line(await obey(session, line))
        except PetsyncError as error:
            write_line(f"{type(error).__name__} {error.message}")
    return None


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
