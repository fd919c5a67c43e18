"""petsync apply: a plan is shown, confirmed and sent."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from commands import BIG, READING, Shell, finished, process, to

from petsync import Pet, read_sheet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

CHANGED = (
    f"id,name,status,note\n1,Max,available,a\n,New,sold,b\n{BIG},Sean,sold,c\n2,Mia,available,\n"
)


def _sheet(text: str = CHANGED, name: str = "pets.csv") -> Path:
    path = Path(name)
    path.write_text(text, "utf-8")
    return path


def _names(box: Sandbox) -> set[str | None]:
    return {pet.name for pet in box.pets()}


def test_apply_then_in_sync(shell: Shell, box: Sandbox) -> None:
    """After an apply the store agrees with the sheet, and a plan of the result sheet is empty."""
    done = shell("apply", _sheet(), *to(box), "--yes")
    assert done.code == 0
    assert {"Max", "New", "Sean"} <= _names(box)
    assert "3 applied" in done.out
    again = shell("plan", "pets.results.csv", *to(box), "--exit-code")
    assert again.code == 0


def test_result_sheet_tells_each_row(shell: Shell, box: Sandbox) -> None:
    """The result sheet is a copy of the sheet with the outcome, message and exact new id of each
    row; it keeps the columns that petsync does not recognise.
    """
    shell("apply", _sheet(), *to(box), "--yes")
    result = read_sheet("pets.results.csv")
    new = next(pet for pet in box.pets() if pet.name == "New")
    assert list(result.frame["id"]) == [1, new.id, BIG, 2]
    assert list(result.others["outcome"]) == ["applied", "applied", "applied", "unchanged"]
    assert list(result.others["note"]) == ["a", "b", "c", ""]
    assert Path("pets.csv").read_text("utf-8") == CHANGED


def test_result_sheet_is_the_latest_and_loses_nothing(shell: Shell, box: Sandbox) -> None:
    """The result sheet of the last run replaces that of the run before; a file that petsync did not
    write is kept as a backup. --results names another file.
    """
    Path("pets.results.csv").write_text("mine", "utf-8")
    shell("apply", _sheet(), *to(box), "--yes")
    (backup,) = Path().glob("pets.results.backup-*.csv")
    assert backup.read_text("utf-8") == "mine"
    assert "Max" in Path("pets.results.csv").read_text("utf-8")
    shell("apply", _sheet("id,name\n2,Ida\n"), *to(box), "--yes")
    assert "Ida" in Path("pets.results.csv").read_text("utf-8")
    assert len([*Path().glob("pets.results*")]) == 2
    shell("apply", _sheet("id,name\n5,Tim\n"), *to(box), "--yes", "--results", "r.csv")
    assert "applied" in Path("r.csv").read_text("utf-8")


def test_results_through_a_link_lose_nothing(shell: Shell, box: Sandbox) -> None:
    """If the user names a link for the results, its target is kept as a backup first."""
    Path("mine.csv").write_text("mine", "utf-8")
    Path("link.csv").symlink_to("mine.csv")
    done = shell("apply", _sheet(), *to(box), "--yes", "--results", "link.csv")
    assert done.code == 0, done.err
    assert Path("link.csv").is_symlink()
    assert "applied" in Path("mine.csv").read_text("utf-8")
    (backup,) = Path().glob("link.backup-*.csv")
    assert backup.read_text("utf-8") == "mine"


def test_blocked_rows_are_reported_by_their_findings(shell: Shell, box: Sandbox) -> None:
    """A row with an error is not sent and is `needs fixing` in the result sheet; the exit code is
    3.
    """
    done = shell("apply", _sheet("id,name\nx,Rex\n1,Max\n"), *to(box), "--yes")
    assert done.code == 3
    assert "Max" in _names(box)
    assert ",needs fixing," in Path("pets.results.csv").read_text("utf-8").splitlines()[1]


def test_without_terminal_and_yes_nothing_is_sent(shell: Shell, box: Sandbox) -> None:
    """Without a terminal and --yes the plan is shown, nothing is sent, and the exit code is 2."""
    done = shell("apply", _sheet(), *to(box))
    assert done.code == 2
    assert "dry run" in done.err
    assert "Rex -> Max" in done.err
    assert done.out == ""
    assert set(box.requests) <= READING
    assert not Path("pets.results.csv").exists()
    assert shell("apply", _sheet(), *to(box), "--json").json["dry_run"] is True


def test_nothing_to_send_needs_no_yes(shell: Shell, box: Sandbox) -> None:
    """Without changes to send, a sheet in sync exits with 0 and a conflict with 5; no confirmation
    is needed.
    """
    assert shell("apply", _sheet("id,name\n1,Rex\n"), *to(box)).code == 0
    assert shell("apply", _sheet("id,name,action\n99,Rex,update\n"), *to(box)).code == 5
    assert set(box.requests) <= READING
    assert not Path("pets.results.csv").exists()


def test_saved_plan_is_applied_once(shell: Shell, box: Sandbox) -> None:
    """A plan file is applied with a result sheet; a second apply is refused with exit code 5."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    assert shell("apply", "plan.json", *to(box), "--yes").code == 0
    assert "applied" in Path("pets.results.csv").read_text("utf-8")
    again = shell("apply", "plan.json", *to(box), "--yes")
    assert again.code == 5
    assert "already applied" in again.err


