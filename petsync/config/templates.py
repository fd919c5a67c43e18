"""Templates of notices: titles and bodies for string.Template, and the names that they can use."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from string import Template

from petsync.config.model import Event

__all__ = ["DEFAULTS", "NAMES", "fill", "mistakes_in"]


NAMES: Mapping[str, str] = {
    "event": "failure, violation, recovery, waiting or digest",
    "job": "the job; for a folder, job and file: `inbox/dogs.csv`",
    "also": "other files of the job with the same problem",
    "status": "how the round ended: `in-sync`, `done`, `conflicts`, …",
    "exit_code": "the round's exit code",
    "problem": "why the round ended this way",
    "hint": "what to do",
    "mode": "push, pull, two-way or check",
    "store": "the store's address",
    "source": "where the rows come from",
    "host": "the machine's name",
    "round": "the round's id",
    "started": "when the round started, in local time",
    "seconds": "how long the round took",
    "rows": "rows in the sheet",
    "pets": "pets in the store",
    "drift": "rows and pets that differed at the start",
    "to_store": "planned changes to the store, as text",
    "to_sheet": "planned changes to the sheet, as text",
    "applied": "applied changes",
    "conflicts": "open conflicts",
    "findings": "rows that need fixing",
    "failed": "failed changes",
    "left": "unexplained differences",
    "notes": "differences that the job's settings allow",
    "open": "open differences, one per line, new ones first",
    "waiting": "the file of the waiting plan",
    "command": "the command that releases the waiting plan",
    "report": "the file of the round's report",
    "since": "when the problem started, if it started before this round",
    "lines": "the lines of the digest, one per job",
}
"""The meaning of each name. A name that does not apply to a notice is empty."""

DEFAULTS: Mapping[Event, tuple[str, str]] = {
    "failure": (
        "petsync: $job failed ($status)",
        (
            "$job on $host, round $round, started $started: $status, exit code $exit_code\n"
            "$problem\n$hint\n$open\n"
            "The same problem: $also\n"
            "It started at $since\n"
            "Report: $report"
        ),
    ),
    "violation": (
        "petsync: $job has differences for you to resolve",
        (
            "$job on $host, round $round, started $started: conflicts: $conflicts, "
            "rows that need fixing: $findings, unexplained: $left\n"
            "$open\n"
            "The same problem: $also\n"
            "Report: $report"
        ),
    ),
    "recovery": (
        "petsync: $job has recovered",
        (
            "$job on $host, round $round, started $started: $status, applied changes: $applied\n"
            "Also recovered: $also\n"
            "The problem started at $since\n"
            "Report: $report"
        ),
    ),
    "waiting": (
        "petsync: a plan of $job waits for approval",
        (
            "$job on $host: the plan exceeds a limit; petsync waits until you release it\n"
            "In the store: $to_store\n"
            "In the sheet: $to_sheet\n"
            "$problem\n"
            "To look at it and release it:\n"
            "    $command\n"
            "It has been waiting since $since\n"
            "Report: $report"
        ),
    ),
    "digest": ("petsync: the jobs on $host", "$lines"),
}


def mistakes_in(text: str) -> tuple[str, ...]:
    """Return the mistakes in a title or a body, a sentence each; () if there are none."""
    template = Template(text)
    if not template.is_valid():
        return ("there is a single $; write $$ for a dollar, or a name after it, such as $job",)
    return tuple(
        _describe_unknown(name) for name in template.get_identifiers() if name not in NAMES
    )


def _describe_unknown(name: str) -> str:
    near = get_close_matches(name, NAMES, 1)
    known = f"did you mean ${near[0]}?" if near else f"the names are ${', $'.join(NAMES)}"
    return f"${name} is not a name that a notice can use; {known}"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values inserted, without the lines in which all names are empty."""
    lines = (Template(line) for line in text.splitlines())
    return "\n".join(line.safe_substitute(values) for line in lines if _has_value(line, values))


def _has_value(line: Template, values: Mapping[str, str]) -> bool:
    names = line.get_identifiers()
    return not names or any(values.get(name) for name in names)
