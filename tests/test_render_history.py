"""The history page: the state of each job, trends as plots, gaps, and extreme values."""

from __future__ import annotations

import re
from datetime import UTC, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render_samples import HOSTILE
from rendering import history_page
from round_samples import (
    FIRST,
    build_hostile_report,
    build_rounds,
    hostile_past,
    past,
    replace,
    round_of,
)
from test_render_html import Reader

from petsync.plan.rounds import Counts, Round
from petsync.report.history import (
    Period,
    describe_period,
    group_into_turns,
    job_facts,
    parse_timestamp,
    periods_by_time,
    periods_by_turn,
)
from petsync.report.plots import (
    axis_limit,
    draw_plots,
    draw_status_strip,
    round_up_to_mark,
    short_duration,
    short_number,
    steps,
    steps_in_time,
)

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("total", [1, 30, 1_000])
def test_a_page_is_readable_at_any_length(total: int) -> None:
    """Each plot has a title, a sentence and a description, and the page stays small for any number
    of rounds.
    """
    rounds = build_rounds(total)
    html = history_page(rounds, [past(n % 60) for n in range(total)])
    reader = Reader(html)
    plots_drawn = 4 * (2 if total > 60 else 1)
    assert reader.tags["figure"] == plots_drawn + 1
    assert html.count('class="ps-said"') == reader.tags["figcaption"] == plots_drawn + 1
    labelled = re.findall(r'aria-describedby="([^"]+)"', html)
    assert len(labelled) == len(set(labelled)) == plots_drawn + 1
    assert all(f'id="{name}"' in html for name in labelled)
    assert len(html) < 700_000
    listed = min(total, 100)
    assert html.count('class="ps-name" scope="row"') == 2 * listed
    assert ("... and 900 more" in reader.text) == (total == 1_000)


def test_nothing_is_drawn_outside_of_its_plot() -> None:
    """Nothing is drawn outside of its plot: a value a million times larger than the others is cut,
    and its number is shown.
    """
    rounds = build_rounds(40)
    far = {"to_store": Counts(update=5_000_000), "applied": 1, "drift": 10**9, "seconds": 90_000.0}
    rounds[20] = replace(rounds[20], **far, failed=10**6)
    html = "".join(each.svg for each in draw_plots(periods_by_turn(group_into_turns(rounds)), "x"))
    assert "5M" in html
    assert "1G" in html
    for rect in re.findall(r'<rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"', html):
        x, y, wide, tall = map(float, rect)
        assert 45 <= x <= x + wide <= 511
        assert 13 <= y <= y + tall <= 135.1
    usual = [float(each) for each in re.findall(r'height="([\d.]+)" class="ps-block', html)]
    assert sum(each > 10 for each in usual) > 30


def test_ordinary_values_are_not_cut() -> None:
    """Values that differ as usual are drawn in full."""
    figures = draw_plots(periods_by_turn(group_into_turns(build_rounds(60))), "x")
    html = "".join(figure.svg for figure in figures)
    assert "ps-cut" not in html


def test_a_gap_is_a_gap() -> None:
    """A time without rounds is hatched in each plot, breaks the lines, and has its own
    description.
    """
    rounds = build_rounds(30)
    del rounds[10:14]
    periods = periods_by_turn(group_into_turns(rounds))
    (gap,) = [period for period in periods if not period.turns]
    assert gap.missed == 4
    assert describe_period(gap) == (
        "No round after 2026-11-01 02:00 until 2026-11-06 02:00: about 4 rounds missing"
    )
    html = [figure.svg for figure in draw_plots(periods, "x")]
    assert all('class="ps-gap"' in plot for plot in html)
    assert html[3].count('class="ps-line"') == 2
    assert "ps-none-ran" in draw_status_strip(periods, "x").svg


def test_a_gap_of_columns_says_how_many_rounds_are_missing() -> None:
    """With several rounds in a column, a gap counts rounds, not columns."""
    rounds = build_rounds(400)
    del rounds[100:160]
    gaps = [each for each in periods_by_time(group_into_turns(rounds), 30) if not each.turns]
    assert [(each.missed, each.columns < 60) for each in gaps] == [(60, True)]