def test_saved_plan_whose_sheet_changed(shell: Shell, box: Sandbox) -> None:
    """A saved plan is applied after its sheet changed; its results are written to a new
    workbook.
    """
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    _sheet(CHANGED + "5,Tim,sold,\n")
    done = shell("apply", "plan.json", *to(box), "--yes", "--results", "r.xlsx")
    assert done.code == 0
    assert Path("r.xlsx").stat().st_size > 1000
    assert not Path("pets.results.csv").exists()


def test_saved_plan_of_another_tab(shell: Shell, box: Sandbox) -> None:
    """The results of a plan for a named worksheet go into that worksheet."""
    from openpyxl import Workbook, load_workbook

    book = Workbook()
    book.active.title = "Old"
    book.active.append(["id", "name"])
    book.active.append(["1", "Rex"])
    tab = book.create_sheet("It's new")
    tab.append(["id", "name"])
    tab.append(["1", "Max"])
    book.save("b.xlsx")
    assert shell("plan", "b.xlsx", "--sheet", "It's new", *to(box), "-o", "p.json").code == 0
    assert shell("apply", "p.json", *to(box), "--yes").code == 0
    results = load_workbook("b.results.xlsx")
    assert [cell.value for cell in results["It's new"][1]][:3] == ["id", "name", "outcome"]
    assert results["Old"].max_column == 2


