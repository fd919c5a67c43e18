"""Plans, reports, sheets and snapshots as plain text."""

from __future__ import annotations

import dataclasses
import tracemalloc

import pytest
from effort import steps
from render_samples import (
    ADD,
    BELLA,
    BLOCKED,
    CATS,
    CLASHING,
    CONFLICT,
    DELETE,
    HOSTILE,
    MISSING,
    OVER,
    SILENT,
    UPDATE,
    clash,
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
    stopped_report,
)
from rendering import findings_text, plan_text, report_text, snapshot_text
from rich.cells import cell_len

import petsync.report  # noqa: F401 - what is tested: values show themselves once it is imported
from petsync.models import Pet, Tag
from petsync.plan.change import Change, Coverage
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.plan.report import Report
from petsync.table.arrow import PetTable
from petsync.table.frame import frame_from_pets

pytestmark = pytest.mark.slow

PLAN = """\
Plan: 1 to add, 1 to change, 2 to delete; 1 conflict, 1 row needs fixing, 870 in
agreement, 3 ignored.

The guard refuses this plan: nothing will be sent
  x 2 deletes are more than --max-delete 1 allows (1 of 1,200 pets).
    `--max-delete 2` (in Python max_delete=2) would allow it.

  store     http://127.0.0.1:1/v2 (1,200 pets)
  sheet     edited.xlsx (878 rows)
  compared  only with the store: every filled cell counts
  made      2026-11-20 09:30:12 UTC

Add 1 pet
  + new  Mochi                                                          Pets!A61
      available; category: Cats (2); tags: calm, good with kids

Change 1 pet
  ~ 17  Bella                                                           Pets!B18
      name: Bella -> Bela
      status: available -> sold
      tags: +"good with kids" -shy
      photo_urls: +/2.png

Delete 2 pets
  -  99  Rex                                                            Pets!A40
      available; category: Dogs (1); tags: shy, calm; 1 photo
  - 100  Tom                                                    not in the sheet
      sold; category: Cats (2)

1 conflict: nothing is sent until you decide
  ! Pets!A12: The row matches several pets: 3, 8. Give the row its id.

1 row needs fixing
  x Pets!C60: petsync knows no such status.

1 note
  * Pet 100 (Tom) would be deleted. Look twice.

Plan: 1 to add, 1 to change, 2 to delete; 1 conflict, 1 row needs fixing, 870 in
agreement, 3 ignored.
The guard refuses this plan: nothing will be sent"""

REPORT = """\
petsync run 20261120-093100-4f2a
  store    http://127.0.0.1:1/v2
  sheet    edited.xlsx
  started  2026-11-20 09:31:00 UTC, took 3.2 s

  applied         1
  unchanged     873
  not sent        1
  conflict        1
  needs fixing    0
  failed          1
  unknown         1
  total         878

1 failed: an error in the service
  The service reported an internal error. Requests that are safe to repeat were
  sent again. The store shows that the change was not made.
  When the service works again, `petsync resume 20261120-093100-4f2a` tries them
  once more.
  x Pets!B18, update of pet 17 (Bella): updatePet: the service answered 503

1 unknown: no answer
  The connection was lost, or the answer took too long. It is not known whether
  the change was made.
  `petsync resume 20261120-093100-4f2a` finds out from the store what happened,
  and sends what is missing.
  ! Pets!B18, delete of pet 17 (Rex): No answer arrived

1 in conflict: open since the plan
  Sheet and store are in conflict. The values in conflict were not sent.
  Do what each row says, and plan again.
  ! Pets!B18: Matches several pets: 3, 8.

1 not sent: held back
  Deletes come last, and none is sent if too many changes failed before them.
  Fix what failed; `petsync resume 20261120-093100-4f2a` then sends the deletes
  too.
  * Pets!B18, delete of pet 17 (Tom): Held back, because 1 of the earlier
    changes failed or got no answer

Done with problems: 1 applied, 873 unchanged, 1 not sent, 1 conflict, 1 failed,
1 unknown.
To undo it: `petsync undo 20261120-093100-4f2a`, in Python
`store.undo("20261120-093100-4f2a")`"""

