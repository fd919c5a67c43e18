"""SheetRule: a user's rule for a sheet or a store, and the mistakes in it.

Options and petsync.toml have rules, so this module loads neither pandas nor Arrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from petsync._display import type_name
from petsync.errors import SettingsError
from petsync.settings import column_named, find_nearest
from petsync.table.columns import COLUMNS, KIND_OF

if TYPE_CHECKING:
    from petsync.table.expressions import Expression, ExpressionError

__all__ = [
    "RULE_PREFIX",
    "RuleError",
    "RuleProblem",
    "RuleResult",
    "Severity",
    "SheetRule",
    "Side",
    "check_rules",
    "describe",
    "find_repeated",
    "merge_rules",
    "rule_code",
]


Severity = Literal["error", "warning"]
Side = Literal["sheet", "store"]
RULE_PREFIX = "rule:"
"""The code of a finding of a rule is this prefix and the rule's name."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SHOWN_CHOICES = 10


class RuleProblem(NamedTuple):
    """What is wrong with a rule: the key, "" for the whole rule; the problem, and what to do."""

    key: str
    message: str
    hint: str


class RuleError(SettingsError):
    """A rule is invalid. `problems` has all its mistakes."""

    def __init__(self, name: object, problems: Sequence[RuleProblem]) -> None:
        texts = (f"{key}: {message}" if key else message for key, message, _ in problems)
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        super().__init__(f"rule {name!r}: {'; '.join(texts)}", hint=" ".join(hints))
        self.problems = tuple(problems)


class SheetRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of your own for the rows of a sheet, or for the pets of a store.

    It has exactly one of `required`, `unique`, `values`, `pattern`, a length, a range, `expression`
    and `check`; a rule that is not `enabled` may have none. A blank cell breaks only `required`.
    Raises SettingsError if it is invalid.
    """

    name: str
    """The name: letters, digits, `.`, `-` and `_`. The code of its findings is `rule:NAME`."""
    severity: Severity = "error"
    """An `error` keeps its row out of a plan; a `warning` does not."""
    message: str = ""
    """The problem in your words, for the findings; "" for petsync's."""
    enabled: bool = True
    """Whether the rule is applied."""
    columns: tuple[str, ...] = ()
    """The columns to check, by name or header. For an expression: the columns that its findings
    name.
    """
    applies_to: Side = "sheet"
    """`store`: check the store's pets instead, and report those that break the rule."""
    required: bool = False
    """No cell may be blank."""
    unique: bool = False
    """No two rows may have the same values in all the columns together."""
    values: tuple[str, ...] = ()
    """The permitted values, or items of a list."""
    pattern: str = ""
    """A regular expression (RE2) that the whole value, or each item of a list, must match."""
    min_length: int | None = None
    """The minimum number of characters, or of items of a list."""
    max_length: int | None = None
    """The maximum number of characters, or of items of a list."""
    minimum: float | None = None
    """The least number."""
    maximum: float | None = None
    """The greatest number."""
    expression: str = ""
    """A condition that must not be false for a row, such as `[Price EUR] > 0`."""
    check: Any = None
    """A pandera schema, or a function that gets the rows as a DataFrame and returns those that
    break the rule.
    """

    def __post_init__(self) -> None:
        for key in ("columns", "values"):
            if isinstance(value := getattr(self, key), list):
                msgspec.structs.force_setattr(self, key, tuple(value))
        for key in ("min_length", "max_length", "minimum", "maximum"):
            value = getattr(self, key)
            # numpy's integers, such as `prices.min()`, are numbers too.
            if not isinstance(value, int) and isinstance(value, Integral):
                msgspec.structs.force_setattr(self, key, int(value))
        if problems := [*_find_problems(self)]:
            raise RuleError(self.name, problems)

    @property
    def kind(self) -> str:
        """The kind of the rule, such as `pattern`, `length` or `range`."""
        return next(iter(_kinds_of(self)), "")

    @property
    def parsed(self) -> Expression:
        """The parsed expression."""
        from petsync.table.expressions import parse

        return parse(self.expression)

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns that the rule reads or points to, as petsync names them, else as written."""
        named = tuple(column_named(name) or name for name in self.columns)
        read = self.parsed.columns if self.expression else ()
        return tuple(dict.fromkeys((*named, *read)))

    @property
    def marked_columns(self) -> tuple[str, ...]:
        """The columns to which findings point."""
        used = self.used_columns
        return used[: len(self.columns) or 1]

    @property
    def problem_in_parts(self) -> str:
        """Why the rule cannot be applied to a sheet that is compared in parts; "" if it can."""
        return "needs all rows at once" if self.kind == "check" else ""


def rule_code(rule: SheetRule) -> str:
    """Return the code of the rule's findings."""
    return f"{RULE_PREFIX}{rule.name}"


