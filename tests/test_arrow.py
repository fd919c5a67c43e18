"""Pets to an Arrow table and back, beside the DataFrame."""

from __future__ import annotations

import json as stdlib
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pairwise import each_choice
from sheetmaking import with_whole_tags
from strategies import ids, pets, xml_pets

from petsync.client.loaders import into_target, new_table
from petsync.errors import ResponseError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.protocol import json, xml
from petsync.protocol.operations import Response, find_pets_by_status
from petsync.table import frame as frames
from petsync.table.arrow import (
    SCHEMA,
    PetTable,
    frame_from_table,
    table_from_frame,
    table_from_pets,
)
from petsync.table.decode import ListReader, table_from_json, table_from_xml
from petsync.table.frame import frame_from_pets, pets_from_frame

ODD = Pet(
    id=MAX_ID,
    name="",
    category=Category(None, "", {"shelf": [1, None]}),
    tags=(Tag(0, None), Tag(None, "shy", {"colour": "red"}), Tag(2**53 + 1, "")),
    photo_urls=("", "http://a/b.png"),
    extra={"weight": 1.5, "note": {"by": "me"}},
)


@given(st.lists(pets(), max_size=6))
def test_pets_come_back_as_they_were(several: list[Pet]) -> None:
    """Pets to table to DataFrame to pets loses nothing, in both directions."""
    table = table_from_pets(several)
    assert table.schema == SCHEMA
    frame = frame_from_table(table)
    assert pets_from_frame(frame) == several
    assert table_from_frame(frame).equals(table)


@given(st.lists(pets(), max_size=6))
def test_json_and_pets_give_the_same_table(several: list[Pet]) -> None:
    """The strict decoder and the careful one build the same table."""
    body = json.encode_pets(several)
    careful = table_from_pets(json.decode_pets_carefully(body))
    assert table_from_json(body, copies=True).equals(careful)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**64) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = st.sampled_from(["id", "name", "status", "category", "tags", "photoUrls", "x"])
LABELS = st.fixed_dictionaries({}, optional={"id": st.integers(0, 9), "name": st.text(max_size=2)})
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(0, 9),
        "name": st.none() | st.text(max_size=3),
        "category": st.none() | LABELS,
        "tags": st.none() | st.lists(st.none() | LABELS, max_size=2),
        "photoUrls": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=2),
    },
)


@given(
    st.lists(LIKELY | st.dictionaries(FIELDS, VALUES, max_size=3) | VALUES, max_size=3),
    st.sampled_from([None, 0, 1]),
)
def test_any_json_is_read_as_the_careful_decoder_reads_it(values: list[Any], indent: int) -> None:
    """Whatever a service sends, and however it lays it out, gives the same pets or an error."""
    body = stdlib.dumps(values, indent=indent).encode()
    careful = table_or_error(lambda: table_from_pets(json.decode_pets_carefully(body)))
    assert table_or_error(lambda: table_from_json(body, copies=True)) == careful


@given(
    st.lists(LIKELY | st.builds(dict, extra=VALUES, tags=st.lists(LABELS, max_size=2)), max_size=9),
    st.sampled_from([None, 0, 1]),
    st.integers(1, 60),
    st.lists(st.integers(0, 40), max_size=20),
)
def test_a_list_is_read_while_it_arrives(
    values: list[Any], indent: int | None, at_once: int, sizes: list[int]
) -> None:
    """Whatever the pieces in which a list arrives and the blocks in which it is decoded, the table
    is that of the whole list.
    """
    body = stdlib.dumps(values, indent=indent, ensure_ascii=False).encode()
    careful = table_or_error(lambda: table_from_pets(json.decode_pets_carefully(body)))
    assert read_in_pieces(body, sizes, at_once) == careful


