"""The standard profile, in the order of the design's table."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import httpx
import pytest
from starlette.types import Message

from petsync.models import Pet, Tag
from petsync.sandbox import Sandbox
from petsync.sandbox.pets import _Stream

JSON = {"content-type": "application/json"}
XML = {"content-type": "application/xml"}
REX = {"name": "Rex", "photoUrls": []}
TOP = 2**63 - 1


def read_error(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the type of the ApiResponse; assert that its code equals the status."""
    body = response.json()
    assert body["code"] == response.status_code
    assert body["message"]
    return response.status_code, body["type"]


def test_added_pet_comes_back_whole(api):
    """addPet returns the pet with its id and keeps unknown fields."""
    pet = {**REX, "tags": [{"id": 1, "name": "a", "x": 1}], "status": "sold", "age": {"years": 3}}
    answer = api.post("/pet", json=pet)
    assert answer.status_code == 200
    assert answer.json() == {**pet, "id": 1}
    assert api.get("/pet/1").json() == answer.json()


def test_adding_a_known_id_changes_nothing(api):
    """addPet with an existing id is 409, and the pet is unchanged."""
    api.post("/pet", json={**REX, "id": 5})
    assert read_error(api.post("/pet", json={**REX, "id": 5, "name": "Max"})) == (409, "duplicate")
    assert api.get("/pet/5").json()["name"] == "Rex"


def test_zero_is_an_id(api):
    """The id 0 is a valid id, not a missing one."""
    assert api.post("/pet", json={**REX, "id": 0}).json()["id"] == 0


def test_assigned_ids_are_never_used_again(api):
    """An assigned id is higher than each id before, also of deleted pets."""
    api.post("/pet", json={**REX, "id": 40})
    assert api.post("/pet", json=REX).json()["id"] == 41
    api.delete("/pet/41")
    assert api.post("/pet", json=REX).json()["id"] == 42


def test_far_ids_do_not_carry_the_sequence_away(api):
    """A pet that is added with a huge id does not change the sequence of assigned ids."""
    api.post("/pet", json={**REX, "id": TOP})
    api.post("/pet", json={**REX, "id": 2})
    assert [api.post("/pet", json=REX).json()["id"] for _ in range(2)] == [3, 4]


def test_ids_run_out_at_the_top_only(api):
    """At the end of the sequence, lower free ids are assigned."""
    api.post("/pet", json={**REX, "id": 2**31 - 1})
    api.post("/pet", json={**REX, "id": 2})
    assert [api.post("/pet", json=REX).json()["id"] for _ in range(2)] == [1, 3]


@pytest.mark.parametrize("number", [TOP, -(2**63), 2**53 + 1])
@pytest.mark.parametrize("accept", ["application/json", "application/xml"])
def test_ids_are_exact(api, number, accept):
    """An int64 id is returned with all digits, in JSON and in XML."""
    api.post("/pet", json={**REX, "id": number})
    assert str(number) in api.get(f"/pet/{number}", headers={"accept": accept}).text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"photoUrls": []}',
        b'{"name": "Rex"}',
        b'{"name": null, "photoUrls": []}',
        b'{"name": "Rex", "photoUrls": [], "status": "lost"}',
        b'{"name": "Rex", "photoUrls": [], "id": "7"}',
        b'{"name": "Rex", "photoUrls": [], "id": 7.5}',
        b'{"name": "Rex", "photoUrls": [], "id": 9223372036854775808}',
        b'{"name": "Rex", "photoUrls": [null]}',
        b'{"name": "Rex", "photoUrls": [], "tags": ["a"]}',
        b'{"name": "\xff", "photoUrls": []}',
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_what_is_no_pet_is_refused(api, standard, method, body):
    """Invalid JSON, a missing name or photoUrls, an unknown status, or an id that is not an int64
    is 400, and nothing is stored.
    """
    assert read_error(api.request(method, "/pet", content=body, headers=JSON)) == (
        400,
        "invalid_input",
    )
    assert standard.pets() == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<Pet>",
        "<pet><name>Rex</name><photoUrls/></pet>",
        "<Pet><photoUrls/></Pet>",
        "<Pet><name>Rex</name></Pet>",
        "<Pet><id>x</id><name>Rex</name><photoUrls/></Pet>",
        "<Pet><id/><name>Rex</name><photoUrls/></Pet>",
        "<Pet><name>Rex</name><name>Max</name><photoUrls/></Pet>",
        "<Pet><name><b>Rex</b></name><photoUrls/></Pet>",
        "<Pet><name>Rex</name><photoUrls>a</photoUrls></Pet>",
        "<Pet><name>Rex</name><photoUrls><url>a</url></photoUrls></Pet>",
        "<Pet><name>Rex</name><photoUrls/><tags><tags>a</tags></tags></Pet>",
        "<Pet><name>Rex</name><photoUrls/><category>dogs</category></Pet>",
        "<Pet><name>Rex</name><photoUrls/><status>lost</status></Pet>",
        '<!DOCTYPE x [<!ENTITY a "aa">]><Pet><name>&a;</name><photoUrls/></Pet>',
    ],
)
def test_what_is_no_pet_in_xml_is_refused(api, standard, body):
    """XML is validated as strictly as JSON, and entities are refused."""
    assert read_error(api.post("/pet", content=body, headers=XML)) == (400, "invalid_input")
    assert standard.pets() == []


