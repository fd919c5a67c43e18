"""Files for one pet: read in their order, followed and cancelled one by one; the photos of the
pet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picturing import image, put

import petsync as ps
from petsync.client.target import target_of
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

RED, BLUE, GREEN = (200, 0, 0), (0, 0, 200), (0, 200, 0)
QUICK = ps.RetryPolicy(attempts=4, seconds=5.0, first=0.01, longest=0.05)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with one pet."""
    with Sandbox(auth=False, pets=[ps.Pet(id=7, name="Rex", status="sold")]) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield the connected store."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}, retry=QUICK) as store:
        yield store


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return three pictures whose names contain no pet id."""
    folder = put(
        tmp_path / "photos",
        c__png=image(colour=RED),
        a__png=image(colour=BLUE),
        b__png=image(colour=GREEN),
    )
    return [folder / name for name in ("c.png", "a.png", "b.png")]


def outcomes(report: ps.types.UploadReport) -> dict[str, tuple[str, str]]:
    """Return each file's outcome and cause."""
    return {result.file: (result.outcome, result.cause) for result in report.results}


def on_the_wire(box: Sandbox, act: Callable[[], None]) -> threading.Thread:
    """Start a thread that calls `act` once an upload has reached the service."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not box.requests["uploadFile"] and time.monotonic() < end:
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_files_keep_their_order_and_say_their_place(store: ps.Store, files: list[Path]) -> None:
    """Pictures and problems have the position of their file in the given list."""
    wrong = files[0].with_name("wrong.png")
    wrong.write_text("hello")
    pictures = store.pictures_of(7, [files[0], wrong, *files[1:]], metadata="in spring")
    assert [(one.file, one.row) for one in pictures.pictures] == [
        ("c.png", 0),
        ("a.png", 2),
        ("b.png", 3),
    ]
    assert [(one.file, one.row) for one in pictures.problems] == [("wrong.png", 1)]
    assert {one.metadata for one in pictures.pictures} == {"in spring"}
    assert not store.pictures_of(8, files[0]).pictures


def test_each_file_is_followed(box: Sandbox, store: ps.Store, files: list[Path]) -> None:
    """Progress is reported when a picture begins, when it is tried again, and when it has a
    result.
    """
    box.set_faults("429=1,retry_after=0,first=1,only=uploadFile")
    steps: list[ps.types.FileProgress] = []
    report = store.upload(store.pictures_of(7, files), on_file=steps.append)
    assert [step.number for step in steps if step.result] == [0, 1, 2]
    assert [step.result.urls for step in steps if step.result] == [
        result.urls for result in report.results
    ]
    first = [step for step in steps if step.number == 0]
    assert [step.attempt for step in first if step.why] == [2]
    assert "429" in next(step.why for step in first if step.why)
    assert max(step.sent for step in first) == first[0].total == files[0].stat().st_size
    assert {step.attempt for step in steps if step.number == 1} == {1}


def test_what_is_cancelled_before_its_turn_is_not_sent(
    box: Sandbox, store: ps.Store, files: list[Path]
) -> None:
    """A file that is cancelled before its turn is `not sent`, is not in the journal, and can be
    uploaded later.
    """
    unwanted = ps.types.UploadCanceller()
    unwanted.cancel(1)
    report = store.upload(store.pictures_of(7, files), cancelling=unwanted)
    assert outcomes(report) == {
        "c.png": ("applied", ""),
        "a.png": ("not sent", "not-begun"),
        "b.png": ("applied", ""),
    }
    assert box.requests["uploadFile"] == 2
    again = store.pictures_of(7, files)
    assert [one.decision for one in again.pictures] == ["uploaded", "new", "uploaded"]


def test_what_is_cancelled_on_its_way_is_in_doubt(
    box: Sandbox, store: ps.Store, files: list[Path]
) -> None:
    """An upload that is cancelled on its way is unknown, the other files go on, and the next run
    checks the pet before it sends the file again.
    """
    box.set_faults("latency=60,only=uploadFile,first=1")
    unwanted = ps.types.UploadCanceller()
    thread = on_the_wire(box, lambda: unwanted.cancel(0))
    report = store.upload(store.pictures_of(7, files), cancelling=unwanted)
    thread.join()
    assert outcomes(report) == {
        "c.png": ("unknown", "cut-off"),
        "a.png": ("applied", ""),
        "b.png": ("applied", ""),
    }
    assert len(box.pets()[0].photo_urls) == 2
    again = store.pictures_of(7, files)
    assert [one.decision for one in again.pictures] == ["retry", "uploaded", "uploaded"]
    assert outcomes(store.upload(again, settle=0.0))["c.png"] == ("applied", "")
    assert len(box.pets()[0].photo_urls) == 3


def test_what_came_through_before_it_was_cancelled_is_seen(
    box: Sandbox, store: ps.Store, files: list[Path]
) -> None:
    """An upload whose photo the pet shows although it was cancelled is applied, with the address of
    the photo.
    """
    unwanted = ps.types.UploadCanceller()
    pet = box.pets()[0]

    def come_through() -> None:
        store.api.upload_file(7, files[0])
        unwanted.cancel(0)

    box.set_faults("latency=60,only=uploadFile,first=1")
    thread = on_the_wire(box, come_through)
    report = store.upload(store.pictures_of(7, files[0]), cancelling=unwanted)
    thread.join()
    (result,) = report.results
    assert (result.outcome, result.cause) == ("applied", "confirmed")
    assert result.urls == box.pets()[0].photo_urls != pet.photo_urls


def test_cancelling_while_an_earlier_doubt_is_waited_for(
    box: Sandbox, store: ps.Store, files: list[Path]
) -> None:
    """A file that waits for the result of an earlier upload can be cancelled at once."""
    box.set_faults("drop_before=1,only=uploadFile")
    assert outcomes(store.upload(store.pictures_of(7, files[0])))["c.png"][0] == "failed"
    box.set_faults(None)
    unwanted = ps.types.UploadCanceller()
    timer = threading.Timer(0.3, lambda: unwanted.cancel(0))
    timer.start()
    report = store.upload(store.pictures_of(7, files[0]), settle=3000, cancelling=unwanted)
    timer.join()
    assert outcomes(report) == {"c.png": ("not sent", "not-begun")}


def test_a_photo_of_the_service_is_fetched_and_nothing_else(
    box: Sandbox, store: ps.Store, files: list[Path]
) -> None:
    """A photo is fetched only if its address is below the base URL."""
    store.upload(store.pictures_of(7, files[0]))
    (url,) = box.pets()[0].photo_urls
    assert store.serves(url)
    assert store.photo(url) == files[0].read_bytes()
    with pytest.raises(ps.errors.NotFoundError):
        store.photo(f"{box.url}/images/99")
    for other in ("https://shop.example/a.jpg", f"{box.url}/../token", "file:///etc/passwd", ""):
        assert not store.serves(other)
        with pytest.raises(ps.errors.InvalidInputError, match="so petsync does not fetch it"):
            store.photo(other)


BASE = "https://shop.example/v2"


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/v2",
        "https://shop.example/v2x/images/1",
        "https://shop.example.evil/v2/images/1",
        "https://shop.example:8443/v2/images/1",
        "http://shop.example/v2/images/1",
        "https://me@shop.example/v2/images/1",
        "https://shop.example/v2/../admin",
        "https://shop.example/v2/%2e%2e/admin",
        "https://shop.example/v2/..%2fadmin",
        "https://shop.example/v2/..\\admin",
        "//shop.example/v2/images/1",
        "/v2/images/1",
        "javascript:alert(1)",
        "https://[::1",
        "https://shop.example/\x00v2/",
    ],
)
def test_what_is_not_below_the_base_is_not_the_services(url: str) -> None:
    """An address with another host, port, scheme or path, or with a path that leaves the base, is
    not the service's.
    """
    assert target_of(BASE, url) is None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://shop.example/v2/images/1", "/images/1"),
        ("https://shop.example/v2/images/1?size=2#top", "/images/1?size=2"),
        ("https://SHOP.example:443/v2/ä b.jpg", "/%C3%A4%20b.jpg"),
        ("https://shop.example/v2/a..b/c...d", "/a..b/c...d"),
    ],
)
def test_what_is_below_the_base_is_asked_for_as_it_is_sent(url: str, target: str) -> None:
    """The target of a photo is the rest of its address after the base URL, encoded."""
    assert target_of(BASE, url) == target


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_none(text: str) -> None:
    """Any text in photoUrls gives a target or None, and raises nothing."""
    for url in (text, f"{BASE}/{text}", f"{BASE}{text}"):
        target = target_of(BASE, url)
        assert target is None or target.startswith("/")
