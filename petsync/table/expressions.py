"""The expressions of rules: a small grammar, evaluated over whole columns by Arrow.

    expression  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | comparison
    comparison  = sum [ ("=" | "!=" | "<" | "<=" | ">" | ">=") sum
                      | ["not"] "in" ( "(" literal { "," literal } ")" | list column ) ]
    sum         = product { ("+" | "-") product }
    product     = factor { ("*" | "/") factor }
    factor      = "-" factor | number | text | column | function "(" … ")" | "(" expression ")"

A text is in double or single quotes, which are doubled inside it. A column is a name or, if it has
spaces or other characters, in brackets: `[Price EUR]`, where `]]` stands for `]`.

The logic has three values. A blank cell makes a comparison neither true nor false; `and`, `or` and
`not` follow Kleene. Where a number is needed, a text that is not a number counts as NaN: every
comparison with it is false, except `!=`. A division by zero also gives NaN.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from petsync.settings import column_named, find_nearest
from petsync.table.columns import KIND_OF, Kind

__all__ = [
    "FUNCTIONS",
    "PATTERNS",
    "Columns",
    "Expression",
    "ExpressionError",
    "RuleColumn",
    "Signature",
    "check_pattern",
    "compose_text",
    "full_match",
    "parse",
]


PATTERNS = "Patterns are those of RE2, without lookaheads and back-references."
"""The hint of an error in a pattern."""
_WORDS: Mapping[Kind, str] = {
    "text": "a text",
    "number": "a number",
    "list": "a list",
    "cell": "a cell",
    "truth": "true or false",
}
_MAX_LENGTH, _MAX_DEPTH = 4_000, 30
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TEXT = pa.large_string()
_SAMPLE = 1_000
"""The number of values that show whether most values of a column are repeated."""


class ExpressionError(ValueError):
    """An invalid expression. `position` is the column of the mistake, counted from 1."""

    def __init__(self, position: int, problem: str, hint: str = "") -> None:
        super().__init__(f"column {position}: {problem}")
        self.position, self.problem, self.hint = position, problem, hint


# The columns that an expression reads.


class RuleColumn:
    """The values of a column, null for a blank cell: large strings, int64 or float64 numbers, or
    lists of large strings. Texts are in Unicode form NFC, in which petsync compares them. `blank`
    is a mask of the blank cells, if a null may also be a value that cannot be read.
    """

    def __init__(
        self, kind: Kind, values: pa.Array, blank: npt.NDArray[np.bool_] | None = None
    ) -> None:
        self.kind, self.values, self._blank = kind, _compose(values), blank

    @cached_property
    def blank(self) -> npt.NDArray[np.bool_]:
        """A mask of the blank cells."""
        return np.asarray(self.values.is_null()) if self._blank is None else self._blank

    @cached_property
    def texts(self) -> pa.Array:
        """The values as texts."""
        return self.values.cast(_TEXT) if self.kind == "number" else self.values

    @cached_property
    def numbers(self) -> pa.Array:
        """The values as numbers, NaN for a text that is not a number."""
        return self.values if self.kind == "number" else _read_numbers(self.values)

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """A number for each value; equal values have equal numbers, from 0 on."""
        codes = self._encoded.indices.fill_null(0)
        return np.asarray(codes).astype(np.int64)

    @property
    def is_encoded(self) -> bool:
        """Whether `codes` or `is_distinct` was used before."""
        return "_encoded" in self.__dict__

    @cached_property
    def is_distinct(self) -> bool:
        """Whether no value occurs twice."""
        filled = len(self.values) - self.values.null_count
        return bool(len(self._encoded.dictionary) == filled)

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return pc.dictionary_encode(self.values)

    @cached_property
    def has_repeats(self) -> bool:
        """Whether most of the first values occur several times."""
        first = self.values.slice(0, _SAMPLE)
        return bool(2 * pc.count_distinct(first).as_py() <= len(first))


Columns = Callable[[str], RuleColumn]
"""Returns the column with a name."""


def _compose(values: pa.Array) -> pa.Array:
    """Return the texts, or the lists of texts, in Unicode form NFC; other values as they are."""
    if pa.types.is_large_list(values.type):
        items = pc.list_flatten(values)
        composed = _compose(items)
        if composed is items:
            return values
        sizes = pc.list_value_length(values).fill_null(0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, composed, mask=values.is_null())
    if not pa.types.is_large_string(values.type):
        return values
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return values
    return pc.utf8_normalize(values, form="NFC")


def compose_text(text: str) -> str:
    """Return the text of a rule in Unicode form NFC, in which petsync compares texts."""
    return unicodedata.normalize("NFC", text)


def _read_numbers(texts: Any) -> Any:
    if isinstance(texts, pa.Scalar):
        return _read_numbers(pa.array([texts.as_py()], _TEXT))[0]
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        is_number = pc.match_substring_regex(texts, _NUMBER)
        numbers = pc.if_else(is_number, texts, pa.scalar("nan", _TEXT)).cast(pa.float64())
    # The conversion also reads `inf` and `nan`.
    is_finite = pc.is_finite(numbers)
    if pc.all(is_finite).as_py() is not False:
        return numbers
    return pc.if_else(is_finite, numbers, pa.scalar(float("nan")))


def full_match(texts: Any, pattern: str) -> Any:
    """Return a mask of the texts that match the whole pattern, null for a null.

    The patterns are those of RE2, whose time is linear in the text's length for every pattern.
    """
    return pc.match_substring_regex(texts, rf"\A(?:{compose_text(pattern)})\z")


def check_pattern(pattern: str) -> str:
    """Return what is wrong with a pattern; "" if it is valid."""
    try:
        # A pattern such as `a)(b` is valid only inside of parentheses.
        pc.match_substring_regex(pa.array([""], _TEXT), pattern)
        full_match(pa.array([""], _TEXT), pattern)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        return str(error).removeprefix("Invalid regular expression: ").splitlines()[0]
    return ""


# The tree of an expression. Its nodes are evaluated to an Arrow array or a scalar.


@dataclass(frozen=True, slots=True)
class _Node:
    at: int
    """The position in the text, counted from 1."""
    kind: Kind

    def evaluate(self, columns: Columns) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Column(_Node):
    name: str

    def evaluate(self, columns: Columns) -> Any:
        return columns(self.name).values


@dataclass(frozen=True, slots=True)
class _Value(_Node):
    value: str | float

    def evaluate(self, columns: Columns) -> Any:
        del columns
        return pa.scalar(self.value, _TEXT if isinstance(self.value, str) else None)


@dataclass(frozen=True, slots=True)
class _Operation(_Node):
    """A function of the values of other nodes."""

    function: Callable[..., Any]
    nodes: Sequence[_Node]

    def evaluate(self, columns: Columns) -> Any:
        return self.function(*(node.evaluate(columns) for node in self.nodes))


@dataclass(frozen=True, slots=True)
class _Number(_Node):
    """The number in a cell."""

    node: _Node

    def evaluate(self, columns: Columns) -> Any:
        if isinstance(self.node, _Column):
            return columns(self.node.name).numbers
        return _read_numbers(self.node.evaluate(columns))


@dataclass(frozen=True, slots=True)
class _Blank(_Node):
    """Whether the cells of a column are blank."""

    name: str

    def evaluate(self, columns: Columns) -> Any:
        return pa.array(columns(self.name).blank)


@dataclass(frozen=True, slots=True)
class _Chain(_Node):
    """Values that are combined from left to right."""

    first: _Node
    rest: Sequence[tuple[Callable[..., Any], _Node]]

    def evaluate(self, columns: Columns) -> Any:
        value = self.first.evaluate(columns)
        for combine, node in self.rest:
            value = combine(value, node.evaluate(columns))
        return value


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression."""

    text: str
    columns: tuple[str, ...]
    """The columns that it reads, in the order of the text: petsync's by name, others as written."""
    node: _Node
    """The root of its tree."""

    def evaluate(self, columns: Columns, rows: int) -> pa.Array:
        """Return for each row whether the expression is true; null if it is neither true nor
        false.
        """
        value = self.node.evaluate(columns)
        if isinstance(value, pa.Scalar):
            return pa.array([value.as_py()] * rows, pa.bool_())
        return value


