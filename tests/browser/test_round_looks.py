"""The appearance of a round's page and of the history page: both schemes, any width,
accessibility.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from chromium import find_faults
from playwright.sync_api import Page
from render_samples import HOSTILE
from rendering import history_page, round_page
from round_samples import (
    FIRST,
    build_full_report,
    build_hostile_report,
    build_rounds,
    hostile_past,
    past,
)
from test_plan_looks import CONTRASTS

Show = Callable[..., Page]
_NIGHTS = [*build_rounds(70), *build_rounds(3, job="orders")]
DOCUMENTS = {
    "round": round_page(build_full_report()),
    "history": history_page(_NIGHTS, [past(1)], now=FIRST + timedelta(days=75), limit=5),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_can_be_read(show: Show, name: str, scheme: str) -> None:
    """All texts have a contrast of at least 4.5, and axe finds nothing serious or critical."""
    page = show(DOCUMENTS[name], color_scheme=scheme, reduced_motion="reduce")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 10
    low = {text: r for text, r in contrasts.items() if r < 4.5 and not text.startswith("text ")}
    assert low == {}
    assert find_faults(page) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_never_scrolls_sideways(show: Show, name: str) -> None:
    """At any width the page is not wider than the window, also with long and hostile names."""
    hostile = [build_hostile_report(each) for each in (*HOSTILE, "a" * 10_000)]
    page = show(DOCUMENTS[name])
    strange = show(
        round_page(hostile[-1])
        if name == "round"
        else history_page([result.round for result in hostile], [hostile_past("a" * 10_000)])
    )
    for width in (320, 400, 1000):
        for each in (page, strange):
            each.set_viewport_size({"width": width, "height": 800})
            assert each.evaluate("() => document.documentElement.scrollWidth") <= width


def test_gaps_and_kinds_have_their_patterns(show: Show) -> None:
    """The page's security policy allows its own patterns: a gap is hatched, not empty."""
    page = show(DOCUMENTS["history"])
    assert page.locator(".ps-gap").count() > 0
    for pattern in ("ps-gap", "ps-changed", "ps-deleted"):
        stroke = f"() => getComputedStyle(document.querySelector('#{pattern} path')).stroke"
        assert page.evaluate(stroke) not in ("none", "rgb(0, 0, 0)")
