"""The eight operations as requests, and failed responses as errors, without any I/O."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from petsync import errors
from petsync.models import ApiResponse, Pet
from petsync.profile import LIVE, STANDARD, ServiceProfile
from petsync.protocol import operations
from petsync.protocol.operations import Call, Request, Response

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
XML_PET = b"<Pet><id>1</id></Pet>"
PAGE = b"<html xmlns='http://www.w3.org/1999/xhtml'><head/><body><p>Sign in</p></body></html>"
GET = Request(operation="getPetById", method="GET", target="/pet/7", headers={}, pet_id=7)


def test_each_operation_goes_where_the_profile_says() -> None:
    """Each of the eight operations has its method and path, and is marked as repeatable or not."""
    pet = Pet(id=7, name="Rex")
    table = {
        (call.request.operation, call.request.method, call.request.target, call.request.repeatable)
        for call in (
            operations.add_pet(pet),
            operations.update_pet(pet),
            operations.delete_pet(7),
            operations.find_pets_by_status(["available", "sold"]),
            operations.find_pets_by_tags(["a b", "ü"]),
            operations.get_pet_by_id(7),
            operations.update_pet_with_form(7, name="x"),
            operations.upload_file(7, file=b""),
        )
    }
    assert table == {
        ("addPet", "POST", "/pet", False),
        ("updatePet", "PUT", "/pet", True),
        ("deletePet", "DELETE", "/pet/7", True),
        ("findPetsByStatus", "GET", "/pet/findByStatus?status=available,sold", True),
        ("findPetsByTags", "GET", "/pet/findByTags?tags=a%20b,%C3%BC", True),
        ("getPetById", "GET", "/pet/7", True),
        ("updatePetWithForm", "POST", "/pet/7", True),
        ("uploadFile", "POST", "/pet/7/uploadImage", False),
    }


def test_the_live_profile_repeats_the_parameter() -> None:
    """The live profile (array_style multi) sends one query parameter for each value."""
    target = operations.find_pets_by_tags(["a", "b&c"], profile=LIVE).request.target
    assert target == "/pet/findByTags?tags=a&tags=b%26c"


@pytest.mark.parametrize("profile", [STANDARD, LIVE], ids=lambda profile: profile.name)
def test_a_comma_in_a_value_is_refused(profile: ServiceProfile) -> None:
    """A tag with a comma is refused: services read an escaped comma as a separator."""
    with pytest.raises(errors.InvalidInputError, match="has a comma"):
        operations.find_pets_by_tags(["a,b"], profile=profile)


@pytest.mark.parametrize("bad", [2**63, -(2**63) - 1, True, "7/../1", 1.0])
def test_an_id_of_another_kind_never_becomes_a_path(bad: object) -> None:
    """An id that is not an int64 is refused before it is put into a path."""
    with pytest.raises(errors.InvalidInputError, match="not an int64 pet id"):
        operations.get_pet_by_id(bad)  # type: ignore[arg-type]


def test_an_update_without_id_and_a_search_for_nothing_are_refused() -> None:
    """An update without an id and a search without values are refused."""
    with pytest.raises(errors.InvalidInputError):
        operations.update_pet(Pet(name="Rex"))
    with pytest.raises(errors.InvalidInputError):
        operations.find_pets_by_status([])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda text: operations.add_pet(Pet(id=3, name=text)), ("addPet", 3)),
        (lambda text: operations.update_pet_with_form(3, name=text), ("updatePetWithForm", 3)),
        (lambda text: operations.upload_file(3, file=b"", filename=text), ("uploadFile", 3)),
        (lambda text: operations.upload_file(3, additional_metadata=text), ("uploadFile", 3)),
        (lambda text: operations.find_pets_by_status([text]), ("findPetsByStatus", None)),
        (lambda text: operations.find_pets_by_tags([text]), ("findPetsByTags", None)),
    ],
)
def test_half_a_surrogate_pair_is_named_before_it_is_sent(
    make: Callable[[str], Call[Any]], expected: tuple[str, int | None]
) -> None:
    """Text that UTF-8 cannot encode is refused with the operation and the pet's id."""
    with pytest.raises(errors.InvalidInputError, match="half of a surrogate pair") as caught:
        make("\ud800")
    assert (caught.value.operation, caught.value.pet_id) == expected


