"""The command line for tests: in this process, or as a separate process."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import pytest
from crash.forked import Forked

from petsync import Category, Pet, Tag
from petsync.cli import entry, main
from petsync.sandbox import Sandbox

COMMANDS = (
    "demo",
    "export",
    "check",
    "plan",
    "diff",
    "rehearse",
    "apply",
    "resume",
    "undo",
    "runs",
    "reconcile",
    "upload",
    "init",
    "config",
    "trust",
    "login",
    "logout",
    "whoami",
    "app",
    "doctor",
    "serve",
    "completion",
)
BIG = 2**63 - 2
PROGRAM = [sys.executable, "-m", "petsync.cli"]
READING = {"findPetsByStatus", "findPetsByTags", "getPetById"}


def shop() -> list[Pet]:
    """Return a small store: a pet with two tags and two photos, a category, an id too large for a
    float.
    """
    photos = ("https://images.petshop.example/1.jpg", "https://images.petshop.example/2.jpg")
    tags = (Tag(1, "calm"), Tag(2, "friendly"))
    dogs = Category(1, "Dogs")
    return [
        Pet(id=1, name="Rex", status="available", category=dogs, tags=tags, photo_urls=photos),
        Pet(id=2, name="Mia", status="available", photo_urls=photos[:1]),
        Pet(id=3, name="Zoë", status="pending", tags=tags[:1]),
        Pet(id=4, name="Ода", status="pending"),
        Pet(id=5, name="Tom", status="sold"),
        Pet(id=BIG, name="O'Malley", status="sold", tags=tags[1:]),
    ]


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The only JSON document on stdout."""
        return json.loads(self.out)


class Shell:
    """Runs commands in this process, in the current folder."""

    def __call__(self, *args: object, stdin: str = "") -> Done:
        with _streams(stdin) as (out, err), pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, _text(out), _text(err))


def options_of(command: str) -> set[str]:
    """Return the long options of a command such as "plan" or "config check"."""
    found = click.Context(entry.cli)
    for word in command.split():
        assert isinstance(found.command, click.Group)
        part = found.command.get_command(found, word)
        assert part is not None
        found = click.Context(part, found, word)
    names = {each for param in found.command.params for each in param.opts}
    return {each for each in names if each.startswith("--")} | {"--help"}


def unknown_options(text: str, command: str) -> set[str]:
    """Return the long options in a text that the command named beside them does not have: that of
    `petsync COMMAND …`, else the one that printed the text.
    """
    unknown: set[str] = set()
    for quoted in re.findall(r"`petsync ([^`]*)`|^(?:Next|To undo it): petsync (.*)$", text, re.M):
        words = " ".join(quoted).split()
        named = " ".join(words[:2]) if words[0] == "config" else words[0]
        if words[0] in COMMANDS:
            unknown |= {*_options_in(" ".join(words))} - options_of(named)
    rest = re.sub(r"`petsync [^`]*`|^(Next|To undo it): .*$", "", text, flags=re.M)
    return unknown | ({*_options_in(rest)} - options_of(command))


def _options_in(text: str) -> list[str]:
    return re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)


def process(*args: object, env: Mapping[str, str] | None = None, **options: Any) -> Forked:
    """Start a command as a separate process, its streams as text."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Forked([*map(str, args)], env={**os.environ, **(env or {})}, **{**pipes, **options})


def finished(*args: object, env: Mapping[str, str] | None = None, **options: Any) -> Done:
    """Run a command as a separate process; return its exit code and output."""
    with process(*args, env=env, **options) as running:
        out, err = running.communicate(timeout=300)
        return Done(running.returncode, out, err)


def to(box: Sandbox) -> list[str]:
    """Return the options that name a sandbox without tokens."""
    return ["--url", box.url]


@contextmanager
def _streams(stdin: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    sys.stdout, sys.stderr = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8")
    try:
        yield out, err
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            stream.detach()
        sys.stdin, sys.stdout, sys.stderr = before


def _text(stream: io.BytesIO) -> str:
    return stream.getvalue().decode("utf-8")
