"""The expressions of rules: their grammar, their three-valued logic, and the errors."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from times import times

from petsync.table.expressions import FUNCTIONS, ExpressionError, RuleColumn, parse

TEXT = pa.large_string()
ROWS: dict[str, list[Any]] = {
    "id": [1, 2**53 + 1, None, -7, 9223372036854775807],
    "name": ["Bello", None, "luna", "Zoë", "12"],
    "status": ["sold", "available", None, "sold", "odd"],
    "tags": [["small", "old"], [], None, ["x"], ["old"]],
    "Price": ["10", "abc", None, "-2.5", "1e3"],
    "Cost": ["4", "0", "7", None, "12.0"],
}
SIZE = len(ROWS["id"])


def column(name: str) -> RuleColumn:
    """Return a column of ROWS."""
    values = ROWS[name]
    if name == "id":
        return RuleColumn("number", pa.array(values, pa.int64()))
    if name == "tags":
        return RuleColumn("list", pa.array(values, pa.large_list(TEXT)))
    kind = "cell" if name in ("Price", "Cost") else "text"
    return RuleColumn(kind, pa.array(values, TEXT))


def evaluated(text: str) -> list[bool | None]:
    """Return the value of an expression for each row."""
    values: list[bool | None] = parse(text).evaluate(column, SIZE).to_pylist()
    return values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Price > 5", [True, False, None, False, True]),
        ("not Price > 5", [False, True, None, True, False]),
        ("Price != 10", [False, True, None, True, True]),
        ("[Price] >= 2 * Cost + 1", [True, False, None, None, True]),
        ("Price / Cost > 2", [True, False, None, None, True]),
        ("-Price < 0 or status = 'sold'", [True, False, None, True, True]),
        ("Price > 5 and Cost > 5", [False, False, None, False, True]),
        ("Price > 5 or Cost > 5", [True, False, True, None, True]),
        ("1 + 2 * 3 = 7 and (1 + 2) * 3 = 9 and 7 - 2 - 1 = 4", [True] * SIZE),
        ("true_is_no_word = ''", None),
        ("id = 9007199254740993", [False, True, None, False, False]),
        ("id = 9223372036854775807", [False, False, None, False, True]),
        ("id > 0.5", [True, True, None, False, True]),
        ("id in (1, -7)", [True, False, None, True, False]),
        ("id in (1, 0.5, 9007199254740995)", [True, False, None, False, False]),
        ("id not in (1, -7)", [False, True, None, False, True]),
        ("Price in (10, 1000)", [True, False, None, False, True]),
        ("Price in ('10', 'abc')", [True, True, None, False, False]),
        ("Price = '10'", [True, False, None, False, False]),
        ("Price = Cost", [False, False, None, None, False]),
        ("number(Cost) = 12 or text(id) = '1'", [True, False, None, None, True]),
        ("STATUS = \"sold\" AND name <> 'Zoë'", [True, False, None, False, False]),
        ("'old' in tags", [True, False, None, False, True]),
        ("contains(tags, 'x') or count(tags) = 0", [False, True, None, True, False]),
        ("is_blank(name) or is_blank(Price)", [False, True, True, False, False]),
        ("length(name) = 3 or matches(name, '[a-z]+')", [False, None, True, True, False]),
        ("lower(name) = 'bello' or upper(name) = 'LUNA'", [True, None, True, False, False]),
        ("starts_with(name, 'B') or ends_with(name, 'a')", [True, None, True, False, False]),
        ("contains(name, 'ell') or trim(' 12 ') = name", [True, None, False, False, True]),
        ("name = 'it''s' or name = \"a\"\"b\"", [False, None, False, False, False]),
        ("name >= 'a'", [False, None, True, False, False]),
    ],
)
def test_an_expression_has_its_value(text: str, values: list[bool | None] | None) -> None:
    """Each operator and function has its value, and a blank cell makes it neither true nor false.

    A text that is not a number makes every comparison with a number false, except `!=`.
    """
    if values is None:
        assert parse(text).columns == ("true_is_no_word",)
        return
    assert evaluated(text) == values


@pytest.mark.parametrize(
    ("text", "position", "problem", "hint"),
    [
        ("", 1, "ends too early", ""),
        ("Price >", 8, "ends too early", ""),
        ("Price > 5 and", 14, "ends too early", ""),
        ("Price EUR > 5", 7, "unexpected EUR", "[Price EUR]"),
        ("Price == 5 == 5", 12, "a comparison has two sides", "Join two comparisons by and"),
        ("lenght(name) > 2", 1, "unknown function 'lenght'", "Did you mean length?"),
        ("name = 5", 6, "a text is compared with a number", "number(…)"),
        ("id = '5'", 4, "a text is compared with a number", "without quotes"),
        ("Price < Cost", 7, "as numbers or as texts", "number(…) or text(…)"),
        ("tags = 'old'", 1, "a list cannot be compared", "'item' in tags"),
        ("name", 1, "must be true or false", "Compare it"),
        ("name and id = 1", 1, "needs a comparison", "Price > 0"),
        ("not name", 5, "needs a comparison", ""),
        ("name + 1 = 2", 1, "not a number", "number(…)"),
        ("Price > 5 && Cost > 5", 11, "unexpected &", "Write and."),
        ("`Price EUR` > 5", 1, "unexpected `", "[Price EUR]"),
        ("[Price EUR > 5", 1, "no closing ]", ""),
        ("name = 'Bello", 8, "no closing '", ""),
        ("name in 'x'", 9, "in needs a list", "('cat', 'dog')"),
        ("name in ('a', 5)", 15, "texts and numbers are in one list", ""),
        ("name in (5)", 1, "cannot be one of these numbers", ""),
        ("[] > 5", 1, "the column has no name", "[Price EUR]"),
        ("name is not null", 6, "unexpected is", "not is_blank(…)"),
        ("Price between 1 and 5", 7, "unexpected between", "by and"),
        ("name like 'A%'", 6, "unexpected like", "starts_with(…)"),
        ("name != NULL", 9, "unexpected NULL", "is_blank(…); a column of this name is [NULL]."),
        ("Sold = true", 8, "unexpected true", "a text in quotes"),
        ("name = “Bello”", 8, "unexpected “", 'Write ".'),
        ("Price ≥ 5", 7, "unexpected ≥", "Write >=."),
        ("name not like 'x'", 10, "in is missing before like", ""),
        ("tags in ('x')", 1, "cannot be one of these texts", "'small' in tags"),
        ("matches(name, '(')", 15, "the pattern is invalid", "RE2"),
        ("matches(name, status)", 15, "needs a text in quotes", ""),
        ("length(name, 2) > 1", 1, "length is written length(text)", ""),
        ("length(id) > 1", 8, "length needs a text, not a number", "text(…)"),
        ("count(name) > 1", 7, "count needs a list", ""),
        ("is_blank(lower(name))", 10, "is_blank needs a column", ""),
        ("(name = 'a'", 12, ") is missing", ""),
        ("name = 'a')", 11, "unexpected )", ""),
        ("__import__('os').system('x') = 1", 17, "unexpected .", ""),
        ("__import__('os') = 1", 1, "unknown function '__import__'", ""),
        ("name.__class__ = 'x'", 5, "unexpected .", ""),
        ("@x > 1", 1, "unexpected @", ""),
        ("(" * 40 + "id = 1" + ")" * 40, 32, "nested more than", ""),
        ("not " * 40 + "id = 1", 125, "nested more than", ""),
        ("id = 1 or " * 500 + "id = 2", 4000, "at most 4,000 characters", ""),
    ],
)
def test_a_mistake_has_its_position(text: str, position: int, problem: str, hint: str) -> None:
    """An invalid expression names the position of the mistake, and what to write."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.position, problem in str(caught.value)) == (position, True), caught.value
    assert hint in caught.value.hint