SHEET = """\
petsync sheet
  file     edited.xlsx, tab Pets
  columns  id, name, status, category, category_id, tags, photo_urls
  others   Shelf

4 warnings: no-break-space
  There is a no-break space. Delete it.
  ! Pets!C10:C13 (4 cells)

3 errors: unknown-status
  petsync knows no such status.
  x Pets!C4, C6 "availabel": Write available if you mean that.
  x Pets!C5 "solld": Write sold.

1 error: error-cell
  The cell shows #N/A. Write available if you mean that.
  x Pets!C9

Checked: 2 rows can be used, 4 rows need fixing; 4 errors, 4 warnings.
Equal cells can be corrected together: 2 cells by --correct
status:availabel=STATUS, in Python corrections={'status:availabel': 'STATUS'}.
A plan changes nothing for these rows: fix the cells, and check again.
docs/findings.md explains each code."""

SNAPSHOT = """\
petsync snapshot
  store  http://127.0.0.1:1/v2
  taken  2026-11-20 09:30:00 UTC

  2  available
  1  sold

3 pets. Covers the statuses available, pending, sold; a pet of another status
may exist without being listed here."""


def messy_findings() -> list[object]:
    """Return findings of three rules, in no order."""
    space = {"severity": "warning", "value": "", "problem": "There is a no-break space"}
    return [
        finding("error-cell", 9, value="#N/A", problem="The cell shows #N/A"),
        *(finding("no-break-space", n, suggestion="Delete it.", **space) for n in range(10, 14)),
        finding("unknown-status", 4),
        finding("unknown-status", 5, value="solld", suggestion="Write sold."),
        finding("unknown-status", 6),
    ]


def test_a_plan_as_text() -> None:
    """The text of a small plan has exactly this form, and the repr only the argument in Python."""
    assert plan_text(small_plan()) == PLAN
    both = """than --max-delete 1 allows (1 of 1,200 pets).
    `--max-delete 2` (in Python max_delete=2) would allow it."""
    one = """than max_delete 1 allows (1 of 1,200 pets). max_delete=2
    would allow it."""
    assert repr(small_plan()) == PLAN.replace(both, one)


def test_a_report_as_text() -> None:
    """The text of a small report has exactly this form, and the repr only the call in Python."""
    assert report_text(small_report()) == REPORT
    undo = "`petsync undo 20261120-093100-4f2a`, in Python\n"
    shown = " ".join(REPORT.replace(undo, "").split())
    resume = "petsync resume 20261120-093100-4f2a", 'store.resume("20261120-093100-4f2a")'
    assert " ".join(repr(small_report()).split()) == shown.replace(*resume)


def test_findings_as_text() -> None:
    """Findings are grouped by rule, the most frequent first, and shared text is shown once."""
    assert findings_text(sheet_with(*messy_findings()), limit=2) == SHEET


def test_a_sheet_shows_its_findings() -> None:
    """The repr of a sheet has its findings, and the argument in Python alone."""
    sheet = sheet_with(*messy_findings())
    option = "--correct status:availabel=STATUS, in Python "
    assert " ".join(repr(sheet).split()) == " ".join(findings_text(sheet).split()).replace(
        option, ""
    )


def test_a_sheet_without_findings_says_so() -> None:
    """A sheet without findings reports that in a sentence, and a CSV file shows no tab."""
    text = findings_text(sheet_with(tab="", source="a.csv"))
    assert "  file     a.csv\n" in text
    assert text.endswith("Checked: 2 rows, no findings.")


def test_a_snapshot_as_text() -> None:
    """A snapshot shows its moment, its pets by status, and its coverage."""
    assert snapshot_text(small_snapshot()) == SNAPSHOT
    assert repr(small_snapshot()) == SNAPSHOT


def test_a_snapshot_without_pets_as_text() -> None:
    """The snapshot of an empty store has its facts and no table."""
    empty = dataclasses.replace(small_snapshot(), pets=PetTable(frame=frame_from_pets([])))
    text = snapshot_text(empty)
    assert "0 pets" in text
    assert repr(empty) == text


def test_a_snapshot_names_few_statuses() -> None:
    """With a different status for each pet, the rest is counted together, and no pet is lost."""
    pets = [Pet(id=n, status=f"status {n}") for n in range(30)]
    text = snapshot_text(small_snapshot(*pets, Pet(id=99)))
    counted = [line.split()[0] for line in text.splitlines() if line.startswith("   ")]
    counted += [line.split()[0] for line in text.splitlines() if line.startswith("  1")]
    assert sum(map(int, counted)) == 31
    assert "(other statuses)" in text


