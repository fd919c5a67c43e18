"""Tags: which tag of a pet a sheet means, and two sides' edits of one set of tags as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from petsync.diff.fields import matches, tag_key
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Tag

__all__ = ["meant_tags", "merged_tags"]

Tags = tuple[Tag, ...]


def meant_tags(old: Tags, said: Iterable[Tag], vocabulary: Vocabulary) -> Tags:
    """The tags that are meant, those of the pet first and in its order, so that a tag that stays
    keeps its id and its unknown fields.
    """
    meant = _meant(said, old, vocabulary)
    kept = [tag for tag in old if tag in meant]
    fresh = dict.fromkeys(tag for tag in meant if tag not in kept)
    return (*kept, *fresh)


def merged_tags(base: Tags, said: Sequence[Tag], store: Tags, vocabulary: Vocabulary) -> Tags:
    """The store's tags without those that the sheet took from the base, and with those that it
    added to it.
    """
    meant = _meant(said, base, vocabulary)
    had, has = set(map(tag_key, base)), set(map(tag_key, meant))
    gone = [tag for tag in base if tag_key(tag) not in has]
    kept = [tag for tag in store if not any(matches(each, tag) for each in gone)]
    come = [
        _tag(tag, store, vocabulary)
        for tag, known in zip(said, meant, strict=True)
        if tag_key(known) not in had and _among(tag, kept) is None
    ]
    return (*kept, *dict.fromkeys(come))


def _meant(said: Iterable[Tag], old: Sequence[Tag], vocabulary: Vocabulary) -> list[Tag]:
    """The tag that each of the sheet's is. Those that say all come first, so that one without an id
    is a tag of that name that no other of the sheet's is, if there is one.
    """
    tags = list(said)
    found: dict[int, Tag] = {}
    free = list(old)
    for place in sorted(range(len(tags)), key=lambda place: None in _parts(tags[place])):
        known = _among(tags[place], free)
        if known is not None:
            free.remove(known)
        found[place] = known or _tag(tags[place], old, vocabulary)
    return [found[place] for place in range(len(tags))]


def _parts(tag: Tag) -> tuple[int | None, str | None]:
    number, name = tag_key(tag)
    return number, name or None


def _tag(said: Tag, old: Sequence[Tag], vocabulary: Vocabulary) -> Tag:
    known = _among(said, old)
    if known is not None:
        return known
    number, name = tag_key(said)
    if number is None and name:
        return vocabulary.tag_named(name) or said
    if number is not None and not name:
        return vocabulary.tag_numbered(number) or said
    return said


def _among(said: Tag, old: Sequence[Tag]) -> Tag | None:
    """The tag that the sheet's is, the very same before one that says more."""
    meant = [tag for tag in old if matches(said, tag)]
    exact = (tag for tag in meant if tag_key(tag) == tag_key(said))
    return next(exact, meant[0]) if meant else None
