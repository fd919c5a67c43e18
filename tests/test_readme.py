"""The README runs unchanged, and docs/cli.md matches the commands."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from petsync.cli.reference import BEGIN, END, reference, with_reference

README = Path(__file__).resolve().parent.parent / "README.md"
COMMANDS = README.parent / "docs" / "cli.md"


def test_the_command_reference_is_current() -> None:
    """docs/cli.md contains the present --help texts; `python -m petsync.cli.reference --write
    docs/cli.md` updates it.
    """
    text = COMMANDS.read_text("utf-8")
    assert text == with_reference(text)


def test_the_readme_is_short() -> None:
    """The README has at most 200 lines; details have their own pages."""
    assert len(README.read_text("utf-8").splitlines()) <= 200


def test_reference_is_the_same_in_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference does not depend on the width of the terminal."""
    usual = reference()
    monkeypatch.setenv("COLUMNS", "200")
    assert reference() == usual
    assert max(map(len, usual.splitlines())) <= 80


def test_reference_replaces_only_what_is_between_the_markers() -> None:
    """Only the text between the markers is replaced, and a second replacement changes nothing."""
    once = with_reference(f"# Head\n{BEGIN}\nold\n{END}\ntail\n")
    assert once.startswith(f"# Head\n{BEGIN}\n## petsync\n")
    assert once.endswith(f"{END}\ntail\n")
    assert "old\n" not in once
    assert with_reference(once) == once


@pytest.mark.parametrize("text", ["none", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_markers_is_not_changed(text: str) -> None:
    """Missing, repeated or misplaced markers are an error."""
    with pytest.raises(ValueError, match="needs one"):
        with_reference(text)


def test_program_writes_the_reference(tmp_path: Path) -> None:
    """`python -m petsync.cli.reference --write FILE` writes the reference into the file."""
    file = tmp_path / "cli.md"
    file.write_text(f"{BEGIN}\n{END}\n", "utf-8")
    program = [sys.executable, "-m", "petsync.cli.reference", "--write", str(file)]
    subprocess.run(program, check=True)
    assert "## petsync apply" in file.read_text("utf-8")


def test_the_picture_of_a_plan_is_the_present_one() -> None:
    """docs/plan.svg is what `python docs/picture.py` draws, and names no other address."""
    made = runpy.run_path(str(README.parent / "docs" / "picture.py"))["picture"]()
    assert made == (README.parent / "docs" / "plan.svg").read_text("utf-8")
    assert set(re.findall(r"https?://[^/\"' <]+", made)) <= {
        "http://www.w3.org",
        "https://shop.example",
        "https://images.petshop.example",
    }


def test_ci_runs_the_readmes_two_commands() -> None:
    """The README has the two commands that .ci/run looks for: the demo and the tests."""
    lines = README.read_text("utf-8").splitlines()
    commands = [line.strip() for line in lines if line.startswith("    python3 -m venv")]
    assert [command.rsplit("/", 1)[-1] for command in commands] == ["petsync demo", "pytest"]
    looked_for = re.findall(r"s/\^    \\\((.*?)\\\)\$/", (README.parent / ".ci/run").read_text())
    assert [len(re.findall(rf"(?m)^    {each}$", "\n".join(lines))) for each in looked_for] == [
        1,
        1,
    ]


def test_the_tour_in_python_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The README's Python runs unchanged."""
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert names["report"].counts["applied"] == len(names["plan"].changes) > 0
    assert names["sheet"].errors > 0
