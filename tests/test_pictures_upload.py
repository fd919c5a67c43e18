"""Bulk upload of images to a real store: each image is sent once, despite any fault."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest
from picturing import exif, image, put
from PIL import Image

import petsync as ps
from petsync.apply.engine import Stopper
from petsync.errors import (
    InterruptedRunError,
    LockedError,
    PlanError,
    SettingsError,
    SheetError,
)
from petsync.images.upload import UploadOptions
from petsync.plan.uploads import UploadReport
from petsync.sandbox import Sandbox
from petsync.store import Store
from petsync.store.runs import RunHistory

pytestmark = pytest.mark.slow

RED, BLUE, GREEN = (200, 0, 0), (0, 0, 200), (0, 200, 0)
QUICK = ps.RetryPolicy(attempts=4, seconds=5.0, first=0.01, longest=0.05)


def pets() -> list[ps.Pet]:
    """Return two pets without photos and one with two."""
    photos = ("https://shop.example/a.jpg", "https://shop.example/b.jpg")
    return [
        ps.Pet(id=7, name="Rex", status="available"),
        ps.Pet(id=8, name="Mia", status="pending", photo_urls=photos),
        ps.Pet(id=2**63 - 2, name="Ода", status="sold"),
    ]


@pytest.fixture(params=["standard", "live"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a store with three pets, of each profile."""
    with Sandbox(auth=False, profile=request.param, pets=pets()) as box:
        yield box


@pytest.fixture
def standard() -> Iterator[Sandbox]:
    """Yield a store with three pets that adds an address for each image."""
    with Sandbox(auth=False, pets=pets()) as box:
        yield box


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[Sandbox], Store]]:
    """Yield a function that connects stores with one journal."""
    opened: list[Store] = []

    def make(box: Sandbox) -> Store:
        state = tmp_path / "state"
        store = ps.connect(box.url, profile=box.profile, state=state, environ={}, retry=QUICK)
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with four pictures of three pets, two of them of pet 7."""
    return put(
        tmp_path / "photos",
        p7__jpg=image("JPEG", colour=RED),
        p7_2__png=image("PNG", colour=BLUE),
        p8__webp=image("WEBP", colour=GREEN),
        p9223372036854775806__gif=image("GIF", colour=RED),
    )


def read_images(box: Sandbox) -> list[bytes]:
    """Return the images in the store, in the order in which they arrived."""
    images = []
    with httpx.Client() as client:
        while (answer := client.get(f"{box.url}/images/{len(images) + 1}")).status_code == 200:
            images.append(answer.content)
    return images


def until_sent(box: Sandbox, count: int = 1) -> None:
    """Wait until `count` uploads have arrived."""
    end = time.monotonic() + 120
    while box.requests["uploadFile"] < count:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets stopped uploads wait an hour for requests in flight."""
    return lambda: monkeypatch.setattr(
        "petsync.images.upload.Stopper", lambda _, on_wire: Stopper(3600.0, on_wire)
    )


def pet(box: Sandbox, pet_id: int) -> ps.Pet:
    """Return the pet in the store."""
    return next(each for each in box.pets() if each.id == pet_id)


