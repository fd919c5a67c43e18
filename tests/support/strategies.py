"""Strategies for hypothesis: pets with arbitrary Unicode and every int64 id."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from petsync.models import MAX_ID, MIN_ID, Category, Pet, Tag

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

texts = st.text(max_size=20)
xml_texts = texts.filter(lambda text: not _NOT_IN_XML.search(text))
ids = st.one_of(
    st.integers(MIN_ID, MAX_ID), st.sampled_from([0, 1, 2**53, 2**53 + 1, MAX_ID - 1, MAX_ID])
)
any_ids = st.none() | ids
extras = st.none() | st.dictionaries(
    st.sampled_from(["color", "weightKg", "vet", "größe"]),
    st.none() | st.booleans() | ids | texts | st.lists(texts, max_size=2),
    min_size=1,
    max_size=2,
)
xml_extras = st.none() | st.dictionaries(
    st.sampled_from(["color", "weightKg", "vet"]), xml_texts, min_size=1, max_size=2
)


def categories(
    text: st.SearchStrategy[str] = texts, extra: st.SearchStrategy[object] = extras
) -> st.SearchStrategy[Category]:
    """Return a strategy for categories, empty ones included."""
    return st.builds(Category, st.none() | ids, st.none() | text, extra)


def tags(
    text: st.SearchStrategy[str] = texts, extra: st.SearchStrategy[object] = extras
) -> st.SearchStrategy[Tag]:
    """Return a strategy for tags."""
    return st.builds(Tag, st.none() | ids, st.none() | text, extra)


def pets(
    text: st.SearchStrategy[str] = texts,
    extra: st.SearchStrategy[object] = extras,
    pet_ids: st.SearchStrategy[int | None] = any_ids,
) -> st.SearchStrategy[Pet]:
    """Return a strategy for pets of every kind that the service could send."""
    return st.builds(
        Pet,
        id=pet_ids,
        name=st.none() | text,
        photo_urls=st.lists(text, max_size=3).map(tuple),
        category=st.none() | categories(text, extra),
        tags=st.lists(tags(text, extra), max_size=3).map(tuple),
        status=st.none() | st.sampled_from(["available", "pending", "sold"]) | text,
        extra=extra,
    )


xml_pets = pets(xml_texts, xml_extras)
