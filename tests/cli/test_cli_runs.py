"""petsync runs: the list of runs, the report of a run, and the changes of a pet."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from commands import BIG, Shell, shop, to

from petsync.sandbox import Sandbox


def _apply(shell: Shell, box: Sandbox, text: str, *options: object) -> str:
    """Apply this sheet, and return the run's id."""
    Path("pets.csv").write_text(text, "utf-8")
    done = shell("apply", "pets.csv", *to(box), "--yes", "--json", *options)
    run: str = done.json["run_id"]
    return run


def test_no_run_is_known(shell: Shell) -> None:
    """Without a journal the list is empty, and no journal is created."""
    done = shell("runs")
    assert (done.code, done.out.strip()) == (0, "No runs are recorded.")
    assert "A run is recorded where it was applied" in " ".join(done.err.split())
    assert shell("runs", "--json").json == {"runs": []}
    assert not Path(".petsync").exists()


@pytest.mark.parametrize(
    "words", [["undo"], ["undo", "1"], ["resume"], ["resume", "1"], ["runs", "last"]]
)
@pytest.mark.parametrize("has_url", [False, True])
def test_a_run_of_another_folder_is_not_found(
    shell: Shell, box: Sandbox, words: list[str], has_url: bool
) -> None:
    """Where no run is recorded, the error names the journal that was read, and the way to another
    state folder.
    """
    done = shell(*words, *(to(box) if has_url else []))
    text = " ".join(done.err.split())
    assert done.code == 1
    assert f"{Path('.petsync', 'journal.db').absolute()} has no run" in text
    assert "name its state folder (--state)" in text


def test_the_list_fits_a_terminal(shell: Shell, box: Sandbox) -> None:
    """The list has the newest run first, with each run's result and its undo, in 80 columns."""
    first = _apply(shell, box, "id,name\n1,Max\n99,Nobody\n")
    second = _apply(shell, box, "id,name,action\n2,Mimi,\n98,Nobody,update\n")
    undo = shell("undo", first, *to(box), "--yes", "--json").json["run_id"]
    done = shell("runs")
    assert max(map(len, done.out.splitlines())) <= 80
    places = [done.out.index(f"  {run}  ") for run in (undo, second, first)]
    assert places == sorted(places)
    output = " ".join(done.out.split())
    assert f"undo of run {first}: 1 of 1 change applied" in output
    assert "pets.csv: 1 of 1 change applied" in output
    assert f"undone by run {undo}" in output
    assert shell("runs", "--limit", "1").out.count("applied") == 1
    assert "and 2 more" in shell("runs", "--limit", "1").out


def test_a_run_whose_changes_a_later_run_sent_is_not_offered(shell: Shell, box: Sandbox) -> None:
    """`runs` and `resume` without an id leave out a run whose sheet was applied again in full, but
    not one of which a later run has sent only a part. By its id, the run can be resumed.
    """
    sheet = "id,name\n1,Max\n2,Mimi\n3,Zoe\n"
    box.set_faults("503=1,only=updatePetWithForm")
    first = _apply(shell, box, sheet, "--max-failures", "0", "--concurrency", "1")
    box.set_faults(None)
    assert f"petsync resume {first}" in shell("runs").err
    _apply(shell, box, sheet, "--only", "1")
    assert f"petsync resume {first}" in shell("runs").err
    assert shell("apply", "pets.csv", *to(box), "--yes", "--json").json["counts"]["applied"] == 2
    done = shell("runs")
    assert (first in done.out, "petsync resume" in done.err) == (True, False)
    assert "can be resumed" in shell("resume", *to(box)).err
    assert shell("resume", first, *to(box), "--json").json["counts"]["failed"] == 0


