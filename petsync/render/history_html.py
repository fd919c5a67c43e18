"""The history page: for each job how it stands and its trends, then the rounds and the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from petsync.diff.history import Past
from petsync.diff.round import Round
from petsync.diff.standing import undone_by
from petsync.render import history_words as told
from petsync.render import markup, runs_words, words
from petsync.render import round_words as said
from petsync.render.history_plots import plots, strip
from petsync.render.markup import bdi, element, prose, text
from petsync.render.page import document
from petsync.render.plan_cells import badge, line
from petsync.render.round_cells import more, round_badge, typed
from petsync.render.round_page import STYLES, records_table, section, two_columns
from petsync.render.turns import Column, Turn, columns_of, in_time, turns_of
from petsync.render.visible import visible

__all__ = ["history_page"]

_TURNS = 60
"""So many of a job's newest turns are drawn one by one."""
_COLUMNS = 90
_PARTS = 5
_ROUNDS = ("Status", "Took", "Job", "What", "Begun (UTC)")
_RUNS = ("State", "Took", "Run", "What", "Begun (UTC)")
_STATES: Mapping[str, tuple[str, str]] = {
    "done": ("+", "well"),
    "running": ("~", "look"),
    "stopped": ("x", "bad"),
}
# Browsers draw no pattern of a picture that is not displayed: this one is, with no size.
_PATTERNS = "".join(
    [
        '<svg width="0" height="0" aria-hidden="true" class="ps-patterns"><defs>',
        *(
            f'<pattern id="ps-{name}" width="{size}" height="{size}" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate({angle})">'
            f'<rect width="{size}" height="{size}" class="ps-ground ps-{name}"/>'
            f'<path d="M0 0v{size}" class="ps-hatch ps-{name}"/></pattern>'
            for name, size, angle in (("changed", 5, 45), ("deleted", 3, 90), ("gap", 6, -45))
        ),
        "</defs></svg>",
    ]
)


def history_page(
    rounds: Sequence[Round],
    runs: Sequence[Past],
    *,
    now: datetime | None = None,
    limit: int | None = 100,
) -> str:
    """A whole HTML document that loads nothing. `rounds` are the oldest first, `runs` the newest
    first; of both the newest `limit` are listed, while the plots are of all. With `now`, a job that
    has not been run since is told of.
    """
    jobs = _by_job(rounds)
    title = "Reconciliation history"
    body = (
        '<main class="petsync ps-page">',
        _PATTERNS,
        *_head(jobs, title, rounds, now),
        *(_job(name, turns, n, now, runs) for n, (name, turns) in enumerate(jobs.items())),
        _listed_rounds(rounds, limit),
        _listed_runs(runs, limit),
        "</main>",
    )
    return document("\n".join(filter(None, body)), title, styles=(*STYLES, "history.css"))


def _by_job(rounds: Iterable[Round]) -> dict[str, list[Turn]]:
    jobs: dict[str, list[Round]] = {}
    for each in rounds:
        jobs.setdefault(each.job, []).append(each)
    return {name: turns_of(found) for name, found in jobs.items()}


def _head(
    jobs: Mapping[str, Sequence[Turn]], title: str, rounds: Sequence[Round], now: datetime | None
) -> Iterator[str]:
    yield "<header>"
    made = f", made {words.moment(now)}" if now else ""
    yield element("p", f"petsync{made}", class_="ps-kicker")
    yield element("h1", text(title))
    yield markup.summary(told.page_summary(jobs, len(rounds)))
    yield "</header>"
    if len(jobs) > 1:
        items = (_standing(name, turns) for name, turns in jobs.items())
        yield element("ul", "".join(items), class_="ps-jobs")


def _standing(name: str, turns: Sequence[Turn]) -> str:
    worst = turns[-1].worst
    inner = f"{round_badge(worst)} {element('strong', bdi(name))} "
    inner += element("span", text(words.moment(turns[-1].at)[:16]), class_="ps-when")
    return element("li", inner)


def _job(
    name: str, turns: Sequence[Turn], number: int, now: datetime | None, runs: Sequence[Past]
) -> str:
    anchor = f"job-{number}"
    columns = columns_of(turns[-_TURNS:], now)
    gap = columns[-1] if not columns[-1].turns else None
    head = element("h2", f"{bdi(name)} {round_badge(turns[-1].worst)}", id=anchor)
    parts = [
        head,
        two_columns(told.job_facts(turns, gap, runs)),
        *map(_needy, told.needy(turns[-1])[:_PARTS]),
        more(max(len(told.needy(turns[-1])) - _PARTS, 0)),
        strip(columns, f"{anchor}-ends"),
        _grid(columns, anchor),
        _whole(turns, anchor),
    ]
    return element(
        "section", "\n".join(filter(None, parts)), class_="ps-job", aria_labelledby=anchor
    )


