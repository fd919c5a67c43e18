"""Thirty nights of reconciliation under faults: nothing is lost, each difference is explained.

Each seed has its own edits, faults and crashes; `--nights-seeds 20` runs more seeds, and
`--nights-seed 7` runs that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.running import Nursery
from nights.editor import row_of
from nights.paper import open_paper
from nights.postbox import Postbox
from nights.script import Nights
from nights.world import Look

from petsync.models import Pet

pytestmark = pytest.mark.slow


def test_thirty_nights(nights_seed: int, tmp_path: Path) -> None:
    """After each night every difference is explained and nothing is lost; at the end both sides
    agree.
    """
    with Postbox() as post, Nursery("nights.loaded") as nursery:
        Nights(nights_seed, tmp_path, nursery, post).play()


class TestAuditor:
    """The auditor detects each kind of fault, so a night that goes wrong cannot pass."""

    @pytest.fixture
    def nights(self, tmp_path: Path, nursery: Nursery) -> Iterator[Nights]:
        """Yield a shop whose sheet and store agree, and whose auditor has seen both."""
        with Postbox() as post:
            made = Nights(1, tmp_path, nursery, post)
            made.open()
            self._agree(made)
            yield made
            made.world.close()

    def _agree(self, nights: Nights) -> None:
        shop = [pet for pet in nights.world.box.pets() if _is_in_shop(pet)]
        nights.world.new_sheet("catalogue", [row_of(pet) for pet in shop])
        look = nights.world.look()
        nights.auditor.check_night(look, nights.world.writes(), [])

    def _first(self, nights: Nights) -> Pet:
        return next(pet for pet in nights.world.box.pets() if _is_in_shop(pet))

    def _judged(self, nights: Nights, before: Look, since: int) -> None:
        nights.auditor.check_night(before, since, [])

    def test_pet_that_was_deleted(self, nights: Nights) -> None:
        """The auditor detects a pet that is deleted from the store although its row is in the
        sheet.
        """
        before, since = nights.world.look(), nights.world.writes()
        nights.world.box.remove(self._first(nights).id or 0)
        with pytest.raises(AssertionError, match="was deleted, and is in row"):
            self._judged(nights, before, since)

    def test_value_that_nobody_wrote(self, nights: Nights) -> None:
        """The auditor detects a value that is neither the sheet's nor the store's."""
        before, since = nights.world.look(), nights.world.writes()
        nights.editor.edit_store("shop", self._first(nights).id, "name")
        with pytest.raises(AssertionError, match="sheet and store were"):
            self._judged(nights, before, since)

    def test_pet_that_came_from_nowhere(self, nights: Nights) -> None:
        """The auditor detects an added pet that no row asks for."""
        before, since = nights.world.look(), nights.world.writes()
        nights.editor.bear_in_store("shop")
        with pytest.raises(AssertionError, match="no row asks for it"):
            self._judged(nights, before, since)

    def test_sheet_without_a_backup(self, nights: Nights) -> None:
        """The auditor detects a sheet that was written without a backup of its earlier content."""
        before, since = nights.world.look(), nights.world.writes()
        nights.world.new_sheet("mirror", [])
        with_mirror, before = before, nights.world.look()
        assert with_mirror.files != before.files
        paper = open_paper(nights.world.sheets["mirror"])
        paper.add({"id": "1", "name": "Rex"})
        paper.save()
        with pytest.raises(AssertionError, match="is in no backup"):
            self._judged(nights, before, since)

    def test_twins(self, nights: Nights) -> None:
        """The auditor detects a pet that exists twice."""
        pet = self._first(nights)
        nights.world.box.put(Pet(name=pet.name, status=pet.status))
        look, since = nights.world.look(), nights.world.writes()
        with pytest.raises(AssertionError, match="doubled"):
            self._judged(nights, look, since)

    def test_secret_in_a_file(self, nights: Nights) -> None:
        """The auditor detects a file that contains the token."""
        (nights.world.folder / "note.txt").write_text(nights.world.token, "utf-8")
        with pytest.raises(AssertionError, match="the token is in"):
            self._judged(nights, nights.world.look(), nights.world.writes())


def _is_in_shop(pet: Pet) -> bool:
    return any(tag.name == "shop" for tag in pet.tags)
