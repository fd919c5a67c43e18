"""upload_images: a pet is chosen; images are inspected, sent, followed and cancelled."""

from __future__ import annotations

import base64
import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from picturing import animation, image, put, turned_jpeg
from PIL import Image

import petsync as ps
from petsync.images.inspect import thumbnail
from petsync.plan.uploads import Uploads
from petsync.sandbox import Sandbox
from petsync.widgets.upload import UploadForm, limit_in, replace_options, upload_images

pytestmark = pytest.mark.slow

RED, BLUE, GREEN = (200, 0, 0), (0, 0, 200), (0, 200, 0)
QUICK = ps.RetryPolicy(attempts=4, seconds=5.0, first=0.01, longest=0.05)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with a few pets; one has a photo on another server."""
    pets = [
        ps.Pet(id=7, name="Bella", status="available"),
        ps.Pet(id=8, name="Bello", status="sold", photo_urls=("https://shop.example/a.jpg",)),
        ps.Pet(id=70, name="Rex", status="pending"),
    ]
    with Sandbox(auth=False, pets=pets) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}, retry=QUICK) as store:
        yield store


@pytest.fixture
def form(store: ps.Store) -> Iterator[UploadForm]:
    """Yield the form of pet 7 after it has loaded the pet."""
    form = upload_images(store, 7)
    assert form.widget
    assert form.work.wait()
    yield form
    form.close()
    assert form.work.wait()


def until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until the condition is true."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.01)


def states(form: UploadForm) -> dict[str, str]:
    """Return each listed file's state, as the form shows it."""
    return {row["cells"]["name"]: row["cells"]["state"]["text"] for row in form.listed.rows}


def find_message(form: UploadForm, name: str) -> str:
    """Return the message of a file."""
    (row,) = (row for row in form.listed.rows if row["cells"]["name"] == name)
    text: str = row["cells"]["message"]
    return text


def drop(form: UploadForm, **files: bytes) -> None:
    """Drop these files; `__` in a name stands for its dot."""
    for name, content in files.items():
        assert form.files.put(name.replace("__", "."), content)
    assert form.work.wait()


def noise(side: int) -> bytes:
    """Return a PNG that cannot be compressed."""
    out = io.BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)).save(out, "PNG")
    return out.getvalue()


def test_a_pet_is_found_by_name_or_id_and_chosen(store: ps.Store) -> None:
    """A search lists the matching pets by name or id, and the user picks one."""
    form = upload_images(store)
    assert form.widget
    form.search.value = "bell"
    assert form.work.wait()
    assert [row["cells"]["name"] for row in form.pets.rows] == ["Bella", "Bello"]
    form.search.value = "7"
    form.find.click()
    assert form.work.wait()
    assert [row["key"] for row in form.pets.rows] == ["7"]
    form.pets.press("7")
    assert form.work.wait()
    assert form.pet is not None
    assert form.pet.name == "Bella"
    form.close()


def test_many_pets_are_paged(box: Sandbox, store: ps.Store) -> None:
    """Many matching pets are shown in pages."""
    box.reset(ps.Pet(id=n, name=f"Cat {n}", status="sold") for n in range(1, 21))
    form = upload_images(store)
    assert form.widget
    form.search.value = "cat"
    assert form.work.wait()
    assert (form.pets.total, form.pets.pages) == (20, 4)
    form.pets.page = 3
    assert [row["cells"]["name"] for row in form.pets.rows] == ["Cat 19", "Cat 20"]
    form.close()


def test_a_pet_that_no_query_lists_is_found_by_its_id(tmp_path: Path) -> None:
    """A pet whose status no query lists is found by its id."""
    pets = [ps.Pet(id=9, name="Odd", status="on holiday")]
    with (
        Sandbox(auth=False, profile="live", pets=pets) as box,
        ps.connect(box.url, profile="live", state=tmp_path, environ={}) as store,
    ):
        form = upload_images(store)
        assert form.widget
        form.search.value = "9"
        assert form.work.wait()
        assert [row["cells"]["name"] for row in form.pets.rows] == ["Odd"]
        form.close()


