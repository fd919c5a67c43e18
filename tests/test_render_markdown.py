"""A plan as Markdown, read with a parser of CommonMark."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from effort import steps
from markdown_it import MarkdownIt
from markdown_it.token import Token
from render_samples import (
    ADD,
    BELLA,
    CLASHING,
    CONFLICT,
    HOSTILE,
    OVER,
    SILENT,
    UPDATE,
    clash,
    hostile_plan,
    large_plan,
    plan_with,
    replace,
    small_plan,
)

from petsync.plan.change import Coverage
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.report.markdown import code, plan_markdown, prose
from petsync.report.words import WHERE_TO_SEE_ALL
from petsync.table.cells import visible

pytestmark = pytest.mark.slow

MARKED = [
    *HOSTILE,
    "[x](http://x.example)",
    "![x](http://x.example/y.png)",
    "<http://x.example> &lt;b&gt; &#64;team",
    "@team please merge #1, GH-2 and 5bc8acb4 :smile:",
    "www.x.example and x@y.example",
    "a|b",
    "a\\|b",
    "a\\\\|b\\",
    "| --- | --- |",
    "```\n# Heading\n```",
    "`",
    "``",
    "` ` `",
    "a`|`b",
    "*a* _b_ **c** ~~d~~ $e$",
    "</details></summary>",
    "1. one",
    "- [ ] two",
    "> three",
    "=== ---",
    "[^1] [x]: http://x.example",
]
"""Names that try to break out of Markdown, as well as those that try it elsewhere."""
FOLDS = re.compile(r"</details>\n|<details>\n<summary>[A-Za-z0-9 ,:']+</summary>\n")
OWN = {"text", "code_inline", "strong_open", "strong_close"}
RISKY = re.compile(r"[@#<>\[\]`|\\*_~]|://|www\.|:\w+:|\b[0-9a-f]{7,}\b", re.IGNORECASE)


def parsed(text: str) -> list[Token]:
    """The blocks and, of each, what stands in it."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def spans(text: str) -> Iterator[Token]:
    """What stands in the blocks of a text."""
    return (child for block in parsed(text) for child in block.children or [])


def cells(text: str) -> list[list[str]]:
    """The rows of all tables, each cell as its source."""
    rows: list[list[str]] = []
    blocks = parsed(text)
    for token, inner in itertools.pairwise(blocks):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append(inner.content)
    return rows


def test_a_plan_as_markdown() -> None:
    """The heading is the sum, then the guard's verdict, then tables of all that there is."""
    text = plan_markdown(small_plan())
    assert text.startswith(
        "## Plan: 1 to add, 1 to change, 2 to delete; 1 conflict, 1 row needs fixing"
    )
    assert "> **The guard refuses this plan: nothing will be sent.**" in text
    rows = cells(text)
    assert ["`17`", "`Bella`", "name", "`Bella`", "`Bela`", "`Pets!B18`"] in rows
    assert ["", "", "tags", "`-shy`", '`+"good with kids"`', ""] in rows
    assert ["`100`", "`Tom`", "`sold; Cats`", "not in the sheet"] in rows
    assert ["`Pets!A12`", "", "", "matches several pets: 3, 8. Give the row its id."] in rows
    assert ["`Pets!C60`", "", "", "The store has no such status."] in rows
    assert ["Pet 100 (Tom) would be deleted. Look twice."] in rows


def test_clashes_stand_side_by_side() -> None:
    """A conflict names for each field what was exported, what the sheet says and what the store."""
    rows = cells(plan_markdown(plan_with(UPDATE, conflicts=(replace(CLASHING, name="Bella"),))))
    assert ["`Pets!B18`", "`17`", "`Bella`", "name", "`Bella`", "`Bela`", "`Bellina`"] in rows
    assert ["", "", "", "status", "`sold`", "`pending`", "`(empty)`"] in rows


def test_a_query_without_an_answer_catches_the_eye() -> None:
    """What was asked, what went wrong and what follows stand before any table."""
    plan = plan_with(ADD, coverage=Coverage(("available",), (SILENT,)))
    top = plan_markdown(plan).partition("\n| ")[0]
    assert "> - status sold: findPetsByStatus: the service answered 503." in top
    assert "none is deleted for being in no row" in top


@pytest.mark.parametrize("name", MARKED, ids=range(len(MARKED)))
def test_no_name_is_markdown(name: str) -> None:
    """Whatever things are called: no link, image, HTML, mention, emphasis, fence or new cell."""
    text = plan_markdown(hostile_plan(name)).replace(WHERE_TO_SEE_ALL, "")
    blocks = parsed(text)
    assert {token.type for token in spans(text)} <= OWN
    said = [token.content for token in spans(text) if token.type == "text"]
    assert not [each for each in said if each != "photo_urls" and RISKY.search(each)]
    assert not [b for b in blocks if b.type in ("fence", "code_block", "ordered_list_open", "hr")]
    assert all(FOLDS.fullmatch(b.content) for b in blocks if b.type == "html_block")
    widths = {len(row) for row in cells(text)}
    assert widths <= {1, 2, 4, 6, 7}
    assert sum(b.type == "heading_open" for b in blocks) == len(re.findall("(?m)^#+ ", text))


