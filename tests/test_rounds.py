"""Two-way rounds that are killed at any moment, between edits of every kind: each edit arrives or
is named.

Each seed has its own edits and kills; `--rounds 200 --rounds-seed 7` runs 200 rounds of one seed,
and `--rounds-by-hand` adds manual commands between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.running import Nursery
from rounds.auditor import Auditor, View
from rounds.play import Play
from rounds.sheet import BLANK

pytestmark = pytest.mark.slow

KEY, UNIT = "k1", ("name", "")


@pytest.fixture(scope="module")
def loaded() -> Iterator[Nursery]:
    """Yield a process that forks the rounds of all seeds, because loading their modules takes as
    long as several rounds.
    """
    with Nursery("nights.loaded") as nursery:
        yield nursery


def test_each_edit_arrives_or_is_named(
    rounds_seed: int, rounds: int, has_commands: bool, tmp_path: Path, loaded: Nursery
) -> None:
    """No round reverts an edit, loses or doubles a pet, or ends well while the sides differ."""
    Play(rounds_seed, tmp_path, loaded, has_commands=has_commands).play(rounds)


def _sides(*, sheet: str, store: str) -> View:
    """Return one pet and its row, which differ in the name alone."""
    same = {
        "status": "sold",
        "category": None,
        "category_id": None,
        "tags": frozenset[str](),
        "photo_urls": frozenset[str](),
    }
    return View({KEY: {"name": store, **same}}, {KEY: {"name": sheet, **same}})


def _open_edit() -> Auditor:
    """Return an auditor of an open edit: both sides had "new", then "old", and then "new" was typed
    into the sheet.
    """
    auditor = Auditor()
    auditor.observe(_sides(sheet="new", store="new"))
    auditor.observe(_sides(sheet="old", store="old"))
    auditor.ledger.sheet.add((KEY, UNIT))
    auditor.observe(_sides(sheet="new", store="old"))
    return auditor


def _put_back(auditor: Auditor, *, is_sent: bool) -> None:
    """Put back the file with the open edit, after the edit was sent and taken back in the store, or
    was taken back in the sheet.
    """
    then, step = auditor.ledger.copy(), auditor.step
    sides = _sides(sheet="new", store="old")
    if is_sent:
        _send(auditor, is_resume=False)
        _take_back_in_store(auditor)
    else:
        auditor.ledger.sheet.add((KEY, UNIT))
        auditor.observe(_sides(sheet="old", store="old"))
    auditor.take_back(sides, then, step, {KEY}, sides=sides)
    auditor.observe(sides)


def _send(auditor: Auditor, *, is_resume: bool, sheet: str = "new") -> None:
    """Send "new" manually."""
    after = _sides(sheet=sheet, store="new")
    auditor.note_store_edits(_sides(sheet=sheet, store="old"), after, is_resume=is_resume)
    auditor.observe(after)


def _take_back_in_store(auditor: Auditor) -> None:
    after = _sides(sheet="new", store="old")
    auditor.note_store_edits(_sides(sheet="new", store="new"), after, is_resume=False)
    auditor.observe(after)


def _judge(auditor: Auditor, before: View, after: View) -> None:
    auditor.judge_round(before, after, code=0, opens=())


def test_a_row_goes_with_its_pet_once_an_older_file_lacks_its_edit() -> None:
    """The auditor accepts that a row with an edit is removed with its pet only after an older file
    without the edit was put back.
    """
    auditor = Auditor()
    same = _sides(sheet="old", store="old")
    auditor.observe(same)
    then, step = auditor.ledger.copy(), auditor.step
    auditor.ledger.sheet.add((KEY, UNIT))
    auditor.ledger.pets_removed.add(KEY)
    gone, both_gone = View({}, same.rows), View({}, {})
    with pytest.raises(AssertionError, match="had edits"):
        _judge(auditor, gone, both_gone)
    auditor.take_back(gone, then, step, {KEY}, sides=same)
    _judge(auditor, gone, both_gone)


def test_an_edit_that_was_sent_and_undone_is_not_to_be_sent_again() -> None:
    """An edit that was sent and undone is not an open edit, because the store's older value is the
    newest.
    """
    auditor = _open_edit()
    _send(auditor, is_resume=False)
    _take_back_in_store(auditor)
    before = _sides(sheet="new", store="old")
    _judge(auditor, before, _sides(sheet="old", store="old"))
    with pytest.raises(AssertionError, match="nobody edited the sheet"):
        _judge(auditor, before, _sides(sheet="new", store="new"))


@pytest.mark.parametrize("is_sent", [True, False])
def test_an_edit_in_a_backup_is_open_unless_it_has_arrived_since(is_sent: bool) -> None:
    """An edit in a backup is open again, unless it arrived since."""
    auditor = _open_edit()
    _put_back(auditor, is_sent=is_sent)
    before = _sides(sheet="new", store="old")
    sent, reverted = _sides(sheet="new", store="new"), _sides(sheet="old", store="old")
    right, wrong = (reverted, sent) if is_sent else (sent, reverted)
    _judge(auditor, before, right)
    with pytest.raises(AssertionError, match="nobody edited the"):
        _judge(auditor, before, wrong)


def test_an_edit_that_was_taken_back_is_none() -> None:
    """An edit that was taken back is not an edit, so the sheet takes the store's later value."""
    auditor = _open_edit()
    auditor.ledger.store.add((KEY, UNIT))
    auditor.ledger.sheet.add((KEY, UNIT))
    before = _sides(sheet="old", store="newer")
    auditor.observe(before)
    _judge(auditor, before, _sides(sheet="newer", store="newer"))
    with pytest.raises(AssertionError, match="the store's edit is lost"):
        _judge(auditor, before, _sides(sheet="old", store="old"))


