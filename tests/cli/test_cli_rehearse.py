"""petsync rehearse: a plan applied to a copy of the store."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import BIG, READING, Shell, process, to
from crash.ledger import runs

from petsync import read_sheet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

CHANGED = f"id,name,status\n1,Max,available\n,New,sold\n{BIG},Sean,sold\n2,Mia,available\n"


def _sheet(text: str = CHANGED, name: str = "pets.csv") -> Path:
    path = Path(name)
    path.write_text(text, "utf-8")
    return path


def test_a_sheet_that_would_end_in_sync(shell: Shell, box: Sandbox) -> None:
    """The result of the rehearsal is shown in 80 columns, and the store only receives read
    requests.
    """
    before = box.pets()
    done = shell("rehearse", _sheet(), *to(box))
    assert done.code == 0
    assert "nothing was sent to the store" in done.out
    assert "3 applied, 1 unchanged. A second plan would be empty." in done.out
    assert "1 new pet, with the ids that the copy assigned" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err == f"Next: petsync apply pets.csv --url {box.url}\n"
    assert box.pets() == before
    assert set(box.requests) <= READING
    assert not Path(".petsync").exists()


def test_a_saved_plan_can_still_be_applied(shell: Shell, box: Sandbox) -> None:
    """A rehearsed plan can still be applied; an applied plan is refused with exit code 5."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    assert shell("rehearse", "plan.json", *to(box)).code == 0
    assert shell("rehearse", "plan.json", *to(box)).code == 0
    assert shell("apply", "plan.json", *to(box), "--yes").code == 0
    again = shell("rehearse", "plan.json", *to(box))
    assert again.code == 5
    assert "already applied" in again.err


def test_a_saved_plan_without_its_sheet(shell: Shell, box: Sandbox) -> None:
    """A plan whose sheet changed is rehearsed without a second plan."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    _sheet(CHANGED + "5,Tim,sold\n")
    done = shell("rehearse", "plan.json", *to(box))
    assert done.code == 0
    assert "There is none: the sheet of the plan is missing" in done.out
    assert "The copy is as planned." in done.out


def test_json_for_machines(shell: Shell, box: Sandbox) -> None:
    """--json is one document: outcomes, pets by status, results, and the second plan."""
    done = shell("rehearse", _sheet("name,status,action\nNew,sold,add\n"), *to(box), "--json")
    assert done.code == 0
    document = done.json
    assert (document["ok"], document["exit_code"], document["store"]) == (True, 0, box.url)
    assert document["counts"]["applied"] == 1
    assert document["pets"] == {"before": 6, "after": 7}
    assert document["statuses"]["sold"]["added"] == 1
    assert document["results"][0]["assigned_id"] == 6
    assert document["unexpected"] == []
    assert (document["again"]["in_sync"], document["again"]["left"]) == (True, [])
    assert (document["faults"], document["refusals"], document["stopped"]) == (None, [], "")


def test_json_of_what_is_not_as_planned(shell: Shell, box: Sandbox) -> None:
    """A pet that could not be changed is in `unexpected` with its exact id; a new pet has the id
    null.
    """
    rows = f"id,name,status\n{BIG},Sean,sold\n,New,sold\n"
    faults = "503=1,only=updatePetWithForm+addPet"
    document = shell("rehearse", _sheet(rows), *to(box), "--faults", faults, "--json").json
    assert document["exit_code"] == 3
    assert [row["id"] for row in document["unexpected"]] == [None, BIG]
    assert document["unexpected"][1]["column"] == "name"
    assert document["faults"]["hits"].keys() == {"503"}
    assert document["faults"]["requests"] > 2


def test_how_the_store_would_look(shell: Shell, box: Sandbox) -> None:
    """-o writes the resulting pets without a base, because the file is not an export of the
    store.
    """
    done = shell("rehearse", _sheet(), *to(box), "-o", "after.csv")
    assert "The resulting store is in after.csv." in done.err
    sheet = read_sheet("after.csv")
    assert sheet.base is None
    assert not Path("after.csv.petsync-base").exists()
    names = dict(zip(sheet.frame["id"], sheet.frame["name"], strict=True))
    assert (names[1], names[2], names[BIG]) == ("Max", "Mia", "Sean")
    assert len(names) == 7


def test_another_file_is_never_replaced(shell: Shell, box: Sandbox) -> None:
    """-o refuses to replace a file that is not an export; the hint names no option that the
    command lacks.
    """
    Path("after.csv").write_text("mine\n", "utf-8")
    done = shell("rehearse", _sheet(), *to(box), "-o", "after.csv")
    assert done.code == 1
    assert "Name another file." in done.err
    assert "force" not in done.err
    assert Path("after.csv").read_text("utf-8") == "mine\n"


def test_report_as_a_page(shell: Shell, box: Sandbox) -> None:
    """--report writes the rehearsal as an HTML page with escaped values."""
    done = shell("rehearse", _sheet("id,name\n1,<b>Max</b>\n"), *to(box), "--report", "r.html")
    assert done.code == 0
    page = Path("r.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "nothing was sent to the store" in page
    assert "<b>" not in page


def test_the_copy_is_kept_and_served(shell: Shell, box: Sandbox) -> None:
    """--keep saves the copy as a file that a sandbox can open, and never replaces a file."""
    done = shell("rehearse", _sheet(), *to(box), "--keep", "copy.db")
    assert "petsync serve --no-auth --db copy.db" in done.err
    with Sandbox(db="copy.db", auth=False) as kept:
        assert "Max" in {pet.name for pet in kept.pets()}
    assert shell("rehearse", _sheet(), *to(box), "--keep", "copy.db").code == 64


def test_a_refused_plan(shell: Shell, box: Sandbox) -> None:
    """A plan over a limit is still rehearsed: the refusal is shown first, and the exit code
    is 4.
    """
    done = shell("rehearse", _sheet("id,name\n1,Rex\n"), *to(box), "--delete-missing")
    assert done.code == 4
    place = done.out.index("The guard refuses this plan")
    assert place < done.out.index("What would happen to the rows")
    assert "--max-delete 5" in " ".join(done.out.split())
    assert "5 applied" in done.out
    assert len(box.pets()) == 6


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("id,name,action\n99,Rex,update\n", 5),
        ("id,name\nx,Rex\n1,Max\n", 3),
        ("id,name\n1,Rex\n", 0),
    ],
)
def test_exit_codes(shell: Shell, box: Sandbox, rows: str, code: int) -> None:
    """The exit code is 5 for conflicts, 3 for blocked rows and 0 if nothing is to be done."""
    assert shell("rehearse", _sheet(rows), *to(box)).code == code


def test_options_that_cannot_be(shell: Shell, box: Sandbox) -> None:
    """Invalid options are a usage error before any request."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    asked = box.requests.total()
    for options in (
        ["plan.json", "--delete-missing"],
        ["pets.csv", "--seed", "3"],
        ["pets.csv", "--faults", "latnecy=1"],
        ["pets.csv", "-o", "pets.csv"],
        ["pets.csv", "-o", "after.docx"],
        ["pets.csv", "--report", "r.pdf"],
        ["pets.csv", "-o", "r.html", "--report", "r.html"],
        ["pets.csv", "--keep", "nowhere/copy.db"],
        ["pets.csv", "--concurrency", "0"],
    ):
        assert shell("rehearse", *options, *to(box)).code == 64, options
    assert box.requests.total() == asked


