"""Adapt the words of a message to the place where it is shown.

A message that suggests a remedy names an option of a command and the argument in Python, in one of
these forms: `--scope all, in Python scope="all"`, `--scope all (in Python scope="all")`. Files keep
both. A shell shows the option, Python the argument; forms and rounds have their own terms. A
command is written only as in a shell: Python shows the equivalent call.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

__all__ = ["in_python", "in_shell", "replace_terms"]

_WORD = r"(?:'[^']*'(?:\"'\"'[^']*')*|(?!--)[^\s,()'`]+)"
_OPTION = rf"(?:`[^`]+`|--[a-z][\w-]*(?: {_WORD}){{0,2}}?)"
_NAME = r"[A-Za-z_]\w*(?:\.\w+)*"
_TEXT = r"\"[^\"]*\"|'(?:[^'\\]|\\.)*'"
_CALL = r"\((?:[^()]|\([^()]*\))*\)"
_VALUE = rf"(?:{_TEXT}|\[[^\]]*\]|\{{(?:{_TEXT}|[^}}])*\}}|[\w…]+(?:\.\w+)*(?:{_CALL})?)"
_ARGUMENT = rf"(?:`[^`]+`|{_NAME}(?:{_CALL})?(?:={_VALUE})?(?:, {_NAME}={_VALUE})*)"
_SHELL = (
    (rf"({_OPTION})(?: \(in Python[,:]? {_ARGUMENT}\)|, in Python {_ARGUMENT},?)", r"\1"),
    (rf" \(in Python[,:]? {_ARGUMENT}\)|; in Python {_ARGUMENT}(?=\.)", ""),
    (r", or pass them in Python:(\n--column [^\n]*)\nmapping=[^\n]*", r":\1"),
)
_PYTHON = (
    (
        rf"{_OPTION}(?: \(in Python[,:]? ({_ARGUMENT})\)|, in Python ({_ARGUMENT}),?)",
        r"\1\2",
    ),
    (rf"\(in Python[,:]? ({_ARGUMENT})\)", r"(\1)"),
    (rf"(?<=: )[^:;]*; in Python ({_ARGUMENT})(?=\.)", r"\1"),
    (r"add them to the command, or (pass them) in Python:\n--column [^\n]*\n", r"\1:\n"),
    (r"--max-(add|update|delete)(?= \S+(?: %)? allows)", r"max_\1"),
)


def replace_terms(text: str, terms: Iterable[tuple[str, str]]) -> str:
    """Replace commands and options in a text by the terms of another front end. `terms` are regular
    expressions with their replacements.
    """
    for option, term in terms:
        text = re.sub(option, term, text)
    return text


def in_shell(text: str) -> str:
    """Return the text with the options of commands, without arguments in Python, for a terminal."""
    return replace_terms(text, _SHELL) if "in Python" in text else text


def in_python(text: str) -> str:
    """Return the text with arguments and calls in Python, without commands, for a notebook, a
    traceback or a repr.
    """
    if "in Python" in text or "--max-" in text:
        text = replace_terms(text, _PYTHON)
    return _COMMAND.sub(_as_call, text) if "`petsync " in text else text


_COMMAND = re.compile(r"`petsync ([^`]*)`")
_CALLS = {
    "apply": "store.apply(%s)",
    "check": "ps.check_sheet(%s)",
    "demo": "ps.demo()",
    "diff": "ps.diff(%s)",
    "export": "ps.write_sheet(store.snapshot(), %s)",
    "login": "ps.widgets.login(store)",
    "logout": "store.sign_out()",
    "plan": "store.plan(%s)",
    "rehearse": "ps.rehearse(store, plan)",
    "resume": "store.resume(%s)",
    "runs": "store.run(%s)",
    "undo": "store.undo(%s)",
    "upload": "store.upload(pictures)",
    "whoami": "store.who()",
}
_WITHOUT_ARGUMENTS = {
    "apply": "store.apply(plan)",
    "check": "ps.check_sheet(path)",
    "diff": "ps.diff(a, b)",
    "export": "store.export_to(folder)",
    "plan": "store.plan(sheet)",
    "runs": "store.runs()",
}
_FLAGS = ("--dry-run", "--write-ids")
_PLAN_FILES = (".json", ".parquet")


def _as_call(command: re.Match[str]) -> str:
    """Return the call that does the same as a command; the command if there is none."""
    try:
        name, *words = shlex.split(command[1])
    except ValueError:  # a quote is missing: the text only looks like a command
        return command[0]
    given, options = _parse(words)
    template = (_CALLS if given else {**_CALLS, **_WITHOUT_ARGUMENTS}).get(name)
    target = options.get("-o", "")
    if template is None or (target and not target.lower().endswith(_PLAN_FILES)):
        return command[0]
    if "--write-ids" in options:
        return "`ps.write_back(sheet, report)`"
    arguments = list(map(_as_argument, given))
    if name == "apply" and given:
        is_saved = given[0].lower().endswith(_PLAN_FILES)
        arguments = [f"{'ps.load_plan' if is_saved else 'store.plan'}({arguments[0]})"]
    if "--rate" in options:
        arguments.append(f"rate={options['--rate']}")
    if failed := options.get("--failed"):
        arguments, template = [*arguments, _as_argument(failed)], "store.failed_rows(%s)"
    call = template.replace("%s", ", ".join(arguments))
    if folder := options.get("--state"):
        call = call.replace("store", f"ps.connect(store.url, state={_as_argument(folder)})", 1)
    return f"`{call}.save({_as_argument(target)})`" if target else f"`{call}`"


def _parse(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments of a command, and its options with their values."""
    arguments: list[str] = []
    options: dict[str, str] = {}
    left = iter(words)
    for word in left:
        if word.startswith("-"):
            options[word] = "" if word in _FLAGS else next(left, "")
        else:
            arguments.append(word)
    return arguments, options


def _as_argument(word: str) -> str:
    """Return a word as an argument in Python: a placeholder such as RUN unchanged, any other word
    as a string.
    """
    return word if word.isupper() and word.isalpha() else json.dumps(word, ensure_ascii=False)
