"""browse: the catalogue is filtered and paged; a pet is opened, and changed through the review."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picturing import image
from PIL import Image
from shop import snapshot_of

import petsync as ps
from petsync.sandbox import Sandbox
from petsync.widgets.browse import BrowseForm, Catalogue, browse

pytestmark = pytest.mark.slow

CALM, OLD = ps.Tag(1, "calm"), ps.Tag(2, "old")
BELLA = ps.Pet(
    id=7, name="Bella", status="available", category=ps.Category(1, "Dogs"), tags=(CALM,)
)
PETS = [
    BELLA,
    ps.Pet(id=8, name="Bello", status="sold", category=ps.Category(1, "Dogs"), tags=(OLD,)),
    ps.Pet(id=9, name="Mia", status="sold", category=ps.Category(2, "Cats"), tags=(CALM, OLD)),
]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with three pets."""
    with Sandbox(auth=False, pets=PETS) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as store:
        yield store


@pytest.fixture
def form(store: ps.Store) -> Iterator[BrowseForm]:
    """Yield the form after it has loaded the store."""
    form = browse(store)
    assert form.widget
    assert form.work.wait()
    yield form
    form.close()
    assert form.work.wait()


def names(form: BrowseForm) -> list[str]:
    """Return the names of the pets on the current page."""
    return [row["cells"]["name"] for row in form.table.rows]


def open_pet(form: BrowseForm, pet_id: int) -> None:
    """Press the pet's button in the list."""
    form.table.press(str(pet_id))
    assert form.work.wait()


def test_all_pets_are_listed_first(form: BrowseForm) -> None:
    """The form first shows the whole catalogue and the values of its filters."""
    assert names(form) == ["Bella", "Bello", "Mia"]
    assert (form.table.total, form.table.all) == (3, 3)
    assert set(form.status.options) == {"available", "sold"}
    assert set(form.tags.options) == {"calm", "old"}


def test_filters_go_together(form: BrowseForm) -> None:
    """A pet is shown if it has one of the statuses, one of the tags, and all words of the
    search.
    """
    form.status.value = ("sold",)
    assert names(form) == ["Bello", "Mia"]
    form.tags.value = ("calm",)
    assert names(form) == ["Mia"]
    assert (form.table.total, form.table.all) == (1, 3)
    form.table.search = "dogs"
    assert names(form) == []
    form.clear.click()
    assert names(form) == ["Bella", "Bello", "Mia"]
    form.table.search = "DOGS bell"
    assert names(form) == ["Bella", "Bello"]
    form.table.search = "9"
    assert names(form) == ["Mia"]


def test_columns_can_be_sorted(form: BrowseForm) -> None:
    """The pets are sorted by the values of a column, also after a search."""
    form.table.sort, form.table.down = "id", True
    assert names(form) == ["Mia", "Bello", "Bella"]
    form.table.search = "bell"
    assert names(form) == ["Bello", "Bella"]
    form.table.sort, form.table.down = "photos", False
    assert names(form) == ["Bella", "Bello"]


def test_filters_are_for_many_pets(box: Sandbox, form: BrowseForm) -> None:
    """The form has filters from ten pets on; each tag of a pet is an item of its own."""
    filters = form._panel.filters  # type: ignore[union-attr]
    assert filters.layout.display == "none"
    assert not form.table.searchable
    assert form.table.rows[2]["cells"]["tags"] == [["calm", "old"]]
    box.reset(ps.Pet(id=n, name=f"Cat {n}", status="sold") for n in range(1, 11))
    form.again.click()
    assert form.work.wait()
    assert filters.layout.display is None
    assert form.table.searchable


def test_no_match_is_announced(form: BrowseForm) -> None:
    """The table, whose status a screen reader reads, knows that none of the pets matches."""
    form.table.search = "nobody"
    assert (form.table.total, form.table.all) == (0, 3)
    assert form.table.empty.startswith("No pet matches.")
    form.table.search = "bella"
    assert form.table.total == 1


def test_the_keyboard_is_kept(box: Sandbox, form: BrowseForm) -> None:
    """When a button becomes disabled, the keyboard focus moves to a heading."""
    messages: list[object] = []
    form.heading.send = lambda content, buffers=None: messages.append(content)
    form.again.click()
    assert form.work.wait()
    assert messages == [{"focus": True}]