def test_a_plan_of_another_store(shell: Shell, box: Sandbox) -> None:
    """A plan is rehearsed only with the store for which it was made."""
    shell("plan", _sheet(), *to(box), "-o", "plan.json")
    with Sandbox(auth=False) as other:
        done = shell("rehearse", "plan.json", *to(other))
    assert done.code == 1
    assert box.url in done.err


def test_no_token_is_reported(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output contains neither the store's token nor the copy's, even with -vv."""
    token = guarded.token()
    monkeypatch.setenv("PETSYNC_TOKEN", token)
    done = shell("rehearse", _sheet(), *to(guarded), "-vv", "--faults", "429=0.3,retry_after=0")
    assert done.code == 0
    assert token not in done.out + done.err
    assert "Bearer" not in done.out + done.err


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(shell: Shell, box: Sandbox, tmp_path: Path, sign: int) -> None:
    """An interrupt ends the rehearsal with 7 and leaves no temporary folder and no copy; the store
    is unchanged.
    """
    folder = tmp_path / "temporary"
    folder.mkdir()
    _sheet("id,name,status\n" + "".join(f",Pet {n},sold\n" for n in range(100)))
    args = ["rehearse", "pets.csv", *to(box), "--faults", "latency=0.3", "--concurrency", "1"]
    env: dict[str, Any] = {"TMPDIR": str(folder)}
    with process(*args, "--keep", "copy.db", env=env) as running:
        while not any(map(runs, folder.glob("petsync-rehearsal-*"))):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(sign)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 7
    assert "the rehearsal was interrupted" in err
    assert "Traceback" not in err
    assert out == ""
    assert not list(folder.iterdir())
    assert not list(Path().glob("copy.db*"))
    assert len(box.pets()) == 6
    assert set(box.requests) <= READING


@pytest.mark.parametrize("name", ["pets.csv", "pets.csv.petsync-base"])
def test_the_plan_s_own_sheet_is_never_overwritten(shell: Shell, box: Sandbox, name: str) -> None:
    """-o never replaces the plan's sheet or its base: without the base the next plan would
    overwrite changes of the store.
    """
    assert shell("export", "pets.csv", *to(box)).code == 0
    assert shell("plan", "pets.csv", "-o", "plan.json", *to(box)).code == 0
    before = Path("pets.csv").read_bytes(), Path("pets.csv.petsync-base").read_bytes()
    for source in ("plan.json", "pets.csv"):
        output = "linked.csv"
        Path(output).unlink(missing_ok=True)
        Path(output).symlink_to(name)
        done = shell("rehearse", source, *to(box), "-o", output)
        assert (done.code, "would be overwritten" in done.err) == (64, True)
    assert (Path("pets.csv").read_bytes(), Path("pets.csv.petsync-base").read_bytes()) == before
