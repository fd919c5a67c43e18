"""The pages of the API reference: the docstring of each public name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import NamedTuple

import petsync

__all__ = ["GROUPS", "Group", "names_of", "pages"]


class Group(NamedTuple):
    """A page of public names: those whose modules' names begin with one of `homes`. `more` are
    related types without a name in `petsync` itself.
    """

    title: str
    lead: str
    homes: tuple[str, ...]
    more: tuple[str, ...] = ()


GROUPS = {
    "store": Group(
        "Store",
        "`connect` and `demo` return a `Store`, which stands for one service. `store.aio` is its "
        "`AsyncStore`, with the same methods as coroutines.",
        ("store", "samples"),
    ),
    "sheets": Group(
        "Sheets",
        "Read, check and write sheets. See [sheets](../../sheets.md) and "
        "[findings](../../findings.md).",
        ("sheets", "table", "scale.check"),
    ),
    "plans": Group(
        "Plans",
        "What would change, and why. [Plans](../../plan.md) explains the rules.",
        ("plan", "apply.planfile", "differences"),
    ),
    "runs": Group(
        "Runs and rehearsals",
        "The outcomes of a plan. [Reliability](../../reliability.md) lists the faults that a run "
        "survives.",
        ("plan.report", "plan.rehearsal", "rehearsal"),
    ),
    "pictures": Group(
        "Pictures and forms",
        "Pictures in bulk ([how](../../images.md)), and forms ([how](../../forms.md)).",
        ("plan.uploads", "images", "widgets"),
    ),
    "service": Group(
        "The service",
        "Its resources, its behaviour ([profiles](../../profiles.md)), and your account "
        "([sign-in](../../sign-in.md)).",
        ("models", "profile", "client", "protocol"),
    ),
    "reconcile": Group(
        "Reconciliation",
        "The scheduled job from Python. [How it works](../../reconcile.md).",
        ("reconcile",),
        ("plan.report.RoundReport", "plan.rounds.Round", "plan.rounds.Difference"),
    ),
    "errors": Group(
        "Errors",
        "Every error of petsync is a `PetsyncError`, with a message, a hint, and the exit code of "
        "the command line.",
        ("errors",),
    ),
}
_FIRST = ("connect", "demo", "Store", "types.AsyncStore", "types.Plan", "types.Report")
_ORDER = (*_FIRST, "types.Sheet", "errors.PetsyncError")
"""The names that come first on their pages; the rest is in alphabetical order."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page's path on the site, and its Markdown."""
    for key, group in GROUPS.items():
        blocks = [block for name in names_of(key) for block in _blocks(name)]
        blocks += [f"::: petsync.{place}" for place in group.more]
        text = "\n\n".join((f"# {group.title}", group.lead, *blocks))
        yield f"reference/api/{key}.md", f"{text}\n"


def names_of(key: str) -> list[str]:
    """Return the public names on a page: those whose home matches this page most closely."""
    names = [name for name in _names() if _page_of(_home(name)) == key]
    return sorted(names, key=lambda n: (_ORDER.index(n) if n in _ORDER else len(_ORDER), n.lower()))


def _names() -> Iterator[str]:
    """Yield every public name, those of `petsync.errors` and `petsync.types` with their module."""
    for name in petsync.__all__:
        if name in ("errors", "types"):
            yield from (f"{name}.{part}" for part in getattr(petsync, name).__all__)
        else:
            yield name


def _blocks(name: str) -> Iterator[str]:
    """Yield the Markdown blocks of a public name; a module with its own public names."""
    home = petsync._MODULES.get(name)
    if home is None:
        yield f"::: petsync.{name}"
        return
    module = getattr(petsync, name)
    yield f"::: petsync.{name}\n    options: {{members: false}}"
    for part in module.__all__:
        value = getattr(module, part)
        known = getattr(value, "__qualname__", None) == part
        place = f"{value.__module__}.{part}" if known else f"{home}.{part}"
        yield f"::: {place}\n    options: {{heading_level: 3}}"


def _home(name: str) -> str:
    module, _, part = name.rpartition(".")
    if module == "types":
        tree = ast.parse(inspect.getsource(petsync.types))
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        homes = {alias.name: str(node.module) for node in imports for alias in node.names}
        return homes[part].removeprefix("petsync.")
    return module or petsync._HOME[name].removeprefix("petsync.")


def _page_of(home: str) -> str:
    def close(key: str) -> int:
        fits = (h for h in GROUPS[key].homes if f"{home}.".startswith(f"{h}."))
        return max(map(len, fits), default=0)

    best = max(GROUPS, key=close)
    if not close(best):
        raise LookupError(f"docs/site/reference.py has no page for what is in petsync.{home}")
    return best