@pytest.mark.slow
@given(st.text(), st.text())
def test_a_form_carries_any_text(name: str, status: str) -> None:
    """Form fields with any text are read back the same."""
    name, status = (t.encode("utf-8", "replace").decode() for t in (name, status))
    body = operations.update_pet_with_form(1, name=name, status=status).request.body
    read = parse_qs(body.decode(), keep_blank_values=True)
    assert read == {"name": [name], "status": [status]}


def test_a_file_name_cannot_end_its_header() -> None:
    """Quotes and line breaks in a file name are escaped in its header."""
    body = operations.upload_file(1, file=b"x", filename='a"\r\nX: y.png').request.body
    assert b'filename="a%22%0D%0AX: y.png"' in body


@given(st.binary(max_size=200))
def test_the_boundary_never_stands_in_the_file(content: bytes) -> None:
    """The boundary of a multipart body does not occur in the file."""
    request = operations.upload_file(1, file=content, additional_metadata="m").request
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    assert request.body.count(b"--" + boundary) == 3
    assert boundary not in content


def test_an_answer_is_read_as_what_it_says_it_is() -> None:
    """A response is read as JSON or XML by its content type, or without one by its first byte."""
    read = operations.get_pet_by_id(1).read
    assert read(Response(200, {"content-type": "application/json"}, b'{"id":1}')).id == 1
    assert read(Response(200, {"content-type": "text/xml; charset=x"}, XML_PET)).id == 1
    assert read(Response(200, {}, b" " + XML_PET)).id == 1
    upload = operations.upload_file(1).read(Response(200, {}, b'{"code": 200}'))
    assert upload == ApiResponse(code=200)


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json; charset=utf-8", b'{"id":1}'),
        ("application/problem+json", b'{"id":1}'),
        ("text/json", b'{"id":1}'),
        ("application/shop+xml", XML_PET),
        ("application/xml", XML_PET),
        ("text/plain", XML_PET),
        ("text/plain", b'{"id":1}'),
        ("application/octet-stream", b'{"id":1}'),
    ],
)
def test_these_media_types_are_read(media: str, body: bytes) -> None:
    """The media types of JSON and XML are read, and neutral ones by their content."""
    assert operations.get_pet_by_id(1).read(Response(200, {"content-type": media}, body)).id == 1


@pytest.mark.parametrize(
    "call",
    [
        operations.get_pet_by_id(1),
        operations.find_pets_by_status(["sold"]),
        operations.add_pet(Pet(name="x")),
        operations.update_pet(Pet(id=1, name="x")),
        operations.update_pet_with_form(1, name="x"),
        operations.delete_pet(1),
        operations.upload_file(1, file=b""),
    ],
    ids=lambda call: call.request.operation,
)
@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("text/html", PAGE),
        ("TEXT/HTML; charset=utf-8", b"[]"),
        ("application/xhtml+xml", PAGE),
        ("application/xml", PAGE),
        ("text/plain", PAGE),
        ("", b"\n<!DOCTYPE html><title>Sign in</title>"),
    ],
)
def test_a_web_page_is_never_pets(call: Call[object], media: str, body: bytes) -> None:
    """A web page is refused: a well-formed sign-in page would be read as an empty list."""
    with pytest.raises(errors.ResponseError, match="web page, not pets"):
        call.read(Response(200, {"content-type": media}, body))


def test_another_media_type_is_named() -> None:
    """A response with another media type is refused by its name, whatever its content."""
    with pytest.raises(errors.ResponseError, match="'image/png', neither JSON nor XML"):
        operations.find_pets_by_status(["sold"]).read(
            Response(200, {"content-type": "image/png"}, b"[]")
        )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"id":5}', "pet 5"),
        (b'{"id":"5"}', "pet 5"),
        (b'{"name":"Rex"}', "a pet without an id"),
    ],
)
def test_another_pet_than_the_one_asked_for_is_an_error(body: bytes, says: str) -> None:
    """A response with another pet's id, or with none, raises an error."""
    with pytest.raises(errors.ResponseError, match=f"^asked for pet 3, got {says}"):
        operations.get_pet_by_id(3).read(Response(200, {}, body))


