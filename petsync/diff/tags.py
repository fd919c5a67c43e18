"""Tags: which tag of a pet a sheet means, and two sides' edits of one set of tags as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from petsync.diff.fields import normal, tag_key
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Tag

__all__ = ["meant_tags", "merged_tags", "same_tags"]

Tags = tuple[Tag, ...]


def meant_tags(old: Tags, said: Iterable[Tag], vocabulary: Vocabulary) -> Tags:
    """The tags that are meant, those of the pet first and in its order, so that a tag that stays
    keeps its id and its unknown fields.
    """
    meant = [_tag(tag, old, vocabulary) for tag in said]
    kept = [tag for tag in old if tag in meant]
    fresh = dict.fromkeys(tag for tag in meant if tag not in kept)
    return (*kept, *fresh)


def same_tags(said: Sequence[Tag], old: Sequence[Tag]) -> bool:
    """Whether the sheet's tags are the pet's, as sets."""
    meant = [_among(tag, old) for tag in said]
    if None in meant:
        return False
    there = {tag_key(tag) for tag in old if tag.id is not None or tag.name}
    return there == {tag_key(tag) for tag in meant if tag is not None}


def merged_tags(base: Tags, said: Sequence[Tag], store: Tags, vocabulary: Vocabulary) -> Tags:
    """The store's tags without those that the sheet took from the base, and with those that it
    added to it.
    """
    meant = [_tag(tag, base, vocabulary) for tag in said]
    had, has = set(map(tag_key, base)), set(map(tag_key, meant))
    gone = [tag for tag in base if tag_key(tag) not in has]
    kept = [tag for tag in store if not any(_means(each, tag) for each in gone)]
    come = [
        _tag(tag, store, vocabulary)
        for tag, known in zip(said, meant, strict=True)
        if tag_key(known) not in had and _among(tag, kept) is None
    ]
    return (*kept, *dict.fromkeys(come))


def _tag(said: Tag, old: Sequence[Tag], vocabulary: Vocabulary) -> Tag:
    known = _among(said, old)
    if known is not None:
        return known
    if said.id is None and said.name:
        return vocabulary.tag_named(said.name) or said
    if said.id is not None and said.name is None:
        return vocabulary.tag_numbered(said.id) or said
    return said


def _among(said: Tag, old: Sequence[Tag]) -> Tag | None:
    """The tag that the sheet's is, the very same before one that says more."""
    meant = [tag for tag in old if _means(said, tag)]
    exact = (tag for tag in meant if (tag.id, tag.name) == (said.id, said.name))
    return next(exact, meant[0]) if meant else None


def _means(said: Tag, tag: Tag) -> bool:
    """Whether the sheet's tag is this one: a part that the sheet leaves out is no difference."""
    by_id = said.id is None or said.id == tag.id
    by_name = said.name is None or normal(said.name) == normal(tag.name)
    return by_id and by_name and (said.id is not None or said.name is not None)
