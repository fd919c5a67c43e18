"""Plans, reports, sheets and snapshots as HTML, and the page that contains them."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render_samples import (
    ADD,
    BELLA,
    BLOCKED,
    CLASHING,
    CONFLICT,
    HOSTILE,
    OVER,
    SILENT,
    UPDATE,
    finding,
    hostile_plan,
    large_plan,
    plan_with,
    replace,
    report_of,
    result,
    sheet_with,
    small_plan,
    small_report,
    small_snapshot,
)
from rendering import plan_html, plan_page, report_html, sheet_html, snapshot_html

from petsync._terms import in_python
from petsync.models import Tag
from petsync.plan.change import Coverage, released_note
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.report import OUTCOMES, Report
from petsync.report.document import Document, MappedRecords, Record, Records, RowKind, reword
from petsync.report.html import document_html, document_page
from petsync.report.textdiff import mark_differences
from petsync.report.views.plan import plan_view
from petsync.report.views.run import report_page_view, report_view
from petsync.report.views.sheet import sheet_view
from petsync.report.words import results_by_cause

VOID = {"br", "input", "meta"}
ATTRIBUTES = {"class", "scope", "open", "role", "aria-hidden"}


class Reader(HTMLParser):
    """Reads HTML, fails if a tag is not closed, and keeps tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.scopes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        if tag == "th":
            self.scopes.add(dict(attrs).get("scope") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


def test_a_plan_says_all_in_html() -> None:
    """The HTML of a small plan has every change, conflict, blocked row, note and refusal."""
    reader = Reader(plan_html(small_plan()))
    for part in (
        "Plan: 1 to add, 1 to change, 2 to delete; 1 conflict, 1 row needs fixing",
        "2 deletes are more than --max-delete 1",
        "Mochi",
        "Bella",
        "Bela",
        "+added good with kids",
        "-removed shy",
        "not in the sheet",
        "matches several pets: 3, 8",
        "Give the row its id.",
        "petsync knows no such status.",
        "Pet 100 (Tom) would be deleted.",
    ):
        assert part in reader.text
    assert reader.scopes == {"col", "row"}


def test_html_reads_without_colour() -> None:
    """Each kind of change has its own symbol and class; removed text is `del`, added text is
    `ins`.
    """
    html = plan_html(small_plan())
    for mark, symbol in (("add", "+"), ("update", "~"), ("delete", "-"), ("conflict", "!")):
        row = f'<tr class="ps-{mark}" role="row"><td class="ps-mark" role="cell">{symbol}</td>'
        assert row in html
    assert "<bdi>Bel<del>l</del>a</bdi>" in html
    assert "<del>available</del>" in html
    assert "<ins>sold</ins>" in html


def test_values_show_themselves_in_a_notebook() -> None:
    """A notebook cell shows each kind of value as HTML, in the theme's colours."""
    sheet = sheet_with(finding("unknown-status", 4))
    assert "max_delete=2 would allow it" in small_plan()._repr_html_()
    for value, view in ((small_plan(), plan_view), (small_report(), report_view)):
        assert value._repr_html_() == document_html(reword(view(value), in_python))
    assert sheet._repr_html_() == sheet_html(sheet)
    assert small_snapshot()._repr_html_() == snapshot_html(small_snapshot())
    assert "var(--jp-" in plan_html(small_plan())


def test_totals_of_a_report_add_up_in_html() -> None:
    """The table of totals has every outcome, and its last row is their sum."""
    html = report_html(small_report())
    pattern = r"<bdi>([a-z ]+)</bdi></th><td class=\"ps-number\" role=\"cell\"><bdi>([\d,]+)</bdi>"
    counts = {name: int(n.replace(",", "")) for name, n in re.findall(pattern, html)}
    assert list(counts) == [*OUTCOMES, "total"]
    assert counts.pop("total") == sum(counts.values())


def test_a_report_names_why_it_stopped() -> None:
    """The reason of a stop is above the rows."""
    text = Reader(report_html(report_of(stopped="the token expired\nLog in."))).text
    assert text.index("the token expired") < text.index("applied", text.index("Outcome"))
    assert "Log in." in text


def test_a_reports_page_lists_every_change() -> None:
    """A report's page holds each change, conflict and blocked row with its outcome, the worst
    first, counts them, and says what to do about each cause.
    """
    report = small_report()
    html = document_page(report_page_view(report), "Report on edited.xlsx")
    data = _data(html)
    names = [name for name, *_ in data["kinds"]]
    shown = Counter(names[row[0]] for row in data["rows"])
    assert shown == Counter(each.outcome.replace(" ", "-") for each in report.results)
    assert [row[0] for row in data["rows"]] == sorted(row[0] for row in data["rows"])
    assert {f"#kind={name}" for name in names} == set(re.findall(r'href="(#kind=[^"]*)"', html))
    text = Reader(html).text
    for group in results_by_cause(report, 0):
        assert group.is_plain or group.title in text
    assert words_of(report) <= set(text.split())


def words_of(report: Report) -> set[str]:
    """Return the words of the report's messages."""
    return {word for each in report.results for word in each.message.rstrip(".").split()[:-1]}


@pytest.mark.parametrize("name", [*HOSTILE, "</script>", "<!--<script>"])
def test_no_name_becomes_markup_on_a_reports_page(name: str) -> None:
    """With any names, the page of a report has only its own tags, and its data no markup."""
    failed = result(1, "failed", source=name, message=name)
    html = document_page(
        report_page_view(report_of(failed, stopped=name, plan=hostile_plan(name))), name
    )
    reader = Reader(html)
    assert reader.tags["script"] == 4
    assert not reader.tags.keys() & {"img", "b", "iframe", "svg"}
    assert len(_data(html)["rows"]) == 1


def test_findings_in_html() -> None:
    """A sheet's findings are below their rule, with address, value and suggestion."""
    text = Reader(sheet_html(sheet_with(finding("unknown-status", 4)))).text
    for part in ("1 error: unknown-status", "Pets!C4", "availabel", "Write available", "Shelf"):
        assert part in text


def test_a_snapshot_in_html() -> None:
    """A snapshot shows its size, moment and coverage, and counts its pets by status."""
    text = Reader(snapshot_html(small_snapshot())).text
    assert "3 pets. Covers the statuses available, pending, sold" in text
    assert "2026-11-20 09:30:00 UTC" in text


def test_long_lists_are_cut_and_folded() -> None:
    """Many rows are folded and the rest is counted; a few rows are open."""
    assert "<details>" in plan_html(large_plan(30))
    assert "... and 10 more" in plan_html(large_plan(30), limit=20)
    for size in (5, 20):
        assert "<details open>" in plan_html(large_plan(size))
    assert "<details open>" not in plan_html(large_plan(21))
    everything = plan_html(large_plan(30), limit=None)
    assert everything.count('<tr class="ps-update" role="row">') == 30
    assert "<details>" not in everything


def test_notes_are_folded_and_counted() -> None:
    """The notes of a plan are folded; their title has their number. The changes are open."""
    html = plan_html(replace(large_plan(5), raw_notes=("Look twice.", "And again.")))
    assert re.findall(r"<details( open)?>\s*<summary>(.*?)</summary>", html) == [
        (" open", "Change 5 pets"),
        ("", "2 notes"),
    ]


def test_many_items_are_counted_in_html() -> None:
    """Of hundreds of new tags, the first fifty are shown and the rest is counted."""
    many = replace(BELLA, tags=(*BELLA.tags, *(Tag(n, f"t{n}") for n in range(100, 400))))
    html = plan_html(plan_with(replace(UPDATE, fields=("tags",), after=many)))
    assert html.count("<ins ") == 50
    assert "and 250 more added" in html


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_becomes_markup(name: str) -> None:
    """With any names, the HTML has only its own tags and attributes, all closed."""
    sheet = sheet_with(finding(name, 4, value=name, problem=name), source=name, tab=name)
    failed = result(1, "failed", source=name, message=name)
    plan = hostile_plan(name)
    for html in (
        plan_html(plan),
        report_html(report_of(failed, stopped=name, plan=plan)),
        sheet_html(sheet),
        snapshot_html(small_snapshot(replace(BELLA, status=name))),
    ):
        reader = Reader(html)
        assert not reader.tags.keys() & {"script", "img", "b", "a", "iframe"}
        assert reader.tags["style"] == 1
        assert reader.attributes <= ATTRIBUTES
        assert reader.text.replace("\n", "").replace("\u200d", "").replace("→", "").isprintable()


def test_a_name_is_shown_as_it_is() -> None:
    """A name with markup in it is shown unchanged, as text."""
    pet = replace(BELLA, name='<b class="x">&amp;</b>')
    text = Reader(plan_html(plan_with(replace(UPDATE, fields=("status",), before=pet)))).text
    assert '<b class="x">&amp;</b>' in text


@pytest.mark.parametrize("title", ["Plan of edited.xlsx", *HOSTILE[:3]])
def test_a_page_stands_alone(title: str) -> None:
    """A page has a title, forbids scripts and loading, supports light and dark themes, and links to
    no address.
    """
    whole = document_page(sheet_view(sheet_with(finding("unknown-status", 4))), title)
    reader = Reader(whole)
    assert reader.tags["html"] == reader.tags["title"] == reader.tags["h1"] == 1
    assert "default-src 'none'" in whole
    assert "prefers-color-scheme: dark" in whole
    assert not reader.tags.keys() & {"script", "img", "link", "iframe"}
    assert "src" not in reader.attributes
    assert "href" not in reader.attributes
    assert not re.search(r"url\(|@import", whole)
    assert reader.text.count(title) == 2


def _data(html: str) -> dict[str, Any]:
    """Return the data for a page's script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_plans_page_holds_every_row() -> None:
    """A plan's page contains each change, conflict and blocked row once, and shows the first of
    each kind.
    """
    plan = plan_with(*large_plan(500).changes, ADD, conflicts=(CONFLICT,) * 30, blocked=(BLOCKED,))
    html = plan_page(plan)
    kinds = Counter(row[0] for row in _data(html)["rows"])
    assert [kinds[n] for n in range(5)] == [30, 1, 1, 500, 0]
    shown = Counter(re.findall(r'<tr (?:id="[^"]*" )?class="ps-(\w+)" role="row">', html))
    assert shown == {"conflict": 20, "blocked": 1, "add": 1, "update": 20}
    assert "42 of 532" in Reader(html).text


def test_a_plans_page_says_what_stands_in_the_way() -> None:
    """Refusals with their options, failed queries and a part of a plan are shown before the
    changes.
    """
    sentinel = Refusal("sentinel", "pet 1 is not in the store")
    plan = plan_with(
        UPDATE,
        verdict=Verdict((OVER, sentinel)),
        coverage=Coverage(("available",), (SILENT,)),
        left_out=3,
    )
    for html in (plan_page(plan), plan_html(plan)):
        text = Reader(html).text
        top = text[: text.index("Bela")]
        assert "allows (1 of 1,200 pets). --max-delete 2 (in Python max_delete=2) would" in top
        assert "Pet 1 is not in the store. No option allows it." in top
        assert "Status sold: findPetsByStatus: the service answered 503." in top
        assert re.search(r"3 .*left out", top)
        assert "<code>--max-delete 2</code>" in html


def test_clashes_stand_side_by_side() -> None:
    """A clash shows the values of export, sheet and store, and the winner."""
    for winner, tag in (("store", "stays"), ("sheet", "is sent")):
        plan = plan_with(conflicts=(replace(CLASHING, winner=winner),))
        for html in (plan_page(plan), plan_html(plan)):
            row = re.search(r'<tr><th scope="row">name</th>(.*?)</tr>', html)
            assert row is not None
            assert re.findall(r"<bdi>(\w+)</bdi>", row[1]) == ["Bella", "Bela", "Bellina"]
            assert re.findall(r'class="ps-wins"><bdi>(\w+)', row[1]) == [
                "Bellina" if winner == "store" else "Bela"
            ]
            assert f'<span class="ps-tag">{tag}</span>' in html


@pytest.mark.parametrize("name", [*HOSTILE, "</script>", "<!--<script>", "\u2028\u2029&amp;"])
def test_nothing_ends_a_pages_data_early(name: str) -> None:
    """With any names, the data of a page contains no character of markup and reads back as it was
    written.
    """
    html = plan_page(hostile_plan(name))
    reader = Reader(html)
    assert reader.tags["script"] == 4
    assert not reader.tags.keys() & {"img", "b", "iframe", "svg"}
    found = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    assert not set("<>&\u2028\u2029") & set(found[1])
    assert len(_data(html)["rows"]) == 8


def test_a_page_allows_itself_alone() -> None:
    """The policy of a page allows exactly its own styles and script, by their hashes."""
    html = plan_page(small_plan())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        hashes = {base64.b64encode(sha256(text.encode()).digest()).decode() for text in texts}
        allowed = re.search(rf"{rule} ([^;]*)", policy[1])
        assert allowed is not None
        assert {f"'sha256-{each}'" for each in hashes} == set(allowed[1].split())
    assert "unsafe" not in policy[1]
    assert "default-src 'none'" in policy[1]
    script = "".join(re.findall(r"<script>(.*?)</script>", html, re.DOTALL))
    assert "textContent" in script
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(|fetch|import", script)


def test_long_values_show_where_they_differ() -> None:
    """Two long texts are cut so that their different part is shown."""
    long = "word " * 1_000
    after = replace(BELLA, name=f"{long}new{long}")
    change = replace(UPDATE, before=replace(BELLA, name=long + long), after=after, fields=("name",))
    (row,) = _data(plan_page(plan_with(change)))["rows"]
    ((_, old, new),) = row[4]
    assert "new" in new
    assert "new" not in old
    assert max(len(old), len(new)) <= 500


TEXTS = st.text(st.sampled_from("abcB e\u0301é小👩‍-, 12_"), max_size=20)


@given(TEXTS, TEXTS)
def test_marks_lose_nothing(before: str, after: str) -> None:
    """The pieces of a marked text join to that text, and unmarked pieces are the same on both
    sides.
    """
    old, new = mark_differences(before, after)
    assert "".join(text for text, _ in old) == before
    assert "".join(text for text, _ in new) == after
    same = ["".join(text for text, is_marked in side if not is_marked) for side in (old, new)]
    assert same[0] == same[1]
    assert (before == after) == (not any(is_marked for _, is_marked in [*old, *new]))


@pytest.mark.parametrize(
    ("before", "after", "left", "right"),
    [
        ("Bella", "Bela", "Bel[l]a", "Bela"),
        ("available", "sold", "[available]", "[sold]"),
        ("Old Oreo", "Old Oreo II", "Old Oreo", "Old Oreo[ II]"),
        ("Dogs (1)", "Cats (2)", "[Dogs (1)]", "[Cats (2)]"),
        ("one two three", "one 2 three", "one [two] three", "one [2] three"),
        ("Zoé", "Zoe\u0301", "Zo[é]", "Zo[e\u0301]"),
        ("", "new", "", "[new]"),
    ],
)
def test_marks_are_where_people_look(before: str, after: str, left: str, right: str) -> None:
    """A changed word is marked as a whole, a changed letter in a similar word alone, and an accent
    with its letter.
    """
    sides = mark_differences(before, after)
    result = ["".join(f"[{text}]" if on else text for text, on in side) for side in sides]
    assert result == [left, right]


def test_a_change_says_what_of_its_row_is_in_conflict() -> None:
    """A change whose row is also in conflict names the fields that are not sent, as in the
    terminal.
    """
    plan = plan_with(UPDATE, conflicts=(CLASHING,))
    for html in (plan_html(plan), plan_page(plan)):
        assert "In conflict, and not sent: name, status." in Reader(html).text
    assert "In conflict" not in Reader(plan_html(plan_with(UPDATE))).text
    report = report_of(result(0, "failed", message="no answer"), plan=plan)
    html = document_page(report_page_view(report), "t")
    assert "Update: no answer. In conflict, and not sent: name, status." in Reader(html).text


def test_photos_in_another_order_are_listed() -> None:
    """Photos in another order are listed one below the other, before and after."""
    two = replace(BELLA, photo_urls=("/1.png", "/2.png"))
    moved = replace(two, photo_urls=("/2.png", "/1.png"))
    plan = plan_with(replace(UPDATE, fields=("photo_urls",), before=two, after=moved))
    for html in (plan_html(plan), plan_page(plan)):
        assert ".ps-old, .ps-new { white-space: pre-line; }" in html
        assert 'class="ps-old ps-listed"' in html
        assert "1. /2.png\n2. /1.png" in Reader(html).text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "save the plan as a workbook: <code>petsync plan -o plan.xlsx</code>."),
        ({"undoes": "r-1"}, "workbook: <code>petsync undo r-1 -o plan.xlsx</code>."),
        ({"undoes": "r\u202e1"}, "<code>petsync undo r[U+202E]1 -o plan.xlsx</code>."),
        (
            {"raw_notes": (released_note("shop", "too many"),)},
            "or use <code>petsync apply</code> with <code>--limit 0</code> on",
        ),
    ],
    ids=["plan", "undo", "hostile", "waiting"],
)
def test_a_long_page_names_the_command_of_its_plan(more: dict[str, Any], words: str) -> None:
    """A page says which command shows all rows: of a plan, of an undo, and of a plan that waits."""
    assert words in plan_page(replace(large_plan(30), **more))


def test_a_long_report_names_the_command_of_its_run() -> None:
    """A report's page says how to save the results of its run, without applying anything again."""
    report = report_of(*(result(0, "applied") for _ in range(30)))
    for run, shown in (("r-1", "r-1"), ("r\u202e1", "r[U+202E]1")):
        html = document_page(report_page_view(replace(report, run_id=run)), "t")
        assert f"<code>petsync runs {shown} --results results.xlsx</code>" in html


def test_rows_that_are_made_on_use_are_on_the_page() -> None:
    """A page with tools has the records that are made when it is rendered, too."""
    rows = MappedRecords(("Rex", "Tom"), lambda name: Record(0, "7", name, "A1"))
    part = Records(rows, [RowKind("add", "Add", "add")], has_tools=True)
    html = document_page(Document("t", [part]), "T")
    assert [row[2] for row in _data(html)["rows"]] == ["Rex", "Tom"]


def test_blocked_rows_and_conflicts_name_their_pets() -> None:
    """A blocked row and a conflict show the id and the name of their pet."""
    blocked = replace(BLOCKED, pet_id=4711, name="Mimi")
    held = replace(CONFLICT, pet_id=4712, name="Rex")
    plan = plan_with(blocked=(blocked,), conflicts=(held,))
    for html in (plan_html(plan), plan_page(plan)):
        text = Reader(html).text
        assert all(each in text for each in ("4711", "Mimi", "4712", "Rex"))