@pytest.mark.parametrize(
    "body",
    [
        b'[{"id":1,"name":"a"},{"id":2,"name":"},{"},{"id":3,"name":"\\"},{\\""},{"id":4}]',
        b'[{"id":1,"tags":[{"id":1},{"id":2}]},{"id":2,"tags":[{"id":3},{"id":4}]}]',
        b'[{"id":1,"name":"\\\\"},{"id":2,"name":"[[["},\n{"id":3,"name":"]]]"} , {"id":4}]',
        b'[{"id":1},{"id":2},]',
        b'[{"id":1},{"id":2}},{"id":3}]',
        b'[{"id":1},{"id":2}],{"id":3}]',
        b'[{"id":1},{"id":2},{"id":3}',
        b'{"id":1},{"id":2},{"id":3}]',
        b'[{"id":1},{"id":"x"},{"id":3}]',
        b'[{"id":1},{"id":2},{"id":3,"name":nul},{"id":4}]',
    ],
)
def test_a_block_ends_only_between_pets(body: bytes) -> None:
    """Brackets in texts, tags and broken lists do not mislead the search for the end of a pet, and
    an error names the same place in blocks as in the whole list.
    """
    careful = table_or_error(lambda: table_from_pets(json.decode_pets_carefully(body)))
    for at_once in range(1, len(body)):
        assert read_in_pieces(body, [1] * len(body), at_once) == careful


