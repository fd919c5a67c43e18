"""What stands for each name of a template: a round in words that can be sent to anybody."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from petsync.diff.round import Counts, Open, Round
from petsync.diff.round_report import RoundReport
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.notify.decide import Notice, is_new, open_of
from petsync.reconcile.notify.plain import origins, plain
from petsync.reconcile.notify.templates import NAMES
from petsync.render.words import count, duration
from petsync.table.visible import visible

__all__ = ["values_of"]

_MOST, _NAME, _PROBLEM = 12, 60, 300
Safe = Callable[..., str]
_EXACT = re.compile(r"[^<>\[\]`*|\n\r]*")


def values_of(
    notice: Notice, config: Configuration, clean: Callable[[str], str]
) -> Mapping[str, str]:
    """A text for each of NAMES. `clean` takes secrets out, before anything is cut or rewritten."""
    round_ = notice.told.round
    job = next((each for each in config.jobs if each.name == round_.job), None)

    known = origins((round_.store, *(each.url for each in config.jobs)))

    def safe(text: str, width: int = _PROBLEM) -> str:
        return plain(clean(text), width, known=known)

    return {
        **dict.fromkeys(NAMES, ""),
        **_numbers(notice),
        "event": notice.event,
        "job": safe(notice.name),
        "also": safe(_few(notice.also)),
        "status": round_.status,
        "problem": safe(round_.problem),
        "hint": safe(round_.hint),
        "mode": round_.mode,
        "store": safe(round_.store),
        "source": safe(round_.source),
        "host": safe(socket.gethostname()),
        "round": safe(round_.id),
        "started": _local(datetime.fromisoformat(round_.started)),
        "seconds": duration(round_.seconds),
        "to_store": _planned(round_.to_store),
        "to_sheet": _planned(round_.to_sheet),
        "open": "\n".join(_open(notice, safe)),
        "waiting": _exact(clean(round_.waiting)),
        "command": _exact(clean(_command(round_, job, config))),
        "report": _exact(clean(round_.report)),
        "since": _local(datetime.fromtimestamp(notice.since, UTC)) if notice.since else "",
    }


def _numbers(notice: Notice) -> Mapping[str, str]:
    """Those of all the sheets of which the same is told; they have one store, and one exit code."""
    rounds = [told.round for told in (notice.told, *notice.others)]
    names = ("rows", "drift", "applied", "conflicts", "findings", "failed", "left", "notes")
    totals = {name: str(sum(getattr(each, name) for each in rounds)) for name in names}
    return totals | {name: str(getattr(rounds[0], name)) for name in ("exit_code", "pets")}


def _local(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %z}"


def _few(names: tuple[str, ...]) -> str:
    rest = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _planned(counts: Counts) -> str:
    parts = [(counts.add, "to add"), (counts.update, "to change"), (counts.delete, "to delete")]
    said = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"{said} ({count(counts.total, 'pet')})" if said else ""


def _open(notice: Notice, safe: Safe) -> Iterator[str]:
    """A line for each open difference, what is new in front."""
    every = [each for told in (notice.told, *notice.others) for each in _listed(notice, told)]
    every.sort(key=lambda each: not is_new(each, notice.new))
    for each in every[:_MOST]:
        yield f"- {_place(each, safe)}: {safe(each.problem)}"
    if len(every) > _MOST:
        yield f"- and {len(every) - _MOST} more, which the report lists"


def _listed(notice: Notice, told: RoundReport) -> tuple[Open, ...]:
    if notice.event == "failure":
        # Of what is refused, the changes that did not come to pass are no news.
        passed = ("note", "waiting", "drift" if told.round.status == "refused" else "")
        return tuple(each for each in told.open if each.kind not in passed)
    return open_of(told) if notice.event == "violation" else ()


def _place(each: Open, safe: Safe) -> str:
    pet = f"pet {each.pet_id}" if each.pet_id is not None else "a row"
    name = f" {safe(each.name, _NAME)}" if each.name else ""
    address = f" ({safe(each.address, _NAME)})" if each.address else ""
    is_said = each.problem.startswith(tuple(f"{name}:" for name in each.fields))
    fields = f", {', '.join(each.fields)}" if each.fields and not is_said else ""
    return f"{each.kind}, {pet}{name}{address}{fields}"


def _command(round_: Round, job: Job | None, config: Configuration) -> str:
    """What a person types to release the plan, from whatever folder."""
    if not round_.waiting:
        return ""
    url = (job.url if job is not None else "") or round_.store
    words = ["petsync", "apply", round_.waiting, "--state", str(config.state)]
    words += ["--url", url] if url else []
    if job is not None:
        words += ["--profile", job.profile] if job.profile != "standard" else []
        words += [word for host in job.allow_http for word in ("--allow-http", host)]
    return shlex.join(words)


def _exact(text: str) -> str:
    """A path or a command as it is, unless it could steer or be taken for markup."""
    shown = visible(text)
    return shown if _EXACT.fullmatch(shown) and shown == text else plain(text, 1000)