def test_equally_frequent_statuses_are_in_the_order_of_the_pets() -> None:
    """Statuses with the same number of pets are shown in the order of their first pets."""
    pets = [Pet(id=n, status=status) for n, status in enumerate("fagccg")]
    lines = [line.split() for line in snapshot_text(small_snapshot(*pets)).splitlines()]
    counted = [tuple(line) for line in lines if len(line) == 2 and line[1] in "fagc"]
    assert counted == [("2", "g"), ("2", "c"), ("1", "f"), ("1", "a")]


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (plan_with(rows=1200, unchanged=1200), "In sync: all 1,200 rows agree with the store."),
        (plan_with(rows=1, unchanged=1), "In sync: the one row agrees with the store."),
        (plan_with(rows=5, unchanged=3, ignored=2), "In sync: 3 in agreement, 2 ignored."),
        (plan_with(rows=0), "Nothing to do: the sheet has no rows."),
        (plan_with(ADD), "Plan: 1 to add, 0 to change, 0 to delete; 0 in agreement."),
        (
            plan_with(rows=2, unchanged=2, coverage=Coverage(("sold",), (SILENT,))),
            "In sync: all 2 rows agree with the store, but it did not answer every query.",
        ),
    ],
)
def test_a_plan_begins_with_its_sum(plan: Plan, text: str) -> None:
    """The first line of a plan is one sentence that states whether there is anything to do."""
    assert plan_text(plan).splitlines()[0] == text


def test_a_long_plan_ends_with_its_sum_too() -> None:
    """A long plan repeats its totals in its last lines."""
    lines = plan_text(replace(large_plan(20), verdict=Verdict((OVER,)))).splitlines()
    assert lines[-2:] == [lines[0], "The guard refuses this plan: nothing will be sent"]
    assert plan_text(large_plan(2)).count("Plan: ") == 1


def test_a_plan_in_sync_says_nothing_of_the_guard() -> None:
    """A plan in sync does not mention the guard."""
    assert "uard" not in plan_text(plan_with(rows=2, unchanged=2))
    assert "Guard: the plan is within every limit." in plan_text(plan_with(ADD))


def test_a_long_plan_is_cut() -> None:
    """A long plan shows its first changes, counts the rest and names the way to see all."""
    text = plan_text(large_plan(221), limit=20)
    assert text.count("Pets!B18") == 20
    assert "\n  ... and 201 more\n" in text
    assert "Change 221 pets\n  name 221, status 221, tags 221, photo_urls 221\n" in text
    assert "To see all of them: `petsync plan` with `--limit 0`, or with `-o plan.html`" in text
    assert plan_text(large_plan(221), limit=None).count("Pets!B18") == 221
    undo = plan_text(replace(large_plan(221), undoes="r\x1b"), limit=20)
    assert "`petsync undo r[ESC]` with `--format text --limit 0`" in " ".join(undo.split())


def test_a_short_plan_does_not_point_elsewhere() -> None:
    """A plan that is shown completely does not mention a way to see all."""
    assert "all of them" not in plan_text(large_plan(20), limit=20)


def test_a_huge_plan_costs_little() -> None:
    """A plan of 300,000 changes is shown without a text for each, in a megabyte of memory."""

    def plan(count: int) -> Plan:
        return replace(large_plan(1), changes=(UPDATE,) * count, raw_notes=("look",) * count)

    huge, large, small = plan(300_000), plan(6_000), plan(1_000)
    tracemalloc.start()
    text = plan_text(huge)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "Plan: 0 to add, 300,000 to change" in text
    assert peak < 1_000_000
    # Counting a change takes a few lines of Python; showing one takes hundreds.
    assert steps(lambda: plan_text(large)) - steps(lambda: plan_text(small)) < 60 * 5_000


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_name_breaks_out_of_the_text(name: str, width: int) -> None:
    """With any names, every line fits and has no control character."""
    plan = hostile_plan(name)
    failed = [result(n, "failed", source=name, message=name) for n in range(3)]
    sheet = sheet_with(finding(name, 4, value=name, problem=name), source=name, tab=name)
    snapshot = small_snapshot(replace(BELLA, status=name))
    for text in (
        plan_text(plan, width=width),
        report_text(report_of(*failed, stopped=name, plan=plan), width=width),
        findings_text(sheet, width=width),
        snapshot_text(snapshot, width=width),
    ):
        assert all(cell_len(line) <= width for line in text.split("\n"))
        assert text.replace("\n", "").replace("\u200d", "").isprintable()