def read_in_pieces(body: bytes, sizes: list[int], at_once: int) -> pa.Table | str:
    """Return the table of a list, decoded in blocks of at least `at_once` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("petsync.table.decode._AT_ONCE", at_once)
        target = new_table()
        reader = ListReader(lambda _: "json", target)
        for size in sizes:
            reader.write(body[:size])
            body = body[size:]
        reader.write(body)
        return table_or_error(lambda: (reader.finish(), target.to_table())[1])


def test_a_long_list_is_never_in_memory_as_a_whole() -> None:
    """While a list arrives, only a part of it and the table are in memory."""
    pet = json.encode_pet(Pet(name="Rex", status="available", tags=(Tag(1, "shy"), Tag(2, "calm"))))
    piece = (b"," + b" " * 400).join([pet] * 1_000)
    target = new_table()
    reader = ListReader(lambda _: "json", target)
    size = 0
    tracemalloc.start()
    try:
        for n in range(100):
            part = (b"," if n else b"[") + piece
            reader.write(part)
            size += len(part)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    reader.write(b"]")
    reader.finish()
    table = target.to_table()
    assert len(table) == 100_000
    assert peak < table.nbytes + size / 4


def test_a_list_is_read_until_there_are_enough_pets() -> None:
    """Of a long list of which only some pets are needed, the rest is neither read nor checked."""
    body = json.encode_pets([Pet(id=n, name=f"Pet {n}", status="sold") for n in range(20_000)])
    target = new_table()
    reader = ListReader(lambda _: "json", target, 1_000)
    taken = 0
    while not reader.is_full:
        reader.write(body[taken : taken + 4_096])
        taken += 4_096
    reader.write(b"not JSON")
    reader.finish()
    assert taken < len(body) / 4
    table = target.to_table()
    assert 1_000 < len(table) < 5_000
    assert table["id"].to_pylist() == [*range(len(table))]


def table_or_error(read: Callable[[], pa.Table]) -> pa.Table | str:
    try:
        return read()
    except ResponseError as error:
        return error.message


XML_STARTS = [
    *("", "\n", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='utf-8'?>\n"),
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
]
XML_ROOTS = ["<Pets>{}</Pets>", "<pets>\n{}\n</pets>\n", "<Pet>{}</Pet>", "<a-b.c>{}</a-b.c>"]
XML_FORMS = ["<{0}>{1}</{0}>"] * 9 + ["\n  <{0}>{1}</{0}>\r\n", "text<{0}>{1}</{0}>"]
XML_EMPTY = ["<{0}/>", "<{0} />", "<{0}></{0}>", "<{0}>\n</{0}>", "<{0}\n/>"]
XML_TEXTS = st.text("aé\r\n\xa0\u2003", max_size=3) | st.sampled_from(
    [
        *("&lt;b&gt;", "&#38;lt;&amp;gt;", "&quot;&apos;"),
        *("&#13;&#10;", "&#xe9;", "&#32;", "&#x0000020;", "&#" + "0" * 5000 + "65;"),
    ]
)


@st.composite
def xml_documents(draw: st.DrawFn) -> bytes:
    """A list of pets as XML of known elements, in any of their forms."""

    def element(name: str, content: str) -> str:
        form = draw(st.sampled_from(XML_FORMS if content else XML_EMPTY))
        return form.format(name, content)

    def label() -> str:
        fields = [element("id", str(draw(ids))), element("name", draw(XML_TEXTS))]
        return "".join(fields[draw(st.integers(0, 1)) : draw(st.integers(1, 2))])

    def array(name: str, item: str, make: Callable[[], str]) -> str:
        items = [make() for _ in range(draw(st.integers(0, 3)))]
        if has_arrays:
            return element(name, "".join(element(item, each) for each in items))
        return "".join(element(name, each) for each in items)

    def pet() -> str:
        fields = [
            element("id", str(draw(ids))),
            element(category, label()),
            element("name", draw(XML_TEXTS)),
            element("status", draw(XML_TEXTS)),
            array(photo, photo_item, lambda: draw(XML_TEXTS)),
            array(tag, tag_item, label),
        ]
        return element(name, "".join(draw(st.permutations(fields))[: draw(st.integers(0, 6))]))

    has_arrays = draw(st.booleans())
    name, category = draw(st.sampled_from(["Pet", "pet"])), draw(st.sampled_from(CATEGORIES))
    photo, photo_item = draw(st.sampled_from(PHOTOS[:2])), draw(st.sampled_from(PHOTOS))
    tag, tag_item = draw(st.sampled_from(TAGS[:3])), draw(st.sampled_from(TAGS))
    pets = "".join(pet() for _ in range(draw(st.integers(0, 3))))
    start, root = draw(st.sampled_from(XML_STARTS)), draw(st.sampled_from(XML_ROOTS))
    return (start + root.format(pets)).encode()


CATEGORIES, PHOTOS = ["category", "Category"], ["photoUrls", "photoUrl", "item"]
TAGS = ["tags", "tag", "Tag", "item"]


@given(xml_documents(), st.sampled_from([1, 60, 1 << 20]))
def test_any_xml_is_read_as_the_careful_decoder_reads_it(body: bytes, block: int) -> None:
    """However a service writes its pets, and wherever they are cut, they are the same."""
    assert_same_xml(body, block)


def assert_same_xml(body: bytes, block: int = 1 << 20) -> None:
    """Assert that both decoders give the same table or the same error."""
    careful = table_or_error(lambda: table_from_pets(xml.decode_pets(body)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("petsync.table.decode._XML_BLOCK_BYTES", block)
        assert table_or_error(lambda: table_from_xml(body, copies=True)) == careful, body


XML_PIECES = [
    *("<id>7</id>", "<name>n</name>", "<status/>", "<category/>", "<Category>c</Category>"),
    *("<photoUrls>u</photoUrls>", "<photoUrl>u</photoUrl>", "<tags>9</tags>", "<Tag/>"),
    *("<tag><id>7</id></tag>", "<tags><tag/></tags>", "<item>9</item>", "<item/>", "<x>9</x>"),
    *("<!DOCTYPE p [<!ENTITY x 'y'>]>", "\ufeff", "<!-- <Pets><Pet> -->"),
    *("<Pet>", "</Pet>", "<Pet/>", "<pet/>", "<PET/>", "</tags>", "<tags>", "<Pet></Pet>"),
    *("<id a='>'>7</id>", "<x xmlns='urn:x'/>", "<p:id xmlns:p='urn:x'>7</p:id>", "<id>7</id >"),
    *("<!-- </Pet> -->", "<![CDATA[</Pet>]]>", "<![CDATA[7]]>", "<?p <Pet> ?>"),
    *("]]>", ">", "<", "&", "&x;", "&#0;", "&#xD800;", "&#55;", "\x01", "\uffff", "\0"),
    *("0", "0x", "-", "+", " ", "1_", ".", "e", "٣", "x", "0" * 17, "9" * 18),
]
XML_IN_ARRAYS = (
    "<Pets><Pet><id>1</id><category><id>2</id><name>c</name></category><photoUrls><photoUrls>u"
    "</photoUrls></photoUrls><tags><tags><id>3</id><name>t</name></tags><tags><id>4</id></tags>"
    "</tags></Pet></Pets>"
)
XML_BARE = (
    "<Pets><Pet><tags><id>3</id><name>t</name></tags><tags><id>4</id></tags><photoUrls>u"
    "</photoUrls><photoUrls>v</photoUrls><name>n</name></Pet><Pet></Pet></Pets>"
)


@pytest.mark.slow
@each_choice
@pytest.mark.parametrize("piece", XML_PIECES)
@pytest.mark.parametrize("document", [XML_IN_ARRAYS, XML_BARE])
def test_anything_anywhere_in_xml_is_read_as_the_careful_decoder_reads_it(
    document: str, piece: str
) -> None:
    """Something unusual, wherever it is, gives the same pets or the same error."""
    for place in [found.start() for found in re.finditer("<|(?<=>)|$", document)]:
        assert_same_xml((document[:place] + piece + document[place:]).encode())


@pytest.mark.parametrize(
    "document",
    [
        *("<html><Pet></Pet></html>", "<HTML><Pet></Pet></HTML>", "<Pets><Pet></Pet>"),
        *("<Pets><Pet></Pet></Pets><a/>", "<Pets><Pet></Pet><a/></Pets>"),
        '<?xml version="1.0" encoding="latin-1"?><Pets><Pet><name>é</name></Pet></Pets>',
        '<?xml version="1.0" encoding="utf-16"?><Pets><Pet></Pet></Pets>',
    ],
)
def test_an_unusual_document_is_read_as_the_careful_decoder_reads_it(document: str) -> None:
    """A web page, a second root, a broken document and another encoding are read the same."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1"):
        assert_same_xml(document.encode(encoding))


