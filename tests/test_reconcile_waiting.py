"""Plans that exceed a guard's limit: they wait as a file, and `petsync apply` of the file releases
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from rendering import rounds_text
from scenarios import PETS, Scenario, changed, kinds

import petsync as ps
from petsync.cli import main
from petsync.models import Category
from petsync.plan.guard import Guard, Limit
from petsync.reconcile.round import reconcile_jobs
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

FEW = Guard(max_update=Limit(2, is_share=False), max_delete=Limit(1, is_share=False))
_EXECUTION = "petsync.reconcile.round._Execution"
RENAMED = [ps.Pet(id=pet.id, name=f"{pet.name}!", status=pet.status) for pet in PETS]


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Scenario:
    """Return a store and a sheet that agree after one round, with low limits."""
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path, {"mode": "two-way", "guard": FEW})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    return scenario


def apply(scenario: Scenario, file: str, *options: str) -> int:
    """Return the exit code of `petsync apply FILE --yes` with these options."""
    to_store = ["--url", scenario.box.url, "--state", str(scenario.state)]
    with pytest.raises(SystemExit) as ended:
        main(["apply", file, "--yes", *to_store, *options])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def _renamed(scenario: Scenario) -> None:
    scenario.write(changed(changed(changed(PETS, 1, name="A"), 2, name="B"), 3, name="C"))


def test_a_plan_over_its_guard_waits_and_nothing_else_is_done(scenario: Scenario) -> None:
    """A plan that exceeds its guard waits in each round: neither side changes, and every change is
    reported as waiting.
    """
    _renamed(scenario)
    scenario.box.put(changed(PETS, 4, name="D")[3])
    sheet = scenario.sheet.read_bytes()
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("waiting", 4)
    assert "max_update 2" in report.round.problem
    assert sorted(kinds(report)) == [("waiting", number) for number in (1, 2, 3, 4)]
    file = Path(report.round.waiting)
    body = file.read_bytes()
    assert scenario.run().round.waiting == str(file)
    assert file.read_bytes() == body
    assert scenario.sheet.read_bytes() == sheet
    assert scenario.store_pets()[1].name == "Pet 1"


def test_the_hint_is_a_command_for_the_shell(scenario: Scenario, tmp_path: Path) -> None:
    """The hints of a round are commands that can be pasted, also with spaces in paths and names."""
    spaced = Scenario(scenario.box, tmp_path / "my files", scenario.options)
    spaced.folder.mkdir()
    missing = spaced.run()
    assert f"`petsync export '{spaced.sheet}' --state " in missing.round.hint
    spaced.write()
    spaced.run()
    _renamed(spaced)
    waiting = spaced.run()
    assert f"`petsync apply '{waiting.round.waiting}' --state " in waiting.round.hint
    (moved,) = reconcile_jobs(spaced.config(spaced.job("my job", sheet=scenario.sheet)))
    assert moved.round.status == "in-sync"
    elsewhere = spaced.job("my job", sheet=scenario.sheet, url="https://shop.example/v2")
    (refused,) = reconcile_jobs(spaced.config(elsewhere))
    assert "--job 'my job' --moved" in refused.round.hint


def test_applying_the_file_releases_it(scenario: Scenario) -> None:
    """The file of a waiting plan has exactly the limits that it needs; after it is applied, the
    next round is in sync.
    """
    _renamed(scenario)
    file = scenario.run().round.waiting
    plan = ps.load_plan(file)
    assert plan.verdict.ok
    assert plan.guard.max_update == Limit(3, is_share=False)
    assert "did not apply this plan without approval" in plan.notes[0]
    assert apply(scenario, file) == 0
    report = scenario.run()
    assert (report.round.status, report.round.waiting) == ("in-sync", "")
    assert not Path(file).exists()
    assert scenario.store_pets() == scenario.sheet_pets()


def test_after_a_release_the_advice_is_to_run_the_job(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """A released plan that is applied again, and the rows that were left out of it, name the
    command that runs the job.
    """
    _renamed(scenario)
    file = scenario.run().round.waiting
    command = f"`petsync reconcile --job catalogue --state {scenario.state}`"
    copy = scenario.folder / "copy.json"
    copy.write_bytes(Path(file).read_bytes())
    assert apply(scenario, str(copy), "--only", "1") == 0
    with pytest.raises(SystemExit):
        main(["runs", "last", "--failed", "x.xlsx", "--state", str(scenario.state)])
    text = " ".join(capsys.readouterr().err.split())
    assert f"2 rows not selected: {command} to send more." in text
    assert apply(scenario, file) == 0
    assert apply(scenario, file) == 5
    text = " ".join(capsys.readouterr().err.split())
    assert "this plan was already applied" in text
    assert f"{command} makes what is still to be done." in text


def test_a_reason_that_is_gone_ends_the_waiting(scenario: Scenario) -> None:
    """If the plan no longer exceeds the guard, the round applies it and removes the file."""
    _renamed(scenario)
    file = Path(scenario.run().round.waiting)
    scenario.write(changed(PETS, 1, name="A"))
    assert scenario.run().round.status == "done"
    assert not file.exists()


def test_what_was_released_is_agreed_on(scenario: Scenario) -> None:
    """Released values are agreed, so one cell that is set back is an edit; an older file with
    several such cells may be a copy, so they are conflicts.
    """
    sheet = scenario.sheet.read_bytes()
    _renamed(scenario)
    left = scenario.sheet.read_bytes()
    assert apply(scenario, scenario.run().round.waiting) == 0
    before = scenario.store_pets()
    scenario.sheet.write_bytes(sheet)
    assert (scenario.run(guard=Guard()).round.status, scenario.store_pets()) == (
        "conflicts",
        before,
    )
    scenario.sheet.write_bytes(left)
    assert scenario.run().round.exit_code == 0
    scenario.write([PETS[0], *RENAMED[1:3], *PETS[3:]])
    assert scenario.run(guard=Guard()).round.status == "done"
    assert scenario.store_pets()[1].name == "Pet 1"


def test_the_sheet_has_its_guard_as_well(scenario: Scenario) -> None:
    """Changes of the sheet that exceed the guard wait too: nothing is sent meanwhile, and their
    file writes the sheet when it is applied.
    """
    for pet in RENAMED[:11]:
        scenario.box.put(pet)
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("waiting", 4)
    assert scenario.sheet_pets()[1].name == "Pet 1"
    file = report.round.waiting
    body = Path(file).read_bytes()
    assert scenario.run().round.waiting == file
    assert Path(file).read_bytes() == body
    assert apply(scenario, file) == 0
    assert scenario.sheet_pets()[1].name == "Pet 1!"
    # If all rows were set back, the sheet would be taken for a backup.
    scenario.write(changed(PETS, 11, name="Pet 11!"))
    assert scenario.run(guard=Guard(max_update=Limit(1.0))).round.to_store.update == 11
    assert scenario.store_pets()[1].name == scenario.sheet_pets()[1].name == "Pet 1"
    assert {name.split("/")[1] for name in scenario.state_files() if "/" in name} == {
        "bases",
        "history.jsonl",
        "locks",
        "versions",
    }


@pytest.mark.parametrize("is_written", [True, False])
def test_a_release_of_the_sheet_that_is_killed(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    """A release of the sheet that is killed after the write leaves agreed values, so a cell that is
    set back is an edit; killed before the write, it still waits.
    """
    for pet in RENAMED[:11]:
        scenario.box.put(pet)
    file = scenario.run().round.waiting
    stop = (
        "petsync.reconcile.state.SheetWaiting.note_written"
        if is_written
        else "petsync.sheets.write_synced"
    )

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stop, killed)
        assert apply(scenario, file) == 130
    assert scenario.sheet_pets()[1].name == ("Pet 1!" if is_written else "Pet 1")
    if not is_written:
        assert scenario.run().round.waiting == file
        assert apply(scenario, file) == 0
    scenario.write(changed([*scenario.sheet_pets().values()], 1, name="Pet 1"))
    assert scenario.run(guard=Guard(max_update=Limit(1.0))).round.to_store.update == 1
    assert scenario.store_pets()[1].name == scenario.sheet_pets()[1].name == "Pet 1"
    assert not [*(scenario.state / "reconcile" / "waiting").glob("*")]


def _stop(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], object]) -> None:
    """Do the work, and stop it where it would call this method."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(name, killed)
        work()


