"""A round as lines, HTML, a page and JSON; several rounds as a table."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from render_samples import CLASHING, HOSTILE, UPDATE, plan_with, report_of, result
from rendering import round_html, round_page, round_text, rounds_html, rounds_text
from rich.cells import cell_len
from round_samples import OPENS, build_full_report, build_hostile_report, replace, round_of
from test_render_html import Reader

from petsync.models import Pet
from petsync.plan.change import Delete
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import RoundReport, Rounds
from petsync.plan.rounds import Counts, Difference, Round, SheetChange
from petsync.report import round as report_round
from petsync.report.json import FORMAT, round_json, rounds_json
from petsync.report.text import wrap_keeping_paths
from petsync.table.dtypes import TEXT

WELL = RoundReport(round=round_of(job="orders", status="in-sync"))
FAILED = RoundReport(
    round=round_of(
        job="inbox",
        part="dogs.csv",
        status="error",
        exit_code=1,
        problem="the store cannot be reached: connection refused",
        hint="Look whether it is up; the next round tries again.",
    )
)


@pytest.mark.parametrize("made", [round_text, lambda report: Reader(round_page(report)).text])
def test_a_round_says_all(made: object) -> None:
    """A round shows its result, the plans of both sides, each difference with place, pet, field and
    hint, and the commands to type.
    """
    assert callable(made)
    text = " ".join(made(build_full_report()).split())
    for part in (
        "Conflicts: 1 conflict, which needs a decision.",
        "two-way: the changes of both sides are merged",
        "https://shop.example/v2 (1,240 pets)",
        "catalogue.xlsx (1,316 rows)",
        "The sheet says sold, the store available.",
        "Chef Ariel",
        "Pets!C23",
        "status",
        "1 error in the sheet",
        "did you mean available?",
        "updatePet: the service answered 503",
        "petsync apply .petsync/reconcile/waiting/catalogue.json",
        "petsync runs 20261121-020004-77aa",
        "petsync undo 20261121-020004-77aa",
        "petsync reconcile --job catalogue --dry-run --limit 0",
        "catalogue.backup.xlsx",
    ):
        assert part in text, part


def test_differences_are_grouped_by_kind() -> None:
    """Differences are grouped by kind, with conflicts first and notes last."""
    titles = [report_round.open_title(kind, 1) for kind in report_round.KIND_NAMES]
    page = round_page(build_full_report())
    assert re.findall(r"<h2>(1 [\w ]+): ", page) == titles
    assert list(report_round.by_kind(OPENS[::-1])) == list(report_round.KIND_NAMES)


def test_notes_that_are_alike_are_reported_once() -> None:
    """A thousand notes with the same problem are one line with the first of them, and all are
    folded on the page; conflicts are listed one by one.
    """
    note = Difference(kind="note", problem="is in the store, and in no row", name="Rex")
    result = RoundReport(
        round=round_of(notes=900, conflicts=30),
        open=(
            *(Difference(kind="conflict", problem="apart", pet_id=n) for n in range(30)),
            *(replace(note, pet_id=n) for n in range(900)),
        ),
    )
    text = " ".join(rounds_text([result]).split())
    assert (
        "Is in the store, and in no row: 900 of them, such as pet 0 (Rex), pet 1 (Rex), "
        "pet 2 (Rex)." in text
    )
    assert "and 25 more" in text
    assert text.count("in no row") == 1
    html = round_page(result)
    assert html.count("<details>") == 1
    assert html.count('<tr class="ps-note"') == 900


def test_a_page_tells_what_became_of_each_change() -> None:
    """A failed change on the page has its error with it, and an applied change has nothing."""
    html = round_page(build_full_report())
    (failed,) = re.findall(r'<tr class="ps-blocked" role="row">.*?>Failed</span>.*?</tr>', html)
    assert "Update: updatePet: the service answered 503." in failed
    assert "Bel<del>l</del>a" in failed
    assert "Applied" not in html
    waits = RoundReport(
        round=round_of(status="waiting", exit_code=4, waiting="w.json"),
        plan=plan_with(Delete(row=None, source="", before=Pet(id=3, name="Tom"), why="missing")),
    )
    assert "Nothing was sent: the plan waits for release." in Reader(round_page(waits)).text


def test_a_failed_change_says_what_of_its_row_is_in_conflict() -> None:
    """A change that failed names the fields that were not sent, too."""
    plan = plan_with(UPDATE, conflicts=(CLASHING,))
    report = report_of(result(0, "failed", message="no answer"), plan=plan)
    text = Reader(round_page(RoundReport(round=round_of(), plan=plan, report=report))).text
    assert "Update: no answer. In conflict, and not sent: name, status." in text


def test_a_long_list_leaves_its_instruction_in_sight() -> None:
    """Of many changes that wait only the table is folded."""
    waiting = [
        Difference(kind="waiting", problem=f"to be deleted: {n}", pet_id=n) for n in range(21)
    ]
    html = round_page(RoundReport(round=round_of(status="waiting"), open=tuple(waiting)))
    assert re.search(r"<details>\s*<summary><h3>21 changes</h3>\s*</summary>\s*<table", html)
    assert html.count("<details>") == 1


def test_a_page_shows_what_the_sheet_took() -> None:
    """The page shows the sheet's changes: cells before and after, and new rows."""
    text = Reader(round_page(build_full_report())).text
    assert "from available" in text
    assert "to sold" in text
    assert "a new row" in text
    assert "Odin" in text