def test_a_pet_that_is_found_by_its_id_stays_on_the_first_page(tmp_path: Path) -> None:
    """A pet that is found by its id comes before the pets with a matching name, on each visit of
    the first page.
    """
    pets = [ps.Pet(id=n, name=f"Cat 9{n}", status="sold") for n in range(1, 8)]
    pets += [ps.Pet(id=9, name="Odd", status="on holiday")]
    with (
        Sandbox(auth=False, profile="live", pets=pets) as box,
        ps.connect(box.url, profile="live", state=tmp_path, environ={}) as store,
    ):
        form = upload_images(store)
        assert form.widget
        form.search.value = "9"
        assert form.work.wait()
        first = ["9", "1", "2", "3", "4", "5"]
        assert (form.pets.total, form.pets.pages) == (8, 2)
        for page, shown in ((0, first), (1, ["6", "7"]), (0, first)):
            form.pets.page = page
            assert [row["key"] for row in form.pets.rows] == shown
        form.search.value = "cat"
        assert form.work.wait()
        assert (form.pets.total, form.pets.rows[0]["key"]) == (7, "1")
        form.close()


def test_a_pet_that_is_not_there_is_reported(store: ps.Store) -> None:
    """An unknown id is reported as a problem."""
    form = upload_images(store, 99)
    assert form.widget
    assert form.work.wait()
    assert form.notice.tone == "problem"
    assert "no pet 99" in form.notice.text
    form.close()


def test_only_the_services_own_photos_are_fetched(box: Sandbox, store: ps.Store) -> None:
    """Photos of the service are shown as thumbnails; photos on other servers are shown as addresses
    and not fetched.
    """
    store.api.upload_file(8, image("PNG"), filename="a.png")
    form = upload_images(store, 8)
    assert form.widget
    assert form.work.wait()
    elsewhere, here = (row["cells"] for row in form.photos.rows)
    assert elsewhere["picture"] == "not from this service, not fetched"
    assert elsewhere["address"]["href"] == "https://shop.example/a.jpg"
    assert here["picture"]["src"].startswith("data:image/png;base64,")
    form.close()


def test_a_photo_that_is_none_is_reported(box: Sandbox, store: ps.Store) -> None:
    """A photo of the service that is not an image, or is missing, is shown as such, and the form
    still works.
    """
    store.api.upload_file(70, b"<script>alert(1)</script>", filename="a.png")
    urls = (*store.api.get_pet_by_id(70).photo_urls, f"{box.url}/images/999")
    box.put(msgspec.structs.replace(store.api.get_pet_by_id(70), photo_urls=urls))
    form = upload_images(store, 70)
    assert form.widget
    assert form.work.wait()
    assert [row["cells"]["picture"].partition(":")[0] for row in form.photos.rows] == [
        "cannot be shown"
    ] * 2
    form.close()


def test_files_are_shown_before_they_are_sent(form: UploadForm) -> None:
    """Each file has a thumbnail, its name, size and pixels before it is sent; the button shows the
    number of images and the pet.
    """
    drop(form, cat__jpg=image("JPEG", (300, 200)), dog__gif=animation())
    cat, dog = form.listed.rows
    assert cat["cells"]["picture"]["src"].startswith("data:image/jpeg;base64,")
    assert cat["cells"]["size"].endswith("KiB, 300 × 200")
    assert dog["cells"]["size"].endswith("bytes, 8 × 6, 3 frames")
    assert dog["cells"]["picture"]["src"].startswith("data:image/png;base64,")
    assert states(form) == {"cat.jpg": "ready", "dog.gif": "ready"}
    assert form.go.description.startswith("Upload 2 pictures (")
    assert form.go.description.endswith("to pet 7 (Bella)")
    assert not form.go.disabled


def test_a_wrong_file_is_reported_and_not_sent(box: Sandbox, form: UploadForm) -> None:
    """A file that is not an image is reported and not sent; the others are sent."""
    drop(form, notes__png=b"%PDF-1.7 ...", cat__jpg=image("JPEG"), empty__gif=b"")
    assert states(form) == {
        "notes.png": "cannot be sent",
        "cat.jpg": "ready",
        "empty.gif": "cannot be sent",
    }
    assert "PDF document" in find_message(form, "notes.png")
    form.go.click()
    assert form.work.wait()
    assert states(form)["cat.jpg"] == "done"
    assert box.requests["uploadFile"] == 1