def test_an_order_of_photos_reads_address_by_address() -> None:
    """Photos in another order stand in both, and those of a conflict one below the other."""
    pet = replace(BELLA, photo_urls=("/1.png", "/2.png"))
    moved = replace(pet, photo_urls=("/2.png", "/1.png"))
    change = replace(UPDATE, fields=("photo_urls",), before=pet, after=moved)
    held = replace(CLASHING, clashes=(clash("photo_urls", "/1.png\n/2.png", "/2.png", ""),))
    text = plan_markdown(plan_with(change, conflicts=(held,)))
    assert "| `1. /1.png`<br>`2. /2.png` | `1. /2.png`<br>`2. /1.png` |" in text
    assert "| `/1.png`<br>`/2.png` | `/2.png` | `(empty)` |" in text


@pytest.mark.parametrize("name", MARKED, ids=range(len(MARKED)))
def test_what_is_said_comes_through(name: str) -> None:
    """A name in a table reads as it is, with what cannot be seen named."""
    shown = visible(name)[:30].strip() or "x"
    text = "\n".join(["| a | b |", "| - | - |", f"| {code(shown)} | {prose(shown)} |"])
    assert len(cells(text)[1]) == 2
    first = next(token for token in spans(text) if token.type == "code_inline")
    assert first.content.replace("\\[U+007C]", "\\|") == shown


def test_sentences_stay_sentences() -> None:
    """Plain words and numbers stay as they are, in any script; the rest is set as code."""
    said = "Pet 1,200 (Zoë) isn't there: write --max-delete 2, or 北京 30 %."
    assert prose(said) == "Pet 1,200 (Zoë) isn't there: write `--max-delete` 2, or 北京 30 %."
    assert prose("1. one") == "`1`. one"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "lost (--delete-missing would delete them).",
            "lost (`--delete-missing` would delete them).",
        ),
        ("Pets!A19: '[clear]': empties", "`Pets!A19`: '`[clear]`': empties"),
        ("Write `add`, or (`petsync plan -o x`).", "Write `add`, or (`petsync plan -o x`)."),
        ("`add` is said", "`add` is said"),
        ("see wiki/Cat_(animal).", "see `wiki/Cat_(animal)`."),
        ("`a``b` `x`y", "``` `a``b` `x`y ```"),
    ],
)
def test_what_stands_around_stays_outside(said: str, shown: str) -> None:
    """Brackets and marks of the sentence are no part of what is typed, nor are its backticks."""
    assert prose(said) == shown


def big_plan(size: int, name: str) -> Plan:
    """A plan with so many of everything, called so."""
    some = hostile_plan(name)
    return replace(
        some,
        changes=some.changes * size,
        conflicts=some.conflicts * size,
        blocked=some.blocked * size,
        notes=some.notes * size,
        verdict=Verdict((Refusal("delete", name, name),) * size),
        coverage=Coverage((name,) * size, some.coverage.failed * size),
    )


@pytest.mark.parametrize("name", ["Rex", *MARKED], ids=range(len(MARKED) + 1))
@pytest.mark.parametrize("limit", [100, None])
def test_it_fits_into_a_comment(name: str, limit: int | None) -> None:
    """However large the plan and whatever things are called, it stays below 60,000 characters."""
    text = plan_markdown(big_plan(300, name), limit=limit)
    assert len(text) < 60_000
    folds = [block.content for block in parsed(text) if block.type == "html_block"]
    assert len(folds) % 2 == 0
    assert all(map(FOLDS.fullmatch, folds))


def test_what_is_left_out_is_counted() -> None:
    """Rows shown and rows said to be left out are together the plan's."""
    plan = large_plan(3_000)
    for limit in (100, None):
        text = plan_markdown(plan, limit=limit)
        shown = text.count("`Pets!B18`")
        more = re.search(r"\n\.\.\. and ([0-9,]+) more\n", text)
        assert more is not None
        assert shown + int(more[1].replace(",", "")) == 3_000
        assert f"{more[1]} more are not shown." in text
    assert "not shown" not in plan_markdown(large_plan(3))


def test_long_tables_are_folded() -> None:
    """More than ten rows fold away under their heading; fewer stand open."""
    text = plan_markdown(large_plan(20))
    assert "<details>\n<summary>Change 20 pets</summary>\n\n| id |" in text
    assert "<details>" not in plan_markdown(large_plan(2))


def test_a_huge_plan_is_quick() -> None:
    """Of many thousand changes no more are looked at closely than are shown."""

    def shown(count: int) -> str:
        plan = replace(large_plan(1), changes=(UPDATE,) * count, verdict=Verdict((OVER,)))
        return plan_markdown(replace(plan, conflicts=(CONFLICT, CLASHING) * (count // 2)))

    assert "100,000 to change" in shown(100_000)
    # A change that is only counted is some lines of Python; one that is shown, hundreds.
    assert steps(lambda: shown(6_000)) - steps(lambda: shown(1_000)) < 100 * 5_000
