"""A plan as Markdown, read with a CommonMark parser."""

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
from rendering import plan_markdown

from petsync.plan.change import Coverage
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.report.document import (
    Alert,
    Comparison,
    ComparisonRow,
    Details,
    Document,
    Facts,
    Note,
)
from petsync.report.markdown import code, document_markdown, prose
from petsync.report.words import WHERE_TO_SEE_ALL
from petsync.table.cells import make_visible

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
"""Names that try to break out of Markdown, and those that try to break out of other formats."""
FOLDS = re.compile(r"</details>\n|<details>\n<summary>[A-Za-z0-9 ,:']+</summary>\n")
OWN = {"text", "code_inline", "strong_open", "strong_close"}
RISKY = re.compile(r"[@#<>\[\]`|\\*_~]|://|www\.|:\w+:|\b[0-9a-f]{7,}\b", re.IGNORECASE)


def parsed(text: str) -> list[Token]:
    """Return the blocks of a text, each with its children."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def spans(text: str) -> Iterator[Token]:
    """Yield the inline tokens of a text."""
    return (child for block in parsed(text) for child in block.children or [])


def cells(text: str) -> list[list[str]]:
    """Return the rows of all tables, each cell as its source."""
    rows: list[list[str]] = []
    blocks = parsed(text)
    for token, inner in itertools.pairwise(blocks):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append(inner.content)
    return rows


def test_a_plan_as_markdown() -> None:
    """The Markdown has the totals as its heading, then the guard's verdict, then tables of
    everything.
    """
    text = plan_markdown(small_plan())
    assert text.startswith(
        "## Plan: 1 to add, 1 to change, 2 to delete; 1 conflict, 1 row needs fixing"
    )
    assert "> **The guard refuses this plan: nothing will be sent.**" in text
    rows = cells(text)
    assert ["`17`", "`Bella`", "name", "`Bella`", "`Bela`", "`Pets!B18`"] in rows
    assert ["", "", "tags", "`-shy`", '`+"good with kids"`', ""] in rows
    assert ["`100`", "`Tom`", "`sold; category: Cats (2)`", "not in the sheet"] in rows
    assert ["The row matches several pets: 3, 8. Give the row its id.", "`Pets!A12`"] in rows
    assert ["petsync knows no such status.", "`Pets!C60`"] in rows
    assert ["Pet 100 (Tom) would be deleted. Look twice."] in rows


def test_clashes_stand_side_by_side() -> None:
    """A conflict has the values of export, sheet and store for each field."""
    rows = cells(plan_markdown(plan_with(UPDATE, conflicts=(replace(CLASHING, name="Bella"),))))
    assert ["`17`", "`Bella`", "name", "`Bella`", "`Bela`", "`Bellina`", "`Pets!B18`"] in rows
    assert ["", "", "status", "`sold`", "`pending`", "`(empty)`", ""] in rows


def test_a_query_without_an_answer_catches_the_eye() -> None:
    """A failed query is shown before any table, with its error and its consequence."""
    plan = plan_with(ADD, coverage=Coverage(("available",), (SILENT,)))
    top = plan_markdown(plan).partition("\n| ")[0]
    assert "> - Status sold: findPetsByStatus: the service answered 503." in top
    assert "pets that are in no row are not deleted" in top


@pytest.mark.parametrize("name", MARKED, ids=range(len(MARKED)))
def test_no_name_is_markdown(name: str) -> None:
    """No name becomes a link, an image, HTML, a mention, emphasis, a fence or a new cell."""
    text = plan_markdown(hostile_plan(name)).replace(WHERE_TO_SEE_ALL, "")
    blocks = parsed(text)
    assert {token.type for token in spans(text)} <= OWN
    texts = [token.content for token in spans(text) if token.type == "text"]
    assert not [each for each in texts if each != "photo_urls" and RISKY.search(each)]
    assert not [b for b in blocks if b.type in ("fence", "code_block", "ordered_list_open", "hr")]
    assert all(FOLDS.fullmatch(b.content) for b in blocks if b.type == "html_block")
    widths = {len(row) for row in cells(text)}
    assert widths <= {1, 2, 4, 6, 7}
    assert sum(b.type == "heading_open" for b in blocks) == len(re.findall("(?m)^#+ ", text))


@pytest.mark.parametrize("name", MARKED, ids=range(len(MARKED)))
def test_no_title_is_markdown(name: str) -> None:
    """No title of a part, and no name of a fact, a field or a side, becomes Markdown."""
    side = ComparisonRow(name, [["a"], ["b"]])
    blocks = [Facts([(name, "x")]), Comparison((name, "y"), [side]), Details(name, [Note("x")])]
    text = document_markdown(Document("t", blocks))
    assert {token.type for token in spans(text)} <= OWN
    assert not [t for t in spans(text) if t.type == "text" and RISKY.search(t.content)]
    assert not [b for b in parsed(text) if b.type == "html_block"]
    assert {len(row) for row in cells(text)} == {2, 4}


def test_lines_of_an_alert_are_counted_once() -> None:
    """The lines that Markdown leaves out are added to those that were left out before."""
    text = document_markdown(Document("t", [Alert("Why", ["x"] * 100, more=50)]))
    assert text.count("more") == 1
    assert "> - ... and 140 more" in text


def test_an_order_of_photos_reads_address_by_address() -> None:
    """Photos in another order are shown in both orders, and those of a conflict one below the
    other.
    """
    pet = replace(BELLA, photo_urls=("/1.png", "/2.png"))
    moved = replace(pet, photo_urls=("/2.png", "/1.png"))
    change = replace(UPDATE, fields=("photo_urls",), before=pet, after=moved)
    held = replace(CLASHING, clashes=(clash("photo_urls", "/1.png\n/2.png", "/2.png", ""),))
    text = plan_markdown(plan_with(change, conflicts=(held,)))
    assert "| `1. /1.png`<br>`2. /2.png` | `1. /2.png`<br>`2. /1.png` |" in text
    assert "| `/1.png`<br>`/2.png` | `/2.png` | `(empty)` |" in text


@pytest.mark.parametrize("name", MARKED, ids=range(len(MARKED)))
def test_what_is_written_arrives(name: str) -> None:
    """A name in a table reads unchanged, with its invisible characters shown by name."""
    shown = make_visible(name)[:30].strip() or "x"
    text = "\n".join(["| a | b |", "| - | - |", f"| {code(shown)} | {prose(shown)} |"])
    assert len(cells(text)[1]) == 2
    first = next(token for token in spans(text) if token.type == "code_inline")
    assert first.content.replace("\\[U+007C]", "\\|") == shown


def test_sentences_stay_sentences() -> None:
    """Plain words and numbers of any script stay unchanged, and the rest becomes code."""
    text = "Pet 1,200 (Zoë) isn't there: write --max-delete 2, or 北京 30 %."
    assert prose(text) == "Pet 1,200 (Zoë) isn't there: write `--max-delete` 2, or 北京 30 %."
    assert prose("1. one") == "`1`. one"


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_stands_around_stays_outside(text: str, shown: str) -> None:
    """Brackets, punctuation and backticks around a code word stay outside of the code."""
    assert prose(text) == shown


def big_plan(size: int, name: str) -> Plan:
    """Return a plan with this number of everything, all with this name."""
    some = hostile_plan(name)
    return replace(
        some,
        changes=some.changes * size,
        conflicts=some.conflicts * size,
        blocked=some.blocked * size,
        raw_notes=some.raw_notes * size,
        verdict=Verdict((Refusal("delete", name, name),) * size),
        coverage=Coverage((name,) * size, some.coverage.failed * size),
    )


@pytest.mark.parametrize(
    ("name", "limit"),
    [*((name, None) for name in ("Rex", *MARKED[::4])), ("Rex", 100), (max(MARKED, key=len), 100)],
    ids=range(len(MARKED[::4]) + 3),
)
def test_it_fits_into_a_comment(name: str, limit: int | None) -> None:
    """The Markdown of any plan with any names has fewer than 60,000 characters."""
    text = plan_markdown(big_plan(300, name), limit=limit)
    assert len(text) < 60_000
    folds = [block.content for block in parsed(text) if block.type == "html_block"]
    assert len(folds) % 2 == 0
    assert all(map(FOLDS.fullmatch, folds))


def test_what_is_left_out_is_counted() -> None:
    """The rows that are shown and the number of those left out add up to the plan's rows."""
    plan = large_plan(3_000)
    for limit in (100, None):
        text = plan_markdown(plan, limit=limit)
        shown = text.count("`Pets!B18`")
        more = re.search(r"\n\.\.\. and ([0-9,]+) more\n", text)
        assert more is not None
        assert shown + int(more[1].replace(",", "")) == 3_000
        assert ("To see all of them" if limit else f"{more[1]} rows left out.") in text
    assert "not shown" not in plan_markdown(large_plan(3))


def test_long_tables_are_folded() -> None:
    """A table of more than ten rows is folded under its heading, and a shorter one is open."""
    text = plan_markdown(large_plan(20))
    assert "<details>\n<summary>Change 20 pets</summary>\n\n| id |" in text
    assert "<details>" not in plan_markdown(large_plan(2))


def test_a_huge_plan_is_quick() -> None:
    """A huge plan is rendered quickly, because only the changes that are shown are rendered in
    detail.
    """

    def shown(count: int) -> str:
        plan = replace(large_plan(1), changes=(UPDATE,) * count, verdict=Verdict((OVER,)))
        return plan_markdown(replace(plan, conflicts=(CONFLICT, CLASHING) * (count // 2)))

    assert "100,000 to change" in shown(100_000)
    # Counting a change takes a few lines of Python; showing one takes hundreds.
    assert steps(lambda: shown(6_000)) - steps(lambda: shown(1_000)) < 100 * 5_000
