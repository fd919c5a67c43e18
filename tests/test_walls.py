"""The package layers (import-linter), no circular imports, and typed code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent


def test_the_contracts_are_kept() -> None:
    """A package imports only from the layers below it (pyproject.toml, tool.importlinter)."""
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", lint, "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_code_is_typed_and_tidy() -> None:
    """mypy --strict and ruff find nothing (rule T20 keeps print inside the commands)."""
    for command in (["mypy"], ["ruff", "check"], ["ruff", "format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


SMALL = 120
"""Lines of code below which a module that only one sibling imports belongs in that sibling."""
LAZY = {"petsync.cli.console"}
"""Modules that exist to load rich only when it is needed."""


@cache
def _imports() -> dict[str, set[str]]:
    """Return petsync's modules, each with the petsync modules that it imports anywhere in
    its code.
    """
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "petsync").rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{each.name}" for each in node.names}
                found[name] |= (inner & files.keys()) or ({node.module} & files.keys())
            elif isinstance(node, ast.Import):
                found[name] |= {each.name for each in node.names} & files.keys()
        found[name].discard(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No modules of petsync import each other in a circle."""
    TopologicalSorter(_imports()).prepare()


def test_a_small_module_has_more_than_one_importer() -> None:
    """A small module that only one sibling imports is not allowed, except for lazy loading."""
    imports = _imports()
    alone = set()
    for name, path in ((each, ROOT / each.replace(".", "/")) for each in imports):
        importers = [other for other, uses in imports.items() if name in uses]
        file = path.with_suffix(".py")
        is_beside = (
            len(importers) == 1 and importers[0].rpartition(".")[0] == name.rpartition(".")[0]
        )
        if is_beside and file.exists() and len(file.read_text("utf-8").splitlines()) < SMALL:
            alone.add(name)
    assert alone <= LAZY


def test_decoders_are_built_in_one_place() -> None:
    """msgspec ends the process if two threads examine a type at once, so only `_json` builds
    decoders.
    """
    pattern = re.compile(r"json\.Decoder\(|json\.decode\([^\n]*type=|msgspec\.convert\(")
    modules = (ROOT / "petsync").rglob("*.py")
    found = [path.name for path in modules if pattern.search(path.read_text("utf-8"))]
    assert found == ["_json.py"]