SHAPES = [
    xml.Shape(),
    xml.Shape(photo_item="photoUrl", tag_item="tag", list_root="pets"),
    xml.Shape(photo_array="photoUrl", tag_array="tag", tag_item="Tag", category="Category"),
    xml.Shape(photo_array="", tag_array=""),
]


@given(st.lists(xml_pets, min_size=1, max_size=4), st.sampled_from(SHAPES))
def test_xml_of_known_elements_needs_no_careful_decoder(
    several: list[Pet], shape: xml.Shape
) -> None:
    """A response with the usual XML of each shape is read without an object for each pet."""
    plain = [without_extra(pet) for pet in several]
    body = xml.encode_pets(plain, shape)
    careful = table_from_pets(xml.decode_pets(body))
    call = into_target(find_pets_by_status(["sold"]), new_table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml, "parse", None)
        response = Response(200, {"content-type": "application/xml"}, body)
        assert call.read(response).to_table() == careful


def without_extra(pet: Pet) -> Pet:
    """Return the pet without unknown fields, with at least a name in each tag, and with at least
    one value.
    """
    category = pet.category and Category(pet.category.id, pet.category.name)
    tags = tuple(Tag(tag.id, tag.name or "") for tag in pet.tags)
    photos = tuple(url for url in pet.photo_urls if url.strip())
    new = replace(pet, category=category, tags=tags, photo_urls=photos, extra=None)
    return replace(new, name="Rex") if new == Pet() else new