def check_rules(rules: object) -> tuple[SheetRule, ...]:
    """Return the rules. Raises SettingsError if there are other values, or two with one name."""
    given: list[SheetRule] = []
    for each in rules if isinstance(rules, Iterable) else (rules,):
        if not isinstance(each, SheetRule):
            raise SettingsError(
                f"{type_name(each)} is not a rule", hint="Write ps.types.SheetRule(name=…, …)."
            )
        given.append(each)
    if repeated := find_repeated(each.name for each in given):
        raise SettingsError(
            f"two rules have the name {given[repeated[0]].name!r}", hint="Rename one of them."
        )
    return tuple(given)


def find_repeated(names: Iterable[str]) -> list[int]:
    """Return the positions of the names that are repeated, without regard to case."""
    seen: set[str] = set()
    repeated = []
    for at, name in enumerate(names):
        if name.casefold() in seen:
            repeated.append(at)
        seen.add(name.casefold())
    return repeated


def merge_rules(rules: Sequence[SheetRule], own: Sequence[SheetRule]) -> tuple[SheetRule, ...]:
    """Return the rules and the `own` ones, which replace rules of the same name."""
    names = {each.name.casefold() for each in own}
    return (*(each for each in rules if each.name.casefold() not in names), *own)


# Mistakes in a rule.


def _kinds_of(rule: SheetRule) -> Iterator[str]:
    given = {
        "required": rule.required,
        "unique": rule.unique,
        "values": rule.values,
        "pattern": rule.pattern,
        "length": rule.min_length is not None or rule.max_length is not None,
        "range": rule.minimum is not None or rule.maximum is not None,
        "expression": rule.expression,
        "check": rule.check is not None,
    }
    yield from (kind for kind, is_given in given.items() if is_given)


_WAYS = (
    "Write one of required = true, unique = true, values, pattern, min_length, max_length, "
    "minimum, maximum and expression."
)
_KEYS_OF = {"length": ("min_length", "max_length"), "range": ("minimum", "maximum")}


def _keys_of(rule: SheetRule, kind: str) -> list[str]:
    """Return the keys with which the rule has a condition of this kind."""
    # 0 equals False, and is a limit.
    values = {key: getattr(rule, key) for key in _KEYS_OF.get(kind, (kind,))}
    return [key for key, value in values.items() if value is not None and value is not False]


def _find_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    if wrong := [*_find_wrong_types(rule)]:
        yield from wrong
        return
    if not _NAME.fullmatch(rule.name):
        near = re.sub(r"[^A-Za-z0-9_.-]+", "-", rule.name).strip("-.")[:64]
        yield RuleProblem(
            "name",
            f"is {rule.name!r}, and must have only letters, digits, dots, - and _",
            f'Write name = "{near}".' if near else "Write a name.",
        )
    kinds = [*_kinds_of(rule)]
    if not kinds and rule.enabled:
        yield RuleProblem("", "the rule has nothing to check", _WAYS)
    for kind in kinds[1:]:
        yield RuleProblem(
            _keys_of(rule, kind)[0],
            f"the rule also has {_keys_of(rule, kinds[0])[0]}, and can have only one of them",
            "Make two rules of it, each with a name.",
        )
    for kind in kinds[:1]:
        yield from _find_problems_of_columns(rule, kind)
        yield from _OWN_PROBLEMS.get(kind, _no_problems)(rule)


