"""The package layers hold (import-linter), and the code is typed and formatted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_contracts_are_kept() -> None:
    """A part imports only what stands below it (pyproject.toml, tool.importlinter)."""
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", lint, "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_code_is_typed_and_tidy() -> None:
    """mypy --strict and ruff find nothing (its T20 keeps print inside the commands)."""
    for command in (["mypy"], ["ruff", "check"], ["ruff", "format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