@pytest.mark.parametrize(
    "body",
    [
        *(b"[null]", b'[{"id":1},null]', b"[ \n null ]", b'[{"id":1}\n,\nnull]', b"[\r\nnull\r\n]"),
        *(b"null", b"", b"[", b"[1]", b'[{"id":1}', b'[{"id":1}]]', b"[[]]", b"[" * 100_000),
    ],
)
def test_what_is_no_list_of_pets_is_an_error(body: bytes) -> None:
    """A null in the list, which crashes Arrow's reader, and a broken body are errors."""
    with pytest.raises(ResponseError):
        table_from_json(body)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'[{"id":1,"name":"a\\u0000b"}]', "a\0b"),
        (b'[{"id":1,"name":"\\ud83d\\ude00"}]', "\N{GRINNING FACE}"),
        (b'[{"n\\u0061me":"x","id":1}]', "x"),
        (b'[\n  {\n    "id": 1,\n    "name": "x"\n  }\n]\n', "x"),
        (b'[{"id":1,"name":"x","name":"y"}]', "y"),
        (b'[{"id":1,"name":"' + b"x" * 5_000_000 + b'"}]', "x" * 5_000_000),
    ],
)
def test_unusual_json_is_read(body: bytes, name: str) -> None:
    """Escapes, line breaks between values, repeated fields and very long texts are read."""
    table = table_from_json(body)
    assert (table["id"].to_pylist(), table["name"].to_pylist()) == ([1], [name])


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    """A text that is not UTF-8 is an error, not a wrong text."""
    with pytest.raises(ResponseError):
        table_from_json(b'[{"id":1,"name":"\xff"}]')


def test_lists_of_several_parts_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pets are read in parts, and a part that needs the careful decoder changes nothing else."""
    monkeypatch.setattr("petsync.table.decode._AT_ONCE", 100)
    several = [Pet(id=n, name=f"pet {n}", tags=(Tag(n, "a"),), photo_urls=("u",)) for n in range(5)]
    assert pets_from_frame(frame_from_table(table_from_json(json.encode_pets(several)))) == several
    several[3] = ODD
    assert pets_from_frame(frame_from_table(table_from_json(json.encode_pets(several)))) == several


@pytest.mark.parametrize("several", [[], [Pet()], [ODD], [ODD, Pet(id=1), ODD]])
def test_unusual_pets_come_back(several: list[Pet]) -> None:
    """No pet, empty pets and unknown fields at every level come back as they were."""
    table = table_from_json(json.encode_pets(several), copies=True)
    assert pets_from_frame(frame_from_table(table)) == several
    assert frame_from_table(table).dtypes.equals(frame_from_pets(several).dtypes)


def test_many_pets_are_the_same_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and the tags of many pets give the same frame as pets one by one."""
    tags = [Tag(n % 7 or None, f"tag {n % 11}" if n % 5 else None) for n in range(5_000)]
    several = [
        Pet(
            id=n,
            name=None if n % 13 == 0 else f"Zoë {n}",
            tags=tuple(tags[n : n + n % 4]),
            photo_urls=tuple(f"http://a/{k}" for k in range(n % 3)),
        )
        for n in range(4_500)
    ]
    table = table_from_json(json.encode_pets(several))
    assert [table[name].num_chunks for name in table.column_names] == [1] * len(SCHEMA)
    assert pets_from_frame(frame_from_table(table)) == several
    part = table.slice(1_000, 30)
    assert pets_from_frame(frame_from_table(part)) == several[1_000:1_030]
    joined = pa.concat_tables([part, table])
    assert pets_from_frame(frame_from_table(joined)) == [*several[1_000:1_030], *several]
    monkeypatch.setattr(frames, "FEW", 0)
    assert pets_from_frame(frame_from_table(part)) == several[1_000:1_030]


