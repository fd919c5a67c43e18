"""The review form of a plan with 100,000 changes: each action takes less than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from effort import steps
from msgspec.structs import replace

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Add, Change, Clash, Conflict, Delete, Update
from petsync.plan.guard import Guard, Limit
from petsync.plan.plan import Plan
from petsync.widgets.review import ReviewForm, review

pytestmark = pytest.mark.slow

MANY = 100_000


def pet(number: int) -> Pet:
    """Return a pet with a value in every field."""
    return Pet(
        id=number,
        name=f"Pet {number}",
        status="available",
        category=Category(number % 7, f"Kind {number % 7}"),
        tags=(Tag(number % 5, f"tag {number % 5}"),),
        photo_urls=(f"https://photos.example/{number}",),
    )


def changes() -> Iterator[Change]:
    """Yield 100,000 adds, updates and deletes."""
    for n in range(MANY // 10):
        new = replace(pet(n), id=None)
        yield Add(row=MANY + n, source=f"Pets!A{n}", fields=("name", "status"), after=new)
    for n in range(1, MANY * 8 // 10 + 1):
        after = replace(pet(n), name=f"New {n}", status="sold")
        place = f"Pets!B{n}"
        yield Update(row=n, source=place, fields=("name", "status"), before=pet(n), after=after)
    for n in range(MANY // 10):
        yield Delete(row=None, source="", before=pet(10 * MANY + n), why="missing")


def conflicts() -> Iterator[Conflict]:
    """Yield a conflict in every twentieth row."""
    for n in range(1, MANY // 20):
        yield Conflict(
            row=n,
            source=f"Pets!F{n}",
            pet_id=n,
            name=f"Pet {n}",
            rule="both-changed",
            problem="differs",
            suggestion="decide",
            clashes=(Clash(column="tags", base="a", sheet="b", store="c"),),
            winner="store",
            before=pet(n),
            after=replace(pet(n), tags=(Tag(None, "b"),)),
            says=("tags",),
        )


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReviewForm]:
    """Yield the form; opening it takes less than a second."""
    with ps.connect("http://127.0.0.1:9/v2", environ={}, state=tmp_path_factory.mktemp("s")) as s:
        plan = Plan(
            created="2026-11-20T00:00:00+00:00",
            store=s.url,
            profile="standard",
            source="large.xlsx",
            tab="Pets",
            places={"name": "B", "tags": "F"},
            guard=Guard(max_update=Limit(0.1), max_delete=Limit(1.0)),
            changes=tuple(changes()),
            conflicts=tuple(conflicts()),
            rows=MANY,
            pets=2 * MANY,
        ).with_verdict()
        made = []
        promptly(lambda: made.append(review(plan, s)))
        promptly(lambda: made[0].widget)
        assert made[0].work.wait()
        yield made[0]
        made[0].close()


def promptly(act: Callable[[], object]) -> None:
    """Run the action; fail if it executes more lines of Python than a processor does in about a
    second.
    """
    spent = steps(act)
    assert spent < 100 * MANY, f"it took {spent:,} steps"


def test_everything_answers_promptly(form: ReviewForm) -> None:
    """Filters, paging, ticks, choices and overrides each respond promptly."""
    everything = f"All {MANY:,} changes will be sent"
    assert everything in form.count.value
    steps: list[Callable[[], object]] = [
        lambda: setattr(form.action, "value", "update"),
        lambda: setattr(form.field, "value", "status"),
        lambda: setattr(form.changes, "search", "new 777"),
        lambda: setattr(form.changes, "search", ""),
        lambda: setattr(form.changes, "sort", "pet"),
        lambda: setattr(form.changes, "down", True),
        lambda: setattr(form.changes, "sort", ""),
        lambda: setattr(form.changes, "page", 1800),
        lambda: setattr(form.changes, "ticked", form.changes.ticked[1:]),
        form.untick_all.click,
        lambda: setattr(form.sent, "value", "out"),
        form.tick_all.click,
        lambda: setattr(form.clashes, "chosen", {"3": {"winner": "sheet"}}),
        form.to_sheet.click,
        form.to_store.click,
        lambda: setattr(form.overrides["update"], "value", True),
    ]
    for step in steps:
        promptly(step)
    assert form.changes.total == MANY * 8 // 10
    assert len(form.changes.rows) == 25
    assert everything in form.count.value
    assert not form.apply.disabled


def test_the_question_is_ready_soon(form: ReviewForm) -> None:
    """Apply responds promptly, and its confirmation is for the whole plan."""
    form.overrides["update"].value = True
    promptly(form.apply.click)
    assert form.work.wait()
    assert form.ready is not None
    assert len(form.ready.changes) == MANY
    assert "and 9,980 more" in form.question.value
