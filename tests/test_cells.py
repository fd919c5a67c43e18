"""The cell grammar: formatted values parse back, and malformed texts are named."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from petsync.models import MAX_ID, MIN_ID, Tag
from petsync.table import cells

# Every character, lone surrogates and NUL included, and texts of the grammar's own characters.
ANY = st.text(st.characters()) | st.text(st.sampled_from('";:|\n\r\t 0159-a\u00a0\u2028'))
TAGS = st.lists(st.builds(Tag, st.none() | st.integers(MIN_ID, MAX_ID), st.none() | ANY))


@given(TAGS)
@example([Tag(None, "")])
@example([Tag(5, ""), Tag(5, None), Tag(None, None), Tag(None, "5:"), Tag(None, ":")])
@example([Tag(5, '"'), Tag(None, '5:"x"'), Tag(-3, " x "), Tag(None, "-3:x")])
def test_any_tags_come_back(tags):
    """parse_tags(format_tags(x)) is x for any names."""
    assert list(cells.parse_tags(cells.format_tags(tags))) == tags


@given(st.lists(ANY), st.sampled_from(["\n", " | "]))
@example(["|", "| a", "a |", "a | b", "a|b", "a\rb"], " | ")
@example(["", " ", "\r\n"], "\n")
def test_any_photo_urls_come_back(urls, separator):
    """parse_photo_urls(format_photo_urls(x)) is x with either separator."""
    text = cells.format_photo_urls(urls, separator=separator)
    assert list(cells.parse_photo_urls(text)) == urls


@given(ANY)
def test_any_text_is_parsed_or_refused(text):
    """Any text either parses to a value that parses again, or raises CellError."""
    for parse, form in (
        (cells.parse_tags, cells.format_tags),
        (cells.parse_photo_urls, cells.format_photo_urls),
    ):
        try:
            value = parse(text)
        except cells.CellError as refused:
            position = refused.position
        else:
            position = 0
            assert parse(form(value)) == value
        assert 0 <= position <= len(text)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("friendly; small", [Tag(None, "friendly"), Tag(None, "small")]),
        ("1:friendly;small", [Tag(1, "friendly"), Tag(None, "small")]),
        (":1:friendly", [Tag(None, "1:friendly")]),
        ("::x", [Tag(None, ":x")]),
        ("5:", [Tag(5, None)]),
        ('5:""', [Tag(5, "")]),
        ('""', [Tag(None, "")]),
        ('"a;b"; c', [Tag(None, "a;b"), Tag(None, "c")]),
        ('5:"a;b"; c', [Tag(5, "a;b"), Tag(None, "c")]),
        ('"5:a;b"', [Tag(5, "a;b")]),
        ('5" high; c', [Tag(None, '5" high'), Tag(None, "c")]),
        ("\u00a0calm ;\u00a0 ; shy;", [Tag(None, "calm"), Tag(None, "shy")]),
        ("5: friendly", [Tag(5, "friendly")]),
        ("", []),
    ],
)
def test_tags_as_people_write_them(text, tags):
    """Each form of a tag that the grammar allows is read with its meaning."""
    assert list(cells.parse_tags(text)) == tags


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        (Tag(1, "friendly"), "1:friendly"),
        (Tag(None, "friendly"), "friendly"),
        (Tag(None, "1:friendly"), ":1:friendly"),
        (Tag(5), "5:"),
        (Tag(None, "a;b"), '"a;b"'),
        (Tag(None, 'a "b"'), '"a ""b"""'),
        (Tag(None, " a"), '" a"'),
    ],
)
def test_tags_are_written_plainly(tag, text):
    """A tag is quoted only if that is necessary."""
    assert cells.format_tags([tag]) == text


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('"a', 0, "never closed"),
        ('x; "a""', 3, "never closed"),
        ('"a" b; c', 3, "follows"),
        ("x; 99999999999999999999:y", 3, "range"),
    ],
)
def test_malformed_tags_are_refused_at_their_place(text, position, problem):
    """The error of a malformed tags cell names the problem and the character's position."""
    with pytest.raises(cells.CellError, match=problem) as caught:
        cells.parse_tags(text)
    assert caught.value.position == position
    assert isinstance(caught.value, ValueError)


def test_photo_urls_are_split_at_lines_and_bars():
    """Photo URLs are split at any line break and at a bar between spaces, but not at a bare bar."""
    text = 'http://a/1|2\r\nb\rc | d | | "e | f"'
    assert cells.parse_photo_urls(text) == ("http://a/1|2", "b", "c", "d", "e | f")


def test_an_unclosed_photo_quote_is_refused():
    """A quote that is never closed is reported, not guessed."""
    with pytest.raises(cells.CellError, match="never closed"):
        cells.parse_photo_urls('http://a | "http://b')


@given(st.integers(MIN_ID, MAX_ID))
def test_any_id_comes_back(number):
    """Every int64 id is read from its digits, and from its digits with `.0`."""
    assert cells.parse_id(str(number)) == number
    assert cells.parse_id(f"\u00a0{number}.0 ") == number


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1.2E+3", "id-scientific"),
        ("1,2e3", "id-scientific"),
        ("12.5", "id-fraction"),
        (".5", "id-fraction"),
        ("twelve", "id-not-a-number"),
        ("1 200", "id-not-a-number"),
        ("0x1F", "id-not-a-number"),
        ("١٢", "id-not-a-number"),
        ("", "id-not-a-number"),
        (str(MAX_ID + 1), "id-out-of-range"),
        (str(MIN_ID - 1), "id-out-of-range"),
        ("9" * 5000, "id-out-of-range"),
    ],
)
def test_what_is_no_id_is_refused_by_its_rule(text, rule):
    """Each kind of invalid id is refused by its own rule, and no id is rounded."""
    with pytest.raises(cells.CellError) as caught:
        cells.parse_id(text)
    assert caught.value.rule == rule


def test_leading_zeros_do_not_change_an_id():
    """Leading zeros do not change an id: 007 is 7."""
    assert cells.parse_id("0" * 40 + "7") == 7


def test_a_status_is_compared_trimmed_and_folded():
    """Case, whitespace and NBSP around a status do not count."""
    assert cells.normal_status("\u00a0Sold \ufeff") == "sold"