def test_each_picture_is_sent_once_byte_for_byte(
    box: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """Every file arrives unchanged at its pet, a preview uploads nothing, and a second run sends no
    upload.
    """
    store = connect(box)
    pictures = store.pictures(folder)
    assert box.requests["uploadFile"] == 0
    assert [(p.pet_id, p.place, p.decision) for p in pictures.pictures] == [
        (7, 0, "new"),
        (7, 2, "new"),
        (8, 0, "new"),
        (2**63 - 2, 0, "new"),
    ]
    report = store.upload(pictures)
    assert report.counts["applied"] == len(report.results) == 4
    assert report.exit_code == 0
    assert sorted(read_images(box)) == sorted(path.read_bytes() for path in folder.iterdir())
    again = store.pictures(folder)
    assert [p.decision for p in again.pictures] == ["uploaded"] * 4
    for value in (again, pictures):
        second = store.upload(value)
        assert (second.counts["applied"], second.counts["unchanged"]) == (0, 4)
        assert {result.cause for result in second.results} == {"already-so"}
    assert box.requests["uploadFile"] == 4


def test_order_of_photos_is_kept(
    standard: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A pet's pictures are added in the order of their numbers behind its photos, and the report
    has the address of each.
    """
    colours = [(10 * n, 5, 5) for n in range(12)]
    folder = put(tmp_path / "many", **{f"p8_{n}__png": image(colour=colours[n]) for n in range(12)})
    report = connect(standard).upload(connect(standard).pictures(folder))
    urls = [result.urls[0] for result in report.results]
    assert list(pet(standard, 8).photo_urls) == [*pets()[1].photo_urls, *urls]
    sent = [httpx.get(url).content for url in urls]
    assert sent == [image(colour=colour) for colour in colours]


def test_again_sends_once_more(
    box: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """`again` uploads pictures that were uploaded before; the same value used a second time uploads
    nothing.
    """
    store = connect(box)
    store.upload(store.pictures(folder))
    again = store.pictures(folder, again=True)
    assert {p.decision for p in again.pictures} == {"again"}
    assert store.upload(again).counts["applied"] == 4
    assert store.upload(again).counts["applied"] == 0
    assert box.requests["uploadFile"] == 8


@pytest.mark.parametrize("latency", [0.3, 600.0])
def test_again_that_was_stopped_is_finished(
    standard: Sandbox,
    folder: Path,
    connect: Callable[[Sandbox], Store],
    latency: float,
    patient: Callable[[], None],
) -> None:
    """After an `again` run that was stopped, `again` sends only what is left and doubles nothing;
    after that it sends all again.
    """
    if latency < 1:
        patient()
    store = connect(standard)
    store.upload(store.pictures(folder))
    standard.set_faults(f"latency={latency},only=uploadFile")

    async def cancelled() -> None:
        pictures = await store.aio.pictures(folder, again=True)
        task = asyncio.ensure_future(store.aio.upload(pictures, concurrency=1))
        await asyncio.to_thread(until_sent, standard, 5)
        task.cancel()
        with pytest.raises(InterruptedRunError):
            await task
        await store.aio.close()

    asyncio.run(cancelled())
    standard.set_faults(None)
    time.sleep(0.1)
    rest = store.pictures(folder, again=True)
    first = {0.3: "uploaded", 600.0: "retry"}[latency]
    assert [p.decision for p in rest.pictures] == [first, *["again"] * 3]
    assert store.upload(rest, settle=0).counts["applied"] == (3 if first == "uploaded" else 4)
    assert sum(len(each.photo_urls) for each in standard.pets()) == 2 + 4 + 4
    assert {p.decision for p in store.pictures(folder, again=True).pictures} == {"again"}


def test_undone_upload_is_sent_again(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A picture whose upload was undone counts as never uploaded, for the selected pets only; if
    the undo is undone, the picture counts as uploaded again.
    """
    store = connect(standard)
    store.upload(store.pictures(folder))
    plan = store.undo()
    back = store.apply(plan.select(ids=[7]))
    assert back.counts["applied"] == 1
    decisions = [(p.pet_id, p.decision) for p in store.pictures(folder).pictures]
    assert decisions == [(7, "new"), (7, "new"), (8, "uploaded"), (2**63 - 2, "uploaded")]
    store.apply(store.undo(back.run_id))
    assert {p.decision for p in store.pictures(folder).pictures} == {"uploaded"}
    third = store.apply(store.undo(store.upload(store.pictures(folder, again=True)).run_id))
    assert third.exit_code == 0
    assert {p.decision for p in store.pictures(folder).pictures} == {"uploaded"}


def test_same_picture_scaled_otherwise_is_no_new_one(
    standard: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """An uploaded picture is recognised by its file and by the bytes that were sent, with any
    options.
    """
    store = connect(standard)
    folder = put(tmp_path / "one", p7__jpg=image("JPEG", (60, 40), exif=exif()))
    pictures = store.pictures(folder, max_side=30)
    assert pictures.pictures[0].done == ("metadata", "scaled")
    store.upload(pictures)
    (sent,) = read_images(standard)
    assert len(sent) == pictures.total_bytes
    assert store.pictures(folder).uploaded
    assert store.pictures(put(tmp_path / "two", p7__jpg=sent)).uploaded
    assert not store.pictures(put(tmp_path / "three", p8__jpg=sent)).uploaded


def test_same_picture_twice_in_a_folder_is_sent_once(
    standard: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """Of two equal files of one pet only one is sent; another pet may have the same picture."""
    same = image()
    folder = put(tmp_path / "same", p7__png=same, p7_1__png=same, p8__png=same)
    store = connect(standard)
    pictures = store.pictures(folder)
    assert [p.decision for p in pictures.pictures] == ["new", "duplicate", "new"]
    report = store.upload(pictures)
    assert [r.outcome for r in report.results] == ["applied", "unchanged", "applied"]


def test_pets_that_are_not_there(
    box: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A picture of a pet that the store lacks is a problem before anything is sent, even where the
    service accepts it.
    """
    store = connect(box)
    pictures = store.pictures(put(tmp_path / "odd", p404__png=image(), p7__png=image()))
    (problem,) = pictures.problems
    assert (problem.file, problem.pet_id) == ("404.png", 404)
    report = store.upload(pictures)
    assert report.exit_code == 3
    assert report.counts["needs fixing"] == report.counts["applied"] == 1


def test_pet_that_goes_meanwhile(
    box: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A pet that is deleted between preview and upload gets no picture."""
    store = connect(box)
    pictures = store.pictures(folder)
    box.remove(7)
    report = store.upload(pictures)
    assert [r.cause for r in report.results if r.pet_id == 7] == ["gone", "gone"]
    assert len(read_images(box)) == 2


def test_a_past_upload_advises_another_attempt_only_where_it_helps(
    standard: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """The report of a past upload advises the same command again after an error of the service, and
    not for a pet that was deleted or a picture that the service refuses.
    """
    large = io.BytesIO()
    Image.frombytes("RGB", (2000, 2000), os.urandom(12_000_000)).save(large, "PNG")
    put(tmp_path / "gone", p7__png=image())
    put(tmp_path / "large", p8__png=large.getvalue())
    put(tmp_path / "later", p8__png=image())
    store = connect(standard)
    standard.set_faults("latency=0.5,only=uploadFile")
    with ThreadPoolExecutor() as pool:
        pool.submit(lambda: (until_sent(standard), standard.remove(7)))
        gone = store.upload(store.pictures(tmp_path / "gone"))
    standard.set_faults(None)
    refused = store.upload(store.pictures(tmp_path / "large", max_bytes=20_000_000))
    standard.set_faults("503=1,only=uploadFile")
    later = store.upload(store.pictures(tmp_path / "later"))
    history = RunHistory(tmp_path / "state")
    past = [history.upload(each.run_id).results[0] for each in (gone, refused, later)]
    assert [each.cause for each in past] == ["gone", "refused", "service-error"]
    assert past[0].cure == gone.results[0].cure == ""
    assert past[1].cure == ""
    assert past[2].cure.startswith("Run the same command again")


def test_file_that_changes_meanwhile(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A file that was changed or removed after the preview is not sent."""
    store = connect(standard)
    pictures = store.pictures(folder)
    (folder / "7.jpg").write_bytes(image("JPEG", colour=GREEN))
    (folder / "8.webp").unlink()
    report = store.upload(pictures)
    outcomes = {result.file: (result.outcome, result.cause) for result in report.results}
    assert outcomes["7.jpg"] == outcomes["8.webp"] == ("failed", "changed-since")
    assert outcomes["7_2.png"] == ("applied", "")


def test_refused_uploads_are_sent_again_at_once(
    box: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """An upload that the service refuses with 429 is sent again after a short wait, and arrives
    once.
    """
    box.set_faults("429=1,only=uploadFile,first=2,retry_after=0")
    store = connect(box)
    report = store.upload(store.pictures(folder))
    assert report.counts["applied"] == 4
    assert len(read_images(box)) == 4


def test_error_of_the_service_is_no_proof(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """After a 503 the picture is not sent again until the next run has read the pet."""
    standard.set_faults("503=1,only=uploadFile")
    store = connect(standard)
    report = store.upload(store.pictures(folder))
    assert {r.cause for r in report.results} == {"service-error", "held-back"}
    assert standard.requests["uploadFile"] == 3
    standard.set_faults(None)
    assert store.upload(store.pictures(folder), settle=0).counts["applied"] == 4
    assert len(read_images(standard)) == 4


@pytest.mark.parametrize("fault", ["drop_after", "torn", "html"])
def test_lost_answer_is_found_out_by_the_photo(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store], fault: str
) -> None:
    """An upload that arrived without a response is confirmed by the pet's new photo, and is not
    sent again.
    """
    standard.set_faults(f"{fault}=1,only=uploadFile")
    store = connect(standard)
    report = store.upload(store.pictures(folder))
    assert [r.outcome for r in report.results] == ["applied"] * 4
    assert all(r.urls for r in report.results)
    standard.set_faults(None)
    assert not store.pictures(folder).items
    assert len(read_images(standard)) == 4


def test_lost_upload_is_sent_by_the_next_run(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """An upload that never arrived is failed and holds back the pet's later pictures, and the next
    run sends both in their order.
    """
    standard.set_faults("drop_before=1,only=uploadFile")
    store = connect(standard)
    report = store.upload(store.pictures(folder))
    outcomes = {result.file: (result.outcome, result.cause) for result in report.results}
    assert outcomes["7.jpg"] == ("failed", "no-answer")
    assert outcomes["7_2.png"] == ("not sent", "held-back")
    assert (report.exit_code, read_images(standard)) == (3, [])
    standard.set_faults(None)
    pictures = store.pictures(folder)
    assert [p.decision for p in pictures.pictures] == ["retry", "new", "retry", "retry"]
    assert store.upload(pictures, settle=0).counts["applied"] == 4
    first, second = pet(standard, 7).photo_urls
    assert httpx.get(first).content == (folder / "7.jpg").read_bytes()
    assert httpx.get(second).content == (folder / "7_2.png").read_bytes()
    assert len(read_images(standard)) == 4


def test_new_photo_of_the_run_confirms_no_earlier_upload(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A picture whose earlier upload never arrived is sent, although the same run has just added
    another photo to its pet.
    """
    store = connect(standard)
    first, second = folder / "7.jpg", folder / "7_2.png"
    standard.set_faults("drop_before=1,only=uploadFile")
    assert store.upload(store.pictures_of(7, second)).counts["failed"] == 1
    standard.set_faults(None)
    pictures = store.pictures_of(7, [first, second])
    assert [p.decision for p in pictures.pictures] == ["new", "retry"]
    assert store.upload(pictures, settle=0).counts["applied"] == 2
    assert read_images(standard) == [first.read_bytes(), second.read_bytes()]


def test_one_late_photo_confirms_one_of_two_uploads(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """If two uploads got no answer and one photo came later, the run sends one of the pictures
    again.
    """
    store = connect(standard)
    files = [folder / "7.jpg", folder / "7_2.png"]
    standard.set_faults("drop_before=1,only=uploadFile")
    for file in files:
        assert store.upload(store.pictures_of(7, file)).counts["failed"] == 1
    standard.set_faults(None)
    late = msgspec.structs.replace(pet(standard, 7), photo_urls=("https://shop.example/late.jpg",))
    standard.put(late)
    report = store.upload(store.pictures_of(7, files), settle=0)
    assert [(r.outcome, r.cause) for r in report.results] == [
        ("applied", "confirmed"),
        ("applied", ""),
    ]
    assert len(pet(standard, 7).photo_urls) == 2


def test_late_arrival_is_no_second_upload(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A photo that arrives after the run has given up the upload counts as that upload."""
    standard.set_faults("drop_before=1,only=uploadFile")
    store = connect(standard)
    (folder / "7_2.png").unlink()
    store.upload(store.pictures(folder))
    standard.set_faults(None)
    late = msgspec.structs.replace(pet(standard, 7), photo_urls=("https://shop.example/late.jpg",))
    standard.put(late)
    pictures = store.pictures(folder)
    assert [p.decision for p in pictures.pictures] == ["confirm", "retry", "retry"]
    report = store.upload(pictures, settle=0)
    assert [r.cause for r in report.results] == ["confirmed", "", ""]
    assert len(read_images(standard)) == 2
    assert not store.pictures(folder).items


def test_unknown_where_the_service_shows_nothing(
    folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """Where the service adds no address, an upload without a response is unknown, is listed, and is
    sent again only on request.
    """
    with Sandbox(auth=False, profile="live", pets=pets()) as box:
        box.set_faults("drop_after=1,only=uploadFile,first=1")
        store = connect(box)
        (folder / "7_2.png").unlink()
        report = store.upload(store.pictures(folder), concurrency=1)
        assert [r.outcome for r in report.results] == ["unknown", "applied", "applied"]
        assert report.exit_code == 3
        pictures = store.pictures(folder)
        assert [p.decision for p in pictures.pictures] == ["unknown", "uploaded", "uploaded"]
        listed = store.upload(pictures)
        assert (listed.counts["unknown"], listed.counts["unchanged"]) == (1, 2)
        assert box.requests["uploadFile"] == 3
        once_more = store.upload(store.pictures(folder, again=True))
        assert once_more.counts["applied"] == 3


def test_storm_of_faults_loses_and_doubles_nothing(
    standard: Sandbox, tmp_path: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """With many kinds of faults, repeated runs upload each picture once, in its order."""
    names = {f"p{i}_{n}__png": image(colour=(i, n, 9)) for i in (7, 8) for n in range(10)}
    folder = put(tmp_path / "storm", **names)
    store = connect(standard)
    standard.set_faults(
        "429=0.03,503=0.03,drop_before=0.04,drop_after=0.06,torn=0.04,retry_after=0,seed=5"
    )
    for _ in range(12):
        try:
            pictures = store.pictures(folder)
        except ps.errors.ApiError:
            continue
        report = store.upload(pictures, settle=0)
        assert sum(report.counts.values()) == len(report.results) == 20
        if not report.exit_code and report.counts["unchanged"] == 20:
            break
    else:
        pytest.fail("there was always something left")
    standard.set_faults(None)
    for pet_id, before in ((7, 0), (8, 2)):
        photos = pet(standard, pet_id).photo_urls[before:]
        sent = [httpx.get(url).content for url in photos]
        assert sent == [image(colour=(pet_id, n, 9)) for n in range(10)]


_CHILD = """
import os, signal, sys
import petsync as ps
from petsync.client.target import ServiceTarget
upload, moment = ServiceTarget.upload, sys.argv[4]

async def killed(self, *args, **more):
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    await upload(self, *args, **more)
    os.kill(os.getpid(), signal.SIGKILL)

ServiceTarget.upload = killed
store = ps.connect(sys.argv[1], profile=sys.argv[2], state=sys.argv[3], environ={})
store.upload(store.pictures(sys.argv[5]), concurrency=1)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("profile", ["standard", "live"])
def test_killed_between_intent_and_outcome(
    tmp_path: Path, folder: Path, connect: Callable[[Sandbox], Store], profile: str, moment: str
) -> None:
    """After SIGKILL before or after the request, the next run checks the pet's photos and sends the
    picture once; where the service adds no address, the outcome is unknown.
    """
    with Sandbox(auth=False, profile=profile, pets=pets()) as box:
        args = [box.url, profile, str(tmp_path / "state"), moment, str(folder)]
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, *args], timeout=60, capture_output=True, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        assert len(read_images(box)) == (moment == "after")
        store = connect(box)
        pictures = store.pictures(folder)
        decisions = [p.decision for p in pictures.pictures]
        if profile == "live":
            assert decisions == ["unknown", "new", "new", "new"]
            assert store.upload(pictures, settle=0).counts["unknown"] == 1
            return
        assert decisions == ["confirm" if moment == "after" else "retry", "new", "new", "new"]
        assert store.upload(pictures, settle=0).counts["applied"] == 4
        assert len(read_images(box)) == 4
        assert httpx.get(pet(box, 7).photo_urls[0]).content == (folder / "7.jpg").read_bytes()
        assert store.pictures(folder).to_send == ()


def test_waits_before_it_sends_again_after_a_crash(
    tmp_path: Path, folder: Path, connect: Callable[[Sandbox], Store], standard: Sandbox
) -> None:
    """After a crash, `settle` seconds pass before the picture is sent again, because the earlier
    request may still arrive.
    """
    args = [standard.url, "standard", str(tmp_path / "state"), "before", str(folder)]
    subprocess.run([sys.executable, "-c", _CHILD, *args], timeout=60, check=False)
    store = connect(standard)
    for name in ("7_2.png", "8.webp", "9223372036854775806.gif"):
        (folder / name).unlink()
    begun = time.monotonic()
    report = store.upload(store.pictures(folder), settle=0.6)
    assert report.counts["applied"] == 1
    assert time.monotonic() - begun > 0.6


def test_stopped_upload_goes_on(
    standard: Sandbox,
    folder: Path,
    connect: Callable[[Sandbox], Store],
    patient: Callable[[], None],
) -> None:
    """When a run is cancelled, the current upload ends and the rest is not sent; the error has the
    report, and the next run sends the rest.
    """
    patient()
    standard.set_faults("latency=0.3,only=uploadFile")
    store = connect(standard)

    async def cancelled() -> InterruptedRunError:
        pictures = await store.aio.pictures(folder)
        task = asyncio.ensure_future(store.aio.upload(pictures, concurrency=1))
        await asyncio.to_thread(until_sent, standard)
        task.cancel()
        with pytest.raises(InterruptedRunError) as caught:
            await task
        await store.aio.close()
        return caught.value

    error = asyncio.run(cancelled())
    report = error.report
    assert isinstance(report, ps.types.UploadReport)
    assert error.exit_code == report.exit_code == 7
    assert {name: n for name, n in report.counts.items() if n} == {"applied": 1, "not sent": 3}
    standard.set_faults(None)
    rest = store.upload(store.pictures(folder))
    assert (rest.counts["applied"], rest.counts["unchanged"]) == (3, 1)
    assert len(read_images(standard)) == 4


def test_cut_off_upload_is_open(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """An upload that takes longer than the grace time of less than two seconds is cut off and
    unknown, and the next run decides it.
    """
    latency = 600
    standard.set_faults(f"latency={latency},only=uploadFile")
    store = connect(standard)

    async def cancelled() -> float:
        pictures = await store.aio.pictures(folder)
        task = asyncio.ensure_future(store.aio.upload(pictures, concurrency=1))
        await asyncio.to_thread(until_sent, standard)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(InterruptedRunError) as caught:
            await task
        assert [r.cause for r in caught.value.report.results] == ["cut-off", *["not-begun"] * 3]
        await store.aio.close()
        return time.monotonic() - begun

    assert asyncio.run(cancelled()) < latency / 2
    assert UploadOptions().grace < 2.0
    standard.set_faults(None)
    assert store.upload(store.pictures(folder), settle=0).counts["applied"] == 4


def test_one_upload_at_a_time(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A second upload to the same store is refused while one runs."""
    standard.set_faults("latency=600,only=uploadFile")
    one, other = connect(standard), connect(standard)

    async def both() -> None:
        pictures = await one.aio.pictures(folder)
        task = asyncio.ensure_future(one.aio.upload(pictures))
        await asyncio.to_thread(until_sent, standard)
        with pytest.raises(LockedError):
            await other.aio.upload(pictures)
        task.cancel()
        with pytest.raises(InterruptedRunError):
            await task
        await one.aio.close()
        await other.aio.close()

    asyncio.run(both())


def test_progress_counts_bytes(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """Progress rises to all bytes and all files, and never falls."""
    store, steps = connect(standard), []
    pictures = store.pictures(folder)
    store.upload(pictures, on_progress=steps.append)
    assert (steps[-1].sent, steps[-1].done) == (pictures.total_bytes, 4)
    assert [s.done for s in steps] == sorted(s.done for s in steps)
    assert {s.total for s in steps} == {pictures.total_bytes}


@pytest.mark.parametrize("called", ["on_progress", "on_file"])
def test_an_interrupt_in_a_callback_stops_the_upload(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store], called: str
) -> None:
    """An interrupt that a callback raises stops an upload as Ctrl-C does; the same upload again
    sends the other files, and no file twice.
    """
    store, wanted = connect(standard), connect(standard).pictures(folder)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="interrupted") as caught:
        store.upload(wanted, concurrency=1, **{called: interrupt})
    report = caught.value.report
    assert isinstance(report, UploadReport)
    assert report.counts["unknown"] == 0 < report.counts["not sent"]
    store.upload(store.pictures(folder))
    assert standard.requests["uploadFile"] == len(wanted.items)


def test_an_interrupt_while_images_are_inspected_reaches_the_caller(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """An interrupt that `on_progress` raises ends the inspection; the store can still be used."""
    store = connect(standard)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.pictures(folder, on_progress=interrupt)
    assert len(store.pictures(folder).items) == 4


def test_pictures_are_for_one_store(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """Pictures that were listed for one store are refused by another."""
    store = connect(standard)
    pictures = store.pictures(folder)
    with Sandbox(auth=False, pets=pets()) as other, pytest.raises(PlanError, match="are for"):
        connect(other).upload(pictures)
    with pytest.raises(PlanError, match="not a Pictures object"):
        store.upload(str(folder))


def test_metadata_goes_along(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """metadata.csv gives the metadata of its files and `metadata` those of all others; a row
    without a file is reported.
    """
    lines = 'file,metadata\n7.jpg,"Rex, asleep"\n9.jpg,nobody\n'
    (folder / "metadata.csv").write_text(lines, "utf-8")
    store = connect(standard)
    pictures = store.pictures(folder, metadata="from the shop")
    assert [p.metadata for p in pictures.pictures] == ["Rex, asleep", *["from the shop"] * 3]
    (problem,) = pictures.problems
    assert (problem.file, problem.source, problem.blocks) == (
        "9.jpg",
        "metadata.csv, line 3",
        False,
    )
    assert store.upload(pictures).exit_code == 0


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "file,metadata\n7.jpg,x\n7.jpg,y\n", 'file,metadata\n7.jpg,"x\n']
)
def test_broken_metadata_is_an_error(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store], text: str
) -> None:
    """A metadata.csv that cannot be read is an error, so no metadata are lost silently."""
    (folder / "metadata.csv").write_text(text, "utf-8")
    with pytest.raises(SheetError, match=r"metadata\.csv"):
        connect(standard).pictures(folder)


def test_too_large_metadata_is_an_error(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store]
) -> None:
    """A metadata.csv above the limit is an error, so no metadata are cut off silently."""
    with (folder / "metadata.csv").open("wb") as file:
        file.write(b"file,metadata\n7.jpg,Rex\n")
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(SheetError, match=r"metadata\.csv is larger than 64 MiB") as caught:
        connect(standard).pictures(folder)
    assert "several folders" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settle", "30"),
        ("settle", True),
        ("settle", float("nan")),
        ("settle", -1),
        ("settle", 3601),
        ("concurrency", "4"),
        ("concurrency", 1.5),
        ("concurrency", 0),
        ("rate", "9"),
    ],
)
def test_options_that_cannot_be_used(
    standard: Sandbox,
    folder: Path,
    connect: Callable[[Sandbox], Store],
    name: str,
    value: object,
) -> None:
    """An option with an invalid value or type is a SettingsError that names it."""
    store = connect(standard)
    pictures = store.pictures(folder)
    with pytest.raises(SettingsError, match=f"{name} is {value!r}; it must be"):
        store.upload(pictures, **{name: value})


def test_journal_has_no_image(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store], tmp_path: Path
) -> None:
    """The journal has the list of pictures and no bytes of an image."""
    store = connect(standard)
    store.upload(store.pictures(folder))
    store.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir() if path.is_file())
    assert (folder / "7.jpg").read_bytes()[:200] not in kept


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_full_disk_stops_before_anything_is_sent(
    standard: Sandbox, folder: Path, connect: Callable[[Sandbox], Store], tmp_path: Path
) -> None:
    """Without a journal nothing is sent."""
    store = connect(standard)
    pictures = store.pictures(folder)
    (tmp_path / "state").write_text("no folder")
    with pytest.raises(ps.errors.PetsyncError):
        store.upload(pictures)
    assert standard.requests["uploadFile"] == 0
