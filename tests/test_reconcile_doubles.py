"""Pets that are there twice, or are to be; and a store that answers for none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from doubles import Double
from msgspec.structs import replace as other
from nightly import PETS, Night, kinds

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.reconcile.watcher import Step, Watcher
from petsync.sandbox import Sandbox


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def night(_open_box: Sandbox, tmp_path: Path) -> Iterator[Night]:
    """A store and a sheet that agree, and were reconciled once."""
    _open_box.reset(PETS)
    night = Night(_open_box, tmp_path, {"mode": "two-way"})
    night.write()
    assert night.run().round.status == "in-sync"
    yield night
    _open_box.break_with(None)


class Somebody(Double, of=Watcher):
    """Adds a pet while a round is at work."""

    def __init__(self, night: Night) -> None:
        self.night = night

    def began(self, begun: Round) -> None:
        """Nothing yet."""

    @contextmanager
    def step(self, begun: Round, name: Step) -> Iterator[None]:
        """Once the round has applied."""
        yield
        if name == "apply":
            made = next(pet for pet in self.night.box.pets() if pet.name == "New")
            self.night.box.reset([*self.night.box.pets(), other(made, id=500)])

    def ended(self, told: RoundReport) -> None:
        """Nothing more."""


def test_a_copied_row_without_an_id_is_told(night: Night) -> None:
    """It is one more of that pet, which may be meant; the note names the cell."""
    night.write([*PETS, other(PETS[0], id=None)])
    told = night.run(dry_run=True)
    assert [each.address for each in told.open if "one more of it" in each.problem] == [
        "line 14, column 1"
    ]
    told = night.run()
    assert (told.round.status, told.round.to_store.add) == ("done", 1)
    assert any("one more of it" in each.problem for each in told.open)
    assert not night.run().open


def test_a_like_pet_that_somebody_else_added_meanwhile_is_drift(night: Night) -> None:
    """Exit code 2 in a job that pushes: the store has it twice."""
    night.write([*PETS, other(PETS[0], id=None, name="New")])
    told = night.run(mode="push", watchers=[Somebody(night)])
    assert (told.round.status, told.round.exit_code, told.round.left) == ("drift", 2, 1)
    assert ("drift", 500) in kinds(told)
    assert "somebody else added it as well" in next(e.problem for e in told.open if e.pet_id == 500)


def test_an_outage_is_no_matter_for_a_person_to_decide(night: Night) -> None:
    """The store answers for no pet that is looked up: exit code 1, and nothing was changed."""
    night.write([*PETS[:1], other(PETS[1], name="Rex"), *PETS[2:], other(PETS[0], id=77)])
    night.box.break_with("html=1,only=getPetById")
    told = night.run()
    assert (told.round.status, told.round.exit_code) == ("error", 1)
    assert "answered for none" in told.round.problem
    assert night.stored()[2].name == "Pet 2"