def _wait_with_sheet(scenario: Scenario) -> str:
    """Change the store until its changes for the sheet wait; return their file."""
    for pet in RENAMED[:11]:
        scenario.box.put(pet)
    report = scenario.run()
    assert report.round.status == "waiting"
    return report.round.waiting


def _follow_store(scenario: Scenario, pet_id: int, name: str) -> None:
    """Rename a pet in the store, and expect that the next round writes the name into the sheet."""
    scenario.box.put(replace(scenario.store_pets()[pet_id], name=name))
    report = scenario.run()
    assert (report.round.status, report.round.to_store.total) == ("done", 0)
    assert scenario.store_pets()[pet_id].name == scenario.sheet_pets()[pet_id].name == name


@pytest.mark.parametrize("name", ["Pet 1!", "Rex"])
@pytest.mark.parametrize("is_by_hand", [True, False])
def test_an_edit_after_a_release_of_the_sheet(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, name: str, *, is_by_hand: bool
) -> None:
    """A cell that is edited after a release and sent, by hand or by a round that is stopped before
    it verifies, follows the next change of the store, also back to the released value.
    """
    assert apply(scenario, _wait_with_sheet(scenario)) == 0
    scenario.write(changed([*scenario.sheet_pets().values()], 1, name="Edited"))
    if is_by_hand:
        assert apply(scenario, str(scenario.sheet)) == 0
    else:
        _stop(monkeypatch, f"{_EXECUTION}._compare_again", scenario.run)
    assert scenario.store_pets()[1].name == "Edited"
    _follow_store(scenario, 1, name)