def test_last_is_the_newest_run(shell: Shell, box: Sandbox) -> None:
    """`last` names the newest run, on this store if a store is given, in runs, undo and resume."""
    first = _apply(shell, box, "id,name\n1,Max\n")
    assert shell("runs", "last", "--json").json["run_id"] == first
    with Sandbox(auth=False, pets=shop()) as other:
        second = _apply(shell, other, "id,name\n2,Mimi\n")
        assert shell("runs", "last", "--json").json["run_id"] == second
        done = shell("undo", "last", *to(box), "--format", "md")
        assert f"The run to undo: {first}" in " ".join(done.err.split())
        done = shell("resume", "last", *to(box), "--json")
        assert done.json["run_id"] == first
        assert shell("undo", "last", "--yes").code == 0
        assert other.pets() == shop()
    third = shell("runs", "--json").json["runs"][0]["run_id"]
    assert shell("runs", "last", "--json").json["run_id"] == third != second


def test_the_list_is_of_all_stores_or_of_one(shell: Shell, box: Sandbox) -> None:
    """Without --url the list names the stores; with it, runs on other stores are omitted. Neither
    sends a request.
    """
    _apply(shell, box, "id,name\n1,Max\n")
    with Sandbox(auth=False, pets=shop()) as other:
        _apply(shell, other, "id,name\n2,Mimi\n")
        far = other.url
    asked = Counter(box.requests)
    both = " ".join(shell("runs").out.split())
    assert f"on {box.url}" in both
    assert f"on {far}" in both
    here = shell("runs", "--url", far + "/", "--json").json["runs"]
    assert [run["store"] for run in here] == [far]
    assert Counter(box.requests) == asked


def test_json_has_the_fields_of_a_run(shell: Shell, box: Sandbox) -> None:
    """--json has the state, kind and counts of each run."""
    run = _apply(shell, box, "id,name\n1,Max\n")
    (output,) = shell("runs", "--json").json["runs"]
    assert (output["run_id"], output["state"], output["kind"]) == (run, "done", "apply")
    assert output["counts"]["applied"] == output["total"] == 1


def test_a_run_has_its_report(shell: Shell, box: Sandbox) -> None:
    """The report of a run equals the run's own, as text, JSON, page and workbook, whatever its exit
    code was.
    """
    run = _apply(shell, box, "id,name,action\n1,Max,\n99,Nobody,update\n")
    first = shell("runs", run, "--report", "r.html", "--results", "r.xlsx")
    assert first.code == 0
    assert f"petsync run {run}" in first.out
    assert "1 applied, 1 conflict" in first.out
    assert run in Path("r.html").read_text("utf-8")
    assert Path("r.xlsx").stat().st_size
    output = shell("runs", run[:-1], "--json").json
    assert (output["run_id"], output["exit_code"]) == (run, 5)
    assert [result["outcome"] for result in output["results"]] == ["applied", "conflict"]


def test_no_work_is_lost_to_results(shell: Shell, box: Sandbox) -> None:
    """The results of a run keep an edited workbook of their name as a backup, also if the sheet of
    a saved plan is missing, and no page replaces a page of another program.
    """
    run = _apply(shell, box, "id,name\n1,Max\n")
    own = pd.DataFrame({"notes": ["Call Tom."]})
    own.to_excel("r.xlsx", index=False)
    before = Path("r.xlsx").read_bytes()
    done = shell("runs", run, "--results", "r.xlsx")
    (backup,) = Path().glob("r.backup-*.xlsx")
    assert (done.code, backup.read_bytes()) == (0, before)
    assert f"The earlier file of that name is kept as {backup}." in done.err
    assert shell("runs", run, "--results", "r.xlsx").code == 0
    assert len([*Path().glob("r.backup-*.xlsx")]) == 1

    Path("pets.csv").write_text("id,name\n2,Moritz\n", "utf-8")
    assert shell("plan", "pets.csv", "-o", "plan.json", *to(box)).code == 0
    Path("pets.csv").unlink()
    own.to_excel("s.xlsx", index=False)
    before = Path("s.xlsx").read_bytes()
    done = shell("apply", "plan.json", "--yes", "--results", "s.xlsx", *to(box))
    (backup,) = Path().glob("s.backup-*.xlsx")
    assert (done.code, backup.read_bytes()) == (0, before)
    assert f"The earlier file of that name is kept as {backup}." in done.err

    Path("index.html").write_text("<p>The shop</p>", "utf-8")
    for words in (("runs", "--html"), ("runs", run, "--report")):
        done = shell(*words, "index.html")
        assert (done.code, "it would be overwritten" in " ".join(done.err.split())) == (64, True)
        for _ in range(2):
            assert shell(*words, "own.html").code == 0
    assert Path("index.html").read_text("utf-8") == "<p>The shop</p>"


