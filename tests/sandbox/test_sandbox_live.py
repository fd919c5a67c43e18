"""The live profile: its differences from the standard profile."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import httpx
import pytest
from starlette.requests import Request

from petsync.models import Pet, Tag
from petsync.protocol import xml
from petsync.sandbox import storage as records
from petsync.sandbox.app import application
from petsync.sandbox.faults import KEY, Injector, ResponseDrift
from petsync.sandbox.http import LIVE
from petsync.sandbox.pets import find_pets_by_status
from petsync.sandbox.service import Service
from petsync.sandbox.storage import Storage
from petsync.sandbox.tokens import Credentials, TokenBook

JSON = {"content-type": "application/json"}
XML = {"content-type": "application/xml", "accept": "application/xml"}
TOP = 2**63 - 1


def service_of(storage: Storage) -> Service:
    """Return a live service without a server and without access control."""
    return Service(
        behaviour=LIVE,
        storage=storage,
        origin="http://shop.example",
        credentials=Credentials(),
        tokens=TokenBook(storage, lifetime=60.0),
        guard=None,
        faults=Injector(None),
    )


def test_update_creates(live_api):
    """updatePet with an unknown id creates the pet; without an id one is assigned."""
    assert live_api.put("/pet", json={"id": 7, "name": "Rex"}).status_code == 200
    assert live_api.get("/pet/7").json() == {"id": 7, "name": "Rex", "photoUrls": [], "tags": []}
    assert live_api.put("/pet", json={"name": "Max"}).json()["id"] == 8


def test_add_replaces(live_api):
    """addPet with a known id silently replaces the pet."""
    live_api.post("/pet", json={"id": 7, "name": "Rex", "status": "sold"})
    assert live_api.post("/pet", json={"id": 7, "name": "Max"}).status_code == 200
    assert live_api.get("/pet/7").json() == {"id": 7, "name": "Max", "photoUrls": [], "tags": []}


def test_assigned_ids_are_used_again(live_api):
    """An assigned id is the highest existing one plus one; at 2^63-1 the existing pet is
    replaced.
    """
    live_api.post("/pet", json={"id": 40})
    assert live_api.post("/pet", json={}).json()["id"] == 41
    live_api.delete("/pet/41")
    assert live_api.post("/pet", json={}).json()["id"] == 41
    live_api.post("/pet", json={"id": TOP, "name": "Rex"})
    assert live_api.post("/pet", json={"name": "Max"}).json()["id"] == TOP
    assert live_api.get(f"/pet/{TOP}").json()["name"] == "Max"


def test_parallel_adds_share_an_id(tmp_path):
    """Two adds without an id that are processed at the same time get the same id, and the later pet
    stays.
    """

    async def both(service: Service) -> list[int]:
        transport = httpx.ASGITransport(application(service))
        async with httpx.AsyncClient(transport=transport, base_url=service.url) as client:
            adds = (client.post("/pet", json={"name": name}) for name in ("Rex", "Max"))
            return [answer.json()["id"] for answer in await asyncio.gather(*adds)]

    with closing(Storage(tmp_path / "store.db")) as storage:
        service = service_of(storage)
        assert asyncio.run(both(service)) == [1, 1]
        assert [pet.name for pet in records.read_all(storage.reader)] == ["Max"]


def test_a_failed_move_ends_the_snapshot_of_its_list(tmp_path, monkeypatch):
    """If the moves of a long list cannot be stored, its snapshot is closed at once."""

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    scope = {
        "type": "http",
        "method": "GET",
        "query_string": b"status=sold",
        "headers": [],
        "state": {KEY: ResponseDrift(moves=((1, "pending"),))},
    }
    with closing(Storage(tmp_path / "store.db")) as storage:
        pets = [Pet(id=n, name="x", status="sold") for n in range(1000)]
        storage.load(lambda connection: records.replace_all(connection, pets))
        monkeypatch.setattr(records, "save", fail)
        with pytest.raises(sqlite3.OperationalError):
            asyncio.run(find_pets_by_status(service_of(storage), Request(scope)))
        assert [connection.in_transaction for connection in storage._idle] == [False]


def test_the_oldest_pet_is_dropped(live, live_api):
    """The store keeps 1,000 pets: one more removes the pet that was added first, whatever its
    id.
    """
    live.reset(Pet(id=number, name="x") for number in range(2000, 1000, -1))
    live_api.put("/pet", json={"id": 2000, "name": "changed, and still the oldest"})
    assert live_api.post("/pet", json={"name": "new"}).json()["id"] == 2001
    ids = {pet.id for pet in live.pets()}
    assert (len(ids), 2000 in ids, 2001 in ids) == (1000, False, True)


def test_pets_are_bound_to_known_fields(live_api):
    """Unknown properties are dropped, a tag or category without an id gets 0, and values become
    text.
    """
    sent = {
        "id": 5,
        "name": 5.50,
        "status": True,
        "bogus": 1,
        "category": {"name": "Dogs", "bogus": 1},
        "tags": [{"name": "calm"}, {"id": "7"}],
        "photoUrls": None,
    }
    assert live_api.post("/pet", json=sent).json() == {
        "id": 5,
        "category": {"id": 0, "name": "Dogs"},
        "name": "5.5",
        "tags": [{"id": 0, "name": "calm"}, {"id": 7}],
        "status": "true",
    }
    live_api.post("/pet/5", data={"name": "formed"})
    assert "photoUrls" not in live_api.get("/pet/5").json()
    assert "photoUrls" not in live_api.get("/pet/5", headers=XML).text


@pytest.mark.parametrize(
    "body", ['{"id": true}', '{"name": {}}', '{"photoUrls": "u"}', '{"tags": [1]}', '{"id": 1e30}']
)
def test_a_value_of_the_wrong_type_is_500(live_api, body):
    """A value of the wrong type is 500 with a general message."""
    answer = live_api.post("/pet", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["message"]) == (500, "something bad happened")


def test_done_is_reported(live_api):
    """deletePet and updatePetWithForm return an ApiResponse with the id."""
    live_api.post("/pet", json={"id": 7})
    expected = {"code": 200, "type": "unknown", "message": "7"}
    assert live_api.post("/pet/7", data={"name": "x"}).json() == expected
    assert live_api.delete("/pet/7").json() == expected


@pytest.mark.parametrize("text", ["7", "abc"])
def test_unknown_pet(live_api, text):
    """An unknown or invalid id is 404; for deletePet an unknown id has no body."""
    assert live_api.get(f"/pet/{text}").status_code == 404
    assert live_api.post(f"/pet/{text}", data={"name": "x"}).status_code == 404
    answer = live_api.delete(f"/pet/{text}")
    assert (answer.status_code, answer.content == b"") == (404, text == "7")


def test_any_status(live_api):
    """Any text is a status, and an unknown status finds no pet."""
    live_api.post("/pet", json={"id": 1, "status": "lost"})
    assert [pet["id"] for pet in live_api.get("/pet/findByStatus?status=lost").json()] == [1]
    for query in ("?status=nothing", "?status=", ""):
        answer = live_api.get(f"/pet/findByStatus{query}")
        assert (answer.status_code, answer.json()) == (200, [])


def test_only_the_first_parameter_counts(live_api, live):
    """Only the first of repeated parameters is used, with all its comma-separated values."""
    live.reset(Pet(id=n, status=s, tags=(Tag(n, s),)) for n, s in enumerate(("a", "b", "c"), 1))
    for path in ("findByStatus?status=", "findByTags?tags="):
        name = path.partition("?")[2]
        found = live_api.get(f"/pet/{path}a,b&{name}c").json()
        assert [pet["id"] for pet in found] == [1, 2]


def test_tags_repeat_pets(live_api, live):
    """findPetsByTags lists a pet once for each matching tag."""
    live.reset([Pet(id=1, tags=(Tag(1, "a"), Tag(2, "b"))), Pet(id=2, tags=(Tag(1, "a"),))])
    found = live_api.get("/pet/findByTags?tags=a,b").json()
    assert [pet["id"] for pet in found] == [1, 1, 2]
    assert live_api.get("/pet/findByTags").json() == []


def test_form_passes_over_empty_values(live_api):
    """updatePetWithForm ignores empty values; of repeated fields only the first is used."""
    live_api.post("/pet", json={"id": 1, "name": "Rex", "status": "sold"})
    body = "name=&status=odd&status=sold"
    live_api.post(
        "/pet/1", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    found = live_api.get("/pet/1").json()
    assert (found["name"], found["status"]) == ("Rex", "odd")


def test_upload_needs_no_pet(live_api):
    """uploadFile stores an image for an unknown pet id too, and changes no pet."""
    live_api.post("/pet", json={"id": 1})
    for number in (1, 99):
        answer = live_api.post(f"/pet/{number}/uploadImage", files={"file": b"GIF89a"})
        assert answer.status_code == 200
    assert live_api.get("/pet/1").json()["photoUrls"] == []
    assert live_api.get("/pet/99").status_code == 404


def test_text_that_is_a_number_is_an_id(live_api):
    """An id that is sent as text is read as a number."""
    assert live_api.post("/pet", json={"id": "12"}).json()["id"] == 12


def test_broken_text_and_wrong_types(live_api):
    """Invalid JSON or XML is 400; a valid JSON document that is not a pet is 500."""
    cases = [(JSON, "{", 400), (JSON, "[]", 500), (JSON, '{"id": "x"}', 500)]
    cases += [(XML, "<Pet>", 400), (XML, "<pet/>", 400)]
    for headers, body, status in cases:
        assert live_api.post("/pet", content=body, headers=headers).status_code == status


def test_too_large_is_plain_text(live_api):
    """A body that is too large is 413 with plain text."""
    answer = live_api.post("/pet", content=b" " * (1024 * 1024 + 1), headers=JSON)
    assert (answer.status_code, answer.headers["content-type"][:10]) == (413, "text/plain")


def test_uploads_answer_in_json_only(live_api):
    """uploadFile is 406 if only XML is accepted, and returns JSON if JSON is accepted too."""
    image = {"file": ("pix.gif", b"GIF89a")}
    for accept, status in (("application/xml", 406), ("application/xml, */*;q=0.1", 200)):
        answer = live_api.post("/pet/1/uploadImage", files=image, headers={"accept": accept})
        assert answer.status_code == status
    assert answer.json()["message"] == (
        "additionalMetadata: null\nFile uploaded to ./pix.gif, 6 bytes"
    )


def test_unwelcome_representations_do_not_matter(live_api):
    """If Accept allows neither JSON nor XML, JSON is returned."""
    answer = live_api.get("/pet/findByStatus?status=x", headers={"accept": "text/html"})
    assert (answer.status_code, answer.json()) == (200, [])


def test_xml_has_its_own_names(live_api, live):
    """In XML the lists are photoUrls/photoUrl and tags/tag below pets, and an ApiResponse has no
    code.
    """
    live.reset([Pet(id=1, photo_urls=("u",), tags=(Tag(1, "a"),), status="s")])
    text = live_api.get("/pet/findByStatus?status=s", headers=XML).text
    assert "<pets><Pet><id>1</id>" in text
    assert "<photoUrls><photoUrl>u</photoUrl></photoUrls>" in text
    assert "<tags><tag><id>1</id><name>a</name></tag></tags>" in text
    missing = live_api.get("/pet/2", headers=XML)
    assert xml.decode_api_response(missing.content).code is None
    assert missing.status_code == 404