_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "name": (str, "text"),
    "message": (str, "text"),
    "enabled": (bool, "True or False"),
    "columns": (tuple, "a list of texts"),
    "required": (bool, "True or False"),
    "unique": (bool, "True or False"),
    "values": (tuple, "a list of texts"),
    "pattern": (str, "text"),
    "min_length": ((int, type(None)), "a whole number"),
    "max_length": ((int, type(None)), "a whole number"),
    "minimum": ((int, float, type(None)), "a number"),
    "maximum": ((int, float, type(None)), "a number"),
    "expression": (str, "text"),
}


def _find_wrong_types(rule: SheetRule) -> Iterator[RuleProblem]:
    for key, (kind, words) in _TYPES.items():
        value = getattr(rule, key)
        is_flag = isinstance(value, bool) and kind is not bool
        items = value if isinstance(value, tuple) else ()
        if is_flag or not isinstance(value, kind) or not all(isinstance(i, str) for i in items):
            hint = f"Write {key} = [{value!r}]." if kind is tuple and isinstance(value, str) else ""
            yield RuleProblem(key, f"is {value!r}, and must be {words}", hint)
        elif not all(map(_can_be_encoded, (value,) if isinstance(value, str) else items)):
            problem = f"contains half of a surrogate pair: {value!r}"
            yield RuleProblem(key, problem, "Remove it: no text contains it.")
    for key, choices in (("severity", get_args(Severity)), ("applies_to", get_args(Side))):
        value = getattr(rule, key)
        if value not in choices:
            near = find_nearest(str(value), choices) or choices[0]
            yield RuleProblem(
                key, f"is {value!r}, and must be {' or '.join(choices)}", f'Write "{near}".'
            )


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_problems_of_columns(rule: SheetRule, kind: str) -> Iterator[RuleProblem]:
    if not rule.columns and kind not in ("expression", "check"):
        yield RuleProblem("columns", "is missing", 'Write columns = ["name"], or other columns.')
    if any(not name.strip() for name in rule.columns):
        yield RuleProblem("columns", "has an empty name", "Write the header of the column.")
    lists = [name for name in rule.columns if KIND_OF.get(column_named(name) or "") == "list"]
    if lists and kind in ("unique", "range"):
        key = _keys_of(rule, kind)[0]
        yield RuleProblem(
            "columns", f"has {lists[0]}, a list, to which {key} cannot apply", "Remove it."
        )
    if rule.applies_to != "store":
        return
    if rule.check is not None:
        yield RuleProblem("check", "cannot apply to the store", 'Write applies_to="sheet".')
        return
    read = set(rule.parsed.columns) if rule.expression and not _syntax_error(rule) else set()
    for name in dict.fromkeys((*(column_named(each) or each for each in rule.columns), *read)):
        if name not in COLUMNS:
            near = find_nearest(name, COLUMNS)
            yield RuleProblem(
                "columns" if name not in read else "expression",
                f"the store has no column {name!r}",
                f"Did you mean {near}?" if near else f"Its columns are {', '.join(COLUMNS)}.",
            )


def _no_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    del rule
    yield from ()


def _pattern_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    from petsync.table.expressions import PATTERNS, check_pattern

    if problem := check_pattern(rule.pattern):
        yield RuleProblem("pattern", f"{rule.pattern!r} is invalid: {problem}", PATTERNS)


