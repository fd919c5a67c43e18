"""Content negotiation: the media types of requests and responses, and values that XML cannot
represent.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.models import ApiResponse, Category, Pet, Tag
from petsync.protocol import json, xml
from petsync.sandbox.http import JSON, XML, parse_accept, sent_media_type

REX = Pet(
    id=7,
    name="Réx <&>\r\n",
    photo_urls=("https://x.example/?a=1&b=2",),
    category=Category(1, "Hunde"),
    tags=(Tag(2**63 - 1, "süß"), Tag(None, "")),
    status="sold",
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", (JSON, XML)),
        ("*/*", (JSON, XML)),
        ("application/*", (JSON, XML)),
        ("application/xml", (XML,)),
        ("Application/JSON; charset=utf-8", (JSON,)),
        ("application/json;q=0.5, application/xml;q=0.6", (XML, JSON)),
        ("application/xml, application/json", (JSON, XML)),
        ("*/*;q=0.1, application/json;q=0", (XML,)),
        ("application/xml;q=0.8, */*;q=0.9", (JSON, XML)),
        ("text/html, application/xml;q=0.9, */*;q=0.8", (XML, JSON)),
        ("application/json;q=7", ()),
        ("text/html", ()),
        ("application/json;q=0", ()),
        (",,", ()),
    ],
)
def test_accept(accept, expected):
    """The most specific range decides, then the quality, then JSON before XML."""
    assert parse_accept(accept) == expected


@given(st.text(max_size=40))
def test_any_accept_can_be_read(accept):
    """Any Accept header can be parsed, and allows at most JSON and XML."""
    assert set(parse_accept(accept)) <= {JSON, XML}


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("text/xml", XML),
        ("application/xml", XML),
        ("text/plain", None),
        ("", None),
        (None, None),
    ],
)
def test_content_type(content_type, expected):
    """JSON and XML are recognized with and without parameters, and nothing else is."""
    assert sent_media_type(content_type) == expected


@pytest.mark.parametrize("accept", [JSON, XML])
@pytest.mark.parametrize("content", [JSON, XML])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_every_pair_of_representations(api, standard, method, content, accept):
    """A pet can be sent and returned in either media type without a difference."""
    if method == "PUT":
        standard.put(Pet(id=7, name="old"))
    body = json.encode_pet(REX) if content == JSON else xml.encode_pet(REX)
    headers = {"content-type": content, "accept": accept}
    answer = api.request(method, "/pet", content=body, headers=headers)
    assert answer.headers["content-type"] == accept
    read = json.decode_pet if accept == JSON else xml.decode_pet
    assert read(answer.content) == REX
    assert read(api.get("/pet/7", headers={"accept": accept}).content) == REX


def test_lists_in_xml(api, standard):
    """A list of pets is XML below Pets, also an empty one."""
    standard.reset([REX])
    headers = {"accept": XML}
    for status, expected in (("sold", [REX]), ("pending", [])):
        answer = api.get(f"/pet/findByStatus?status={status}", headers=headers)
        assert answer.headers["content-type"] == XML
        assert xml.decode_pets(answer.content) == expected


def test_errors_are_negotiated(api):
    """An error is an ApiResponse in the accepted media type."""
    answer = api.get("/pet/9", headers={"accept": XML})
    assert answer.headers["content-type"] == XML
    document = xml.decode_api_response(answer.content)
    assert document == ApiResponse(404, "not_found", "there is no pet 9")


def test_unwelcome_is_406(api, standard):
    """If Accept allows neither JSON nor XML, the response is 406 and nothing is done."""
    for method, path in (("GET", "/pet/1"), ("POST", "/pet"), ("GET", "/pet/findByTags?tags=a")):
        headers = {"accept": "text/html", "content-type": JSON}
        answer = api.request(method, path, content=json.encode_pet(REX), headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (406, "not_acceptable")
    assert standard.pets() == []


def test_unknown_content_is_415(api, standard):
    """A pet in another media type, or without one, is 415 and nothing is done."""
    for headers in ({"content-type": "text/plain"}, {}):
        answer = api.post("/pet", content=json.encode_pet(REX), headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (415, "unsupported_media_type")
    assert standard.pets() == []


@pytest.mark.parametrize(
    "pet",
    [
        Pet(id=1, name="a\x00", status="sold", tags=(Tag(1, "t"),)),
        Pet(id=1, name="\ufffe", status="sold", tags=(Tag(1, "t"),)),
        Pet(id=1, name="a", status="sold", tags=(Tag(1, "t"),), extra={"not a name": 1}),
        Pet(id=1, name="a", status="sold", tags=(Tag(1, "t", {"1": 1}),)),
    ],
)
def test_what_xml_cannot_carry(api, standard, pet):
    """A pet that XML cannot represent is 406 if only XML is accepted, and JSON if that is accepted
    too.
    """
    standard.reset([pet])
    for path in ("/pet/1", "/pet/findByStatus?status=sold", "/pet/findByTags?tags=t"):
        assert api.get(path, headers={"accept": XML}).status_code == 406
        answer = api.get(path, headers={"accept": f"{XML}, {JSON};q=0.1"})
        assert (answer.status_code, answer.headers["content-type"]) == (200, JSON)
    assert api.get("/pet/findByStatus?status=pending", headers={"accept": XML}).status_code == 200


def test_what_cannot_be_answered_is_not_stored(api, standard):
    """A pet that XML cannot represent is refused before it is stored, if only XML is accepted."""
    headers = {"content-type": JSON, "accept": XML}
    body = json.encode_pet(Pet(id=1, name="\x01"))
    assert api.post("/pet", content=body, headers=headers).status_code == 406
    assert standard.pets() == []


def test_quotes_are_safe_in_xml(api, standard):
    """A response that quotes text that XML cannot represent is still valid XML."""
    standard.put(Pet(id=1, name="x"))
    form = {"additionalMetadata": (None, "a\x01b")}
    answer = api.post("/pet/1/uploadImage", files=form, headers={"accept": XML})
    message = xml.decode_api_response(answer.content).message
    assert message is not None
    assert message.endswith("a\N{REPLACEMENT CHARACTER}b")