def test_a_name_as_long_as_a_book_is_cut() -> None:
    """The text of a plan does not grow with the length of its names."""
    short, long = (len(plan_text(hostile_plan("a" * n))) for n in (5_000, 2_000_000))
    assert long == short


def test_a_query_without_an_answer_catches_the_eye() -> None:
    """A failed query is shown with its error and its consequence before the facts, which show the
    reduced coverage.
    """
    text = plan_text(plan_with(ADD, coverage=Coverage(("available", "pending"), (SILENT,))))
    top, _, facts = text.partition("\n  store ")
    assert "\n  Status sold: findPetsByStatus: the service answered 503." in top
    assert "pets that are in no row are not deleted." in top.replace("\n  ", " ")
    assert "covers    pets that are available or pending; 1 query without an answer" in facts


def test_clashes_stand_side_by_side() -> None:
    """A clash has its three values in columns and names the winner and how to change it; the update
    names the fields that are not sent.
    """
    text = plan_text(plan_with(UPDATE, conflicts=(CLASHING,)))
    assert (
        "1 conflict: the store's value stays\n"
        '  To send the sheet\'s: --on-conflict sheet, in Python on_conflict="sheet".\n'
        f"  ! 17{'Pets!B18':>74}\n"
        "                   before  sheet    store (stays)\n"
        "      name         Bella   Bela     Bellina\n"
        "      status       sold    pending  (empty)"
    ) in text
    assert "      In conflict, and not sent: name, status.\n" in text


def test_clashes_that_the_sheet_wins() -> None:
    """With --on-conflict sheet both the conflict and the update show that the values are sent."""
    text = plan_text(plan_with(UPDATE, conflicts=(replace(CLASHING, winner="sheet"),)))
    assert "1 conflict: the sheet's value is sent\n" in text
    assert "before  sheet (sent)  store\n" in text
    assert "      In conflict, and sent: name, status.\n" in text
    assert "1 conflict that the sheet wins" in text.splitlines()[0]


def test_a_long_clash_stands_on_lines_of_its_own() -> None:
    """Values too long for columns are shown below each other, complete, with each item of a list on
    its own line.
    """
    photos = "https://images.petshop.example/17/1.jpg\nhttps://images.petshop.example/17/2.jpg"
    photos += "\nhttps://images.petshop.example/a-long-way/and-more/3.jpg"
    long = replace(CLASHING, clashes=(clash("photo_urls", photos, photos[:-40], ""),))
    text = plan_text(plan_with(conflicts=(long,)))
    assert "      photo_urls   before         https://images.petshop.example/17/1.jpg\n" in text
    assert "\n                                  https://images.petshop.example/17/2.jpg\n" in text
    assert "\n                   store (stays)  (empty)" in text


def test_a_part_of_a_plan_says_so() -> None:
    """A part of a plan shows the number of changes that a selection left out."""
    text = plan_text(plan_with(ADD, left_out=1_200))
    assert "1,200 left out" in text.splitlines()[0]
    assert "  selected  a part of a plan: 1,200 changes were left out\n" in text


def test_a_guard_without_an_option_says_so() -> None:
    """A refusal that no option overrides is distinguished from one that an option does."""
    gone = Refusal("sentinel", "pet 1, a sentinel, is not in the store")
    text = plan_text(plan_with(ADD, verdict=Verdict((OVER, gone))))
    assert "`--max-delete 2` (in Python max_delete=2) would allow it.\n" in text
    assert "  x Pet 1, a sentinel, is not in the store. No option allows it." in text


def change_of(**fields: object) -> Change:
    """Return an update of Bella in these fields."""
    return replace(UPDATE, fields=tuple(fields), after=replace(BELLA, **fields))


def shown(change: Change) -> list[str]:
    """Return the lines of a plan's only change, without the first."""
    lines = plan_text(plan_with(change)).splitlines()
    return [line.strip() for line in lines if line.startswith("      ")]


def test_values_too_long_show_where_they_differ() -> None:
    """Two long values that begin alike are cut so that their different part is shown."""
    before = replace(BELLA, name="A very long name indeed, " * 9 + "the first")
    after = replace(before, name="A very long name indeed, " * 9 + "the second")
    old, new = shown(replace(UPDATE, fields=("name",), before=before, after=after))
    assert old.startswith("name: ...")
    assert old.endswith("the first")
    assert new.startswith("-> ...")
    assert new.endswith("the second")