def test_plan_for_another_store(shell: Shell, box: Sandbox) -> None:
    """A plan is sent only to the store for which it was made."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    with Sandbox(auth=False) as other:
        done = shell("apply", "plan.json", *to(other), "--yes")
        assert done.code == 1
        assert box.url in done.err
        assert set(other.requests) <= READING


def test_plan_options_belong_to_a_sheet(shell: Shell, box: Sandbox) -> None:
    """A saved plan is applied unchanged: an option that would change it is a usage error, which
    names the option.
    """
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    options = ("--delete-missing", "--strict", "--column", "A=name", "--sheet", "Pets")
    for command in (("apply", "--yes"), ("rehearse",)):
        done = shell(*command, "plan.json", *to(box), *options)
        assert done.code == 64
        named = "leave out --sheet, --column, --delete-missing, --strict."
        assert named in " ".join(done.err.split())


def test_guard_stops_before_anything_is_sent(shell: Shell, box: Sandbox) -> None:
    """A plan over a limit exits with 4 and sends nothing, also with --yes."""
    before = box.pets()
    done = shell("apply", _sheet("id,name\n1,Rex\n"), *to(box), "--delete-missing", "--yes")
    assert done.code == 4
    assert "guard refuses" in done.err
    assert box.pets() == before
    refused = shell("apply", "pets.csv", *to(box), "--delete-missing", "--yes", "--json")
    assert refused.json["error"]["type"] == "GuardError"


def test_deletes_within_the_limit(shell: Shell, box: Sandbox) -> None:
    """With a limit that allows it, --delete-missing deletes the pets that no row names."""
    keep = "id\n" + "".join(f"{pet.id}\n" for pet in box.pets() if pet.id != 5)
    assert shell("apply", _sheet(keep), *to(box), "--delete-missing", "--yes").code == 0
    assert "Tom" not in _names(box)
    assert len(box.pets()) == 5


def test_json_is_one_report(shell: Shell, box: Sandbox) -> None:
    """With --json stdout has only the report; other output is on stderr."""
    done = shell("apply", _sheet(), *to(box), "--yes", "--json")
    assert done.json["counts"]["applied"] == 3
    assert {result["pet_id"] for result in done.json["results"]} == {1, None, BIG}
    assert "pets.results.csv" in done.err


def test_report_page(shell: Shell, box: Sandbox) -> None:
    """--report writes an HTML report of the run."""
    shell("apply", _sheet(), *to(box), "--yes", "--report", "r.html")
    assert "Report on pets.csv" in Path("r.html").read_text("utf-8")


def test_inputs_are_never_overwritten(shell: Shell, box: Sandbox) -> None:
    """Neither the results nor the report may replace the sheet."""
    for option in ("--results", "--report"):
        assert shell("apply", _sheet(), *to(box), "--yes", option, "pets.csv").code == 64
    assert not box.requests


def test_run_stands_where_its_report_cannot_be_written(shell: Shell, box: Sandbox) -> None:
    """Results that cannot be written are reported with exit code 1. The report and its page are
    still written, and the applied changes stay.
    """
    box.set_faults("latency=0.5,only=addPet")
    with process("apply", _sheet(), *to(box), "--yes", "--report", "r.html") as running:
        while not box.requests["addPet"]:
            time.sleep(0.02)
        Path("pets.csv").unlink()
        out, err = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "pets.csv" in err
    assert "3 applied" in out
    assert Path("r.html").exists()
    assert "Max" in _names(box)


def test_json_has_the_exit_code_of_the_command(shell: Shell, box: Sandbox) -> None:
    """If the results cannot be written, the JSON has the command's exit code, 1."""
    box.set_faults("latency=0.5,only=addPet")
    with process("apply", _sheet(), *to(box), "--yes", "--json") as running:
        while not box.requests["addPet"]:
            time.sleep(0.02)
        Path("pets.csv").unlink()
        out, _ = running.communicate(timeout=120)
    assert (running.returncode, json.loads(out)["exit_code"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--report", "no/such/r.html"], "no folder"),
        (["--results", "no/such/r.csv"], "no folder"),
        (["--results", "folder"], "folder"),
        (["--results", "pipe.csv"], "pipe"),
        (["--report", "pipe.html"], "pipe"),
        (["--report", "r.pdf"], ".html"),
        (["--results", "same.html", "--report", "./same.html"], "same file"),
        (["--results", "r.xlsx"], ".csv, .tsv, .txt"),
    ],
)
def test_outputs_are_checked_before_anything_is_sent(
    shell: Shell, box: Sandbox, options: list[str], says: str
) -> None:
    """An output file that could not be written is a usage error before anything is sent."""
    Path("folder").mkdir()
    for name in ("pipe.csv", "pipe.html"):
        os.mkfifo(name)
    done = shell("apply", _sheet(), *to(box), "--yes", *options)
    assert done.code == 64
    assert says in done.err
    assert set(box.requests) <= READING


