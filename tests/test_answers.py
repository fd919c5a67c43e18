"""Changes to a service if a proxy answers for it, or if it stores other data than was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pandas as pd
import pytest
from pairwise import pairwise

from petsync import connect
from petsync.client.probe import Diagnosis, examine
from petsync.client.session import Session
from petsync.errors import InterruptedRunError
from petsync.models import Category, Pet, Tag
from petsync.plan.report import Report
from petsync.profile import PROFILES
from petsync.protocol import xml
from petsync.protocol.xml import Shape
from petsync.sandbox import Sandbox
from petsync.sandbox.http import LIVE
from petsync.store import Store
from petsync.testing import FakeService

pytestmark = pytest.mark.slow

SHOP = [
    Pet(
        id=number,
        name=f"Pet {number}",
        status="available",
        category=Category(1, "Dogs"),
        tags=(Tag(1, "calm"), Tag(2, "old")),
        photo_urls=("https://a.example/1.png",),
    )
    for number in (1, 2, 3)
]
CHANGES: dict[str, dict[str, Any]] = {
    "deletePet": {"id": 1, "action": "delete"},
    "updatePetWithForm": {"id": 1, "name": "Max"},
    "updatePet": {"id": 1, "tags": ["calm", "new"]},
    "addPet": {"name": "New", "status": "sold", "tags": ["calm"]},
    "addPet with an id": {"id": 77, "name": "New", "status": "sold"},
}


@pytest.fixture(scope="module", params=["standard", "live"])
def open_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a store without access control, once per profile."""
    with Sandbox(profile=request.param, auth=False) as box:
        yield box


@pytest.fixture
def box(open_box: Sandbox) -> Iterator[Sandbox]:
    """Yield the store, filled again, without faults."""
    open_box.reset(SHOP)
    yield open_box
    open_box.set_faults(None)


def store_of(box: Sandbox, state: Path, *, profile: str, media: str) -> Store:
    """Return a connection in this profile and format; the service may have another profile."""
    spoken = replace(PROFILES[profile], media=media)
    return connect(box.url, environ={}, profile=spoken, state=state)


@pytest.mark.parametrize(
    ("name", "fault", "media"), pairwise(CHANGES, ("html", "portal"), ("json", "xml"))
)
def test_a_page_instead_of_an_answer(
    box: Sandbox, tmp_path: Path, name: str, fault: str, media: str
) -> None:
    """A web page with status 200 is not a success: the run reports what the store has, and resuming
    the run makes the planned state without doubling a pet.
    """
    with store_of(box, tmp_path, profile=box.profile, media=media) as store:
        plan = store.plan(pd.DataFrame([CHANGES[name]], dtype=object))
        box.set_faults(f"{fault}=1,only={name.split()[0]}")
        report = store.apply(plan, settle=0.5)
        is_done = fault == "html"
        outcome = report.to_frame()["outcome"].iloc[0]
        assert outcome == ("applied" if is_done else "failed")
        assert (box.pets() != SHOP) is is_done
        box.set_faults(None)
        store.resume(report.run_id, settle=0.5)
        changed = [pet for pet in box.pets() if pet not in SHOP]
        assert len(changed) == (name != "deletePet")
        assert len(box.pets()) == 3 + (name.startswith("addPet")) - (name == "deletePet")


class LastAnswers(httpx.AsyncBaseTransport):
    """Loses the response to the first change, and then answers every request with `status`."""

    def __init__(self, inner: httpx.AsyncBaseTransport, status: int) -> None:
        self._inner, self._status, self._has_changed = inner, status, False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._has_changed:
            return httpx.Response(self._status, headers={"retry-after": "900"}, request=request)
        response = await self._inner.handle_async_request(request)
        if request.method != "GET":
            self._has_changed = True
            raise httpx.ReadError("the connection was lost", request=request)
        return response


@pytest.mark.parametrize("status", [401, 403, 503])
@pytest.mark.parametrize("name", ["deletePet", "updatePetWithForm", "updatePet"])
def test_a_lost_change_is_settled_and_undone_although_the_service_fails_next(
    tmp_path: Path, name: str, status: int
) -> None:
    """If the service carries out a change, its response is lost, and the service then refuses
    everything, the outcome is unknown; a resume settles it, and the undo includes it.
    """
    with FakeService(SHOP) as service:
        answers = LastAnswers(service.transport, status)
        with service.connect(state=tmp_path, transport=answers) as store:
            plan = store.plan(pd.DataFrame([CHANGES[name]], dtype=object))
            with pytest.raises(InterruptedRunError) as stopped:
                store.apply(plan)
        assert isinstance(stopped.value.report, Report)
        assert [each.outcome for each in stopped.value.report.results] == ["unknown"]
        assert service.pets() != SHOP
        with service.connect(state=tmp_path) as store:
            (settled,) = store.resume("last").results
            assert settled.outcome == "applied"
            store.apply(store.undo("last"))
        assert service.pets() == SHOP