def test_what_was_done_to_a_pet(shell: Shell, box: Sandbox) -> None:
    """--pet lists all changes of a pet with the values before and after, the newest first."""
    first = _apply(shell, box, "id,name,tags\n1,Max,calm; shy\n")
    second = _apply(shell, box, f"id,name\n1,Moritz\n{BIG},Sean\n")
    done = shell("runs", "--pet", "1")
    assert done.code == 0
    assert "Pet 1: 2 changes" in done.out
    assert done.out.index("Max -> Moritz") < done.out.index("Rex -> Max")
    assert done.out.index(second) < done.out.index(first)
    assert "+shy" in done.out
    assert "Sean" not in done.out
    only = shell("runs", first, "--pet", "1").out
    assert "Rex -> Max" in only
    assert "Moritz" not in only
    output = shell("runs", "--pet", BIG, "--json").json
    assert output["pet"] == BIG
    (change,) = output["changes"]
    assert change["run"]["run_id"] == second
    assert change["change"]["before"]["name"] == "O'Malley"


def test_a_pet_is_found_by_a_name_that_it_had(shell: Shell, box: Sandbox) -> None:
    """--pet takes a name before or after a change; several pets of this name are listed."""
    _apply(shell, box, f"id,name\n1,Max\n{BIG},Sean\n")
    assert shell("runs", "--pet", "rex") == shell("runs", "--pet", "Max")
    assert shell("runs", "--pet", "Max") == shell("runs", "--pet", "1")
    _apply(shell, box, "id,name\n2,Sean\n")
    done = shell("runs", "--pet", "Sean")
    assert done.code == 64
    assert f"2 pets are named 'Sean': 2, {BIG}." in " ".join(done.err.split())


def test_a_new_pet_is_found_by_the_id_that_it_was_given(shell: Shell, box: Sandbox) -> None:
    """The add of a row without an id is found by the assigned id."""
    _apply(shell, box, "name,status\nNew,sold\n")
    new = next(pet for pet in box.pets() if pet.name == "New")
    done = shell("runs", "--pet", new.id)
    assert "Added" in done.out
    assert f"+ {new.id}  New" in done.out


def test_a_pet_that_no_run_touched(shell: Shell, box: Sandbox) -> None:
    """A pet that no run changed is reported, and is not an error."""
    _apply(shell, box, "id,name\n1,Max\n")
    assert "No recorded run changed pet 4." in shell("runs", "--pet", "4").out


def test_an_unknown_run(shell: Shell, box: Sandbox) -> None:
    """An unknown run is an error that names the newest runs."""
    run = _apply(shell, box, "id,name\n1,Max\n")
    done = shell("runs", "nothing")
    assert done.code == 1
    assert "there is no run 'nothing'" in done.err
    assert run in done.err


@pytest.mark.parametrize(
    "options",
    [
        ["--report", "r.html"],
        ["RUN", "--report", "r.txt"],
        ["RUN", "--results", "r.csv"],
        ["--failed", "r.xlsx"],
        ["RUN", "--failed", "r.csv"],
        ["RUN", "--pet", "1", "--results", "r.xlsx"],
    ],
)
def test_options_that_make_no_sense(shell: Shell, box: Sandbox, options: list[str]) -> None:
    """--report, --results and --failed need one run and a valid extension."""
    run = _apply(shell, box, "id,name\n1,Max\n")
    done = shell("runs", *[run if each == "RUN" else each for each in options])
    assert done.code == 64
    assert not Path(options[-1]).exists()