WITHOUT_A_RESULT = [operations.delete_pet(7), operations.update_pet_with_form(7, name="Rex")]


@pytest.mark.parametrize("call", WITHOUT_A_RESULT, ids=lambda call: call.request.operation)
@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("", b""),
        ("text/html", b" \n"),
        ("application/json", b'{"code":200,"type":"unknown","message":"7"}'),
        ("application/json", b'{"id":7,"name":"Rex"}'),
        ("application/xml", b"<apiResponse><message>7</message></apiResponse>"),
        ("application/xml", b"<Pet><id>7</id></Pet>"),
    ],
)
def test_success_without_a_result(call: Call[None], media: str, body: bytes) -> None:
    """An operation without a result accepts an empty body, an ApiResponse or the pet itself."""
    assert call.read(Response(200, {"content-type": media}, body)) is None


@pytest.mark.parametrize(
    "call", [*WITHOUT_A_RESULT, operations.upload_file(7)], ids=lambda call: call.request.operation
)
@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("text/plain", b"Please sign in"),
        ("image/gif", b"GIF89a"),
        ("application/json", b"<html>"),
        ("application/json", b"true"),
        ("application/json", b"null"),
        ("application/json", b"{}"),
        ("application/json; charset=utf-8", b" {} \n"),
        ("application/xml", b"<apiResponse/>"),
        ("", b" null\n"),
        ("application/json", b"[]"),
        ("application/json", b'{"error":"the session has ended"}'),
        ("application/json", b'{"code":1,"type":"error","message":"Pet not found"}'),
        ("application/json", b'{"code":503,"type":"unknown","message":"busy"}'),
        ("application/json", b'{"id":8,"name":"Max"}'),
        ("application/xml", b"<login/>"),
        ("application/xml", b"<apiResponse><type>error</type></apiResponse>"),
        ("application/xml", b"<Pet><id>8</id></Pet>"),
    ],
)
def test_what_does_not_say_success_is_an_error(call: Call[object], media: str, body: bytes) -> None:
    """A response with status 200 that does not confirm success raises an error."""
    with pytest.raises(errors.ResponseError):
        call.read(Response(200, {"content-type": media}, body))


@pytest.mark.parametrize(
    "call",
    [operations.add_pet(Pet(name="Rex")), operations.update_pet(Pet(id=7, name="Rex"))],
    ids=lambda call: call.request.operation,
)
@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"error":"x"}', b"<Pet/>", b"<login/>"])
def test_an_answer_that_is_no_pet_is_an_error(call: Call[object], body: bytes) -> None:
    """The response to an add or an update must be a pet with fields."""
    with pytest.raises(errors.ResponseError):
        call.read(Response(200, {}, body))


def test_an_add_needs_the_id_in_the_answer() -> None:
    """The response to an add must contain the new pet's id."""
    with pytest.raises(errors.ResponseError, match="the pet in the response has no id"):
        operations.add_pet(Pet(name="Rex")).read(Response(200, {}, b'{"name":"Rex"}'))


@pytest.mark.parametrize("root", ["pets", "Pets", "List", "ArrayList", "ns:petList"])
def test_an_empty_list_has_the_name_of_one(root: str) -> None:
    """Only an empty XML element with a name of a list is a store without pets."""
    xmlns = b' xmlns:ns="x"' if ":" in root else b""
    read = operations.find_pets_by_status(["sold"]).read
    assert read(Response(200, {}, b"<" + root.encode() + xmlns + b"/>")) == []
    with pytest.raises(errors.ResponseError, match="a list of pets was expected, not <login>"):
        read(Response(200, {}, b"<login/>"))


def test_an_update_that_is_answered_with_another_pet_is_an_error() -> None:
    """The response to an update may have no id but not another pet's; the response to an add may
    have any id.
    """
    update = operations.update_pet(Pet(id=3, name="Rex"))
    assert update.read(Response(200, {}, b'{"name":"Rex"}')) == Pet(name="Rex")
    with pytest.raises(errors.ResponseError, match=r"^sent pet 3, got pet 5"):
        update.read(Response(200, {}, b'{"id":5}'))
    assert operations.add_pet(Pet(id=3, name="Rex")).read(Response(200, {}, b'{"id":5}')).id == 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (operations.add_pet, "addPet takes a Pet, not dict"),
        (operations.update_pet, "updatePet takes a Pet"),
    ],
)
def test_what_is_no_pet_is_refused_by_the_operations_name(
    make: Callable[[Any], object], says: str
) -> None:
    """An argument that is not a Pet, such as a dict, is refused with the operation's name."""
    with pytest.raises(errors.InvalidInputError, match=says):
        make({})