class Gateway(httpx.AsyncBaseTransport):
    """Answers the first add with 503 and a plain text, as Envoy does, before the service makes
    it.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner, self._adds = inner, list[asyncio.Task[None]]()
        self.has_added = Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "POST" or self._adds:
            return await self._inner.handle_async_request(request)
        self._adds.append(asyncio.create_task(self._add_later(request)))
        text = "upstream connect error or disconnect/reset before headers"
        return httpx.Response(503, text=text, request=request)

    async def _add_later(self, request: httpx.Request) -> None:
        await asyncio.sleep(0.2)
        await self._inner.handle_async_request(request)
        self.has_added.set()


def test_an_add_after_the_text_of_a_gateway_is_waited_for(tmp_path: Path) -> None:
    """A 503 with a plain text may be a gateway's: the service may still add the pet, so petsync
    looks for it before it sends the add again.
    """
    with FakeService(SHOP) as service:
        gateway = Gateway(service.transport)
        with service.connect(state=tmp_path, transport=gateway) as store:
            plan = store.plan(pd.DataFrame([{"name": "Zoe", "status": "sold"}]))
            report = store.apply(plan, settle=1)
            assert gateway.has_added.wait(60)
        assert report.to_frame()["outcome"].tolist() == ["applied"]
        assert [pet.name for pet in service.pets()].count("Zoe") == 1


@pytest.mark.parametrize("profile", ["standard", "live"])
@pytest.mark.parametrize("change", ["updatePet", "addPet"])
def test_xml_is_sent_in_the_shape_in_which_it_was_read(
    box: Sandbox, tmp_path: Path, profile: str, change: str
) -> None:
    """XML is sent in the shape in which it was read: a pet keeps its tags and photos under either
    profile.
    """
    with store_of(box, tmp_path, profile=profile, media="xml") as store:
        report = store.apply(store.plan(pd.DataFrame([CHANGES[change]], dtype=object)))
    assert report.to_frame()["outcome"].tolist() == ["applied"]
    changed = next(p for p in box.pets() if p.id == (1 if change == "updatePet" else 4))
    assert {tag.name for tag in changed.tags} >= {"calm"}
    assert len(changed.photo_urls) == (change == "updatePet")


def test_a_loss_of_tags_is_no_success(tmp_path: Path) -> None:
    """If no pet shows the service's XML, an add in the wrong shape that loses its tags fails."""
    pets = [Pet(id=1, name="Rex", status="sold")]
    with (
        Sandbox(profile="live", auth=False, pets=pets) as box,
        store_of(box, tmp_path, profile="standard", media="xml") as store,
    ):
        report = store.apply(store.plan(pd.DataFrame([CHANGES["addPet"]], dtype=object)))
        (result,) = report.results
        assert (result.outcome, result.cause) == ("failed", "not-as-sent")
        assert "tags" in result.message
        assert report.exit_code == 3


@pytest.mark.parametrize(
    "shape",
    [
        Shape(photo_item="photoUrl", tag_item="Tag", photo_array="photoUrl", tag_array="tag"),
        Shape(photo_item="item", tag_item="item", category="Category"),
    ],
)
def test_any_shape_that_is_read_is_sent(shape: Shape) -> None:
    """Each known shape of XML is recognised in its own output."""
    for pet in SHOP:
        body = xml.encode_pet(pet, shape)
        assert xml.decode_pet(body) == pet
        assert replace(xml.detect_shape(body), list_root=shape.list_root) == shape


async def _examined(session: Session) -> Diagnosis:
    try:
        return await examine(session)
    finally:
        await session.close()


def test_the_doctor_refuses_another_shape() -> None:
    """A service with another XML shape fails the doctor's check in XML; in JSON the shape is only
    reported.
    """
    with Sandbox(profile=LIVE, auth=False, pets=SHOP) as box:
        for media, verdict in (("xml", "fails"), ("json", "differs")):
            spoken = replace(PROFILES["standard"], media=media)
            found = asyncio.run(_examined(Session(box.url, profile=spoken)))
            assert {c.topic: c.verdict for c in found.checks}["XML"] == verdict
            assert (found.works, media) in {(False, "xml"), (True, "json")}
            assert found.overrides["xml_tag_item"] == "tag"