def _length_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    least, most = rule.min_length, rule.max_length
    for key, value in (("min_length", least), ("max_length", most)):
        if value is not None and value < 0:
            yield RuleProblem(key, f"is {value}, and must not be below 0", f"Write {key} = 0.")
    if least is not None and most is not None and least > most:
        yield RuleProblem("max_length", f"is {most}, below min_length", f"Write at least {least}.")


def _range_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    least, most = rule.minimum, rule.maximum
    for key, value in (("minimum", least), ("maximum", most)):
        if value is not None and not _is_finite(value):
            yield RuleProblem(key, "must be a finite number of at most 308 digits", "Leave it out.")
            return
    if least is not None and most is not None and least > most:
        yield RuleProblem("maximum", f"is {most:g}, below minimum", f"Write at least {least:g}.")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a larger integer than any float
        return False


def _syntax_error(rule: SheetRule) -> ExpressionError | None:
    from petsync.table.expressions import ExpressionError, parse

    try:
        parse(rule.expression)
    except ExpressionError as error:
        return error
    return None


def _expression_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    error = _syntax_error(rule)
    if error is not None:
        yield RuleProblem("expression", str(error), error.hint)
    elif not rule.parsed.columns:
        yield RuleProblem("expression", "it names no column", "Write, for example, [Price] > 0.")


def _check_problems(rule: SheetRule) -> Iterator[RuleProblem]:
    if not (callable(rule.check) or hasattr(rule.check, "validate")):
        yield RuleProblem(
            "check", f"is {type_name(rule.check)}", "Give a function or a pandera schema."
        )


_OWN_PROBLEMS: Mapping[str, Callable[[SheetRule], Iterator[RuleProblem]]] = {
    "pattern": _pattern_problems,
    "length": _length_problems,
    "range": _range_problems,
    "expression": _expression_problems,
    "check": _check_problems,
}


# The result of a rule, and its words.


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of a rule in one sheet."""

    name: str
    severity: Severity
    applies_to: Side = "sheet"
    rows: int = 0
    """The number of rows that the rule could look at."""
    looked: int = 0
    """The number of rows with a value, for which the rule is met or broken."""
    broken: int = 0
    """The number of rows that break it."""
    skipped: str = ""
    """The reason why the rule did not run; "" if it ran."""


def describe(rule: SheetRule, *, is_list: bool = False) -> str:
    """Return the problem of a cell that breaks the rule, in one sentence."""
    if rule.message:
        return rule.message
    least, most = rule.min_length, rule.max_length
    items = "each item" if is_list else "the value"
    return {
        "required": "The cell is blank, and must have a value.",
        "unique": "Another row has the same value.",
        "values": f"{items.capitalize()} must be one of {_choices(rule.values)}.",
        "pattern": f"{items.capitalize()} must match the pattern {rule.pattern}",
        "length": f"It must have {_limits(least, most, 'item' if is_list else 'character')}.",
        "range": f"The value must be a number, {_limits(rule.minimum, rule.maximum)}.",
        "expression": f"The row breaks the condition {rule.expression}",
        "check": "The row breaks the check.",
        "": "The rule checks nothing.",
    }[rule.kind]


def _choices(values: Sequence[str]) -> str:
    more = len(values) - _SHOWN_CHOICES
    return ", ".join(values[:_SHOWN_CHOICES]) + (f" and {more:,} more" if more > 0 else "")


def _limits(least: float | None, most: float | None, unit: str = "") -> str:
    last = least if most is None else most
    words = f" {unit}{'' if last == 1 else 's'}" if unit else ""
    if least is None:
        return f"at most {_plain(most)}{words}"
    if least == most:
        return f"exactly {_plain(least)}{words}"
    between = f"at least {_plain(least)}" if most is None else f"{_plain(least)} to {_plain(most)}"
    return f"{between}{words}"


def _plain(number: float | None) -> str:
    is_whole = isinstance(number, float) and number.is_integer()
    return str(int(number)) if is_whole and number is not None else str(number)