def test_pictures_are_sent_and_linked(box: Sandbox, form: UploadForm) -> None:
    """After an upload each file shows its address, the pet has the photos, and the result is
    reported.
    """
    form.metadata.value = "in spring"
    drop(form, a__png=image(colour=RED), b__png=image(colour=BLUE))
    form.go.click()
    assert form.work.wait()
    photos = box.pets()[0].photo_urls
    assert [row["cells"]["address"]["href"] for row in form.listed.rows] == list(photos)
    assert set(states(form).values()) == {"done"}
    assert form.notice.tone == "done"
    assert form.notice.text == "2 pictures uploaded."
    assert form.report is not None
    assert form.report.counts["applied"] == 2
    assert all("src" in row["cells"]["picture"] for row in form.photos.rows)
    assert form.go.disabled


def test_metadata_goes_along(box: Sandbox, form: UploadForm, store: ps.Store) -> None:
    """Each planned image has the text of the metadata field."""
    form.metadata.value = "in spring"
    drop(form, a__png=image())
    assert form._inspected is not None
    assert [picture.metadata for picture in form._inspected.items] == ["in spring"]


def test_nothing_is_sent_twice(box: Sandbox, form: UploadForm, store: ps.Store) -> None:
    """An image that was uploaded before, or that is in the list twice, is left out and not sent
    again.
    """
    store.upload(
        store.pictures_of(
            7, put(Path(store.aio.settings.state) / "x", a__png=image(colour=RED)) / "a.png"
        )
    )
    drop(
        form,
        again__png=image(colour=RED),
        new__png=image(colour=BLUE),
        same__png=image(colour=BLUE),
    )
    assert states(form) == {"again.png": "left out", "new.png": "ready", "same.png": "left out"}
    form.go.click()
    assert form.work.wait()
    assert box.requests["uploadFile"] == 2


def test_a_path_is_another_way_in(form: UploadForm, tmp_path: Path) -> None:
    """A path on the notebook's machine adds a file, or each file of a folder; a wrong path is
    reported.
    """
    folder = put(tmp_path / "photos", a__png=image(colour=RED), b__png=image(colour=BLUE))
    form.path.value = str(folder / "a.png")
    form.add.click()
    assert form.work.wait()
    assert states(form) == {"a.png": "ready"}
    form.path.value = str(folder)
    form.add.click()
    assert form.work.wait()
    assert len(form.items) == 3
    form.path.value = str(folder / "missing.png")
    form.add.click()
    assert form.notice.tone == "problem"
    assert "missing.png" in form.notice.text


@pytest.mark.parametrize("given", ["", "~nobody-of-this-name/x.png", "x" * 5000, "\0", "/none/*"])
def test_a_path_that_is_none_is_reported(form: UploadForm, given: str) -> None:
    """Any invalid path is reported, and no file is added."""
    form.path.value = given
    form.add.click()
    assert form.notice.tone == "problem"
    assert not form.items


def test_a_name_that_no_file_has_is_reported(form: UploadForm, tmp_path: Path) -> None:
    """A file name with a NUL is reported, and other files can still be sent."""
    form.add_file(tmp_path / "a\0b.png")
    assert form.work.wait()
    drop(form, ok__png=image())
    assert list(states(form).values()) == ["cannot be sent", "ready"]
    assert "no file can have this name" in form.items[0].message


