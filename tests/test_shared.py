"""Tags in tables: equal tags share one object, and nothing else is shared."""

from __future__ import annotations

import copy
import pickle

from petsync.models import Pet, Tag, TagName, as_tag
from petsync.table.decode import frame_from_json
from petsync.table.frame import frame_from_pets
from petsync.table.lists import names_of_tags


def test_tables_share_equal_tags_but_no_lists() -> None:
    """Two tables share a tag but not a list, so an append to one list changes no other."""
    body = b'[{"id":1,"photoUrls":[],"tags":[{"id":1,"name":"shared"}]}]'
    one = frame_from_json(body)
    other = frame_from_pets([Pet(id=2, tags=(Tag(1, "shared"),))])
    mine, theirs = one["tags"].iloc[0], other["tags"].iloc[0]
    assert mine[0] is theirs[0]
    mine.append(Tag(2, "more"))
    assert [each.tag for each in theirs] == [Tag(1, "shared")]


def test_a_tag_with_unknown_fields_stays_as_it_is() -> None:
    """A tag with unknown fields is shared with no other tag."""
    odd = Tag(71, "odd", {"colour": "red"})
    one, other = names_of_tags([odd, Tag(71, "odd")])
    assert one.tag is odd
    assert other.extra is None
    (again,) = names_of_tags([odd])
    assert again.tag is odd


def test_a_tag_in_a_table_is_its_name_with_its_id() -> None:
    """It equals the text, counts as the text, and keeps the whole tag, also in a copy."""
    young = TagName(Tag(7, "young", {"colour": "red"}))
    assert (young, hash(young), repr(young)) == ("young", hash("young"), "'young'")
    assert (young.id, young.name, young.extra) == (7, "young", {"colour": "red"})
    assert young == TagName(Tag(8, "young"))
    for same in (copy.copy(young), copy.deepcopy(young), pickle.loads(pickle.dumps(young))):
        assert (same, same.tag) == ("young", young.tag)
    assert (TagName(Tag(7)), TagName(Tag(7)).name) == ("", None)
    assert as_tag("young") == Tag(None, "young")
    assert as_tag(young) == young.tag
    assert not hasattr(young.upper(), "id")
