"""The commands where the store does not list all its pets: reported, and no base for changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import BIG, Shell, shop, to
from test_cli_terminal import _terminal, _until

from petsync import read_sheet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

BROKEN = "html=1,status=sold"
SOLD = {5, BIG}
LOOSE = ("--max-delete", "100%", "--max-update", "100%")


def _flat(text: str) -> str:
    return " ".join(text.split())


def test_a_plan_says_what_was_not_listed(shell: Shell, box: Sandbox) -> None:
    """A plan names the status that was not listed, and why: on stderr, in its text and in its
    JSON.
    """
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    box.set_faults(BROKEN)
    done = shell("plan", "pets.csv", *to(box))
    assert done.code == 0
    assert "warning: no pet with the status sold was listed: findPetsByStatus" in _flat(done.err)
    assert "sold" in done.out
    coverage = shell("plan", "pets.csv", *to(box), "--json").json["plan"]["coverage"]
    assert coverage["statuses"] == ["available", "pending"]
    assert [each["query"] for each in coverage["failed"]] == ["sold"]


def test_a_whole_plan_warns_of_nothing(shell: Shell, box: Sandbox) -> None:
    """If every query succeeds, there is no warning."""
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    assert "warning" not in shell("plan", "pets.csv", *to(box)).err


@pytest.mark.parametrize("base", [(), ("--no-base",)])
def test_no_pet_of_a_status_that_failed_is_deleted(
    shell: Shell, box: Sandbox, base: tuple[str, ...]
) -> None:
    """A pet of a status that was not listed stays, even if --delete-missing is given and its row
    was removed; other removed pets are deleted.
    """
    assert shell("export", "pets.csv", *to(box), *base).code == 0
    lines = Path("pets.csv").read_text("utf-8").splitlines(keepends=True)
    Path("pets.csv").write_text("".join(lines[:2]), "utf-8")
    box.set_faults(BROKEN)
    done = shell("apply", "pets.csv", *to(box), "--delete-missing", *LOOSE, "--yes")
    assert "sold" in done.err
    assert {pet.id for pet in box.pets()} == {1, *SOLD}


def test_an_applied_plan_says_what_was_not_listed(shell: Shell, box: Sandbox) -> None:
    """Before anything is sent, the plan to confirm names the status that was not listed."""
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    box.set_faults(BROKEN)
    done = shell("apply", "pets.csv", *to(box))
    assert done.code == 2
    assert "sold" in done.err
    assert "web page" in _flat(done.err)
    assert box.pets() == shop()


def test_an_export_that_would_lack_pets_is_refused(shell: Shell, box: Sandbox) -> None:
    """An export that would lack pets is refused and the existing file stays; the hint names the
    statuses that can be exported.
    """
    assert shell("export", "pets.csv", *to(box)).code == 0
    mine = Path("pets.csv").read_bytes()
    box.set_faults(BROKEN)
    done = shell("export", "pets.csv", *to(box))
    assert done.code == 1
    assert "the pets of the status sold would be missing" in _flat(done.err)
    assert "available, pending (--status" in _flat(done.err)
    assert Path("pets.csv").read_bytes() == mine
    assert shell("export", "pets.csv", *to(box), "--status", "sold").code == 1
    mixed = shell("export", "pets.csv", *to(box), "--status", "sold", "--status", "pending")
    assert mixed.code == 1
    assert Path("pets.csv").read_bytes() == mine


def test_what_can_be_listed_can_be_exported(shell: Shell, box: Sandbox) -> None:
    """The statuses that can be listed are exported by name, and the base records only these."""
    box.set_faults(BROKEN)
    some = ("--status", "available", "--status", "pending")
    assert shell("export", "pets.csv", *to(box), *some).code == 0
    base = read_sheet("pets.csv").base
    assert base is not None
    assert base.statuses == ("available", "pending")
    assert list(base.frame["id"]) == [1, 2, 3, 4]


def test_a_terminal_shows_how_far_look_ups_are(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """Many look-ups show a progress bar in a terminal; the bar is removed at the end."""
    rows = "".join(f"{number},x,sold\n" for number in range(1001, 1501))
    Path("pets.csv").write_text(f"id,name,status\n{rows}", "utf-8")
    box.set_faults("latency=0.02,only=getPetById")
    limit = ("--max-add", "500")
    with _terminal("plan", "pets.csv", *to(box), *limit, cwd=tmp_path) as (end, running):
        shown = _until(end)
        assert running.wait(120) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"Looking up .* \d{1,3}/500 pets by id", plain)
    assert "Looking up" not in plain.rpartition("Plan:")[2]