# Operators and functions.


def _floats(value: Any) -> Any:
    # The implicit conversion of a large integer raises an error.
    return value.cast(pa.float64(), safe=False) if pa.types.is_integer(value.type) else value


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(_floats, values))


def _compare(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(left: Any, right: Any) -> Any:
        if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
            left, right = _floats(left), _floats(right)
        return function(left, right)

    return compare


def _divide(left: Any, right: Any) -> Any:
    is_zero = pc.equal(right, 0.0)
    return pc.divide(left, pc.if_else(is_zero, pa.scalar(float("nan")), right))


def _count(lists: Any) -> Any:
    return pc.list_value_length(lists).cast(pa.int64())


def _is_in(values: Any, choices: pa.Array) -> Any:
    if pa.types.is_floating(choices.type) or pa.types.is_floating(values.type):
        values, choices = _floats(values), _floats(choices)
    found = pc.is_in(values, value_set=choices)
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))


def _has_item(lists: pa.Array, item: str) -> pa.Array:
    """Return for each list whether it has the item, null for a null."""
    items = pc.list_flatten(lists)
    owners = pc.list_parent_indices(lists).filter(pc.fill_null(pc.equal(items, item), False))
    has = np.zeros(len(lists), dtype=bool)
    has[np.asarray(owners)] = True
    return pa.array(has, mask=np.asarray(lists.is_null()))


