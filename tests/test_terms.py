"""The texts that replace commands and options in messages: each pattern still finds a message."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import petsync
from petsync.reconcile.context import _KEYS
from petsync.report.words import replace_terms
from petsync.widgets.login import ConnectForm, LoginForm
from petsync.widgets.review import ReviewForm
from petsync.widgets.sheet import SheetForm

_FORMS = (ConnectForm, LoginForm, ReviewForm, SheetForm)
_PATTERNS = sorted(
    {pattern for form in _FORMS for pattern, _ in form.terms} | {pattern for pattern, _ in _KEYS}
)
_VALUES = ("1", "them", "['1']", "'1'")
"""What stands for a value in a message."""


@cache
def _messages() -> tuple[str, ...]:
    """Return the texts in petsync's modules, without those of the patterns."""
    modules = Path(petsync.__file__).parent.rglob("*.py")
    return tuple(
        text
        for module in modules
        for text in _texts(ast.parse(module.read_text("utf-8")))
        if text not in _PATTERNS
    )


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            for value in _VALUES:
                parts = (p.value if isinstance(p, ast.Constant) else value for p in node.values)
                yield "".join(map(str, parts))


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_each_pattern_finds_a_message(pattern: str) -> None:
    """A message whose words change would show a command in a form, or an option in a round."""
    # Some messages add the parentheses to a text.
    core = pattern.removeprefix(r" \(").removesuffix(r"\)")
    assert any(re.search(core, text) for text in _messages())


@pytest.mark.parametrize("tab", ["More", "Pets (2)", "Tom's (new) pets", 'The "best" (old)'])
def test_the_name_of_a_worksheet_is_replaced_completely(tab: str) -> None:
    """No part of an option stays in a form, whatever the worksheet's name."""
    text = f"Read it by its name (--sheet {shlex.quote(tab)}, in Python tab={tab!r})."
    assert replace_terms(text, ReviewForm.terms) == "Read it by its name."
