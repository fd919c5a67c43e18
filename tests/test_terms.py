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
from petsync._display import complete_commands, with_options
from petsync._terms import in_python, in_shell, replace_terms
from petsync.reconcile.context import _KEYS
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


_QUOTED = shlex.quote("Tom's (2)")
_WAY = re.compile(r"(?:--[a-z-]+|`petsync )[^.;:]*in Python[,:]? [\w`].*[^=({\[']", re.DOTALL)


@pytest.mark.parametrize(
    "text", sorted(text for text in _messages() if _WAY.search(text) and "['1']" not in text)
)
def test_a_way_out_is_the_one_at_hand(text: str) -> None:
    """A shell shows the option alone, Python the argument alone, in every message that has both."""
    if '"""' not in text and "\n\n" not in text:
        assert "in Python" not in in_shell(text)
        assert not re.search("in Python|--[a-z]|`petsync (?!trust|demo)", in_python(text))


@pytest.mark.parametrize(
    ("text", "shell", "python"),
    [
        (
            "add 3: `--max-add 3` (in Python max_add=3) would allow it",
            "add 3: `--max-add 3` would allow it",
            "add 3: max_add=3 would allow it",
        ),
        (
            "raise the limit (in Python allow_empty=True, max_add=3) and plan again.",
            "raise the limit and plan again.",
            "raise the limit (allow_empty=True, max_add=3) and plan again.",
        ),
        (
            "1 delete is more than --max-delete 10 % allows.",
            "1 delete is more than --max-delete 10 % allows.",
            "1 delete is more than max_delete 10 % allows.",
        ),
        (
            f'It (--sheet {_QUOTED}, in Python tab="Tom\'s (2)"), or none.',
            f"It (--sheet {_QUOTED}), or none.",
            'It (tab="Tom\'s (2)"), or none.',
        ),
        (
            "Map it (--column 'Tag {x}=tags', in Python mapping={'Tag {x}': 'tags'}).",
            "Map it (--column 'Tag {x}=tags').",
            "Map it (mapping={'Tag {x}': 'tags'}).",
        ),
        (
            "To see all of them: `petsync plan` with `--limit 0`; in Python plan.to_frame().",
            "To see all of them: `petsync plan` with `--limit 0`.",
            "To see all of them: plan.to_frame().",
        ),
        (
            "name 'A, in Python B' stays",
            "name 'A, in Python B' stays",
            "name 'A, in Python B' stays",
        ),
    ],
)
def test_the_words_of_a_shell_and_of_python(text: str, shell: str, python: str) -> None:
    """Only the other way out is left out; what surrounds it stays."""
    assert (in_shell(text), in_python(text)) == (shell, python)


@pytest.mark.parametrize("tab", ["More", "Pets (2)", "Tom's (new) pets", 'The "best" (old)'])
def test_the_name_of_a_worksheet_is_replaced_completely(tab: str) -> None:
    """No part of an option stays in a form, whatever the worksheet's name."""
    text = f"Read it by its name (--sheet {shlex.quote(tab)}, in Python tab={tab!r})."
    assert replace_terms(text, ReviewForm.terms) == "Read it by its name."


def test_a_command_gets_the_options_that_it_lacks() -> None:
    """A command in a message gets each option once, quoted; the name of an option in an argument is
    no option.
    """
    options = ["--state", "my state", "--allow-http", "a", "--allow-http", "b"]
    assert complete_commands(
        "Then `petsync undo 7 --state x`, or `petsync plan a--state.csv`.",
        lambda line: with_options(line, options),
    ) == (
        "Then `petsync undo 7 --state x --allow-http a --allow-http b`, or `petsync plan "
        "a--state.csv --state 'my state' --allow-http a --allow-http b`."
    )