def test_an_empty_folder_is_reported(form: UploadForm, tmp_path: Path) -> None:
    """A folder without visible files is reported and adds no file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden.png").write_bytes(image())
    form.path.value = str(tmp_path / "empty")
    form.add.click()
    assert "there is no file in" in form.notice.text
    assert not form.items


def test_a_service_that_does_not_say_where_is_reported(tmp_path: Path) -> None:
    """If the service returns no address, the file is still done, and the missing address is
    reported.
    """
    with (
        Sandbox(auth=False, profile="live", pets=[ps.Pet(id=7, name="Bella")]) as box,
        ps.connect(box.url, profile="live", state=tmp_path, environ={}) as store,
    ):
        form = upload_images(store, 7)
        assert form.widget
        drop(form, a__png=image())
        form.go.click()
        assert form.work.wait()
        assert states(form) == {"a.png": "done"}
        assert "returned no address" in find_message(form, "a.png")
        form.close()


def test_one_that_waits_can_be_cancelled(box: Sandbox, form: UploadForm) -> None:
    """An image that is cancelled before its turn is never sent; the others are sent."""
    box.set_faults("latency=0.4,only=uploadFile")
    drop(form, a__png=image(colour=RED), b__png=image(colour=BLUE), c__png=image(colour=GREEN))
    form.go.click()
    until(lambda: states(form)["a.png"] == "sending")
    form.listed.press(form.items[2].key)
    assert form.work.wait()
    assert states(form) == {"a.png": "done", "b.png": "done", "c.png": "cancelled"}
    assert "Cancelled before it was sent" in find_message(form, "c.png")
    assert box.requests["uploadFile"] == 2
    assert form.go.disabled


def test_one_on_its_way_can_be_cancelled(box: Sandbox, form: UploadForm) -> None:
    """An image that is cancelled during its upload is aborted and looked up in the pet; the others
    are sent.
    """
    box.set_faults("latency=30,only=uploadFile,first=1")
    drop(form, a__png=image(colour=RED), b__png=image(colour=BLUE))
    form.go.click()
    until(lambda: box.requests["uploadFile"] == 1)
    form.listed.press(form.items[0].key)
    assert form.work.wait()
    assert states(form) == {"a.png": "cancelled", "b.png": "done"}
    assert "do not show it" in find_message(form, "a.png")
    assert len(box.pets()[0].photo_urls) == 1


def test_all_can_be_stopped_and_the_rest_sent_later(box: Sandbox, form: UploadForm) -> None:
    """Stop ends the upload soon; Upload then sends the other files, and none twice."""
    box.set_faults("latency=0.5,only=uploadFile")
    drop(form, **{f"p{n}__png": image(colour=(n * 20, 0, 0)) for n in range(5)})
    form.go.click()
    until(lambda: "done" in states(form).values())
    form.stop.click()
    assert form.stop.description == "Stopping …"
    assert form.work.wait()
    assert form.notice.text.startswith("Stopped: ")
    box.set_faults(None)
    assert not form.go.disabled
    form.go.click()
    assert form.work.wait()
    assert set(states(form).values()) == {"done"}
    assert len(box.pets()[0].photo_urls) == 5


def test_what_is_tried_again_is_reported(box: Sandbox, form: UploadForm) -> None:
    """A retry is shown in the file's row."""
    heard: list[str] = []
    form.listed.observe(
        lambda change: heard.extend(row["cells"]["message"] for row in change["new"]), "rows"
    )
    box.set_faults("429=1,retry_after=0,first=2,only=uploadFile")
    drop(form, a__png=image())
    form.go.click()
    assert form.work.wait()
    assert states(form) == {"a.png": "done"}
    assert any(each.startswith("Attempt 2; the previous one failed") for each in heard)


def test_what_failed_is_reported_and_sent_again(box: Sandbox, tmp_path: Path) -> None:
    """A failed image shows the reason; Upload sends it again after it has waited for a late
    arrival.
    """
    with ps.connect(box.url, state=tmp_path, environ={}, retry=QUICK, timeout=3.0) as store:
        form = upload_images(store, 7)
        assert form.widget
        box.set_faults("503=1,only=uploadFile")
        drop(form, a__png=image())
        form.go.click()
        assert form.work.wait()
        assert states(form) == {"a.png": "failed"}
        assert "503" in find_message(form, "a.png")
        assert "--" not in find_message(form, "a.png")
        box.set_faults(None)
        heard: list[str] = []
        form.listed.observe(
            lambda change: heard.extend(row["cells"]["message"] for row in change["new"]), "rows"
        )
        form.go.click()
        assert form.work.wait()
        assert states(form) == {"a.png": "done"}
        assert any("may still arrive" in each for each in heard)
        form.close()