def test_outputs_never_replace_the_sheet_of_a_plan(shell: Shell, box: Sandbox) -> None:
    """The results never replace the sheet of a saved plan."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    done = shell("apply", "plan.json", *to(box), "--yes", "--results", "pets.csv")
    assert done.code == 64
    assert Path("pets.csv").read_text("utf-8") == CHANGED
    assert set(box.requests) <= READING


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_results_do_not_depend_on_a_reader(shell: Shell, box: Sandbox, form: list[str]) -> None:
    """The result files are written even if nothing reads stdout."""
    args = ["apply", _sheet(), *to(box), "--yes", "--report", "r.html", *form]
    with process(*args) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(120) == 1
    assert "applied" in Path("pets.results.csv").read_text("utf-8")
    assert Path("r.html").exists()
    assert "Max" in _names(box)


def test_results_are_kept_where_stdout_is_full(shell: Shell, box: Sandbox) -> None:
    """If stdout is full, the error names it and the command that shows the run, with exit code 1,
    and the result files are written.
    """
    with Path("/dev/full").open("w") as full:
        done = finished("apply", _sheet(), *to(box), "--yes", stdout=full)
    assert done.code == 1
    assert "standard output cannot be written" in done.err
    assert "`petsync runs` shows each run's result" in done.err
    assert "Traceback" not in done.err
    assert "applied" in Path("pets.results.csv").read_text("utf-8")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_request_to_end_is_an_interrupt(shell: Shell, box: Sandbox, sign: int) -> None:
    """SIGTERM, or the two SIGHUPs of a closed terminal, stop a run as Ctrl-C does."""
    _sheet("id,name,status\n" + "".join(f",Pet {n},sold\n" for n in range(100)))
    box.set_faults("latency=0.2,only=addPet")
    with process("apply", "pets.csv", *to(box), "--yes", "--concurrency", "2") as running:
        while box.requests["addPet"] < 4:
            time.sleep(0.02)
        running.send_signal(sign)
        if sign == signal.SIGHUP:
            time.sleep(0.05)
            running.send_signal(sign)
        _, err = running.communicate(timeout=120)
    assert running.returncode == 7
    assert "was stopped" in err
    results = Path("pets.results.csv").read_text("utf-8")
    assert results.count("applied") == len(box.pets()) - 6
    assert "unknown" not in results


@pytest.mark.parametrize("rate", ["0", "x", "20/m", "-1"])
def test_rate_that_cannot_be_read(shell: Shell, box: Sandbox, rate: str) -> None:
    """A rate that is not a positive number of requests per second is a usage error."""
    assert shell("apply", _sheet(), *to(box), "--rate", rate).code == 64


def test_rate_and_verify(shell: Shell, box: Sandbox) -> None:
    """--rate limits the requests per second, and --verify reads the changed pets again."""
    begun = time.monotonic()
    done = shell("apply", _sheet(), *to(box), "--yes", "--rate", "20/s", "--verify")
    assert done.code == 0
    assert time.monotonic() - begun > 0.3
    assert box.requests["getPetById"] >= 5


def test_change_by_someone_else_is_kept(shell: Shell, box: Sandbox) -> None:
    """A pet that changed in the store after the plan is a conflict with exit code 5, and is not
    changed.
    """
    shell("plan", _sheet("id,name\n1,Max\n"), *to(box), "-o", "plan.json")
    box.put(Pet(id=1, name="Bello", status="available", photo_urls=()))
    done = shell("apply", "plan.json", *to(box), "--yes")
    assert done.code == 5
    assert "Bello" in _names(box)


def test_interrupted_run_can_be_taken_up(shell: Shell, box: Sandbox) -> None:
    """Ctrl-C stops a run between two changes with exit code 7 and a report; applying the result
    sheet sends exactly the other changes. If a request was cut off, `resume` comes first.
    """
    rows = [f",Pet number {n},sold" for n in range(200)]
    _sheet("id,name,status\n" + "\n".join(rows) + "\n")
    box.set_faults("latency=0.2,only=addPet")
    limit = ("--max-add", "500")
    args = ["apply", "pets.csv", *to(box), *limit, "--yes", "--concurrency", "2", "--json"]
    with process(*args) as running:
        while box.requests["addPet"] < 4:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 7
    assert "was stopped" in err
    assert '"exit_code": 7' in out
    assert "Traceback" not in err
    box.set_faults(None)
    done = len(box.pets())
    assert 6 < done < 206
    if json.loads(out)["counts"]["unknown"]:
        assert finished("resume", *to(box)).code == 0
    again = finished("apply", "pets.results.csv", *to(box), "--yes", "--max-add", "500")
    assert again.code == 0
    names = [pet.name for pet in box.pets()]
    assert len(names) == len(set(names)) == 206


def test_plain_lines_without_a_terminal(shell: Shell, box: Sandbox) -> None:
    """Without a terminal no progress bar is drawn."""
    done = shell("apply", _sheet(), *to(box), "--yes")
    assert "━" not in done.err
    assert "\x1b" not in done.err
