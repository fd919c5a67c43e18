"""The help of the command line."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from commands import COMMANDS, PROGRAM, Shell


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_eighty_columns(shell: Shell, command: str | None) -> None:
    """Each line of each help fits 80 columns."""
    done = shell(*([command] if command else []), "--help")
    assert done.code == 0
    assert done.err == ""
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\b" not in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_has_examples_that_parse(shell: Shell, command: str) -> None:
    """Each example in a help names its command, and only options that the command has."""
    text = shell(command, "--help").out
    examples = text.partition("Examples:")[2].strip().splitlines()
    assert examples
    for example in examples:
        assert example.split()[:2] == ["petsync", command]
        for option in re.findall(r"--[a-z-]+", example):
            assert option in text.partition("Examples:")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_common_options(shell: Shell, command: str) -> None:
    """The options of every command are listed after the command's own."""
    section = shell(command, "--help").out.partition("Options of every command:")[2]
    for option in ("--url", "--profile", "--state", "--token-file", "--allow-http", "--json"):
        assert option in section


def test_no_option_takes_a_secret(shell: Shell) -> None:
    """A token on the command line is refused, because it would show in the list of processes."""
    done = shell("doctor", "--token", "abc")
    assert done.code == 64
    assert "--token-file" in done.err


def test_version(shell: Shell) -> None:
    """--version prints petsync's version."""
    done = shell("--version")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"petsync \d+\.\d+\.\d+\n", done.out)


def test_no_command_shows_the_help(shell: Shell) -> None:
    """`petsync` without a command shows the help on stderr, as a usage error."""
    done = shell()
    assert (done.code, done.out) == (64, "")
    assert "Commands:" in done.err


def test_misspelt_command_is_suggested(shell: Shell) -> None:
    """A misspelt command is an error that suggests the similar one, also in a process that has
    loaded no command.
    """
    done = shell("exprot")
    assert done.code == 64
    assert "Did you mean 'export'?" in done.err
    command = [sys.executable, "-m", "petsync", "exprot"]
    new = subprocess.run(command, capture_output=True, text=True)
    assert (new.returncode, new.stderr) == (64, done.err)


def test_help_is_fast_and_light() -> None:
    """Help loads neither pandas nor an HTTP client, a server, rich or pydantic, and few modules in
    all.
    """
    code = (
        "import sys\n"
        "from petsync.cli import main\n"
        "try:\n main(['plan', '--help'])\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert len(loaded) < 350
    heavy = {"pandas", "numpy", "httpx", "aiohttp", "openpyxl", "starlette", "rich", "pydantic"}
    assert not loaded & heavy


def test_module_runs_as_a_program() -> None:
    """`python -m petsync.cli` is the same command line."""
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("petsync ")
