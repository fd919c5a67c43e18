"""What cron and systemd are told of the jobs that have a schedule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from petsync.reconcile.config.cron import on_calendar
from petsync.reconcile.config.model import Timed, Timetable

__all__ = ["ENVIRONMENT", "Unit", "crontab", "scheduled", "units", "unscheduled"]

ENVIRONMENT = "petsync.env"
"""The file beside petsync.toml that has the secrets as NAME=value, for its owner alone."""
_SETTLED = "2 3 5 6 7"
"""Exit codes with which the unit has not failed: people are told of what they have to decide, a
locked job is at work already, and the next round resumes an interrupted one.
"""


class Unit(NamedTuple):
    """A file for systemd: its name, and its text."""

    name: str
    text: str


def scheduled(table: Timetable) -> tuple[Timed, ...]:
    """The jobs that run at a time of their own."""
    return tuple(job for job in table.jobs if job.schedule and job.enabled)


def crontab(table: Timetable, program: Sequence[str]) -> str:
    """A line of a crontab for each of them; `program` is how petsync is called."""
    head = (
        "# For `crontab -e`; times are this machine's. Secrets stand as NAME='value' in\n"
        f"# {ENVIRONMENT}, beside {table.path.name}; let nobody else read it (chmod 600).\n"
        f"# In a terminal: petsync reconcile {table.path.name} --env-file {ENVIRONMENT}\n"
        "# cron mails what is printed, also of a round that is well. Where [notify] tells people,\n"
        "# write >>petsync.log 2>&1 at the end of a line.\n"
    )
    lines = (_line(table, job, program) for job in scheduled(table))
    return "".join((head, *(f"# {each}\n" for each in unscheduled(table)), *lines))


def unscheduled(table: Timetable) -> tuple[str, ...]:
    """A sentence on the jobs that nothing starts, if there are any."""
    names = [job.name for job in table.jobs if job.enabled and not job.schedule]
    said = f"Without a schedule, and so not started by this: {', '.join(names)}."
    return (said,) if names else ()


def _line(table: Timetable, job: Timed, program: Sequence[str]) -> str:
    folder = shlex.quote(str(table.path.parent))
    secrets = f"{{ [ ! -f {ENVIRONMENT} ] || . ./{ENVIRONMENT}; }}"
    call = shlex.join([*program, "reconcile", table.path.name, "--job", job.name])
    command = f"cd {folder} && set -a && {secrets} && exec {call}"
    # In a crontab % is a line break.
    return f"{job.schedule} {command}\n".replace("%", r"\%")


def units(table: Timetable, program: Sequence[str]) -> Iterator[Unit]:
    """A .service and a .timer for each of them."""
    for job in scheduled(table):
        name = f"petsync-{job.name}"
        yield Unit(f"{name}.service", _service(table, job, program))
        yield Unit(f"{name}.timer", _timer(job))


def _service(table: Timetable, job: Timed, program: Sequence[str]) -> str:
    folder = table.path.parent
    words = [*program, "reconcile", str(table.path), "--job", job.name]
    return f"""\
[Unit]
Description=petsync: reconcile {job.name}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory={_escaped(folder)}
EnvironmentFile=-{_escaped(folder / ENVIRONMENT)}
ExecStart={" ".join(map(_quoted, words))}
# What people have to decide they are told; a job that is locked or interrupted goes on.
SuccessExitStatus={_SETTLED}
NoNewPrivileges=yes
PrivateTmp=yes
"""


def _timer(job: Timed) -> str:
    calendar = "".join(f"OnCalendar={line}\n" for line in on_calendar(job.schedule))
    return f"""\
[Unit]
Description=petsync: reconcile {job.name} ({job.schedule})

[Timer]
{calendar}# What was due while the machine was off is made up for.
Persistent=true

[Install]
WantedBy=timers.target
"""


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command as systemd reads it."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w./=:@+,%-]+", text) else f'"{text}"'
