"""Pets as JSON."""

from __future__ import annotations

import json as stdlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import pets

from petsync.errors import ResponseError
from petsync.models import MAX_ID, ApiResponse, Category, Pet, Tag
from petsync.protocol import json


@given(pets())
def test_a_pet_comes_back_as_it_was(pet: Pet) -> None:
    """A pet reads back from JSON the same: Unicode, int64 ids, unknown fields at each level."""
    assert json.decode_pet(json.encode_pet(pet)) == pet


@given(st.lists(pets(), max_size=4))
def test_a_list_of_pets_comes_back_as_it_was(several: list[Pet]) -> None:
    """A list of pets reads back from JSON the same, by the fast or the lossless decoder."""
    assert json.decode_pets(json.encode_pets(several)) == several


@given(st.lists(pets(extra=st.none()), max_size=4))
def test_the_fast_path_agrees_with_the_lossless_one(several: list[Pet]) -> None:
    """The fast and the lossless decoder return the same pets."""
    body = json.encode_pets(several)
    assert json.decode_pets_carefully(body) == several
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(json, "decode_pets_carefully")
        assert json.decode_pets(body) == several


def test_an_unknown_field_is_kept_and_written_again() -> None:
    """Unknown fields of a pet are read and written again."""
    body = b'{"id":1,"name":"Rex","chip":{"code":"A1"},"category":{"id":2,"rank":9}}'
    pet = json.decode_pet(body)
    assert pet.extra == {"chip": {"code": "A1"}}
    assert pet.category == Category(2, None, {"rank": 9})
    assert stdlib.loads(json.encode_pet(pet))["chip"] == {"code": "A1"}
    assert stdlib.loads(json.encode_pet(pet))["category"] == {"id": 2, "rank": 9}


def test_null_and_absent_are_one() -> None:
    """A null field is read as a missing field: the live service writes null."""
    nulls = b'{"id":7,"name":null,"photoUrls":null,"tags":[null],"category":null,"status":null}'
    assert json.decode_pet(nulls) == Pet(id=7)


def test_an_id_that_is_text_is_a_number() -> None:
    """An id in text form is read as a number: the live service accepts and sends such ids."""
    assert json.decode_pet(f'{{"id":"{MAX_ID}"}}'.encode()).id == MAX_ID


def test_a_tag_without_anything_stays_in_its_place() -> None:
    """An empty tag keeps its place among the other tags."""
    assert json.decode_pet(b'{"tags":[{},{"name":"shy"}]}').tags == (Tag(), Tag(None, "shy"))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not valid JSON"),
        (b'{"id":1', "not valid JSON"),
        (b'"\xff"', "not valid JSON"),
        (b"[]", "a list, not an object"),
        (b"null", "null, not an object"),
        (b'{"id":1.5}', "id is a number, not an integer"),
        (b'{"id":true}', "not an integer"),
        (b'{"id":9223372036854775808}', "outside int64"),
        (b'{"id":"\xd9\xa1"}', "not an integer"),
        (b'{"id":4,"name":5}', "the pet (id 4): name is a number"),
        (b'{"tags":{}}', "tags is an object, not a list"),
        (b'{"tags":[3]}', "tags[0] is a number"),
        (b'{"photoUrls":[{}]}', "photoUrls[0] is an object"),
        (b'{"category":"Dogs"}', "category is text, not an object"),
    ],
)
def test_what_is_no_pet_is_refused_by_place(body: bytes, says: str) -> None:
    """An invalid pet is refused with the place and the cause."""
    with pytest.raises(ResponseError) as caught:
        json.decode_pet(body)
    assert says in str(caught.value)


def test_the_bad_pet_of_a_list_is_named() -> None:
    """An invalid list of pets is refused with the position and id of the invalid pet."""
    with pytest.raises(ResponseError, match=r"pet 2 of the list \(id 9\): name is a list"):
        json.decode_pets(b'[{"id":8},{"id":9,"name":[]}]')
    with pytest.raises(ResponseError, match="a list of pets was expected, not an object"):
        json.decode_pets(b'{"message":"no"}')


def test_an_upload_answer_is_read_with_or_without_code() -> None:
    """An upload's response is read with or without a code, also a code in text form."""
    full = ApiResponse(code=200, type="unknown", message="ok")
    assert json.decode_api_response(json.encode_api_response(full)) == full
    assert json.decode_api_response(b'{"code":"200","x":1}') == ApiResponse(code=200)
    with pytest.raises(ResponseError):
        json.decode_api_response(b"<html>")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"x":' * 100_000])
def test_what_is_nested_without_end_is_refused(body: bytes) -> None:
    """JSON that is nested too deeply is refused without a crash."""
    for decode in (json.decode_pet, json.decode_pets, json.decode_api_response):
        with pytest.raises(ResponseError):
            decode(body)
    assert json.split_list(body) is None
