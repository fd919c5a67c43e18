"""Text from outside, made visible and fitted into cells."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render_samples import HOSTILE
from rich.cells import cell_len

from petsync.report.words import quote_text, shorten, wrap
from petsync.table.cells import make_visible

texts = st.text(max_size=60) | st.sampled_from(HOSTILE)
DANGEROUS = {"Cc", "Cs", "Zl", "Zp"}
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@given(texts)
def test_visible_text_moves_nothing(text: str) -> None:
    """Visible text has no control character, surrogate, line separator or direction mark."""
    shown = make_visible(text)
    assert not {unicodedata.category(char) for char in shown} & DANGEROUS
    assert not BIDI & set(shown)


@given(texts)
def test_visible_is_idempotent(text: str) -> None:
    """Visible text that is made visible again stays unchanged."""
    assert make_visible(make_visible(text)) == make_visible(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zoë 北京　小猫 🐕", "Zoë 北京　小猫 🐕"),
        ("👩‍👧 می‌خواهم", "👩‍👧 می‌خواهم"),
        ("a\nb\x1b[1m", "a[line break]b[ESC][1m"),
        ("\u202eRex", "[U+202E]Rex"),
        ("Rex\u200d", "Rex[U+200D]"),
        ("\u00a02038", "[NBSP]2038"),
        ("avail\u200bable", "avail[U+200B]able"),
        ("A\0b\t\r", "A[NUL]b[tab][CR]"),
        ("\x01\x9b\U000e0041", "[U+0001][U+009B][U+E0041]"),
        ("\ud800", "[U+D800]"),
    ],
)
def test_what_visible_text_looks_like(text: str, shown: str) -> None:
    """Scripts and emoji stay unchanged, and invisible and control characters are shown by name."""
    assert make_visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Rex", "Rex"),
        ("", "(empty)"),
        (" Rex", '" Rex"'),
        ("a -> b", '"a -> b"'),
        ("(empty)", '"(empty)"'),
        ("-shy", '"-shy"'),
    ],
)
def test_what_could_be_misread_is_quoted(text: str, shown: str) -> None:
    """A value that looks like the surrounding notation is quoted, and a missing value is
    (empty).
    """
    assert quote_text(text) == shown


@given(texts, st.integers(min_value=0, max_value=90))
def test_shortened_text_fits(text: str, width: int) -> None:
    """Shortened text never takes more cells than allowed."""
    assert cell_len(shorten(make_visible(text), width)) <= width


@given(st.text("abc 北京", max_size=30))
def test_short_text_is_not_cut(text: str) -> None:
    """Text that fits stays unchanged."""
    assert shorten(text, 60) == text


def test_long_text_keeps_both_ends() -> None:
    """Long text is cut in the middle, so its beginning and its end stay readable."""
    assert shorten("https://images.example/pets/17/large.png", 23) == "https://im.../large.png"


@given(texts, st.integers(min_value=10, max_value=90))
def test_wrapped_text_fits_and_says_the_same(text: str, width: int) -> None:
    """Every wrapped line fits, and only spaces between lines are lost."""
    text = make_visible(text)
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