def test_update_replaces_the_pet(api):
    """updatePet removes each field of the old pet that was not sent."""
    api.post("/pet", json={**REX, "id": 1, "status": "sold", "tags": [{"name": "a"}]})
    answer = api.put("/pet", json={"id": 1, "name": "Max", "photoUrls": ["u"]})
    assert answer.json() == {"id": 1, "name": "Max", "photoUrls": ["u"], "tags": []}
    assert api.get("/pet/1").json() == answer.json()
    assert api.get("/pet/findByTags?tags=a").json() == []
    assert api.get("/pet/findByStatus?status=sold").json() == []


def test_update_of_an_unknown_pet(api, standard):
    """updatePet creates no pet: an unknown id is 404, a missing one 400."""
    assert read_error(api.put("/pet", json={**REX, "id": 1})) == (404, "not_found")
    assert read_error(api.put("/pet", json=REX)) == (400, "invalid_input")
    assert standard.pets() == []


def test_delete(api):
    """deletePet responds without a body, and the pet is 404 afterwards."""
    api.post("/pet", json={**REX, "id": 1})
    answer = api.delete("/pet/1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert read_error(api.delete("/pet/1")) == (404, "not_found")
    assert read_error(api.get("/pet/1")) == (404, "not_found")


@pytest.mark.parametrize("text", ["abc", "1.0", "", " 1", "+1", "9223372036854775808", "%D9%A1"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_that_names_no_id(api, method, text):
    """A path segment that is not an int64 is 400; an empty segment is another path and 404."""
    assert api.request(method, f"/pet/{text}").status_code == (400 if text else 404)


@pytest.mark.parametrize(
    "query", ["status=sold,pending", "status=sold%2Cpending", "status=sold&status=pending"]
)
def test_find_by_status_takes_both_styles(api, standard, query):
    """Comma-separated values, escaped or not, and repeated values mean the same; pets are sorted by
    id.
    """
    statuses = ["sold", "available", "pending", None]
    standard.reset(Pet(id=n, name="x", status=s) for n, s in enumerate(statuses, 1))
    assert [pet["id"] for pet in api.get(f"/pet/findByStatus?{query}").json()] == [1, 3]


@pytest.mark.parametrize(
    "query", ["", "status=", "status=lost", "status=sold,lost", "status=sold%2Clost", "x=sold"]
)
def test_find_by_unknown_status(api, query):
    """An unknown or missing status is 400."""
    assert read_error(api.get(f"/pet/findByStatus?{query}")) == (400, "invalid_input")


def test_find_by_tags_lists_each_pet_once(api, standard):
    """A pet with several matching tags is listed once; an escaped comma separates values too."""
    standard.reset(
        [
            Pet(id=1, name="x", tags=(Tag(1, "a"), Tag(2, "b"))),
            Pet(id=2, name="y", tags=(Tag(None, "c,d"), Tag(3, "+ü"))),
            Pet(id=3, name="z", tags=(Tag(4),)),
        ]
    )
    found = {
        "tags=a,b": [1],
        "tags=b&tags=%2B%C3%BC": [1, 2],
        "tags=a%2Cb": [1],
        "tags=c%2Cd": [],
    }
    for query, ids in found.items():
        assert [pet["id"] for pet in api.get(f"/pet/findByTags?{query}").json()] == ids


@pytest.mark.parametrize("query", ["", "tags=", "tags=a,,b", "tags=%FF"])
def test_find_by_no_tag(api, query):
    """A missing or empty tag, or one that is not UTF-8, is 400."""
    assert read_error(api.get(f"/pet/findByTags?{query}")) == (400, "invalid_input")


def test_form_changes_what_it_names(api):
    """updatePetWithForm changes name and status, keeps the rest, and responds without a body."""
    api.post("/pet", json={**REX, "id": 1, "status": "sold", "age": 3})
    answer = api.post("/pet/1", data={"name": "Mäx & Co"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert api.post("/pet/1").status_code == 200
    assert api.get("/pet/1").json() == {
        **REX,
        "id": 1,
        "name": "Mäx & Co",
        "status": "sold",
        "age": 3,
        "tags": [],
    }
    api.post("/pet/1", data={"status": "pending"})
    assert [pet["id"] for pet in api.get("/pet/findByStatus?status=pending").json()] == [1]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"status=lost", "application/x-www-form-urlencoded", 400),
        (b"status=", "application/x-www-form-urlencoded", 400),
        (b"name=a&name=b", "application/x-www-form-urlencoded", 400),
        (b"name=%FF", "application/x-www-form-urlencoded", 400),
        (b'{"name": "a"}', "application/json", 415),
    ],
)
def test_form_that_cannot_be_used(api, content, kind, status):
    """An unknown status, a repeated field or invalid text is 400, another media type 415; the pet
    is unchanged.
    """
    api.post("/pet", json={**REX, "id": 1})
    answer = api.post("/pet/1", content=content, headers={"content-type": kind})
    assert read_error(answer)[0] == status
    assert api.get("/pet/1").json()["name"] == "Rex"


def test_form_for_an_unknown_pet(api):
    """updatePetWithForm is 404 for an unknown id."""
    assert read_error(api.post("/pet/9", data={"name": "x"})) == (404, "not_found")


@pytest.mark.parametrize("length", [None, "honest"])
def test_body_has_a_limit(api, length):
    """A pet over 1 MiB is 413, whether its length is announced or not."""
    body = b'{"photoUrls": [], "name": "%s"}' % (b"x" * 1024 * 1024)
    content = body if length else iter([body])
    assert read_error(api.post("/pet", content=content, headers=JSON)) == (413, "too_large")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/pet", "POST, PUT"),
        ("POST", "/pet/findByStatus", "GET, HEAD"),
        ("PUT", "/pet/1", "GET, POST, DELETE, HEAD"),
        ("GET", "/pet/1/uploadImage", "POST"),
    ],
)
def test_unknown_method(api, method, path, allow):
    """A method that a path does not have is 405 with the allowed methods."""
    answer = api.request(method, path)
    assert read_error(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


def test_unknown_path(api):
    """Any other path is 404 with an ApiResponse."""
    assert read_error(api.get("/pets")) == (404, "not_found")


def test_head_is_get_without_a_body(api, standard):
    """HEAD responds as GET does, with the length and without a body."""
    standard.reset([Pet(id=1, name="x")])
    answer = api.head("/pet/1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == len(api.get("/pet/1").content)


def test_other_host_names_are_refused(api):
    """A request with a foreign host name is refused, so that a page elsewhere cannot reach the
    sandbox by DNS.
    """
    assert api.get("/pet/1", headers={"host": "evil.example"}).status_code == 400
    assert api.get("/pet/1", headers={"host": "localhost"}).status_code == 404


def test_long_lists_are_whole(api, standard: Sandbox):
    """A streamed list has each pet once, in JSON and in XML."""
    standard.reset(Pet(id=n, name=f"p{n}", status="sold") for n in range(2500))
    answer = api.get("/pet/findByStatus?status=sold,pending")
    assert [pet["id"] for pet in answer.json()] == [*range(2500)]
    text = api.get("/pet/findByStatus?status=sold", headers={"accept": "application/xml"}).text
    assert [text.count(f"<{tag}>") for tag in ("Pets", "Pet", "/Pet", "/Pets")] == [
        1,
        2500,
        2500,
        1,
    ]
    assert text.count("<?xml") == 1


def test_abandoned_list_ends():
    """A long list is not sent further when its client has closed the connection."""
    sent: list[str] = []
    closed = ExitStack()
    closed.callback(lambda: sent.append("closed"))

    async def run() -> None:
        is_gone = asyncio.Event()

        async def receive() -> Message:
            await is_gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message["type"])
            if len(sent) == 3:
                is_gone.set()

        await _Stream("application/json", [b"[]"] * 100, closed)({}, receive, send)

    asyncio.run(run())
    assert 3 <= len(sent) < 10
    assert sent[-1] == "closed"