def test_a_long_chain_is_not_nested() -> None:
    """A sum, or a list of conditions, may have any number of parts."""
    assert evaluated(" or ".join(["id = 5"] * 390) + " or id = 1")[0] is True
    assert evaluated("+".join(["1"] * 1500) + " = 1500") == [True] * SIZE


def test_a_pattern_needs_linear_time() -> None:
    """A pattern that takes other engines exponential time is matched at once."""
    column_of = RuleColumn("text", pa.array(["a" * 5_000 + "!"], TEXT))
    expression = parse("matches(name, '(a+)+|(a|aa)+|(a*)*b')")
    assert expression.evaluate(lambda _: column_of, 1).to_pylist() == [False]


# Random expressions beside a plain reference.


Reference = Callable[[int], Any]
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def to_number(text: str | None) -> float | None:
    """Return the number in a cell, None if it is blank."""
    if text is None:
        return None
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def lift(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of values that may be missing."""
    return lambda *values: None if None in values else function(*values)


def divide(one: float, other: float) -> float:
    """Return the quotient; a division by zero is no number."""
    return math.nan if other == 0 else one / other


def either(one: bool | None, other: bool | None) -> bool | None:
    """Return Kleene's or."""
    return True if one or other else None if None in (one, other) else False


def both(one: bool | None, other: bool | None) -> bool | None:
    """Return Kleene's and."""
    return False if False in (one, other) else None if None in (one, other) else True


COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": divide}
number_leaves = st.one_of(
    st.integers(0, 12).map(lambda n: (str(n), lambda _: n)),
    st.sampled_from(["Price", "Cost"]).map(
        lambda name: (f"number({name})", lambda row: to_number(ROWS[name][row]))
    ),
    st.just(("id", lambda row: ROWS["id"][row])),
    st.just(("length(name)", lambda row: lift(len)(ROWS["name"][row]))),
    st.just(("count(tags)", lambda row: lift(len)(ROWS["tags"][row]))),
)


def arithmetic(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return strategies of sums and products."""

    def join(left: Any, sign: str, right: Any) -> Any:
        def value(row: int) -> Any:
            pair = left[1](row), right[1](row)
            return None if None in pair else ARITHMETIC[sign](*map(float, pair))

        return f"({left[0]} {sign} {right[0]})", value

    return st.builds(join, parts, st.sampled_from([*ARITHMETIC]), parts)


numbers = st.recursive(number_leaves, arithmetic, max_leaves=4)
text_leaves = st.one_of(
    st.sampled_from(["Bello", "sold", "old", "a'b", "abc"]).map(
        lambda text: ("'" + text.replace("'", "''") + "'", lambda _: text)
    ),
    st.sampled_from(["name", "status"]).map(lambda name: (name, lambda row: ROWS[name][row])),
    st.sampled_from(["name", "status"]).map(
        lambda name: (f"lower({name})", lambda row: lift(str.lower)(ROWS[name][row]))
    ),
)


def compare(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return strategies of comparisons."""

    def join(left: Any, sign: str, right: Any) -> Any:
        def value(row: int) -> bool | None:
            pair = left[1](row), right[1](row)
            if None in pair:
                return None
            # An integer is compared with a float as a float.
            both_floats = any(isinstance(each, float) for each in pair)
            return bool(COMPARISONS[sign](*(map(float, pair) if both_floats else pair)))

        return f"{left[0]} {sign} {right[0]}", value

    return st.builds(join, parts, st.sampled_from([*COMPARISONS]), parts)


truths = st.recursive(
    st.one_of(
        compare(numbers),
        compare(text_leaves),
        st.just(("'old' in tags", lambda row: lift(lambda tags: "old" in tags)(ROWS["tags"][row]))),
        st.sampled_from([*ROWS])
        .filter(lambda name: name != "tags")
        .map(lambda name: (f"is_blank({name})", lambda row: ROWS[name][row] is None)),
        st.just(
            (
                "name in ('Bello', '12')",
                lambda row: lift({"Bello", "12"}.__contains__)(ROWS["name"][row]),
            )
        ),
    ),
    lambda parts: st.one_of(
        st.builds(
            lambda a, b: (f"({a[0]}) or ({b[0]})", lambda row: either(a[1](row), b[1](row))),
            parts,
            parts,
        ),
        st.builds(
            lambda a, b: (f"({a[0]}) and ({b[0]})", lambda row: both(a[1](row), b[1](row))),
            parts,
            parts,
        ),
        st.builds(lambda a: (f"not ({a[0]})", lambda row: lift(operator.not_)(a[1](row))), parts),
    ),
    max_leaves=6,
)


@settings(max_examples=times(30), deadline=None)
@given(truths)
def test_an_expression_equals_a_plain_reference(case: tuple[str, Reference]) -> None:
    """Random expressions have the values of a reference that goes from row to row."""
    text, value = case
    assert evaluated(text) == [value(row) for row in range(SIZE)], text


@settings(max_examples=times(30), deadline=None)
@given(st.text(alphabet="ab1.'\"[]()<>=!+-*/, \tnotandorin_é", max_size=30))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    """Any text is either parsed or refused with a position in it."""
    position = 1
    try:
        parse(text)
    except ExpressionError as error:
        position = error.position
    assert 1 <= position <= len(text) + 1


def test_every_function_is_documented() -> None:
    """docs/rules.md has a line for each function."""
    page = (Path(__file__).parents[1] / "docs" / "rules.md").read_text("utf-8")
    for name, (arguments, _, _) in FUNCTIONS.items():
        assert f"`{name}({arguments})`" in page