def test_a_job_that_stopped_running_is_reported() -> None:
    """A job that stopped running shows missing rounds, as a gap at the right end and as a sentence,
    and shows none soon after its last round.
    """
    rounds = build_rounds(10)
    late = FIRST + timedelta(days=13)
    assert "about 4 rounds since the last one" in history_page(rounds, [], now=late)
    soon = FIRST + timedelta(days=9, hours=20)
    assert "missing" not in history_page(rounds, [], now=soon)


def test_the_state_of_a_job() -> None:
    """The state of a job has its last round, its last success and the length of its present
    streak.
    """
    rounds = [replace(each, status="done", exit_code=0) for each in build_rounds(5)]
    rounds += [replace(e, status="waiting", exit_code=4) for e in build_rounds(8)[5:]]
    result = dict(job_facts(group_into_turns(rounds), None))
    assert result["last success"] == "2026-10-27 02:00:00 UTC"
    assert result["streak"] == "3 rounds in a row that need attention, since 2026-10-28"
    assert dict(job_facts(group_into_turns(rounds[:5]), None))["streak"].startswith(
        "5 rounds in a row that"
    )
    never = dict(job_facts(group_into_turns(rounds[5:]), None))
    assert never["last success"] == "none so far"


def test_what_waits_can_be_released_from_the_page() -> None:
    """A waiting plan is shown with the command that releases it, quoted for a shell."""
    waits = round_of(status="waiting", exit_code=4, waiting="my folder/w.json", problem="too many")
    html = history_page([waits], [])
    assert "petsync apply &#39;my folder/w.json&#39;" in html
    assert "Too many." in html


def test_status_is_shape_and_sign_and_words() -> None:
    """Each status has its own shape and sign, so it is readable without colour."""
    ends: list[tuple[str, int]] = [("done", 0), ("conflicts", 5), ("error", 1)]
    base = build_rounds(3)
    rounds = [
        replace(each, status=s, exit_code=code) for each, (s, code) in zip(base, ends, strict=True)
    ]
    figure = draw_status_strip(periods_by_turn(group_into_turns(rounds)), "x")
    shapes = re.findall(r"<title>[^<]*</title><(\w+)[^>]*></\w+><text[^>]*>(.)</text>", figure.svg)
    assert shapes == [("circle", "="), ("path", "!"), ("rect", "x")]
    assert "1 Done, 1 Conflicts, 1 Failed" in figure.text


def test_files_of_a_folder_are_one_turn() -> None:
    """The rounds of a folder's files are one turn, with the worst of them as its result."""
    days = [FIRST + timedelta(days=n) for n in range(3)]
    rounds = [
        round_of(
            job="inbox",
            part=part,
            started=(day + timedelta(seconds=n)).isoformat(),
            status=("done", "error")[n],
            exit_code=n,
        )
        for day in days
        for n, part in enumerate(("cats.csv", "dogs.csv"))
    ]
    turns = group_into_turns(rounds)
    assert [len(turn.rounds) for turn in turns] == [2, 2, 2]
    assert turns[0].worst.part == "dogs.csv"
    html = history_page(rounds, [])
    assert "dogs.csv: Failed" in html
    assert "2 files" in html


@pytest.mark.parametrize("name", [*HOSTILE, "a" * 10_000], ids=range(len(HOSTILE) + 1))
def test_no_name_becomes_markup(name: str) -> None:
    """With any names, the page has only its own tags, all closed, and loads nothing."""
    rounds = [build_hostile_report(name).round, build_hostile_report(f"{name}2").round]
    html = history_page(rounds, [hostile_past(name)], now=FIRST)
    reader = Reader(html)
    assert not reader.tags.keys() & {"script", "img", "b", "a", "iframe", "link", "use", "image"}
    assert not reader.attributes & {"href", "src", "style", "onmouseover", "onerror"}
    assert reader.text.replace("\n", "").replace("\u200d", "").isprintable()
    assert "default-src 'none'" in html
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {"#ps-changed", "#ps-deleted", "#ps-gap"}


def test_a_page_without_rounds() -> None:
    """A page without rounds reports that, and lists the runs."""
    text = Reader(history_page([], [past(1)])).text
    assert "No round so far." in text
    assert "11 of 12 changes applied" in text


