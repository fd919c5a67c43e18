"""Tags in tables: equal tags share one object, and nothing else is shared."""

from __future__ import annotations

from petsync.models import Pet, Tag
from petsync.table.decode import frame_from_json
from petsync.table.frame import frame_from_pets, share_tags


def test_tables_share_equal_tags_but_no_lists() -> None:
    """Two tables share a tag but not a list, so an append to one list changes no other."""
    body = b'[{"id":1,"photoUrls":[],"tags":[{"id":1,"name":"shared"}]}]'
    one = frame_from_json(body)
    other = frame_from_pets([Pet(id=2, tags=(Tag(1, "shared"),))])
    mine, theirs = one["tags"].iloc[0], other["tags"].iloc[0]
    assert mine[0] is theirs[0]
    mine.append(Tag(2, "more"))
    assert theirs == [Tag(1, "shared")]


def test_a_tag_with_unknown_fields_stays_as_it_is() -> None:
    """A tag with unknown fields is shared with no other tag."""
    odd = Tag(71, "odd", {"colour": "red"})
    lists = [[odd], [Tag(71, "odd")]]
    share_tags(lists)
    assert lists[0][0] is odd
    assert lists[1][0].extra is None
    share_tags(again := [[odd]])
    assert again[0][0] is odd