_COMPARISONS = {
    "=": _compare(pc.equal),
    "!=": _compare(pc.not_equal),
    "<": _compare(pc.less),
    "<=": _compare(pc.less_equal),
    ">": _compare(pc.greater),
    ">=": _compare(pc.greater_equal),
}
_SAME = {"==": "=", "<>": "!="}
_SUMS = {"+": _of_floats(pc.add), "-": _of_floats(pc.subtract)}
_PRODUCTS = {"*": _of_floats(pc.multiply), "/": _of_floats(_divide)}


class Signature(NamedTuple):
    """A function of expressions."""

    arguments: str
    """The arguments in words."""
    result: Kind
    meaning: str
    """What it returns, for the documentation."""


FUNCTIONS: Mapping[str, Signature] = {
    "length": Signature("text", "number", "the number of characters"),
    "lower": Signature("text", "text", "the text in lower case"),
    "upper": Signature("text", "text", "the text in upper case"),
    "trim": Signature("text", "text", "the text without spaces around it"),
    "contains": Signature(
        "text or list, 'part'",
        "truth",
        "whether the text contains the part, or the list has the item",
    ),
    "starts_with": Signature("text, 'part'", "truth", "whether the text starts with the part"),
    "ends_with": Signature("text, 'part'", "truth", "whether the text ends with the part"),
    "matches": Signature("text, 'pattern'", "truth", "whether the whole text matches the pattern"),
    "count": Signature("list", "number", "the number of items in `tags` or `photo_urls`"),
    "is_blank": Signature("column", "truth", "whether the cell is blank"),
    "number": Signature("text", "number", "the number in the text"),
    "text": Signature("number or cell", "text", "the value as a text, to compare it as a text"),
}
_OF_TEXT: Mapping[str, Callable[..., Any]] = {
    "length": lambda texts: pc.utf8_length(texts).cast(pa.int64()),
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "trim": pc.utf8_trim_whitespace,
}
_OF_PART: Mapping[str, Callable[..., Any]] = {
    "contains": lambda texts, part: pc.match_substring(texts, part.as_py()),
    "starts_with": lambda texts, part: pc.starts_with(texts, part.as_py()),
    "ends_with": lambda texts, part: pc.ends_with(texts, part.as_py()),
    "matches": lambda texts, part: full_match(texts, part.as_py()),
}


# The parser.


class _Token(NamedTuple):
    kind: str
    """`number`, `text`, `column`, `name`, `operator` or `end`."""
    text: str
    at: int


_TOKENS = re.compile(
    r"""
    (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')
    | (?P<column>\[(?:[^\]]|\]\])+\])
    | (?P<name>[^\W\d]\w*)
    | (?P<operator><=|>=|<>|!=|==|[=<>+\-*/(),])
    """,
    re.VERBOSE,
)
_KEYWORDS = ("and", "or", "not", "in")
_UNUSUAL = (
    {"&&": "and", "||": "or", "&": "and", "|": "or", "!": "not", "~": "not"}
    | {"≠": "!=", "≤": "<=", "≥": ">="}
    | dict.fromkeys("“”„«»", '"')
    | dict.fromkeys("‘’‚´", "'")
)
_OF_SQL = {
    "is": "Write is_blank(…), or not is_blank(…).",
    "like": "Write contains(…), starts_with(…), ends_with(…) or matches(…).",
    "between": "Join two comparisons by and: Price >= 0 and Price <= 100.",
}
_NO_COLUMNS = {
    **dict.fromkeys(("null", "none", "nan"), "Write is_blank(…)"),
    **dict.fromkeys(("true", "false"), "Compare with a text in quotes, such as 'yes'"),
}
"""Names that mean a column only in brackets, and what to write instead."""
_T = TypeVar("_T")