@pytest.mark.parametrize(
    ("decision", "expected"), [("retry", "has not arrived"), ("confirm", "only recorded")]
)
def test_an_earlier_upload_is_named(
    form: UploadForm, monkeypatch: pytest.MonkeyPatch, decision: str, expected: str
) -> None:
    """A file shows whether an earlier upload of it has arrived."""
    monkeypatch.setattr(Uploads, "decide", lambda *_, **__: decision)
    drop(form, a__png=image())
    assert states(form) == {"a.png": "ready"}
    assert expected in find_message(form, "a.png")


def test_too_large_names_the_services_own_limit(box: Sandbox, form: UploadForm) -> None:
    """A file that the service refuses as too large shows the service's limit, which is then applied
    before other files are sent.
    """
    drop(form, big__png=noise(2100), small__png=image())
    form.go.click()
    assert form.work.wait()
    assert states(form) == {"big.png": "too large", "small.png": "done"}
    # The message names an option, which is therefore shown.
    assert form._panel.options.is_open  # type: ignore[union-attr]
    assert form.limit == 10 * 1024 * 1024 + 128 * 1024
    assert "limit is 10.1 MiB" in find_message(form, "big.png")
    assert "smaller" in find_message(form, "big.png")
    assert form.go.disabled
    drop(form, other__png=noise(2101))
    assert states(form)["other.png"] == "cannot be sent"
    assert "10.1 MiB is allowed" in find_message(form, "other.png")
    assert "at most 10.1 MiB" in form.files.hint
    later = upload_images(form.store, 8)
    assert later.widget
    assert "at most 10.1 MiB" in later.files.hint
    later.close()


def test_large_pictures_are_made_smaller_on_request(box: Sandbox, form: UploadForm) -> None:
    """If the option is ticked, a large image is scaled down, and the new size is shown before it is
    sent.
    """
    drop(form, big__jpg=image("JPEG", (4000, 3000)))
    form.smaller.value = form.keep.value = True
    assert form.work.wait()
    assert "2,000 × 1,500" in find_message(form, "big.jpg")
    form.go.click()
    assert form.work.wait()
    assert states(form) == {"big.jpg": "done"}


def test_advice_names_the_tick_only_where_it_helps(form: UploadForm) -> None:
    """An animation over the largest side is cured by clearing the tick. A file with too many bytes
    is cured by the tick only if its picture is larger than the tick allows.
    """
    form.smaller.value = True
    drop(form, moving__gif=animation("GIF", size=(2001, 4)))
    assert states(form) == {"moving.gif": "cannot be sent"}
    assert find_message(form, "moving.gif").endswith(
        "Make it smaller in an image program, or untick “Make large pictures smaller”."
    )
    form.smaller.value = False
    assert form.work.wait()
    assert states(form) == {"moving.gif": "ready"}
    form.remove(form.items[0].key)
    form.limit = 1_000_000
    drop(form, big__png=noise(2100), dense__png=noise(700))
    assert "Tick" in find_message(form, "big.png")
    assert find_message(form, "dense.png").endswith("Make it smaller in an image program.")
    form.smaller.value = True
    assert form.work.wait()
    assert states(form)["big.png"] == "cannot be sent"
    assert find_message(form, "big.png").endswith("Make it smaller in an image program.")


def test_a_picture_within_the_side_that_the_service_refuses_needs_a_smaller_copy(
    box: Sandbox, form: UploadForm
) -> None:
    """If the service refuses a picture that the tick would not change, the message names no
    tick.
    """
    form.smaller.value = True
    drop(form, dense__png=noise(2000))
    form.go.click()
    assert form.work.wait()
    assert states(form) == {"dense.png": "too large"}
    assert find_message(form, "dense.png").endswith("Choose a smaller copy.")


def test_progress_is_shown_by_bytes(box: Sandbox, form: UploadForm) -> None:
    """The progress bars count the bytes of one image and of all."""
    shown: list[tuple[float, float]] = []
    form.all.observe(lambda change: shown.append((form.all.done, form.all.total)), "done")
    drop(form, a__png=noise(400), b__png=noise(300))
    total = sum(item.bytes for item in form.items)
    form.go.click()
    assert form.work.wait()
    assert shown[-1] == (total, total)
    assert len(shown) > 2
    assert form.one.total > 0
    assert not form.all.shown