def test_failed_rows_become_a_workbook_that_plans(shell: Shell, box: Sandbox) -> None:
    """--failed writes the rows to fix, never over a file, and names the next command."""
    run = _apply(shell, box, "id,name,status\n1,Max,sold\n,New,solld\n")
    done = shell("runs", run, "--failed", "fixed.xlsx")
    assert (done.code, "The 1 row to fix: fixed.xlsx." in done.err) == (0, True)
    assert "Next: petsync plan fixed.xlsx" in done.err
    assert "fixed-2.xlsx" in shell("runs", run, "--failed", "fixed.xlsx").err
    again = shell("plan", "fixed.xlsx", "--exit-code")
    assert (again.code, "1 row needs fixing" in again.out) == (3, True)


def test_a_run_without_failed_rows(shell: Shell, box: Sandbox) -> None:
    """If no row failed, no workbook is written."""
    run = _apply(shell, box, "id,name\n1,Max\n")
    done = shell("runs", run, "--failed", "fixed.xlsx")
    assert (done.code, "failed: no workbook was written." in done.err) == (0, True)
    assert not Path("fixed.xlsx").exists()


def test_rows_that_were_not_selected_are_no_rows_to_resume(shell: Shell, box: Sandbox) -> None:
    """--failed of a run with --only says that other rows need a new plan, not a resume."""
    Path("pets.csv").write_text("id,name,status\n1,Max,sold\n2,Tom,sold\n,New,solld\n", "utf-8")
    shell("apply", "pets.csv", *to(box), "--yes", "--only", "1")
    run = shell("runs", "--json").json["runs"][0]["run_id"]
    said = " ".join(shell("runs", run, "--failed", "fixed.xlsx").err.split())
    assert "1 row not selected: plan the sheet again to send more." in said
    assert "petsync resume" not in said


def test_hostile_names_are_harmless(shell: Shell, box: Sandbox) -> None:
    """Hostile values from a sheet or a store cannot control the terminal."""
    Path("pets.csv").write_text("id,name\n1,\x1b[31mred\n", "utf-8")
    shell("apply", "pets.csv", *to(box), "--yes")
    for done in (shell("runs"), shell("runs", "--pet", "1")):
        assert "\x1b" not in done.out


def test_an_upload_is_reported_image_by_image(shell: Shell, box: Sandbox) -> None:
    """The run of an upload lists its files and has a report, but no workbook. Its undo is complete,
    also for a pet with several images.
    """
    from PIL import Image

    Path("pictures").mkdir()
    Image.new("RGB", (8, 8), "red").save("pictures/1.png")
    Image.new("RGB", (8, 8), "blue").save("pictures/1_2.png")
    done = shell("upload", "pictures", *to(box), "--yes", "--json")
    run = json.loads(done.out)["run_id"]
    output = shell("runs", run)
    assert output.code == 0
    assert "1.png: image uploaded" in output.out
    assert "1_2.png: image uploaded" in output.out
    assert "2 of 2 images applied" in output.out
    machine = shell("runs", run, "--json").json
    assert machine["changes"][0]["kind"] == "upload"
    assert [(f["file"], f["outcome"]) for f in machine["files"]] == [
        ("1.png", "applied"),
        ("1_2.png", "applied"),
    ]
    again = shell("runs", run, "--report", "r.html")
    assert (again.code, again.err.strip()) == (0, "Saved r.html.")
    assert "1_2.png" in Path("r.html").read_text("utf-8")
    refused = shell("runs", run, "--results", "r.xlsx")
    assert refused.code == 64
    assert "has no rows for a workbook" in " ".join(refused.err.split())
    undo = shell("undo", run, *to(box), "--yes", "--json").json["run_id"]
    assert f"undone by run {undo}" in " ".join(shell("runs").out.split())
    assert "Image uploaded" in shell("runs", "--pet", "1").out
