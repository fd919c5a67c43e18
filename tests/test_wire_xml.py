"""Pets as XML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import xml_pets

from petsync.errors import InvalidInputError, ResponseError
from petsync.models import ApiResponse, Category, Pet, Tag
from petsync.protocol import xml

SHAPES = [xml.Shape(), xml.Shape(photo_item="photoUrl", tag_item="tag", list_root="pets")]


@given(xml_pets, st.sampled_from(SHAPES))
def test_a_pet_comes_back_as_it_was(pet: Pet, shape: xml.Shape) -> None:
    """A pet that XML can represent reads back the same in each shape, carriage returns included."""
    assert xml.decode_pet(xml.encode_pet(pet, shape)) == pet


@given(st.lists(xml_pets, max_size=4), st.sampled_from(SHAPES))
def test_a_list_of_pets_comes_back_as_it_was(several: list[Pet], shape: xml.Shape) -> None:
    """A list of pets reads back from XML the same."""
    assert xml.decode_pets(xml.encode_pets(several, shape)) == several


def test_a_pet_is_written_as_the_interface_shows_it() -> None:
    """A pet is written as the API documents it: root Pet, photoUrls in photoUrls, tags in tags."""
    pet = Pet(id=1, name="Rex", photo_urls=("u",), tags=(Tag(2, "shy"),), status="sold")
    assert xml.encode_pet(pet) == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b"<Pet><id>1</id><name>Rex</name><photoUrls><photoUrls>u</photoUrls></photoUrls>"
        b"<tags><tags><id>2</id><name>shy</name></tags></tags><status>sold</status></Pet>"
    )


@pytest.mark.parametrize(
    "photos",
    [
        "<photoUrls><photoUrls>a</photoUrls><photoUrls>b</photoUrls></photoUrls>",
        "<photoUrls><photoUrl>a</photoUrl><photoUrl>b</photoUrl></photoUrls>",
        "<photoUrl><photoUrl>a</photoUrl><photoUrl>b</photoUrl></photoUrl>",
        "<photoUrls>a</photoUrls><photoUrls>b</photoUrls>",
        "<photoUrls>\n  <photoUrl>a</photoUrl>\n  <photoUrl>b</photoUrl>\n</photoUrls>",
    ],
)
@pytest.mark.parametrize(
    "tags",
    [
        "<tags><tags><id>1</id><name>t</name></tags><tags><name>u</name></tags></tags>",
        "<tags><tag><id>1</id><name>t</name></tag><tag><name>u</name></tag></tags>",
        "<tag><Tag><id>1</id><name>t</name></Tag><Tag><name>u</name></Tag></tag>",
        "<tags><id>1</id><name>t</name></tags><tags><name>u</name></tags>",
    ],
)
@pytest.mark.parametrize("category", ["category", "Category"])
def test_every_known_shape_is_read(photos: str, tags: str, category: str) -> None:
    """Each known XML shape is read: services differ in item names and in wrapped arrays."""
    body = f"<Pet><id>1</id><{category}><id>3</id></{category}>{photos}{tags}</Pet>"
    assert xml.decode_pet(body.encode()) == Pet(
        id=1, category=Category(3), photo_urls=("a", "b"), tags=(Tag(1, "t"), Tag(None, "u"))
    )


def test_namespaces_are_passed_over() -> None:
    """Elements in a namespace are read as those without one."""
    assert xml.decode_pet(b'<p:Pet xmlns:p="urn:x"><p:id>5</p:id></p:Pet>') == Pet(id=5)


BOMB = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><Pet><name>&b;</name></Pet>"""
OUTSIDE = b"""<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/hostname">]><Pet><name>&f;</name></Pet>"""


@pytest.mark.parametrize("body", [BOMB, OUTSIDE, b"<!DOCTYPE Pet><Pet/>"])
def test_a_document_type_is_refused_before_it_is_read(body: bytes) -> None:
    """XML with a document type declaration is refused, so no entity is expanded or loaded."""
    with pytest.raises(ResponseError, match="document type declaration"):
        xml.decode_pet(body)


@pytest.mark.parametrize(
    "body", [b"", b"<Pet>", b"plain", b"\xff\xfe", b'<?xml version="1.0" encoding="nope"?><Pet/>']
)
def test_what_is_no_xml_is_refused(body: bytes) -> None:
    """A body that is not valid XML raises ResponseError."""
    with pytest.raises(ResponseError, match="not valid XML"):
        xml.decode_pet(body)


@pytest.mark.parametrize("text", ["x", "1.5", "9223372036854775808", "१"])
def test_an_id_that_is_no_int64_is_refused(text: str) -> None:
    """An id that is not an int64 is refused."""
    with pytest.raises(ResponseError, match="id is"):
        xml.decode_pet(f"<Pet><id>{text}</id></Pet>".encode())


@pytest.mark.parametrize("bad", ["\x00", "\x0b", "\ufffe", "\ud800"])
def test_a_character_that_xml_cannot_carry_is_named(bad: str) -> None:
    """A pet with a character that XML cannot represent is refused with that character."""
    with pytest.raises(InvalidInputError, match=r"name has the character U\+"):
        xml.encode_pet(Pet(name=f"a{bad}"))


def test_a_field_that_is_no_element_name_is_refused() -> None:
    """An unknown field whose name cannot be an XML element is refused."""
    with pytest.raises(InvalidInputError, match="cannot be an XML element"):
        xml.encode_pet(Pet(name="Rex", extra={"two words": 1}))


def test_an_upload_answer_is_read_without_code() -> None:
    """An upload's XML response is read with or without a code."""
    full = ApiResponse(code=200, type="x", message="ok")
    assert xml.decode_api_response(xml.encode_api_response(full)) == full
    live = b"<apiResponse><message>no</message></apiResponse>"
    assert xml.decode_api_response(live) == ApiResponse(message="no")


def test_what_is_nested_without_end_is_refused() -> None:
    """XML that is nested 50 levels deep is read; more than 100 levels are refused."""
    deep = b"<Pet>" + b"<x>" * 50_000 + b"</x>" * 50_000 + b"</Pet>"
    with pytest.raises(ResponseError, match="nested more than 100 deep"):
        xml.decode_pet(deep)
    fair = b"<Pet>" + b"<x>" * 50 + b"1" + b"</x>" * 50 + b"</Pet>"
    assert xml.decode_pet(fair).extra is not None


@pytest.mark.parametrize("root", ["Pets", "pets", "List", "ArrayList", "Collection"])
@pytest.mark.parametrize("item", ["Pet", "pet", "PET", "item"])
def test_a_list_may_be_called_anything(root: str, item: str) -> None:
    """A list of pets is read with any name that services use for the list and its items."""
    assert xml.decode_pets(f"<{root}/>".encode()) == []
    body = f"<{root} xmlns='urn:x'><{item}><id>1</id></{item}></{root}>"
    assert xml.decode_pets(body.encode()) == [Pet(id=1)]


def test_another_element_where_a_pet_was_expected_is_named() -> None:
    """Another element in the place of a pet is refused by its name."""
    with pytest.raises(ResponseError, match="the XML is <Order>, not a Pet"):
        xml.decode_pet(b"<Order><id>1</id></Order>")
    with pytest.raises(ResponseError, match="the list contains <message>"):
        xml.decode_pets(b"<ApiResponse><message>no</message></ApiResponse>")
    for read in (xml.decode_pet, xml.decode_pets, xml.decode_api_response):
        with pytest.raises(ResponseError, match="web page"):
            read(b"<html xmlns='http://www.w3.org/1999/xhtml'/>")