def test_a_file_can_be_removed(form: UploadForm) -> None:
    """A file that is removed from the list is deleted from this machine and not sent."""
    drop(form, a__png=image(colour=RED), b__png=image(colour=BLUE))
    path = form.items[0].path
    form.listed.press(form.items[0].key)
    assert form.work.wait()
    assert states(form) == {"b.png": "ready"}
    assert not path.exists()


def test_another_pet_can_be_chosen(box: Sandbox, form: UploadForm) -> None:
    """The files go to the pet that was chosen last."""
    drop(form, a__png=image())
    form.search.value = "Rex"
    assert form.work.wait()
    form.pets.press("70")
    assert form.work.wait()
    assert form.go.description.endswith("to pet 70 (Rex)")
    form.go.click()
    assert form.work.wait()
    assert [len(pet.photo_urls) for pet in box.pets()] == [0, 1, 1]


def test_without_permission_it_stops_and_says_so(tmp_path: Path) -> None:
    """A token without the write scope is reported."""
    with (
        Sandbox(pets=[ps.Pet(id=7, name="Bella", status="sold")]) as box,
        ps.connect(
            box.url, auth=ps.auth.bearer(box.token("read:pets")), state=tmp_path, environ={}
        ) as store,
    ):
        form = upload_images(store, 7)
        assert form.widget
        drop(form, a__png=image())
        form.go.click()
        assert form.work.wait()
        assert form.notice.tone == "problem"
        assert "403" in form.notice.text
        form.close()


def test_without_a_pet_nothing_can_be_sent(store: ps.Store) -> None:
    """Files can be added first, but cannot be sent without a pet."""
    form = upload_images(store)
    assert form.widget
    drop(form, a__png=image())
    assert form.go.disabled
    assert form.listed.rows[0]["cells"]["picture"]["src"]
    form.close()


def test_files_are_judged_before_a_pet_is_chosen(store: ps.Store) -> None:
    """Type, size and pixels of a file are checked before a pet is chosen; a valid file shows that a
    pet must be chosen.
    """
    form = upload_images(store)
    assert form.widget
    drop(form, a__png=image(), b__png=b"no picture")
    assert states(form) == {"a.png": "ready", "b.png": "cannot be sent"}
    assert "Choose the pet first" in find_message(form, "a.png")
    assert "×" in form.listed.rows[0]["cells"]["size"]
    assert "not a JPEG" in find_message(form, "b.png")
    form.search.value = "7"
    assert form.work.wait()
    form.pets.press("7")
    assert form.work.wait()
    assert find_message(form, "a.png") == ""
    assert not form.go.disabled
    form.close()


def test_files_that_cannot_be_looked_at_say_so(tmp_path: Path) -> None:
    """If the service refuses access, the files show that they cannot be sent."""
    pet = ps.Pet(id=7, name="Bella", status="sold")
    with (
        Sandbox(pets=[pet]) as box,
        ps.connect(box.url, auth=ps.auth.bearer("none"), state=tmp_path, environ={}) as store,
    ):
        form = upload_images(store)
        assert form.widget
        form.choose(pet)
        drop(form, a__png=image())
        assert states(form) == {"a.png": "cannot be sent"}
        assert "Choose the pet again" in find_message(form, "a.png")
        assert form.notice.tone == "problem"
        form.close()


def test_no_matching_pet_is_announced(store: ps.Store) -> None:
    """The notice, which a screen reader reads, reports that no pet matches."""
    form = upload_images(store)
    assert form.widget
    form.search.value = "nobody"
    assert form.work.wait()
    assert form.notice.text == "No pet has a matching name or id."
    assert form.pets.caption == "Matching pets"
    form.search.value = "12345"
    assert form.work.wait()
    assert "No pet" in form.notice.text
    form.search.value = "bell"
    assert form.work.wait()
    assert form.notice.text == ""
    form.close()