def test_a_404_asks_to_check_the_base_url_unless_a_photo_is_missing() -> None:
    """The hint of a 404 names the base URL for a query, and not for a photo."""
    query = operations.find_pets_by_status(["sold"]).request
    photo = Request(operation="a photo", method="GET", target="/images/7.jpg", headers={})
    missing = Response(404, {}, b"")
    assert "Check the base URL" in operations.error_for(missing, query, NOW).hint
    assert operations.error_for(missing, photo, NOW).hint == ""


def test_how_long_to_wait_is_in_the_hint() -> None:
    """The hint has the service's Retry-After in whole seconds, and is empty without one."""
    busy = Response(429, {"retry-after": "3600"}, b"")
    assert operations.error_for(busy, GET, NOW).hint == "The service asks you to wait 3600 seconds."
    short = Response(503, {"retry-after": "0.2"}, b"")
    assert operations.error_for(short, GET, NOW).hint == "The service asks you to wait 1 second."
    assert operations.error_for(Response(429, {}, b""), GET, NOW).hint == ""


def test_a_response_is_shown_by_its_status() -> None:
    """Neither the repr of a response nor rich shows its headers or body, which may have secrets."""
    response = Response(200, {"etag": "s3cret"}, b"s3cret")
    assert repr(response) == "Response(status=200)"
    assert pretty_repr(response) == "Response(status=200)"


@pytest.mark.parametrize(
    ("status", "kind", "builtin"),
    [
        (400, errors.InvalidInputError, ValueError),
        (401, errors.AuthError, PermissionError),
        (403, errors.AuthError, PermissionError),
        (404, errors.NotFoundError, KeyError),
        (405, errors.InvalidInputError, ValueError),
        (409, errors.DuplicateError, ValueError),
        (415, errors.InvalidInputError, ValueError),
        (422, errors.InvalidInputError, ValueError),
        (418, errors.ResponseError, ValueError),
        (429, errors.RateLimitedError, errors.ApiError),
        (500, errors.ServiceError, errors.ApiError),
        (503, errors.ServiceError, errors.ApiError),
    ],
)
def test_each_status_is_its_error(
    status: int, kind: type[errors.ApiError], builtin: type[Exception]
) -> None:
    """Each HTTP status has its error, with status, service message, operation and pet id."""
    body = b'{"code":1,"type":"error","message":"said\\n so"}'
    response = Response(status, {"content-type": "application/json"}, body)
    error = operations.error_for(response, GET, NOW)
    assert type(error) is kind
    assert isinstance(error, builtin)
    assert str(error).splitlines()[0] == f"getPetById of pet 7: {status} said so"
    assert (error.status, error.service_message) == (status, "said so")
    assert (error.operation, error.pet_id) == ("getPetById", 7)
    assert error.may_have_happened is (status >= 500)


@pytest.mark.parametrize(
    ("media", "body", "message"),
    [
        ("application/xml", b"<ApiResponse><message>no</message></ApiResponse>", "no"),
        ("text/plain", b"something\tbad happened", "something bad happened"),
        ("text/html", b"<html>a long page</html>", ""),
        ("application/json", b"{torn", "{torn"),
        ("application/octet-stream", b"\xff" * 900, "\ufffd" * 300),
    ],
)
def test_the_services_own_words_are_found(media: str, body: bytes, message: str) -> None:
    """The service's message is read from JSON, XML or text, as one line of bounded length."""
    response = Response(500, {"content-type": media}, body)
    assert operations.error_for(response, GET, NOW).service_message == message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("१", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    """Retry-After is read as seconds or as a date; any other value is ignored."""
    assert operations.retry_after(value, NOW) == seconds


def test_profiles_differ_where_the_design_says() -> None:
    """The built-in profiles differ in the result of adding an existing id."""
    assert STANDARD.add_existing == "conflict"
    assert LIVE.add_existing == "replaces"
