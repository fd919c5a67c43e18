"""The texts that replace commands and options in messages: each pattern still finds a message."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import petsync
import petsync as ps
from petsync._display import complete_commands, with_options
from petsync._terms import in_python, in_shell, replace_terms
from petsync.reconcile.context import _KEYS
from petsync.sandbox import Sandbox
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


@pytest.mark.slow
@pytest.mark.parametrize("pattern", _PATTERNS)
def test_each_pattern_finds_a_message(pattern: str) -> None:
    """A message whose words change would show a command in a form, or an option in a round."""
    # Some messages add the parentheses to a text.
    core = pattern.removeprefix(r" \(").removesuffix(r"\)")
    assert any(re.search(core, text) for text in _messages())


_QUOTED = shlex.quote("Tom's (2)")
_WAY = re.compile(r"(?:--[a-z-]+|`petsync )[^.;:]*in Python[,:]? [\w`].*[^=({\[']", re.DOTALL)


def test_a_way_out_is_the_one_at_hand() -> None:
    """A shell shows the option alone, Python the argument alone, in every message that has both."""
    texts = [text for text in _messages() if _WAY.search(text) and "['1']" not in text]
    texts = [text for text in texts if '"""' not in text and "\n\n" not in text]
    assert len(texts) > 50
    for text in texts:
        assert "in Python" not in in_shell(text)
        assert not re.search("in Python|--[a-z]|`petsync (?!trust|demo)", in_python(text)), text


_WITHOUT_CALL = "--help|app|config|doctor|init|plan SHEET -o plan.html|reconcile|serve|trust"
"""The commands that only a shell has."""


def test_a_command_is_a_call_in_python() -> None:
    """In every message that names a command, Python shows the call that does the same, and the
    call is valid Python.
    """
    texts = [text for text in _messages() if "`petsync " in text and text.count("`") % 2 == 0]
    texts = [text for text in texts if not text.startswith("`,")]
    assert len(texts) > 50
    for text in texts:
        shown = in_python(text)
        assert not re.search(rf"`petsync (?!{_WITHOUT_CALL})", shown), text
        for call in re.findall(r"`((?:store|ps)\.[^`]*)`", shown):
            ast.parse(call)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("petsync resume 7a --rate 5", 'store.resume("7a", rate=5)'),
        (
            "petsync resume 7a --state 'my state'",
            'ps.connect(store.url, state="my state").resume("7a")',
        ),
        ("petsync undo", "store.undo()"),
        ("petsync runs", "store.runs()"),
        ("petsync runs 7a --pet 5", 'store.run("7a")'),
        ("petsync runs RUN --failed FILE.xlsx", 'store.failed_rows(RUN, "FILE.xlsx")'),
        ("petsync check 'my pets.csv'", 'ps.check_sheet("my pets.csv")'),
        ("petsync plan SHEET -o PLAN.json", 'store.plan(SHEET).save("PLAN.json")'),
        ("petsync plan SHEET -o plan.html", "petsync plan SHEET -o plan.html"),
        ("petsync apply plan.json --limit 0", 'store.apply(ps.load_plan("plan.json"))'),
        ("petsync apply pets.csv", 'store.apply(store.plan("pets.csv"))'),
        ("petsync apply --write-ids", "ps.write_back(sheet, report)"),
        ("petsync trust petsync.toml", "petsync trust petsync.toml"),
        ("petsync check 'open", "petsync check 'open"),
    ],
)
def test_the_call_of_a_command(command: str, call: str) -> None:
    """A command becomes the call with its arguments; one that Python lacks stays."""
    assert in_python(f"See `{command}`.") == f"See `{call}`."
    assert in_shell(f"See `{command}`.") == f"See `{command}`."


def test_each_error_names_the_way_in_python() -> None:
    """`message`, `hint` and the text of each error name arguments and calls alone; `problem` and
    `cure` have both, for every front end.
    """
    problem, cure = "1 is more than --max-add 0 allows", "`petsync runs` lists them."
    for name in ps.errors.__all__:
        error = getattr(ps.errors, name)(problem, hint=cure)
        assert (error.problem, error.cure) == (problem, cure)
        assert error.message == "1 is more than max_add 0 allows"
        assert error.hint == "`store.runs()` lists them."
        assert str(error) == f"{error.message}\n{error.hint}"


def test_what_python_shows_names_no_option(tmp_path: Path) -> None:
    """The errors, refusals and notes of a session in Python name no option and no command."""
    rows = [{"id": n, "name": f"Pet {n}", "status": "sold"} for n in range(1, 31)]
    pets = [ps.Pet(**row) for row in rows]
    with (
        Sandbox(auth=False, pets=pets) as box,
        ps.connect(box.url, environ={}, state=tmp_path) as store,
    ):
        refused = store.plan(pd.DataFrame(rows[:10]), delete_missing=True, max_update="0%")
        changed = store.plan(pd.DataFrame([{**rows[0], "name": "Max"}]))
        report = store.apply(changed)
        calls: list[Callable[[], object]] = [
            lambda: store.apply(refused),
            lambda: store.apply(changed),
            lambda: store.resume("nix"),
            lambda: store.resume(),
            lambda: store.run("nix"),
            lambda: store.undo("nix"),
            lambda: store.failed_rows(report, tmp_path / "a.xlsx"),
            lambda: ps.load_plan(tmp_path / "nix.json"),
            lambda: ps.read_sheet(tmp_path / "*.csv"),
            lambda: ps.read_sheet(tmp_path),
        ]
        texts = [repr(refused.verdict), *map(str, refused.verdict.refusals)]
        texts += [*refused.notes, *changed.notes, str(refused), str(report)]
        for call in calls:
            with pytest.raises(ps.errors.PetsyncError) as raised:
                call()
            texts += [raised.value.message, raised.value.hint, str(raised.value)]
    assert any("max_delete=20" in text for text in texts)
    assert not [text for text in texts if re.search(r"(?<![\w/-])--[a-z]|`petsync [a-z]", text)]


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
