"""What every command works with: the options that all of them have, and where it speaks."""

from __future__ import annotations

import getpass
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petsync.cli.signals import loading
from petsync.errors import SettingsError
from petsync.settings import Secret, Settings, read_confirmed, read_file, resolve

if TYPE_CHECKING:
    from rich.console import Console

    from petsync.store import Store

__all__ = ["Context"]

_MAX_TOKEN = 64 * 1024
_HEAVY = ("petsync.store", "petsync.render.terminal", "petsync.render.text")
"""What takes long to import, and every command with a store needs."""


@dataclass(slots=True)
class Context:
    """The options that every command has, filled in while they are read, and the two streams."""

    url: str | None = None
    profile: str | None = None
    state: str | None = None
    token_file: str | None = None
    allow_http: tuple[str, ...] = ()
    as_json: bool = False
    verbose: int = 0

    @property
    def out(self) -> Console:
        """Where results go."""
        return _console(sys.stdout)

    @property
    def err(self) -> Console:
        """Where everything that is said to a person goes."""
        return _console(sys.stderr)

    @property
    def talk(self) -> Console:
        """Where a text for people goes that is a result unless JSON is."""
        return self.err if self.as_json else self.out

    def say(self, text: str, style: str = "", *, fold: bool = True) -> None:
        """Lines to a person, folded to the terminal's width, or to 80 columns where there is none;
        what a service or a sheet put into them cannot steer the terminal.
        """
        from petsync.cli.console import folded
        from petsync.table.visible import visible

        err, shown = self.err, visible(text, keep="\n")
        err.print(folded(shown, err.width) if fold else shown, style=style, soft_wrap=True)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Meanwhile a terminal shows what takes so long."""
        err = self.err
        return err.status(f"{text} …") if err.is_terminal else nullcontext()

    def show(self, document: bytes) -> None:
        """A whole document on stdout, as it is."""
        sys.stdout.flush()
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()

    def show_json(self, value: object) -> None:
        """A value as the one JSON document on stdout."""
        import msgspec

        self.show(msgspec.json.format(msgspec.json.encode(value), indent=2))

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Meanwhile, petsync's log goes to stderr: with -v what was repeated, with -vv all."""
        log, handler = logging.getLogger("petsync"), logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Harmless("%(asctime)s %(name)s: %(message)s"))
        before = log.level
        if self.verbose:
            log.setLevel(logging.INFO if self.verbose == 1 else logging.DEBUG)
            log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before)

    @property
    def settings(self) -> Settings:
        """The options, the environment and petsync.toml together. Raises SettingsError."""
        toml, confirmed = read_confirmed(Path.cwd())
        return resolve(self._arguments(), os.environ, toml, confirmed=confirmed)

    def connect(self, *, asks_client: bool = False) -> Store:
        """The store that the options name. Nothing is sent yet. Raises SettingsError.

        `asks_client`: of a client's id and secret a person is asked for what is not set.
        """
        with loading():
            for name in _HEAVY:
                import_module(name)
        import petsync as ps

        environ = dict(os.environ)
        if asks_client:
            for name in ("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET"):
                environ.pop(name, None)
        auth = None
        source = self.token_file
        if source is not None:
            environ["PETSYNC_TOKEN"] = self._token(source)
            key = self.settings.api_key
            if source == "-":
                auth = ps.auth.bearer(environ["PETSYNC_TOKEN"], api_key=key)
            else:
                # Another program may keep it fresh: after a refusal it is read again.
                auth = ps.auth.from_file(source, api_key=key)
        return ps.connect(environ=environ, auth=auth, **self._arguments())

    def taken_token(self) -> Secret | None:
        """The token of --token-file, if there is one, to sign in with; the store that is connected
        to after this does not use it by itself.
        """
        source, self.token_file = self.token_file, None
        return None if source is None else Secret(self._token(source))

    def variables(self) -> dict[str, str]:
        """The options as the variables that say the same, for what reads a configuration."""
        given = {"URL": self.url, "PROFILE": self.profile, "STATE": self.state}
        if self.token_file is not None:
            given["TOKEN"] = self._token(self.token_file)
        return {f"PETSYNC_{name}": text for name, text in given.items() if text}

    def _arguments(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "profile": self.profile,
            "state": self.state,
            "allow_http": self.allow_http or None,
        }

    def _token(self, name: str) -> str:
        if name == "-" and sys.stdin.isatty():
            return _one_line(getpass.getpass("Access token: ", sys.stderr), "what was typed")
        if name == "-":
            return _one_line(sys.stdin.read(_MAX_TOKEN), "standard input")
        path = Path(name)
        try:
            text = read_file(path)[:_MAX_TOKEN]
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError(f"--token-file {path} cannot be read: {reason}") from None
        if os.name == "posix" and mode & 0o077:
            self.say(
                f"warning: others can read {path}; `chmod 600 {path}` keeps it yours", "yellow"
            )
        return _one_line(text, str(path))


class _Harmless(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The line, with whatever could steer a terminal escaped."""
        from petsync.render.visible import visible

        return visible(super().format(record), keep="\n")


def _one_line(text: str, where: str) -> str:
    token = text.strip()
    if not token or len(token.split()) > 1:
        what = "empty" if not token else "more than one word"
        raise SettingsError(
            f"--token-file: {where} is {what}", hint="It holds the access token and nothing else."
        )
    return token


def _console(stream: Any) -> Console:
    # rich is loaded when something is said.
    from petsync.cli.console import console

    return console(stream)