def test_tags_that_share_a_name_show_their_ids() -> None:
    """A tag that only gets another id is shown with both ids."""
    assert shown(change_of(tags=(Tag(9, "shy"), Tag(2, "calm")))) == ["tags: +9:shy -1:shy"]


def test_a_tag_number_that_a_service_made_up_is_no_change() -> None:
    """A tag with the number 0 is the tag without a number, as in every comparison."""
    before = replace(BELLA, tags=(Tag(0, "shy"), Tag(2, "calm")))
    after = replace(BELLA, tags=(Tag(None, "shy"),))
    assert shown(replace(UPDATE, fields=("tags",), before=before, after=after)) == ["tags: -calm"]


def test_photos_that_change_places_say_so() -> None:
    """Photos in another order are shown in both orders, each address on its own line with its
    number.
    """
    two = replace(BELLA, photo_urls=("/1.png", "/2.png"))
    change = replace(
        UPDATE,
        fields=("photo_urls",),
        before=two,
        after=replace(two, photo_urls=("/2.png", "/1.png")),
    )
    assert shown(change) == [
        "photo_urls: before  1. /1.png",
        "2. /2.png",
        "after   1. /2.png",
        "2. /1.png",
    ]


def test_of_many_photos_those_that_move_are_shown() -> None:
    """In a long list of photos only those that change places are shown, with their numbers."""
    before = tuple(f"/{n}.png" for n in range(1, 41))
    after = (*before[:30], before[31], before[30], *before[32:])
    two = replace(BELLA, photo_urls=before)
    change = replace(
        UPDATE, fields=("photo_urls",), before=two, after=replace(two, photo_urls=after)
    )
    assert shown(change) == [
        "photo_urls: before  31. /31.png",
        "32. /32.png",
        "after   31. /32.png",
        "32. /31.png",
    ]


def test_an_emptied_field_says_so() -> None:
    """An empty value is shown as `(empty)`."""
    assert shown(change_of(status=None)) == ["status: available -> (empty)"]


def test_many_items_are_counted() -> None:
    """Of many new tags, the first twelve are named and the rest is counted."""
    tags = tuple(Tag(n, f"tag{n}") for n in range(100, 140))
    lines = shown(change_of(tags=(*BELLA.tags, *tags)))
    assert " ".join(lines).endswith("+tag111 and 28 more")


def test_changes_show_the_pet_as_it_is() -> None:
    """The heading of an update has the store's name of the pet, and that of a delete has its
    reason.
    """
    text = plan_text(plan_with(UPDATE, MISSING))
    assert "~ 17  Bella " in text
    assert "not in the sheet" in text


def test_ids_are_whole_and_aligned() -> None:
    """The largest id is shown with all digits, and smaller ones are right-aligned with it."""
    big = replace(UPDATE, before=replace(BELLA, id=2**63 - 1))
    lines = [line for line in plan_text(plan_with(UPDATE, big)).splitlines() if "  ~" in line]
    assert lines[1].startswith("  ~ 9223372036854775807  Bella")
    assert lines[0].index("17") + 2 == lines[1].index("807") + 3


def test_totals_of_a_report_add_up() -> None:
    """The outcomes in a report add up to its total, which is the number of the rows."""
    lines = report_text(small_report()).splitlines()
    counts = {word: int(n) for word, n in (line.rsplit(None, 1) for line in lines[5:13])}
    total = counts.pop("  total")
    assert sum(counts.values()) == total == 870 + 3 + len(small_report().results)


def test_a_report_of_a_stop_says_why_and_what_is_left() -> None:
    """A report of a stopped run has the reason line by line, the number of changes left, and the
    command to resume.
    """
    text = report_text(replace(stopped_report(), stopped="the token expired\nLog in again."))
    assert "\nWhy it stopped\n  the token expired\n  Log in again.\n" in text
    assert text.partition("Stopped early: ")[2].replace("\n", " ") == (
        "1 applied, 2 not sent, 1 unknown. 3 changes are left: "
        "`petsync resume 20261120-093100-4f2a` finishes the run."
    )


