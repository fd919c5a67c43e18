"""Options that users name: in Python as keywords, on the command line with two hyphens.

The keywords of a function are the keys of a TypedDict, each annotated with an `Option`, its
documentation. The values are the fields of a frozen class, which checks them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

__all__ = ["Keyword", "Option", "iter_keywords", "reject_unknown", "show_keywords"]


F = TypeVar("F", bound=Callable[..., Any])
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
_WIDTH = 92


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The documentation of a keyword, for the command line and for docstrings."""

    help: str
    """What the option does, as a sentence."""
    default: str = ""
    """The default in words, "" if it needs none."""
    metavar: str = ""
    """The form of the value on the command line, "" for a flag and for choices."""
    flag: str = ""
    """The name on the command line without hyphens, "" if it is the keyword's."""
    choices: tuple[str, ...] = ()
    """Valid values, of which several may be given."""
    least: int | None = None
    """The least valid number."""
    most: int | None = None
    """The greatest valid number."""


class Keyword(NamedTuple):
    """A keyword with its documentation."""

    name: str
    kind: Any
    """The type of the value."""
    option: Option


def iter_keywords(keywords: type) -> Iterator[Keyword]:
    """Yield the keywords of a TypedDict that are annotated with an `Option`."""
    for name, annotated in get_type_hints(keywords, include_extras=True).items():
        kind, *notes = get_args(annotated) or (annotated,)
        for option in notes:
            if isinstance(option, Option):
                yield Keyword(name, kind, option)


def reject_unknown(given: Mapping[str, object], function: str, keywords: type) -> None:
    """Raise TypeError, as Python does, for a keyword that is not in the TypedDict."""
    for name in given:
        if name not in keywords.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def show_keywords(
    keywords: type,
    *values: type[msgspec.Struct],
    has_defaults: bool = True,
    misplaced: Mapping[str, str] | None = None,
    **defaults: object,
) -> Callable[[F], F]:
    """Return a decorator for a function that takes the keywords of a TypedDict as `**options`.

    The signature and the docstring of the function then have these keywords. The defaults are the
    given ones, else those of the fields of the `values`, else False for flags and None for the
    others. Without `has_defaults`, the docstring names none. `misplaced` has what to do instead, by
    keyword of another function.
    """
    fields = {
        each.name: _find_default(each) for kind in values for each in msgspec.structs.fields(kind)
    }
    known = list(iter_keywords(keywords))

    def show(function: F) -> F:
        shown: Any = function
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for name, kind, _ in known:
            usual = fields.get(name, False if kind is bool else None)
            parameters.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=defaults.get(name, usual),
                    annotation=_MODULES.sub("", inspect.formatannotation(kind)),
                )
            )
        shown.__signature__ = signature.replace(parameters=parameters)
        shown.misplaced = misplaced or {}
        text = inspect.cleandoc(function.__doc__ or "")
        lines = [_describe(each, with_default=has_defaults) for each in known]
        shown.__doc__ = "\n".join([text, "", *lines])
        return function

    return show


def _find_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    return field.default_factory()


def _describe(keyword: Keyword, *, with_default: bool) -> str:
    usual = keyword.option.default if with_default else ""
    default = f" [{usual}]" if usual else ""
    text = f"- `{keyword.name}`: {keyword.option.help}{default}"
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ")
