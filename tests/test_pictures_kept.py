"""Photos from uploads: a sheet that was exported before an upload does not remove its photos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picturing import image, put

import petsync as ps
from petsync.plan.fields import with_kept_photos
from petsync.plan.report import Entry
from petsync.plan.uploads import Attempt, Uploads, added_urls
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

PHOTOS = ("https://shop.example/a.jpg", "https://shop.example/b.jpg")
URLS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with two pets, one with photos."""
    pets = [
        ps.Pet(id=7, name="Rex", status="available", photo_urls=PHOTOS),
        ps.Pet(id=8, name="Mia", status="sold"),
    ]
    with Sandbox(auth=False, pets=pets) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield the store, connected with a journal."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as store:
        yield store


def upload(store: ps.Store, folder: Path) -> None:
    """Upload two photos for pet 7 and one for pet 8."""
    put(folder, p7_1__png=image(), p7_2__png=image(colour=(0, 9, 9)), p8__png=image())
    assert store.upload(store.pictures(folder)).exit_code == 0


def photos(box: Sandbox, pet_id: int) -> tuple[str, ...]:
    """Return the pet's photos in the store."""
    return next(pet for pet in box.pets() if pet.id == pet_id).photo_urls


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("with_base", [True, False])
def test_next_sync_takes_nothing_away(
    box: Sandbox, store: ps.Store, tmp_path: Path, ending: str, with_base: bool
) -> None:
    """After an export, an upload and a sync the photos are still there, with or without the export
    in the sheet.
    """
    path = tmp_path / f"catalogue{ending}"
    snapshot = store.snapshot()
    base = None if with_base else False
    ps.write_sheet(snapshot, path) if with_base else ps.write_sheet(snapshot, path, base=base)
    upload(store, tmp_path / "photos")
    before = {pet_id: photos(box, pet_id) for pet_id in (7, 8)}
    plan = store.plan(path)
    assert plan.changes == ()
    if not with_base:
        assert any("the photos stay" in note for note in plan.notes)
        reason = next(f for f in store.why(path, 7)[0].fields if f.column == "photo_urls")
        assert (reason.rule, reason.after) == ("uploaded", reason.store)
    store.apply(plan)
    assert {pet_id: photos(box, pet_id) for pet_id in (7, 8)} == before
    assert len(before[7]) == 4


def test_edited_cell_keeps_uploaded_photos(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """A sheet without its export that removes one photo and adds one does only that: the uploaded
    photos stay, at the end.
    """
    upload(store, tmp_path / "photos")
    mine = ["https://shop.example/new.jpg", PHOTOS[1]]
    plan = store.plan(pd.DataFrame({"id": [7], "photo_urls": [mine]}))
    assert [change.fields for change in plan.changes] == [("photo_urls",)]
    added = photos(box, 7)[2:]
    store.apply(plan)
    assert photos(box, 7) == (*mine, *added)


def test_clear_takes_all_away(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """[clear] empties the list of photos, uploaded ones included."""
    upload(store, tmp_path / "photos")
    (tmp_path / "sheet.csv").write_text("id,photo_urls\n7,[clear]\n", "utf-8")
    store.apply(store.plan(tmp_path / "sheet.csv", two_way=True))
    assert photos(box, 7) == ()


def test_a_new_export_allows_removal(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """A sheet that was exported after the upload contains the photo and can remove it."""
    upload(store, tmp_path / "photos")
    path = tmp_path / "catalogue.csv"
    ps.write_sheet(store.snapshot(), path)
    added = photos(box, 7)[-1]
    path.write_text(path.read_text("utf-8-sig").replace(f" | {added}", ""), "utf-8")
    store.apply(store.plan(path))
    assert added not in photos(box, 7)
    assert len(photos(box, 7)) == 3


def test_photo_that_somebody_put_there_is_no_upload(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """Only photos from uploads are kept; a photo from another source is compared as usual."""
    upload(store, tmp_path / "photos")
    rex = next(pet for pet in box.pets() if pet.id == 7)
    mia = ps.Pet(id=8, name="Mia", status="sold", photo_urls=("x",))
    box.put(mia)
    plan = store.plan(pd.DataFrame({"id": [8], "photo_urls": [["y"]]}))
    (change,) = plan.updates
    assert change.after.photo_urls == ("y",)
    assert httpx.get(rex.photo_urls[-1]).status_code == 200


def test_unseen_outcome_protects_too(tmp_path: Path, box: Sandbox, store: ps.Store) -> None:
    """After a crash between an upload and its outcome, every photo that was added since the upload
    began is kept.
    """
    before = ps.Pet(id=7, name="Rex", status="available", photo_urls=PHOTOS)
    entry = Entry(number=0, kind="upload", pet_id=7, before=before, digest="d")
    uploads = Uploads.of([Attempt("r", entry, ("d", "f"))])
    now = ps.Pet(id=7, photo_urls=(*PHOTOS, "new"))
    assert uploads.photos(now) == {"new"}
    assert uploads.photos(ps.Pet(id=8, photo_urls=("new",))) == frozenset()


@given(URLS, URLS, st.sets(st.sampled_from("abcdefgh")))
def test_kept_photos_law(sheet: list[str], store: list[str], kept: set[str]) -> None:
    """The result is the sheet's list in its order, plus exactly those photos of the store that are
    to be kept.
    """
    result = with_kept_photos(sheet, store, kept - set(sheet))
    assert [url for url in result if url in sheet] == sheet
    assert set(result) == set(sheet) | (set(store) & kept)
    assert len(set(result)) == len(result)


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abcd"), max_size=6))
def test_added_urls_law(before: list[str], after: list[str]) -> None:
    """The added URLs are those that occur more often than before, each once."""
    found = added_urls(ps.Pet(id=1, photo_urls=before), ps.Pet(id=1, photo_urls=after))  # type: ignore[arg-type]
    assert set(found) == {url for url in after if after.count(url) > before.count(url)}


def test_one_new_photo_settles_one_of_two_doubts() -> None:
    """Of two uploads with an unknown outcome, one new photo confirms only one."""
    before = ps.Pet(id=7, photo_urls=PHOTOS)
    entries = [
        Entry(number=n, kind="upload", pet_id=7, before=before, digest=d)
        for n, d in enumerate("ab")
    ]
    attempts = [Attempt("r", entry, (entry.digest,)) for entry in entries]
    now = ps.Pet(id=7, photo_urls=(*PHOTOS, "x"))
    uploads = Uploads.of(attempts)
    assert uploads.decide((7, ("a",)), now, adds=True) == "confirm"
    settled = Entry(
        number=0, kind="upload", pet_id=7, before=before, after=now, digest="a", outcome="applied"
    )
    uploads.take(Attempt("s", settled, ("a",)))
    assert uploads.decide((7, ("a",)), now, adds=True) == "uploaded"
    assert uploads.decide((7, ("b",)), now, adds=True) == "retry"
    assert uploads.decide((7, ("b",)), now, adds=False) == "unknown"