@pytest.mark.parametrize("name", ["Pet 12!", "Rex"])
def test_an_edit_after_a_round_that_was_killed(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A cell that is edited after a killed round wrote it, and applied by hand, follows the next
    change of the store, also back to the value that the round wrote.
    """
    scenario.box.put(RENAMED[11])
    _stop(monkeypatch, f"{_EXECUTION}._keep_base", scenario.run)
    assert scenario.sheet_pets()[12].name == "Pet 12!"
    scenario.write(changed([*scenario.sheet_pets().values()], 12, name="Edited"))
    assert apply(scenario, str(scenario.sheet)) == 0
    _follow_store(scenario, 12, name)


@pytest.mark.parametrize("name", ["Pet 12", "Rex"])
def test_a_release_of_the_sheet_after_a_round_that_was_killed(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a killed round wrote is agreed, also if changes of the sheet are released before the
    next round.
    """
    scenario.box.put(RENAMED[11])
    _stop(monkeypatch, f"{_EXECUTION}._keep_base", scenario.run)
    assert scenario.sheet_pets()[12].name == "Pet 12!"
    assert apply(scenario, _wait_with_sheet(scenario)) == 0
    _follow_store(scenario, 12, name)


def test_a_job_is_renamed_after_a_release_that_was_killed(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed release wrote into the sheet is agreed under the job's new name, too."""
    file = _wait_with_sheet(scenario)
    release = partial(apply, scenario, file)
    _stop(monkeypatch, "petsync.reconcile.state.SheetWaiting.note_written", release)
    scenario.box.put(replace(scenario.store_pets()[1], name="Rex"))
    (report,) = reconcile_jobs(scenario.config(scenario.job("renamed", guard=Guard())))
    assert report.round.status == "done"
    assert scenario.sheet_pets()[1].name == "Rex"
    assert not [*(scenario.state / "reconcile" / "waiting").glob("*.intended")]


def test_nobody_can_release_an_empty_sheet_or_a_sentinel(scenario: Scenario) -> None:
    """An empty sheet or a changed sentinel is refused without a file, so it cannot be released."""
    scenario.write([])
    report = scenario.run(delete_missing=True)
    assert (report.round.status, report.round.exit_code, report.round.waiting) == ("refused", 4, "")
    assert "no row that can be used" in report.round.problem
    scenario.write(changed(PETS, 1, name="A"))
    report = scenario.run(guard=Guard(sentinels=(1,)))
    assert (report.round.status, report.round.exit_code) == ("refused", 4)
    assert len(scenario.store_pets()) == 12
    assert scenario.store_pets()[1].name == "Pet 1"
    assert not [name for name in scenario.state_files() if "waiting" in name]


def test_a_dry_run_says_that_it_would_wait(scenario: Scenario) -> None:
    """A dry run shows that the plan would wait, the exceeded limit and each value before and after,
    and saves no file.
    """
    scenario.write([ps.Pet(id=pet.id, name="A", status=pet.status) for pet in PETS])
    report = scenario.run(dry_run=True)
    assert (report.round.status, report.round.exit_code) == ("waiting", 4)
    assert (report.round.waiting, report.round.unexplained) == ("", 0)
    assert "max_update 2" in report.round.problem
    assert report.open[0].problem.startswith("name: 'Pet 1' -> 'A'")
    assert not (scenario.state / "reconcile" / "waiting").exists()
    shown = rounds_text([report])
    assert "A round without --dry-run saves the plan as a file" in shown
    assert "(~12)" in shown
    assert "cannot be released" not in shown


def test_the_file_says_first_which_limit_it_broke(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of a waiting plan begins with the exceeded limit, by its name in the configuration,
    and the way to see all of it.
    """
    _renamed(scenario)
    file = scenario.run().round.waiting
    url, state = scenario.box.url, str(scenario.state)
    for limit, rest in (("1", "`petsync apply` on the same file with `--limit 0`"), ("0", "C")):
        with pytest.raises(SystemExit):
            main(["apply", file, "--limit", limit, "--url", url, "--state", state])
        output = " ".join(capsys.readouterr().err.split())
        assert (
            "did not apply this plan without approval: 3 updates are more than max_update 2"
            in output
        )
        assert rest in output
        shown, _, _ = output.partition("Next: ")
        assert ("--limit 0" in shown) == (limit == "1")
        assert "within every limit" not in output
        assert "--max-" not in output


def test_what_a_sheet_waits_for_says_so_too(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of a waiting sheet also shows the exceeded limit and the way to see all of it."""
    scenario.box.reset(changed(changed(changed(PETS, 1, name="A"), 2, name="B"), 3, name="C"))
    report = scenario.run()
    assert report.round.waiting.endswith(".sheet.json")
    arguments = ["--limit", "1", "--url", scenario.box.url, "--state", str(scenario.state)]
    with pytest.raises(SystemExit):
        main(["apply", report.round.waiting, *arguments])
    output = " ".join(capsys.readouterr().err.split())
    assert "3 rows to be changed in the sheet are more than max_update 2 allows" in output
    assert "`petsync apply` with `--limit 0`" in output


def test_a_number_of_a_category_in_a_waiting_sheet_is_named_as_such(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell with the number of a category that changes without its name is shown as a number."""
    numbered = [replace(pet, category=Category(1, "Cats")) for pet in PETS]
    scenario.box.reset(numbered)
    scenario.write(numbered)
    assert scenario.run().round.exit_code == 0
    scenario.box.reset([replace(pet, category=Category(9, "Cats")) for pet in PETS])
    file = scenario.run().round.waiting
    to_store = ["--url", scenario.box.url, "--state", str(scenario.state)]
    with pytest.raises(SystemExit):
        main(["apply", file, *to_store])
    assert "category: number 1 -> number 9" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "rows", "code"), [("C", 3, 0), ("C\0", 2, 3)])
def test_the_json_of_a_release_of_the_sheet_counts_the_written_rows(
    scenario: Scenario, name: str, rows: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON of a release of the sheet has the command's exit code, and does not count a row that
    cannot be written.
    """
    scenario.box.reset(changed(changed(changed(PETS, 1, name="A"), 2, name="B"), 3, name=name))
    file = scenario.run().round.waiting
    capsys.readouterr()
    assert apply(scenario, file, "--json") == code
    shown = json.loads(capsys.readouterr().out)
    assert (shown["rows"], shown["left_out"], shown["exit_code"]) == (rows, 0, code)
    names = [pet.name for pet in scenario.sheet_pets().values()]
    assert names[:3] == ["A", "B", "C" if code == 0 else "Pet 3"]


@pytest.mark.parametrize(
    ("mode", "message"), [("push", "sends all changes again"), ("two-way", "too")]
)
def test_the_undo_of_a_round_says_what_the_next_one_does(
    scenario: Scenario, mode: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The undo of a round announces the next round: a push sends the changes again, and a two-way
    job writes the undo into the sheet.
    """
    scenario.write(changed(PETS, 1, name="A"))
    assert scenario.run(mode=mode).round.status == "done"
    with pytest.raises(SystemExit) as ended:
        main(["undo", "--yes", "--url", scenario.box.url, "--state", str(scenario.state)])
    assert ended.value.code == 0
    assert message in " ".join(capsys.readouterr().err.split())
    assert scenario.run(mode=mode).round.status == "done"
    expected = "A" if mode == "push" else "Pet 1"
    assert scenario.store_pets()[1].name == scenario.sheet_pets()[1].name == expected


def test_the_row_of_a_pet_that_an_undo_deletes_stays(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row of a pet that an undo deletes stays with a note, as the undo announces, and the next
    two-way round does not add the pet again.
    """
    scenario.write((*PETS, ps.Pet(id=99, name="New", status="sold", photo_urls=())))
    assert scenario.run(mode="two-way").round.status == "done"
    assert 99 in scenario.store_pets()
    arguments = ["--url", scenario.box.url, "--state", str(scenario.state), "--max-delete", "1"]
    with pytest.raises(SystemExit):
        main(["undo", "--yes", *arguments])
    output = " ".join(capsys.readouterr().err.split())
    assert "The row of a pet that the undo deletes stays, with a note" in output
    report = scenario.run(mode="two-way")
    assert 99 not in scenario.store_pets()
    assert 99 in scenario.sheet_pets()
    assert report.round.notes