def test_an_edit_of_after_a_stopped_run_is_newer_than_what_it_sends() -> None:
    """An edit after a stopped run is newer than the value that the resumed run sends."""
    auditor = _open_edit()
    _send(auditor, is_resume=True, sheet="newer")
    before = _sides(sheet="newer", store="new")
    _judge(auditor, before, _sides(sheet="newer", store="newer"))
    with pytest.raises(AssertionError, match="nobody edited the store"):
        _judge(auditor, before, _sides(sheet="new", store="new"))


def test_every_other_command_edits_the_store() -> None:
    """Any command other than a resume edits the store, so both sides' edits must be kept."""
    auditor = _open_edit()
    _send(auditor, is_resume=False, sheet="newer")
    before = _sides(sheet="newer", store="new")
    with pytest.raises(AssertionError, match="the store's edit is lost"):
        _judge(auditor, before, _sides(sheet="newer", store="newer"))
    with pytest.raises(AssertionError, match="the sheet's edit is lost"):
        _judge(auditor, before, _sides(sheet="new", store="new"))


def _without(view: View, column: str) -> View:
    """Return the same view with a sheet that lacks a column."""
    rows = {key: {**values, column: BLANK} for key, values in view.rows.items()}
    return View(view.pets, rows, frozenset((key, column) for key in rows))


def test_a_killed_run_may_go_on_while_the_column_of_its_edit_is_away() -> None:
    """A killed run can continue while the column of its edit is away, and sends only the sheet's
    last value.
    """
    auditor = _open_edit()
    before = _without(_sides(sheet="new", store="old"), "name")
    auditor.observe(before)
    _judge(auditor, before, _without(_sides(sheet="new", store="new"), "name"))
    with pytest.raises(AssertionError, match="nobody said so"):
        _judge(auditor, before, _without(_sides(sheet="new", store="newer"), "name"))


@pytest.mark.parametrize("is_away", [False, True])
def test_an_empty_cell_beside_nothing_is_no_open_edit(is_away: bool) -> None:
    """An empty cell and no value in the store are not open edits, unless the column is away."""
    auditor, unit = Auditor(), ("status", "")
    view = _without(_sides(sheet="old", store="old"), "status")
    view.pets[KEY]["status"] = None
    auditor.ledger.store.add((KEY, unit))
    auditor.observe(view if is_away else View(view.pets, view.rows))
    assert ((KEY, unit) in auditor.ledger.store) is is_away


@pytest.mark.parametrize("is_added_again", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_the_number_in_a_new_row_gives_way_to_that_of_its_name(
    is_new: bool, is_added_again: bool
) -> None:
    """The category id in a new row, or in one whose pet was added again, is replaced by the id of
    its name; in another row it is a value like others.
    """
    auditor = Auditor()
    before = _sides(sheet="Ada", store="Ada")
    for side, number in ((before.rows, "5"), (before.pets, "481")):
        side[KEY] |= {"category": "Horses", "category_id": number}
    if is_new:
        auditor.ledger.rows_added.add(KEY)
    if is_added_again:
        auditor.note_store_edits(View({}, before.rows), before, is_resume=False)
    auditor.observe(before)
    after = View(before.pets, before.pets)
    if is_new or is_added_again:
        _judge(auditor, before, after)
        return
    with pytest.raises(AssertionError, match="nobody edited the store"):
        _judge(auditor, before, after)


@pytest.mark.parametrize("name", ["Dogs", "Cats"])
def test_the_number_of_a_category_names_it(name: str) -> None:
    """A category id in a row without a name means the category of another pet with that id."""
    auditor, number = Auditor(), ("category_id", "")
    empty = {**_sides(sheet="old", store="old").pets[KEY], "category": None, "category_id": None}
    other = {**empty, "category": "Dogs", "category_id": "3"}
    row = {**empty, "category": BLANK, "category_id": "3"}
    auditor.ledger.sheet.add((KEY, number))
    before = View({KEY: empty, "k2": other}, {KEY: row, "k2": other})
    sent = {**empty, "category": name, "category_id": "3"}
    after = View({KEY: sent, "k2": other}, before.rows)
    if name == "Dogs":
        _judge(auditor, before, after)
    else:
        with pytest.raises(AssertionError, match="nobody said so"):
            _judge(auditor, before, after)


@pytest.mark.parametrize("blank", ["category", "category_id"])
def test_one_cell_of_a_category_says_it(blank: str) -> None:
    """A category that is in one of the row's two cells agrees with the store."""
    auditor = Auditor()
    pet = {**_sides(sheet="old", store="old").pets[KEY], "category": "Dogs", "category_id": "3"}
    for column in ("category", "category_id"):
        auditor.ledger.store.add((KEY, (column, "")))
    auditor.observe(View({KEY: pet}, {KEY: {**pet, blank: BLANK}}))
    assert not auditor.ledger.has_edits(auditor.ledger.store, KEY)