@lru_cache(maxsize=1_000)
def parse(text: str) -> Expression:
    """Return the expression. Raises ExpressionError, which has the position of the mistake."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(_MAX_LENGTH, f"an expression has at most {_MAX_LENGTH:,} characters")
    parser = _Parser(_split(text))
    node = parser.read_whole()
    return Expression(text, tuple(dict.fromkeys(parser.columns)), node)


def _split(text: str) -> list[_Token]:
    tokens = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TOKENS.match(text, at)
        if found is None:
            raise _strange_text(text, at)
        tokens.append(_Token(found.lastgroup or "", found[0], at + 1))
        at = found.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


def _strange_text(text: str, at: int) -> ExpressionError:
    if text[at] in "\"'":
        return ExpressionError(at + 1, f"the text has no closing {text[at]}")
    if text[at] == "[":
        problem = "has no name" if text.startswith("[]", at) else "has no closing ]"
        return ExpressionError(at + 1, f"the column {problem}", "Write it as [Price EUR].")
    sign = next((sign for sign in _UNUSUAL if text.startswith(sign, at)), text[at])
    hint = f"Write {_UNUSUAL[sign]}." if sign in _UNUSUAL else ""
    if sign == "`":
        hint = "Write a column with spaces in brackets, such as [Price EUR]."
    return ExpressionError(at + 1, f"unexpected {sign}", hint)


class _Parser:
    """Reads tokens by recursive descent, and checks the types of all values."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens, self._next, self._depth = tokens, 0, 0
        self.columns: list[str] = []

    def read_whole(self) -> _Node:
        node = self._read_expression()
        if self._token.kind != "end":
            self._reject_token()
        if node.kind != "truth":
            self._fail(
                node.at,
                f"the expression is {_WORDS[node.kind]}, and must be true or false",
                "Compare it, such as Price > 0.",
            )
        return node

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _is_at(self, *words: str) -> bool:
        kind, text, _ = self._token
        return kind in ("operator", "name") and text.casefold() in words

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._is_at(text):
            self._reject_token(f"{text} is missing")
        self._take()

    def _fail(self, at: int, problem: str, hint: str = "") -> NoReturn:
        raise ExpressionError(at, problem, hint)

    def _reject_token(self, missing: str = "") -> NoReturn:
        kind, text, at = self._token
        if kind == "end":
            self._fail(at, missing or "the expression ends too early")
        hint = ""
        if kind == "name" and self._next and self._tokens[self._next - 1].kind == "name":
            both = f"{self._tokens[self._next - 1].text} {text}"
            brackets = f"Write a column with spaces in brackets: [{both}]."
            hint = _OF_SQL.get(text.casefold(), brackets)
        self._fail(at, f"{missing} before {text}" if missing else f"unexpected {text}", hint)

    def _nested(self, read: Callable[[], _T]) -> _T:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(self._token.at, f"the expression is nested more than {_MAX_DEPTH} times")
        result = read()
        self._depth -= 1
        return result

    # Truth.

    def _read_expression(self) -> _Node:
        return self._read_logic("or", pc.or_kleene, self._read_conjunction)

    def _read_conjunction(self) -> _Node:
        return self._read_logic("and", pc.and_kleene, self._read_negation)

    def _read_logic(
        self, word: str, combine: Callable[..., Any], read: Callable[[], _Node]
    ) -> _Node:
        first = read()
        rest = []
        while self._is_at(word):
            at = self._take().at
            self._must_be_truth(first, word, at)
            node = read()
            self._must_be_truth(node, word, at)
            rest.append((combine, node))
        return _Chain(first.at, "truth", first, rest) if rest else first

    def _must_be_truth(self, node: _Node, word: str, at: int) -> None:
        if node.kind != "truth":
            self._fail(
                node.at,
                f"{word} at column {at} needs a comparison, not {_WORDS[node.kind]}",
                "Compare the value, such as Price > 0.",
            )

    def _read_negation(self) -> _Node:
        if not self._is_at("not"):
            return self._read_comparison()
        at = self._take().at
        node = self._nested(self._read_negation)
        self._must_be_truth(node, "not", at)
        return _Operation(at, "truth", pc.invert, [node])

    def _read_comparison(self) -> _Node:
        left = self._read_sum()
        sign = _SAME.get(self._token.text, self._token.text)
        if self._token.kind == "operator" and sign in _COMPARISONS:
            token = self._take()
            node = self._compare(left, sign, self._read_sum(), token.at)
            if self._token.kind == "operator" and self._token.text in {*_COMPARISONS, *_SAME}:
                self._fail(
                    self._token.at,
                    "a comparison has two sides",
                    "Join two comparisons by and: 0 < Price and Price < 100.",
                )
            return node
        at = self._token.at
        is_negated = self._is_at("not")
        if is_negated:
            self._take()
            if not self._is_at("in"):
                self._reject_token("in is missing")
        if not self._is_at("in"):
            return left
        self._take()
        node = self._read_choices(left)
        return _Operation(at, "truth", pc.invert, [node]) if is_negated else node

    def _compare(self, left: _Node, sign: str, right: _Node, at: int) -> _Node:
        kinds = {left.kind, right.kind}
        for node in (left, right):
            if node.kind == "list":
                hint = f"Write 'item' in {node.name}." if isinstance(node, _Column) else ""
                self._fail(node.at, "a list cannot be compared", f"{hint} Or use count.".lstrip())
            if node.kind == "truth":
                self._fail(node.at, "true or false cannot be compared", "Use and, or and not.")
        if kinds == {"text", "number"}:
            node = left if left.kind == "text" else right
            hint = "Compare it with a text in quotes, or use number(…)."
            if isinstance(node, _Value):
                hint = "Write the number without quotes, or use text(…)."
            self._fail(at, "a text is compared with a number", hint)
        if kinds == {"cell"} and sign not in ("=", "!="):
            hint = "Write number(…) or text(…) around both sides."
            self._fail(at, "the cells can be compared as numbers or as texts", hint)
        if "number" in kinds:
            left, right = self._as_number(left), self._as_number(right)
        return _Operation(left.at, "truth", _COMPARISONS[sign], [left, right])

    def _read_choices(self, left: _Node) -> _Node:
        if not self._is_at("("):
            return self._read_item_test(left)
        self._take()
        choices = [self._read_choice()]
        while self._is_at(","):
            self._take()
            choices.append(self._read_choice())
        self._expect(")")
        kinds = {type(choice) for _, choice in choices}
        wanted: Kind = "text" if kinds == {str} else "number"
        for at, choice in choices:
            if isinstance(choice, str) is not isinstance(choices[0][1], str):
                self._fail(at, "texts and numbers are in one list", "Write only texts, or numbers.")
        if left.kind == "cell" and wanted == "number":
            left = self._as_number(left)
        if left.kind not in (wanted, "cell"):
            self._fail(
                left.at,
                f"{_WORDS[left.kind]} cannot be one of these {wanted}s",
                "Write the item before in, such as 'small' in tags."
                if left.kind == "list"
                else "Use number(…) or text(…).",
            )
        found = [choice for _, choice in choices]
        if float in kinds:
            found = [*map(float, found)]
        values = pa.array(found, None if wanted == "number" else _TEXT)
        return _Operation(left.at, "truth", lambda value: _is_in(value, values), [left])

    def _read_choice(self) -> tuple[int, str | float]:
        sign = -1 if self._is_at("-") and self._take() else 1
        token = self._take()
        if token.kind == "number":
            return token.at, sign * _number_of(token.text)
        if token.kind == "text" and sign == 1:
            return token.at, _text_of(token.text)
        self._next -= 1
        return self._reject_token("a text in quotes or a number is missing")

    def _read_item_test(self, left: _Node) -> _Node:
        token = self._token
        node = self._read_factor()
        if node.kind != "list":
            self._fail(token.at, "in needs a list", "Write it as ('cat', 'dog').")
        if not (isinstance(left, _Value) and isinstance(left.value, str)):
            self._fail(left.at, "the item before in must be a text in quotes")
        item = left.value
        return _Operation(left.at, "truth", lambda lists: _has_item(lists, item), [node])

    # Numbers and texts.

    def _read_sum(self) -> _Node:
        return self._read_arithmetic(_SUMS, self._read_product)

    def _read_product(self) -> _Node:
        return self._read_arithmetic(_PRODUCTS, self._read_factor)

    def _read_arithmetic(
        self, operators: Mapping[str, Callable[..., Any]], read: Callable[[], _Node]
    ) -> _Node:
        first = read()
        rest: list[tuple[Callable[..., Any], _Node]] = []
        while self._token.kind == "operator" and self._token.text in operators:
            combine = operators[self._take().text]
            if not rest:
                first = self._as_number(first)
            rest.append((combine, self._as_number(read())))
        return _Chain(first.at, "number", first, rest) if rest else first

    def _as_number(self, node: _Node) -> _Node:
        if node.kind == "cell":
            return _Number(node.at, "number", node)
        if node.kind != "number":
            hint = "Use number(…)." if node.kind == "text" else ""
            self._fail(node.at, f"this is {_WORDS[node.kind]}, not a number", hint)
        return node

    def _read_factor(self) -> _Node:
        kind, text, at = self._token
        if kind == "operator" and text == "-":
            self._take()
            node = self._as_number(self._nested(self._read_factor))
            return _Operation(at, "number", _of_floats(pc.negate), [node])
        if kind == "operator" and text == "(":
            self._take()
            node = self._nested(self._read_expression)
            self._expect(")")
            return node
        if kind == "number":
            return _Value(self._take().at, "number", _number_of(text))
        if kind == "text":
            return _Value(self._take().at, "text", _text_of(text))
        if kind == "column":
            self._take()
            return self._column(text[1:-1].replace("]]", "]"), at)
        if kind == "name" and text.casefold() not in _KEYWORDS:
            self._take()
            if self._is_at("("):
                return self._read_call(text, at)
            if hint := _NO_COLUMNS.get(text.casefold()):
                self._fail(at, f"unexpected {text}", f"{hint}; a column of this name is [{text}].")
            return self._column(text, at)
        return self._reject_token()

    def _column(self, name: str, at: int) -> _Node:
        name = column_named(name) or name.strip()
        self.columns.append(name)
        return _Column(at, KIND_OF.get(name, "cell"), name)

    def _read_call(self, name: str, at: int) -> _Node:
        folded = name.casefold()
        if folded not in FUNCTIONS:
            near = find_nearest(folded, FUNCTIONS)
            known = f"The functions are: {', '.join(FUNCTIONS)}."
            hint = f"Did you mean {near}?" if near else known
            self._fail(at, f"unknown function '{name}'", hint)
        self._take()
        arguments = [] if self._is_at(")") else [self._nested(self._read_expression)]
        while self._is_at(","):
            self._take()
            arguments.append(self._nested(self._read_expression))
        self._expect(")")
        takes, result, _ = FUNCTIONS[folded]
        if len(arguments) != takes.count(",") + 1:
            self._fail(at, f"{folded} is written {folded}({takes})")
        return self._call(folded, arguments, at, result)

    def _call(self, name: str, arguments: Sequence[_Node], at: int, result: Kind) -> _Node:
        first = arguments[0]
        if name == "is_blank":
            if not isinstance(first, _Column):
                self._fail(first.at, "is_blank needs a column")
            return _Blank(at, result, first.name)
        if name == "count":
            self._must_be(name, first, "list")
            return _Operation(at, result, _count, [first])
        if name == "number":
            self._must_be(name, first, "text", "cell", "number")
            return first if first.kind == "number" else _Number(at, result, first)
        if name == "text":
            self._must_be(name, first, "text", "cell", "number")
            return _Operation(at, result, lambda value: value.cast(_TEXT), [first])
        if name in _OF_TEXT:
            self._must_be(name, first, "text", "cell")
            return _Operation(at, result, _OF_TEXT[name], [first])
        return self._call_with_part(name, *arguments, at=at)

    def _call_with_part(self, name: str, first: _Node, part: _Node, *, at: int) -> _Node:
        if not (isinstance(part, _Value) and isinstance(part.value, str)):
            self._fail(part.at, f"{name} needs a text in quotes here")
        value = part.value
        if name == "contains" and first.kind == "list":
            return _Operation(at, "truth", lambda lists: _has_item(lists, value), [first])
        self._must_be(name, first, "text", "cell")
        if name == "matches" and (problem := check_pattern(value)):
            self._fail(part.at, f"the pattern is invalid: {problem}", PATTERNS)
        return _Operation(at, "truth", _OF_PART[name], [first, part])

    def _must_be(self, name: str, node: _Node, *kinds: Kind) -> None:
        if node.kind in kinds:
            return
        hint = {"number": "Use text(…).", "list": "Use count or contains."}.get(node.kind, "")
        wanted = "a list, such as tags" if kinds == ("list",) else "a text"
        self._fail(node.at, f"{name} needs {wanted}, not {_WORDS[node.kind]}", hint)


def _number_of(text: str) -> int | float:
    number = int(text) if text.isdigit() else float(text)
    return number if isinstance(number, float) or number < 1 << 63 else float(number)


def _text_of(token: str) -> str:
    quote = token[0]
    return compose_text(token[1:-1].replace(quote * 2, quote))