@pytest.mark.parametrize(
    ("encode", "read"), [(json.encode_pets, table_from_json), (xml.encode_pets, table_from_xml)]
)
def test_a_pet_that_is_listed_twice_is_one_row(
    encode: Callable[[list[Pet]], bytes], read: Callable[..., pa.Table]
) -> None:
    """Of several copies of a pet the last one stays, and all pets without an id."""
    body = encode([Pet(id=1, name="a"), Pet(id=2), Pet(id=1, name="b"), Pet(), Pet()])
    assert read(body)["id"].to_pylist() == [2, 1, None, None]
    assert read(body)["name"].to_pylist() == [None, "b", None, None]
    assert read(body, copies=True)["id"].to_pylist() == [1, 2, 1, None, None]


def test_the_bad_pet_of_a_late_batch_is_named() -> None:
    """A pet that cannot be read is named, wherever it is in the list."""
    body = json.encode_pets([Pet(id=n) for n in range(3_000)])[:-1] + b',{"id":"x"}]'
    with pytest.raises(ResponseError, match="pet 3001 of the list"):
        table_from_json(body)


def test_a_frame_may_lack_columns_and_hold_names() -> None:
    """A missing column is null, a missing list stays missing, and a tag may be a name."""
    frame = pd.DataFrame({"id": pd.array([1, 2], "Int64"), "tags": [["shy", Tag(3, "calm")], None]})
    table = table_from_frame(frame)
    assert table.schema == SCHEMA
    assert table["tags"].to_pylist() == [["shy", "calm"], None]
    assert table["tag_ids"].to_pylist() == [[None, 3], None]
    assert table["name"].to_pylist() == table["photo_urls"].to_pylist() == [None, None]
    back = frame_from_table(table)
    assert with_whole_tags(back["tags"]) == [[Tag(None, "shy"), Tag(3, "calm")], None]


def test_a_changed_frame_leaves_the_table_as_it_is() -> None:
    """A PetTable keeps its table, also if a user changes its frame."""
    table = table_from_pets([ODD])
    of_table = PetTable(table)
    assert of_table.table is table
    assert of_table.frame is of_table.frame
    of_table.frame.loc[0, "name"] = "Rex"
    assert of_table.table.equals(table)
    assert of_table.is_edited
    of_frame = PetTable(frame=frame_from_pets([ODD, ODD]))
    assert len(of_frame) == len(of_frame.table) == 2
    assert len(of_table) == 1
    with pytest.raises(TypeError, match="either a table or a frame"):
        PetTable()


def test_frames_with_and_without_unknown_fields_can_be_joined() -> None:
    """A row whose `extra` is NaN after a join keeps the unknown fields of its tags."""
    odd_tag = Pet(id=2, tags=(Tag(1, "t", {"c": 1}),))
    frame = pd.concat([frame_from_pets([ODD]), frame_from_pets([odd_tag])], ignore_index=True)
    assert pets_from_frame(frame_from_table(table_from_frame(frame))) == [ODD, odd_tag]


@pytest.mark.parametrize("value", [5, None, {"a": {}}, {"0": {"c": 1}}, [{"x": 1}, {}]])
def test_an_unknown_field_of_any_name_is_kept(value: object) -> None:
    """No name of an unknown field has a meaning of its own."""
    pet = Pet(id=1, tags=(Tag(1, "t", {"c": 1}),), extra={"(tags)": value})
    for several in ([pet], [Pet(id=1, extra={"(tags)": value})]):
        table = table_from_json(json.encode_pets(several))
        assert pets_from_frame(frame_from_table(table)) == several


def test_arrays_and_missing_items_of_a_frame_are_lists() -> None:
    """A frame that pandas read from a Parquet file has arrays; an item may be missing."""
    urls = [np.array(["u", "v"], dtype=object), ["u", None]]
    frame = pd.DataFrame({"photo_urls": urls, "tags": [np.array(["a"], dtype=object), ["b", None]]})
    table = table_from_frame(frame)
    assert table["photo_urls"].to_pylist() == [["u", "v"], ["u", None]]
    assert table["tags"].to_pylist() == [["a"], ["b", None]]