def _needy(round_: Round) -> str:
    """A round that somebody has to look at, and what to type."""
    why = said.reason(round_)
    lines = [prose(line_) for line_ in why.splitlines()]
    lines += [
        f"{text(markup.capital(purpose))}: {typed(each)}"
        for purpose, each in _ways(round_)
        if each not in why
    ]
    kind = "ps-refused" if said.ENDS[round_.status].level == "bad" else ""
    whose = f"{round_.part}: " if round_.part else ""
    return markup.alert(f"{whose}{said.headline(round_)}", lines, kind=kind)


def _ways(round_: Round) -> Iterator[said.Command]:
    """The way to release a plan; the report has the others."""
    for command in said.commands(round_):
        if round_.waiting and command.line.startswith("petsync apply"):
            yield command


def _grid(columns: Sequence[Column], name: str) -> str:
    return element("div", "".join(plots(columns, name)), class_="ps-plots")


def _whole(turns: Sequence[Turn], name: str) -> str:
    """All turns, where they are too many to be drawn one by one."""
    if len(turns) <= _TURNS:
        return ""
    title = f"The whole time: {words.count(len(turns), 'round')} since {turns[0].at:%Y-%m-%d}"
    columns = in_time(turns, _COLUMNS)
    note = element("p", text(told.about_lengths(columns)), class_="ps-kept")
    return markup.folding(title, note + _grid(columns, f"{name}-all"), open_=True)


def _listed_rounds(rounds: Sequence[Round], limit: int | None) -> str:
    newest = rounds[::-1][:limit]
    title = "Rounds"
    table = records_table(_ROUNDS, map(_round, newest), title) if newest else ""
    return section("rounds", title, table + more(len(rounds) - len(newest)) if table else "")


def _round(round_: Round) -> str:
    end = said.ENDS[round_.status]
    return line(
        end.level,
        badge(end.sign, end.title),
        words.duration(round_.seconds),
        round_.name,
        "".join(element("p", part) for part in _about(round_)),
        _begun(round_.started),
    )


def _begun(moment: str) -> str:
    """`2026-11-20 09:30`; a text that is none, as it is."""
    said_ = words.moment(moment)
    return said_[: -len(":00 UTC")] if said_.endswith(" UTC") else said_


def _about(round_: Round) -> Iterator[str]:
    sides = (("store", round_.to_store), ("sheet", round_.to_sheet))
    plans = [f"to {side} {said.planned(round_, counts)}" for side, counts in sides if counts.total]
    made = f"; {words.number(round_.applied)} arrived" if plans else ""
    nothing = "" if round_.status in told.UNKNOWN else "nothing to change"
    open_ = said.brief(round_)
    if line_ := f"{', '.join(plans) or nothing}{made}{f'; open: {open_}' if open_ else ''}":
        yield text(line_)
    if not round_.is_well and (why := said.reason(round_)):
        yield prose(why)
    yield f"Round {typed(visible(round_.id))}" + (
        f", report {typed(visible(round_.report))}" if round_.report else ""
    )


def _listed_runs(runs: Sequence[Past], limit: int | None) -> str:
    undone = undone_by(runs)
    shown = runs[:limit]
    rows = (_run(each, undone.get(each.run_id)) for each in shown)
    table = records_table(_RUNS, rows, "Runs") if shown else ""
    note = element(
        "p", prose("`petsync runs RUN` tells what a run did, or a round found."), class_="ps-kept"
    )
    return section("runs", "Runs", note + table + more(len(runs) - len(shown)) if table else "")


def _run(run: Past, by: Past | None) -> str:
    sign, level = _STATES[run.state]
    sentence = f"{runs_words.what(run)}: {runs_words.comes_to(run)}"
    back = runs_words.taken_back(run, by)
    return line(
        level,
        badge(sign, markup.capital(run.state)),
        words.duration(run.seconds),
        run.run_id,
        element("p", text("; ".join(filter(None, (sentence, back))))),
        _begun(run.started),
    )