def test_a_clock_that_was_set_back_does_no_harm() -> None:
    """Rounds stay in their written order if the clock was set back; an unreadable moment, or one of
    another century, counts as the one before.
    """
    rounds = build_rounds(6)
    rounds[3] = replace(rounds[3], started=rounds[0].started)
    rounds[4] = replace(rounds[4], started="yesterday")
    rounds[5] = replace(rounds[5], started="9999-12-31T23:59:59Z")
    periods = periods_by_turn(group_into_turns(rounds), FIRST.replace(year=9_000))
    assert [period.turns[0].rounds[0].id for period in periods if period.turns] == [
        each.id for each in rounds
    ]
    assert history_page(rounds, [], now=FIRST.replace(year=9_000, tzinfo=UTC))
    assert parse_timestamp("2026-10-23T02:00:00") == FIRST


@pytest.mark.parametrize("every", [0.25, 24.0, 700.0])
def test_stretches_of_time_hold_every_turn_once(every: float) -> None:
    """In a long history each period has the same length, every turn is in exactly one, and
    the number of periods is limited.
    """
    turns = group_into_turns(build_rounds(400, every=every))
    periods = periods_by_time(turns, 90)
    held = [turn for period in periods for turn in period.turns]
    assert held == turns
    assert sum(bool(period.turns) for period in periods) <= 91
    assert len({period.until - period.since for period in periods if period.turns}) == 1


def test_the_tooltip_of_several_turns_has_the_values_of_the_plots() -> None:
    """The tooltip of a column with several turns has the maximum of the open differences and of the
    drift.
    """
    well = replace(build_rounds(1)[0], conflicts=0, findings=0, failed=0, unexplained=0, drift=5)
    turns = group_into_turns(
        replace(well, started=(FIRST + timedelta(minutes=n)).isoformat(), conflicts=n, findings=1)
        for n in (1, 3, 2)
    )
    assert len(turns) == 3
    text = describe_period(Period(tuple(turns), FIRST, FIRST + timedelta(hours=1)))
    assert "open: 3 conflicts, 1 error in the sheet\ndrift 5," in text


def test_texts_of_several_lines_keep_them() -> None:
    """A tooltip has its lines, and so has the reason why a round ended as it did."""
    failed = round_of(status="error", exit_code=1, problem="no answer\nno name", hint="wait")
    html = history_page([*build_rounds(2), failed], [])
    assert "[line break]" not in html
    assert re.search(r"<title>[^<]*\n[^<]*</title>", html)
    assert "<p>No answer</p>" in html
    assert '<p class="ps-cure">no name. Wait.</p>' in html


@given(st.lists(st.floats(0, 1e12), max_size=40))
def test_an_axis_ends_with_a_mark(values: list[float]) -> None:
    """The marks of an axis begin at 0 and are few, and the largest usual value is within the
    axis.
    """
    top = axis_limit(values)
    for marks in (steps(top), steps_in_time(top)):
        assert marks[0] == 0
        assert len(marks) <= 6
        assert round_up_to_mark(top, marks) >= top * 0.999
    assert top <= 1.15 * max(values, default=0)


@pytest.mark.parametrize(
    ("value", "number", "time"),
    [
        (0.5, "0", "0.5 s"),
        (950, "950", "15.8 min"),
        (9_500, "9,500", "2.64 h"),
        (12_345, "12.3k", "3.43 h"),
        (999_500, "1M", "11.6 d"),
        (5_000_000, "5M", "57.9 d"),
    ],
)
def test_labels_are_short(value: float, number: str, time: str) -> None:
    """A number has at most five characters, and a duration has its unit."""
    assert (short_number(value), short_duration(value)) == (number, time)
    assert len(short_number(value)) <= 5


def test_changes_that_were_not_made_are_hollow() -> None:
    """The changes of a waiting plan are drawn as planned, not as made."""
    waits: Round = round_of(status="waiting", exit_code=4, to_store=Counts(delete=40), waiting="w")
    figure = next(draw_plots(periods_by_turn(group_into_turns([waits])), "x"))
    assert "ps-held" in figure.svg
    assert "ps-delete" not in figure.svg
    assert [meaning for _, meaning in figure.legend] == ["planned, not made", "\u2191 store"]