def test_pages_are_filled_when_they_are_turned(box: Sandbox, form: BrowseForm) -> None:
    """Many pets are shown in pages; a search replaces the pages by those of the matching pets."""
    box.reset(ps.Pet(id=n, name=f"Cat {n}", status="sold") for n in range(1, 31))
    form.again.click()
    assert form.work.wait()
    assert (form.table.total, form.table.pages) == (30, 3)
    form.table.page = 2
    assert names(form) == [f"Cat {n}" for n in range(25, 31)]
    form.table.search = "Cat 1"
    assert form.table.pages == 1
    assert len(names(form)) == 12


def _size(source: str) -> tuple[int, int]:
    """Return the width and height of an image in a `data:` URL."""
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    return Image.open(io.BytesIO(content)).size


def test_a_list_is_searched_and_filled_once(
    form: BrowseForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter beside a search searches only what it leaves, once; Show all fills the list once."""
    searches: list[Any] = []
    find = Catalogue.find

    def watched(self: Catalogue, text: str = "", **more: Any) -> Any:
        searches.append((text, more["among"]))
        return find(self, text, **more)

    monkeypatch.setattr(Catalogue, "find", watched)
    form.table.search = "bella"
    form.status.value = ["available"]
    assert [text for text, _ in searches] == ["bella", "bella"]
    assert len(searches[1][1]) < len(searches[0][1])
    rows: list[object] = []
    form.table.observe(lambda change: rows.append(change.new), "rows")
    form.clear.click()
    assert len(rows) == 1, rows
    assert (form.table.search, form.status.value, form.table.total) == ("", (), 3)
    assert len(searches) == 2


def test_a_pet_is_opened_as_it_is_now(box: Sandbox, form: BrowseForm, store: ps.Store) -> None:
    """An opened pet is shown as the store has it now, with its images."""
    for name in ("a.png", "b.png"):
        store.api.upload_file(7, image("PNG", (400, 300)), filename=name)
    box.put(msgspec.structs.replace(store.api.get_pet_by_id(7), name="Bellina"))
    open_pet(form, 7)
    assert form.editor.name.value == "Bellina"
    assert form.editor.tags.value == "calm"
    small, second = (row["cells"]["picture"]["src"] for row in form.photos.rows)
    assert (_size(small), _size(second)) == ((96, 72), (96, 72))
    photo = form._panel.photos.first  # type: ignore[union-attr]
    large, _, alt = photo.value.partition('src="')[2].partition('" ')
    assert _size(large) == (240, 180)
    assert alt.startswith('alt="Photo of pet 7 (Bellina)"')
    open_pet(form, 8)
    assert (photo.value, photo.layout.display) == ("", "none")
    assert form.editor.changed == {}


def test_the_first_usable_picture_is_the_large_one(form: BrowseForm, store: ps.Store) -> None:
    """If the first photo is no picture, the next one is shown in the large size."""
    store.api.upload_file(7, b"no picture", filename="a.png")
    store.api.upload_file(7, image("PNG", (400, 300)), filename="b.png")
    open_pet(form, 7)
    photo = form._panel.photos.first  # type: ignore[union-attr]
    deadline = time.monotonic() + 60
    while not (source := photo.value.partition('src="')[2].partition('" ')[0]) or (
        _size(source) != (240, 180)
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_pet_that_is_gone_is_reported(box: Sandbox, form: BrowseForm) -> None:
    """A pet that was deleted in the store is reported when it is opened."""
    box.remove(7)
    open_pet(form, 7)
    assert form.notice.tone == "problem"
    assert "pet 7 is no longer in the store" in form.notice.text


def test_an_edit_goes_through_the_review(box: Sandbox, form: BrowseForm) -> None:
    """An edit becomes a plan of one pet; the review form shows and sends it, and the pet is loaded
    again.
    """
    open_pet(form, 7)
    form.editor.name.value = "Bellina"
    form.editor.status.value = "sold"
    form.editor.check.click()
    assert form.work.wait()
    assert form.plan is not None
    assert [(c.pet_id, c.fields) for c in form.plan.changes] == [(7, ("name", "status"))]
    assert box.pets()[0] == BELLA
    review = form.review
    assert review is not None
    review.apply.click()
    assert review.work.wait()
    review.send.click()
    assert review.work.wait()
    assert form.work.wait()
    assert review.report is not None
    assert box.pets()[0] == msgspec.structs.replace(BELLA, name="Bellina", status="sold")
    assert "Bellina" in names(form)
    assert form.editor.name.value == "Bellina"
    assert form.editor.changed == {}


def test_the_other_statuses_of_the_store_are_offered_after_an_edit(
    form: BrowseForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor offers the statuses of the profile and of the store, before and after an edit."""
    monkeypatch.setattr(Catalogue, "statuses", ["sold", "adopted"])
    form.reload()
    assert form.work.wait()
    offered = [(each, each) for each in ("available", "pending", "sold", "adopted")]
    open_pet(form, 7)
    assert [*form.editor.status.options] == offered
    form.editor.name.value = "Bellina"
    form.editor.check.click()
    assert form.work.wait()
    review = form.review
    assert review is not None
    for button in (review.apply, review.send):
        button.click()
        assert review.work.wait()
    assert form.work.wait()
    assert form.editor.name.value == "Bellina"
    assert [*form.editor.status.options] == offered


def test_nothing_typed_is_nothing_to_review(form: BrowseForm) -> None:
    """Without a change there is no plan, and the form reports this."""
    open_pet(form, 7)
    form.editor.check.click()
    assert form.work.wait()
    assert form.review is None
    assert "No field has been changed yet" in form.notice.text


def test_what_is_typed_can_be_put_back(form: BrowseForm) -> None:
    """The reset button shows the pet's own values again."""
    open_pet(form, 7)
    form.editor.name.value = "Bellina"
    form.editor.reset.click()
    assert form.editor.name.value == "Bella"
    assert form.editor.changed == {}


def test_a_value_that_cannot_be_meant_is_reported(form: BrowseForm) -> None:
    """An invalid value is reported before a plan is made."""
    open_pet(form, 7)
    form.editor.name.value = ""
    form.editor.check.click()
    assert form.work.wait()
    assert form.review is None
    assert form.notice.tone == "problem"
    assert "name" in form.notice.text
    assert not form.editor.check.disabled


def test_what_somebody_else_changed_is_a_conflict(box: Sandbox, form: BrowseForm) -> None:
    """The edit is compared with the pet as it was shown, so that a change in the store is a
    conflict, never overwritten silently.
    """
    open_pet(form, 7)
    box.put(msgspec.structs.replace(BELLA, name="Bruno"))
    form.editor.name.value = "Bellina"
    form.editor.tags.value = "calm; shy"
    form.editor.check.click()
    assert form.work.wait()
    assert form.plan is not None
    assert [clash.store for clash in form.plan.conflicts[0].clashes] == ["Bruno"]
    assert [change.fields for change in form.plan.changes] == [("tags",)]


def test_the_same_change_by_somebody_else_is_in_agreement(box: Sandbox, form: BrowseForm) -> None:
    """If the store already has the new value, there is nothing to review."""
    open_pet(form, 7)
    box.put(msgspec.structs.replace(BELLA, name="Bellina"))
    form.editor.name.value = "Bellina"
    form.editor.check.click()
    assert form.work.wait()
    assert form.review is None
    assert "already" in form.notice.text


def test_another_pet_leaves_the_review_behind(form: BrowseForm) -> None:
    """Opening another pet closes the review."""
    open_pet(form, 7)
    form.editor.name.value = "Bellina"
    form.editor.check.click()
    assert form.work.wait()
    assert form.review is not None
    open_pet(form, 8)
    assert form.review is None
    assert form.editor.name.value == "Bello"


def test_a_change_on_its_way_is_not_left(box: Sandbox, form: BrowseForm) -> None:
    """While a change is being sent, no other pet is opened."""
    open_pet(form, 7)
    form.editor.name.value = "Bellina"
    form.editor.check.click()
    assert form.work.wait()
    review = form.review
    assert review is not None
    review.apply.click()
    assert review.work.wait()
    box.set_faults("latency=1.5,only=updatePetWithForm")
    review.send.click()
    form.table.press("8")
    assert "still being sent" in form.notice.text
    assert review.work.wait()
    assert form.work.wait()
    assert form.review is review
    assert box.pets()[0].name == "Bellina"
    open_pet(form, 8)
    assert form.editor.name.value == "Bello"


def test_what_fails_to_load_is_reported(box: Sandbox, tmp_path: Path) -> None:
    """A failed load is reported, and the store can be loaded again."""
    quick = ps.RetryPolicy(attempts=1)
    with ps.connect(box.url, state=tmp_path, environ={}, retry=quick) as store:
        box.set_faults("503=1,only=findPetsByStatus")
        form = browse(store)
        assert form.widget
        assert form.work.wait()
        assert form.notice.tone == "problem"
        assert form.table.empty == "The store could not be read."
        box.set_faults(None)
        form.again.click()
        assert form.work.wait()
        assert len(names(form)) == 3
        form.close()


def test_a_status_that_is_missing_is_reported(box: Sandbox, tmp_path: Path) -> None:
    """If one query fails, the other pets are shown and the missing status is reported."""
    quick = ps.RetryPolicy(attempts=1)
    with ps.connect(box.url, state=tmp_path, environ={}, retry=quick) as store:
        box.set_faults("503=1,status=sold")
        form = browse(store)
        assert form.widget
        assert form.work.wait()
        assert names(form) == ["Bella"]
        assert "sold are missing" in form.notice.text
        form.close()


def test_without_a_live_kernel_it_is_text_and_html(
    box: Sandbox, store: ps.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a live kernel the form is text and HTML: the first pets and the equivalent functions,
    in 80 columns.
    """
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: False)
    box.put(ps.Pet(id=2**62, name="<b>x</b>" * 20, status="sold"))
    shown = browse(store)._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    assert "<b>" not in shown["text/html"]
    assert "Bella" in shown["text/plain"]
    assert "store.edit(7" in shown["text/plain"]
    assert max(map(len, shown["text/plain"].splitlines())) <= 80


def test_a_saved_form_says_why_it_has_nothing(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store cannot be read, the form's text and HTML show the error."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: False)
    with ps.connect(box.url, state=tmp_path, environ={}, retry=ps.RetryPolicy(attempts=1)) as store:
        box.set_faults("503=1")
        form = browse(store)
        assert "503" in form.text()
        assert "503" in form.html()


def test_tags_are_shown_by_name_where_that_says_all(form: BrowseForm, box: Sandbox) -> None:
    """Tags that are shown by name keep the pet's own tag ids; tags with the same name are shown
    with ids.
    """
    open_pet(form, 9)
    form.editor.tags.value = "old; calm; new"
    form.editor.check.click()
    assert form.work.wait()
    assert form.plan is not None
    (change,) = form.plan.changes
    assert change.after is not None
    assert set(change.after.tags) == {CALM, OLD, ps.Tag(None, "new")}
    box.put(msgspec.structs.replace(PETS[2], tags=(ps.Tag(5, "calm"), ps.Tag(6, "Calm"))))
    open_pet(form, 9)
    assert form.editor.tags.value == "5:calm; 6:Calm"


@given(st.text(max_size=8), st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6))
def test_every_pet_is_found_by_its_own_name(text: str, called: list[str]) -> None:
    """Each pet is found by its own name, and no search text fails."""
    pets = [ps.Pet(id=n + 1, name=name, status="sold") for n, name in enumerate(called)]
    catalogue = Catalogue(snapshot_of(pets))
    catalogue.find(text)
    for n, name in enumerate(called):
        assert n in catalogue.find(name)


@pytest.mark.parametrize("text", ["9223372036854775807", "-5", "99999999999999999999", "1e3", "٣"])
def test_ids_are_found_exactly(text: str) -> None:
    """The largest id and a negative one are found by all their digits, and only by these."""
    pets = [ps.Pet(id=n, name="x", status="sold") for n in (2**63 - 1, 2**63 - 2, -5, 5)]
    catalogue = Catalogue(snapshot_of(pets))
    found = [str(pet.id) for pet in catalogue.pets(catalogue.find(text))]
    assert found == ([text] if text in ("9223372036854775807", "-5") else [])