def test_a_report_of_a_stop_with_nothing_left() -> None:
    """If nothing is left, the report of a stopped run does not suggest to send the rest."""
    report = report_of(result(0, "applied"), stopped="the disk is full", plan=plan_with(UPDATE))
    text = report_text(report).replace("\n", " ")
    assert text.endswith(
        "Stopped early: 1 applied. `petsync resume 20261120-093100-4f2a` checks that nothing "
        "is left."
    )


def test_a_good_report_lists_nothing() -> None:
    """A report without problems has totals, one sentence and the command to undo, and lists no
    row.
    """
    text = report_text(report_of(result(1, "applied"), plan=plan_with(UPDATE)))
    assert text.splitlines()[-3:] == [
        "Done: 1 applied.",
        "To undo it: `petsync undo 20261120-093100-4f2a`, in Python",
        '`store.undo("20261120-093100-4f2a")`',
    ]
    assert "Pets!B18" not in text


def test_a_run_that_applied_nothing_is_not_taken_back() -> None:
    """An undo is suggested only if something was applied and the run was not stopped."""
    nothing = report_of(result(0, "failed", cause="refused"), plan=plan_with(UPDATE))
    for report in (nothing, stopped_report()):
        assert "petsync undo" not in report_text(report)


def test_traits_of_an_add_are_complete() -> None:
    """The traits of a new pet are complete: status, category, tags and photos."""
    pet = Pet(name="Kiki", status="pending", category=CATS, photo_urls=("a", "b"))
    assert shown(replace(ADD, after=pet)) == ["pending; category: Cats (2); 2 photos"]


def mixed_report() -> Report:
    """Return a report on two rows: one in conflict whose other edits were applied, and one
    applied.
    """
    held = replace(CLASHING, row=18, name="Bella")
    plan = plan_with(UPDATE, replace(UPDATE, row=19), conflicts=(held,), unchanged=5)
    row = {"row": 18, "fields": ["tags"]}
    sent, other = result(0, "applied", **row), result(1, "applied", row=19)
    return report_of(
        sent,
        other,
        result(2, "conflict", cause="from-plan", kind="none", row=18, message="So."),
        plan=plan,
    )


def test_a_row_in_conflict_counts_once() -> None:
    """A row in conflict whose other edits were applied is listed once, as a conflict, and the
    sentence mentions the edits.
    """
    text = report_text(mixed_report())
    assert "1 in conflict: open since the plan\n" in text
    assert text.count("Pets!B18, pet 17 (Bella): ") == 1
    assert "Applied: tags; So" in text
    sum_ = text.replace("\n", " ").partition("Done with problems: ")[2]
    assert sum_ == (
        "1 applied, 5 unchanged, 1 conflict (of these, 1 row's other edits were applied). "
        "To undo it: `petsync undo 20261120-093100-4f2a`, in Python "
        '`store.undo("20261120-093100-4f2a")`'
    )
    assert sum(mixed_report().counts.values()) == 7


def test_a_blocked_row_names_its_pet() -> None:
    """A blocked row shows its pet's id and name as far as they are known."""
    blocked = (
        replace(BLOCKED, pet_id=17, name="Bella"),
        replace(BLOCKED, pet_id=18),
        BLOCKED,
    )
    text = plan_text(plan_with(blocked=blocked))
    assert "x Pets!C60, pet 17 (Bella): petsync knows no such status." in text
    assert "x Pets!C60, pet 18: petsync knows" in text
    assert "x Pets!C60: petsync knows" in text


def test_a_conflict_of_a_whole_row_names_its_pet() -> None:
    """A conflict shows the pet's name, and its id if there is one."""
    named = replace(CONFLICT, pet_id=3, name="Mimi")
    text = plan_text(plan_with(conflicts=(named, replace(named, pet_id=None), CONFLICT)))
    assert "! Pets!A12, pet 3 (Mimi): The row matches several" in text
    assert "! Pets!A12, Mimi: The row matches several" in text
    assert "! Pets!A12: The row matches several" in text


def test_tags_that_look_like_several_are_quoted() -> None:
    """A tag whose name has a comma or a semicolon is quoted."""
    tags = (Tag(1, "needs company"), Tag(2, "eats grain; greens"), Tag(3, "a,b"))
    pet = replace(BELLA, tags=tags, photo_urls=())
    text = plan_text(plan_with(replace(DELETE, before=pet)))
    assert 'tags: needs company, "eats grain; greens", "a,b"' in " ".join(text.split())