@pytest.mark.parametrize("name", [*HOSTILE, "a" * 10_000], ids=range(len(HOSTILE) + 1))
def test_no_name_becomes_markup(name: str) -> None:
    """With any names, the HTML has only its own tags, all closed, no link and a limited length of
    each name. Lines of a terminal keep their width, except for commands, which must be copied
    whole.
    """
    result = build_hostile_report(name)
    for html in (round_page(result), round_html(result), rounds_html([result])):
        reader = Reader(html)
        assert not reader.tags.keys() & {"script", "img", "b", "a", "iframe", "svg", "link"}
        assert not reader.attributes & {"href", "src", "style", "onmouseover", "onerror"}
        assert reader.text.replace("\n", "").replace("\u200d", "").replace("→", "").isprintable()
        assert len(html) < 400_000
    for text in (round_text(result), rounds_text([result])):
        lines = (line for line in text.splitlines() if not line.startswith("  petsync "))
        assert max(map(cell_len, lines)) <= 80
        assert text.replace("\n", "").replace("\u200d", "").isprintable()
    assert json.loads(round_json(result))["round"]["job"] == name


def test_a_page_stands_alone() -> None:
    """The policy of the page allows its own styles and nothing else, and every table has a caption
    and scoped headings.
    """
    html = round_page(build_full_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    for style in styles:
        digest = base64.b64encode(sha256(style.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    reader = Reader(html)
    assert reader.tags["h1"] == 1
    assert reader.tags["table"] == reader.tags["caption"] > 6
    assert reader.scopes == {"col", "row"}


def test_rounds_are_a_table_then_what_needs_a_person() -> None:
    """Each round has one line of 80 columns, and only rounds that need attention have details below
    the lines.
    """
    text = rounds_text(Rounds([WELL, build_full_report(), FAILED]))
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert [line.split()[0] for line in lines[1:4]] == ["=", "!", "x"]
    assert "inbox/dogs.csv" in lines[3]
    assert "+1 ~1 -2" in lines[2]
    assert "The store cannot be reached: connection refused." in text
    assert "  petsync reconcile --job inbox" in lines
    assert text.count("orders") == 1
    assert "1 note: for information" in text
    assert "No action is needed." in rounds_text(Rounds([WELL]))
    assert rounds_text(Rounds()) == "No rounds were run."


def test_rounds_show_themselves() -> None:
    """Rounds show themselves in a notebook, at a prompt and as a frame, and have the exit code of
    all.
    """
    rounds = Rounds([WELL, build_full_report(), FAILED])
    for shown in (rounds._repr_html_(), repr(rounds)):
        # The commands of a round are for the shell in which it ran.
        assert "store.runs()" in shown
        assert not re.search("See (<code>|`)petsync", shown)
    assert repr(WELL) == round_text(WELL)
    assert WELL._repr_html_() == round_html(WELL)
    assert "No round" in Rounds()._repr_html_()
    assert rounds.exit_code == 1
    frame = rounds.to_frame()
    assert list(frame.columns) == list(Round.__struct_encode_fields__)
    assert list(frame["to_store"]) == [0, 4, 0]
    assert frame["started"].dtype == "datetime64[us, UTC]"
    assert frame["job"].dtype == TEXT
    assert Rounds().to_frame().empty


def test_json_tells_all_for_machines() -> None:
    """The JSON has every field of the round and of each difference, the commands, the plan and the
    results.
    """
    output = json.loads(round_json(build_full_report()))
    assert output["format"] == FORMAT
    assert set(output["round"]) == set(Round.__struct_encode_fields__)
    assert [each["kind"] for each in output["open"]] == [each.kind for each in OPENS]
    assert output["commands"][0] == "petsync apply .petsync/reconcile/waiting/catalogue.json"
    assert output["report"]["counts"]["failed"] == 1
    assert len(output["plan"]["changes"]) == 4
    assert output["sheet"][0]["values"]["status"] == ["available", "sold"]
    several = json.loads(rounds_json([WELL, FAILED]))
    assert (several["exit_code"], len(several["rounds"])) == (1, 2)
    assert several["rounds"][0]["plan"] is None


def test_the_json_is_documented() -> None:
    """docs/history.md has a row for every key of a report, and for every field in it."""
    page = (Path(__file__).parents[1] / "docs" / "history.md").read_text("utf-8")
    tables = {
        "## The JSON of a report": json.loads(round_json(build_full_report())),
        "### A round": Round.__struct_encode_fields__,
        "### What is open": Difference.__struct_fields__,
        "### What the sheet takes": SheetChange.__struct_fields__,
    }
    for title, fields in tables.items():
        part = page.partition(f"{title}\n")[2].partition("\n#")[0]
        assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(fields), title


def test_a_plan_that_waits_has_one_way_out() -> None:
    """The page of a waiting plan shows the exceeded limit at the top, and names no option of
    another command.
    """
    plan = plan_with(Delete(row=None, source="", before=Pet(id=3, name="Tom"), why="missing"))
    plan = plan.with_guard(Guard(max_delete=Limit(0, is_share=False)))
    assert plan.verdict.refusals
    output = RoundReport(
        round=round_of(status="waiting", exit_code=4, waiting="w.json", problem="over max_delete"),
        plan=plan,
    )
    text = Reader(round_page(output)).text
    assert text.index("Over max_delete") < text.index("What can be done")
    assert "refuses" not in text
    assert "--max-" not in text + round_json(output).decode()


def test_what_is_refused_is_not_promised() -> None:
    """A refused round promises nothing for the next round, and a check names another job or a
    person as the way to resolve the drift.
    """
    drift = (Difference(kind="drift", problem="would be deleted in the store", pet_id=1),)
    refused = rounds_text(
        [RoundReport(round=round_of(status="refused", unexplained=1), open=drift)]
    )
    assert "until the reason for the refusal is fixed" in " ".join(refused.split())
    checked = round_of(status="drift", mode="check", unexplained=1, dry_run=True, exit_code=2)
    checked = replace(checked, to_store=Counts(add=1))
    text = rounds_text([RoundReport(round=checked, open=drift)])
    assert "only another job, or a user, can resolve differences" in " ".join(text.split())
    assert "+1" not in text


def test_a_query_has_no_file_to_check() -> None:
    """A query has no file, so no check command is shown; a failed dry run is suggested again as a
    dry run.
    """
    round_ = round_of(status="findings", findings=1, source="query of sqlite:///shop.db")
    assert not list(report_round.commands(round_))
    assert (
        report_round.advice_for_kind("finding", round_)
        == "Fix the data in the database that the query reads."
    )
    (again,) = report_round.commands(round_of(status="error", dry_run=True))
    assert again.line == "petsync reconcile --job catalogue --dry-run"


def test_what_a_sheet_took_is_reported_with_its_backup_and_the_report() -> None:
    """The sheet's changes are shown with the number of replaced values, and the paths of backup and
    report are in one piece.
    """
    path = f"/srv/{'long-' * 20}folder/catalogue.backup.csv"
    result = build_full_report(status="done", exit_code=0, backup=path, report=f"{path}.html")
    lines = rounds_text([result]).splitlines()
    assert path in lines
    assert f"{path}.html" in lines
    assert "1 row changed (2 cells that had another value), 1 row new" in " ".join(lines)


def test_a_strict_job_says_why_nothing_was_done() -> None:
    """If errors in the sheet stop a strict job, the round gives this reason, and does not say that
    other rows are used.
    """
    finding = (Difference(kind="finding", problem="'avialable': petsync knows no such status."),)
    hint = "Nothing was changed, because strict is set."
    stopped = round_of(status="findings", findings=1, problem="/srv/pets.csv: 1 error", hint=hint)
    text = " ".join(round_text(RoundReport(round=stopped, open=finding)).split())
    assert "1 error in the sheet keeps all of it from being used." in text
    assert "1 error in the sheet: the whole sheet is left out" in text
    assert f"/srv/pets.csv: 1 error. {hint}" in text
    assert "used," not in text


def test_errors_say_what_of_the_sheet_is_left_out() -> None:
    """An error of a header leaves out its column, an error in a row leaves out the row."""
    header = Difference(kind="finding", problem="a new header", address="line 1, column 2")
    row = Difference(kind="finding", problem="no such status", row=3, address="line 3, column 3")
    for found, parts in (
        ([header], "columns"),
        ([row], "rows"),
        ([row, header], "columns and rows"),
    ):
        result = RoundReport(round=round_of(status="findings", findings=len(found)), open=(*found,))
        text = " ".join(round_text(result).split())
        assert f"in the sheet: these {parts} are left out" in text
        assert "a part of it from being used." in text


@pytest.mark.parametrize("status", report_round.STATUS_WORDS)
def test_every_status_has_its_words(status: str) -> None:
    """Each status has its own words for the headline, also after a dry run."""
    result = report_round.headline(round_of(status=status, exit_code=0, dry_run=True))
    assert result.startswith(f"{report_round.STATUS_WORDS[status].title}: ")  # type: ignore[index]
    assert result.endswith("This was a dry run: nothing was changed.")


def test_counts_are_short() -> None:
    """Counts are short: a sign and a number for adds, changes and deletes, or 0."""
    assert report_round.format_counts(Counts(add=3, delete=1_200)) == "+3 -1,200"
    assert report_round.format_counts(Counts()) == "0"


@pytest.mark.parametrize("length", [40, 78, 79, 80, 120])
def test_the_path_of_a_report_stays_in_one_piece(length: int) -> None:
    """The path of a report stays in one piece: indented if it fits, and wider than the line only on
    a line of its own.
    """
    path = f"/{'x' * (length - 1)}"
    (line,) = [each.plain for each in wrap_keeping_paths(path, 80, indent=2)]
    assert line.strip() == path
    assert len(line) <= max(80, length)