def test_the_keyboard_goes_to_the_heading(form: UploadForm) -> None:
    """Upload moves the keyboard focus to the heading, because its button becomes disabled."""
    messages: list[object] = []
    form.heading.send = lambda content, buffers=None: messages.append(content)
    drop(form, a__png=image())
    form.go.click()
    assert messages == [{"focus": True}]
    assert form.work.wait()


def test_what_was_not_sent_is_a_problem(form: UploadForm) -> None:
    """A file that was not sent is reported as a problem."""
    drop(form, a__png=image(), b__png=b"no picture")
    form.go.click()
    assert form.work.wait()
    assert form.notice.tone == "problem"
    assert form.notice.text == "1 picture uploaded, 1 not uploaded: see the list for the reasons."


def test_without_a_live_kernel_it_is_text_and_html(
    box: Sandbox, store: ps.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a live kernel the form is text and HTML: the pet, its photos' addresses and the
    equivalent function, in 80 columns.
    """
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: False)
    box.put(
        ps.Pet(id=8, name="<script>alert(1)</script>", status="sold", photo_urls=("javascript:x",))
    )
    form = upload_images(store, 8)
    shown = form._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    assert "<script>" not in shown["text/html"]
    assert "<a" not in shown["text/html"]
    assert "javascript:x" in shown["text/plain"]
    assert "store.pictures_of(8" in shown["text/plain"]
    assert max(map(len, shown["text/plain"].splitlines())) <= 80
    assert "No pet is chosen" in upload_images(store).text()
    assert "Pet 7 (Bella) has no picture yet." in upload_images(store, 7).text()
    assert "no pet 99" in upload_images(store, 99).text()


def test_what_was_uploaded_is_in_the_saved_form(form: UploadForm) -> None:
    """The form's text and HTML have the report of the upload."""
    drop(form, a__png=image())
    form.go.click()
    assert form.work.wait()
    assert "1 uploaded" in form.text()
    assert "images/1" in form.html()


def test_enter_takes_a_path(form: UploadForm, tmp_path: Path) -> None:
    """Enter in the path field adds the path, as the Add button does."""
    file = tmp_path / "a.png"
    file.write_bytes(image())
    form.path.value = str(file)
    form.path._handle_custom_msg({"event": "submit"}, [])
    assert form.work.wait()
    assert states(form) == {"a.png": "ready"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("the body is larger than 10616832 bytes", 10616832),
        ("Maximum upload size of 10MB exceeded", 10 * 2**20),
        ("limit: 1,048,576 bytes", 2**20),
        ("at most 2.5 MiB", 2621440),
        ("413 Request Entity Too Large", None),
        ("nginx/1.18", None),
    ],
)
def test_a_limit_is_read_from_what_a_service_says(text: str, limit: int | None) -> None:
    """Only numbers with a unit of bytes are read as the service's limit."""
    assert limit_in(text) == limit


def test_options_of_the_command_line_are_not_reported_in_a_form() -> None:
    """Advice for the command line is replaced by advice for the form."""
    assert replace_options("Make it smaller (--max-side 2000), or allow more (--max-bytes).") == (
        "Tick “Make large pictures smaller”."
    )
    assert replace_options("Scale it, or upload it without --max-side (in Python max_side).") == (
        "Make it smaller in an image program, or untick “Make large pictures smaller”."
    )
    assert replace_options(
        "Rename it. Run the same command again: it uploads only the remaining pictures."
    ) == ("Rename it. Press Upload again: it uploads only the remaining pictures.")
    assert (
        replace_options("Give it a name that ends in .jpg.") == "Give it a name that ends in .jpg."
    )


def test_small_copies_are_small_and_upright() -> None:
    """A thumbnail is a data: address of an upright image of at most 96 pixels and 64 KiB; invalid
    images have none.
    """
    address = thumbnail(turned_jpeg(6, (400, 100)))
    head, _, body = address.partition(",")
    assert head == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(body))).size == (24, 96)
    assert len(thumbnail(noise(90))) < 64 * 1024
    for wrong in (b"", b"<svg/>", image("PNG")[:40], b"GIF89a" + b"\0" * 20):
        assert thumbnail(wrong) == ""
