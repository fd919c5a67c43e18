"""petsync login, logout and whoami."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import consenting
import httpx
import pexpect
import pytest
import vault
from commands import PROGRAM, Done, Shell, finished, process, shop, to
from consenting import sent_back

import petsync as ps
from petsync.errors import AuthError
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

AGREES = f"{sys.executable} {Path(consenting.__file__)} %s"
IGNORES = f"{sys.executable} --version %s"
_URL = re.compile(r"http://\S+/oauth/authorize\S+")


@pytest.fixture(autouse=True)
def ring(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an own keyring, and remove each display for a browser."""
    vault.use(monkeypatch, tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def live() -> Iterator[Sandbox]:
    """Yield a store that offers only the implicit sign-in, as the reference server does."""
    with Sandbox(profile="live", pets=shop()) as box:
        yield box


def read_keyring() -> dict[str, object]:
    """Return the only sign-in in the keyring, with its secrets."""
    ((entry,),) = (each.values() for each in vault.entries().values())
    found: dict[str, object] = json.loads(entry)
    return found


def shown(done: Done) -> str:
    """Return the whole output of a command as one line."""
    return " ".join((done.out + done.err).split())


def signed_in(shell: Shell, box: Sandbox) -> Done:
    """Sign in with a client id and secret, and return the command's result."""
    names = ("--client-credentials", "--client-id", box.client_id)
    done = shell("login", *to(box), *names, stdin=f"{box.client_secret}\n")
    assert done.code == 0, done.err
    return done


def test_token_from_a_pipe(shell: Shell, guarded: Sandbox) -> None:
    """A token on standard input signs in; the account is on stdout, the hints on stderr."""
    token = guarded.token()
    done = shell("login", *to(guarded), "--token", stdin=f"{token}\n")
    assert done.code == 0
    assert "You are signed in" in done.out
    assert "keyring" in done.out
    assert "petsync logout" in done.err
    assert read_keyring()["token"] == token


def test_other_commands_use_it(shell: Shell, guarded: Sandbox) -> None:
    """After a sign-in every command works, also in other processes, and asks for nothing."""
    assert shell("export", "pets.csv", *to(guarded)).code == 1
    signed_in(shell, guarded)
    done = finished("export", "pets.csv", *to(guarded))
    assert done.code == 0, done.err
    assert "O'Malley" in Path("pets.csv").read_text("utf-8")


def test_no_file_holds_a_secret(shell: Shell, guarded: Sandbox) -> None:
    """The sign-in files in the state folder contain no secret and are private."""
    signed_in(shell, guarded)
    token = str(read_keyring()["token"])
    files = [each for each in Path(".petsync").rglob("*") if each.is_file()]
    assert files
    for file in files:
        content = file.read_bytes()
        assert token.encode() not in content
        assert guarded.client_secret.encode() not in content
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0


def test_whoami(shell: Shell, guarded: Sandbox) -> None:
    """whoami without a sign-in exits with 1 and a hint, with one it exits with 0 and shows the
    account; no pet changes.
    """
    nobody = shell("whoami", *to(guarded))
    assert nobody.code == 1
    assert "not signed in" in nobody.out
    assert shell("whoami", *to(guarded), "--json").json["kept"] == "none"
    assert "petsync login" in nobody.err
    signed_in(shell, guarded)
    before = guarded.pets()
    somebody = shell("whoami", *to(guarded))
    assert somebody.code == 0
    assert guarded.client_id in somebody.out
    assert "change pets" in somebody.out
    assert somebody.err == ""
    assert guarded.pets() == before


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_login_where_nobody_must(shell: Shell, box: Sandbox, options: tuple[str, ...]) -> None:
    """At a store that asks for no sign-in, login says so and stores nothing; a named scope signs
    in.
    """
    done = shell("login", *to(box), *options)
    assert done.code == 0, done.err
    assert ("This store asks for no sign-in." in done.out) == (not options)
    assert done.out.startswith("{") == bool(options)
    assert vault.entries() == {}
    assert not Path(".petsync").exists()
    asked = shell("login", *to(box), "--no-browser", "--scope", "write:pets")
    assert "Open this address in a browser" in shown(asked)


def test_sign_in_that_may_only_read(shell: Shell, guarded: Sandbox) -> None:
    """Without write:pets plan warns, and apply refuses, in Python too, before it sends a change or
    begins a run; so do a job and a resume. An unknown scope is not refused.
    """
    names = ("--client-credentials", "--client-id", guarded.client_id, "--scope", "read:pets")
    assert shell("login", *to(guarded), *names, stdin=f"{guarded.client_secret}\n").code == 0
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    plan = shell("plan", "pets.csv", *to(guarded), "-o", "plan.json")
    assert (plan.code, "lacks write:pets" in shown(plan)) == (0, True)
    for source in ("pets.csv", "plan.json"):
        done = shell("apply", source, *to(guarded), "--yes")
        assert done.code == 1
        assert "lacks write:pets, so the store would refuse every change" in shown(done)
        assert "nothing was sent" in shown(done)
    with ps.connect(guarded.url) as store, pytest.raises(AuthError, match="lacks write:pets"):
        store.apply(ps.load_plan("plan.json"))
    job = '[jobs.pets]\nmode = "push"\nsheet = "pets.csv"\n'
    Path("jobs.toml").write_text(f'url = "{guarded.url}"\n{job}', "utf-8")
    done = shell("reconcile", "jobs.toml")
    assert (done.code, "lacks write:pets" in shown(done)) == (1, True)
    assert shell("runs", "--json").json["runs"] == []
    Path("token").write_text(guarded.token(scopes=["read:pets"]), "utf-8")
    Path("token").chmod(0o600)
    unknown = shell("apply", "plan.json", *to(guarded), "--yes", "--token-file", "token")
    assert "would refuse" not in shown(unknown)
    assert "403" in shown(unknown)
    (run,) = shell("runs", "--json").json["runs"]
    sent = guarded.requests["updatePetWithForm"]
    resumed = shell("resume", *to(guarded))
    assert (resumed.code, "lacks write:pets" in shown(resumed)) == (1, True)
    assert guarded.requests["updatePetWithForm"] == sent
    assert shell("runs", "--json").json["runs"] == [run]


def test_json(shell: Shell, guarded: Sandbox) -> None:
    """--json gives the account of each command as one document without a secret."""
    names = ("--client-credentials", "--client-id", guarded.client_id, "--json")
    login = shell("login", *to(guarded), *names, stdin=guarded.client_secret)
    account = login.json
    assert account["signed_in"] is True
    assert account["scopes"] == ["read:pets", "write:pets"]
    assert account["kept"] == "keyring"
    assert account["expires"].endswith("Z")
    token = str(read_keyring()["token"])
    who = shell("whoami", *to(guarded), "--json")
    assert {**who.json, "user": ""} == {**account, "user": ""}
    out = shell("logout", *to(guarded), "--json")
    assert out.json["signed_in"] is False
    for done in (login, who, out):
        assert token not in done.out + done.err
        assert guarded.client_secret not in done.out + done.err


def test_logout_ends_the_token(shell: Shell, guarded: Sandbox) -> None:
    """logout removes the token from the keyring and revokes it at the service."""
    signed_in(shell, guarded)
    token = str(read_keyring()["token"])
    asked = {"url": f"{guarded.url}/pet/1", "headers": {"authorization": f"Bearer {token}"}}
    assert httpx.get(**asked).status_code == 200  # type: ignore[arg-type]
    done = shell("logout", *to(guarded))
    assert (done.code, done.out) == (0, f"Signed out of {guarded.url}.\n")
    assert vault.entries() == {}
    assert httpx.get(**asked).status_code == 401  # type: ignore[arg-type]
    assert shell("whoami", *to(guarded)).code == 1
    done = shell("logout", *to(guarded))
    assert (done.code, done.out, done.err) == (0, f"There is no sign-in at {guarded.url}.\n", "")


def test_token_from_a_file(shell: Shell, guarded: Sandbox) -> None:
    """login --token-file keeps the token; the file is not needed afterwards."""
    file = Path("token.txt")
    file.write_text(f"{guarded.token()}\n")
    file.chmod(0o600)
    assert shell("login", *to(guarded), "--token-file", file).code == 0
    file.unlink()
    assert shell("whoami", *to(guarded)).code == 0


def test_client_secret_from_the_environment(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """login does not ask for a client id and secret that are in the environment, and reports that
    they have priority over the sign-in.
    """
    monkeypatch.setenv("PETSYNC_CLIENT_ID", guarded.client_id)
    monkeypatch.setenv("PETSYNC_CLIENT_SECRET", guarded.client_secret)
    done = shell("login", *to(guarded), "--client-credentials", "--scope", "read:pets", "--json")
    assert done.code == 0
    assert done.json["scopes"] == ["read:pets"]
    names = ("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET")
    assert f"{', '.join(names)} are set and take precedence" in shown(done)
    assert f"`unset {' '.join(names)}`" in shown(done)
    assert shell("whoami", *to(guarded), "--json").json["kept"] == "environment"


def test_all_that_is_asked_for_in_its_order(shell: Shell, guarded: Sandbox) -> None:
    """login reads client id, secret and api key from standard input, in this order."""
    lines = f"{guarded.client_id}\n{guarded.client_secret}\n{guarded.api_key}\n"
    options = ("--client-credentials", "--api-key", "--json")
    done = shell("login", *to(guarded), *options, stdin=lines)
    assert done.code == 0
    assert done.json["api_key"] is True
    assert read_keyring()["key"] == guarded.api_key


def test_api_key_alone(shell: Shell, guarded: Sandbox) -> None:
    """A sign-in with an api key alone shows that the key only reads single pets."""
    done = shell("login", *to(guarded), "--api-key", stdin=guarded.api_key)
    assert done.code == 0
    assert "single pets" in shown(done)


def test_missing_scope_is_reported(shell: Shell, guarded: Sandbox) -> None:
    """login reports that a token lacks the write scope."""
    done = shell("login", *to(guarded), "--token", stdin=guarded.token("read:pets"))
    assert done.code == 0
    assert "lacks write:pets" in shown(done)


def test_browser_of_this_computer(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """login opens the browser, and continues by itself after the user allows access there."""
    monkeypatch.setenv("BROWSER", AGREES)
    done = finished("login", *to(guarded), "--json")
    assert done.code == 0, done.err
    assert done.json["kind"] == "code"
    assert done.json["renews"] is True
    assert _URL.search(done.err)


def test_declined_in_the_browser(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A declined sign-in is reported, and nothing is stored."""
    monkeypatch.setenv("BROWSER", f"{AGREES} deny")
    done = finished("login", *to(guarded))
    assert done.code == 1
    assert "declined" in done.err
    assert vault.entries() == {}


def test_nobody_comes(shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """login waits for the browser no longer than --wait."""
    monkeypatch.setenv("BROWSER", IGNORES)
    done = finished("login", *to(guarded), "--wait", 1)
    assert done.code == 1
    assert "did not return in time" in done.err


def test_interrupt_while_waiting(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while login waits for the browser ends with 130, and nothing is stored."""
    monkeypatch.setenv("BROWSER", IGNORES)
    with process("login", *to(guarded)) as running:
        assert running.stderr is not None
        while not _URL.search(line := running.stderr.readline()):
            assert line
        # Python may handle a signal that arrives just before it blocks only after the next signal.
        for _ in range(24):
            running.send_signal(signal.SIGINT)
            try:
                code = running.wait(5)
            except subprocess.TimeoutExpired:
                continue
            break
    assert code == 130
    assert vault.entries() == {}


@pytest.mark.parametrize("options", [["--no-browser"], []])
def test_address_is_pasted(shell: Shell, guarded: Sandbox, options: list[str]) -> None:
    """Without a browser, or with --no-browser, login shows the address to open and asks for the
    address on which the browser ended.
    """
    pipe = {"stdin": subprocess.PIPE}
    with process("login", *to(guarded), *options, "--json", **pipe) as running:
        assert running.stderr is not None
        while not (found := _URL.search(line := running.stderr.readline())):
            assert line
        out, err = running.communicate(f"{sent_back(found[0])}\n", timeout=60)
    assert running.returncode == 0, err
    assert json.loads(out)["kind"] == "code"
    assert "code=" not in err


def test_pasted_address_of_another_sign_in(shell: Shell, guarded: Sandbox) -> None:
    """A pasted address of another sign-in is refused, and its code is not shown."""
    foreign = "http://127.0.0.1:5/petsync?code=abc123&state=other"
    done = shell("login", *to(guarded), "--no-browser", stdin=foreign)
    assert done.code == 1
    assert "another sign-in" in done.err
    assert "abc123" not in done.err


def test_wrong_pastes_into_a_terminal(shell: Shell, guarded: Sandbox, tmp_path: Path) -> None:
    """A pasted address that does not belong to the sign-in is reported, and login asks again."""
    wrong = ["hello", "http://127.0.0.1:5/petsync?code=abc123&state=other", ""]
    args = [*PROGRAM[1:], "login", *to(guarded), "--no-browser"]
    with pexpect.spawn(PROGRAM[0], args, cwd=tmp_path, timeout=60, dimensions=(24, 80)) as terminal:
        terminal.expect(r"(http://\S+/oauth/authorize\S+)\r\n")
        address = terminal.match[1].decode()
        seen = ""
        for pasted in (*wrong, address, sent_back(address)):
            terminal.expect("Address.*: ")
            seen += terminal.before.decode()
            _until_no_echo(terminal)
            terminal.sendline(pasted)
        terminal.expect(pexpect.EOF)
        seen = " ".join((seen + terminal.before.decode()).split())
    assert terminal.wait() == 0, seen
    assert "another sign-in" in seen
    assert "the address to open" in seen
    assert seen.count("Paste it again") == len(wrong) + 1
    assert "abc123" not in seen
    assert "You are signed in" in seen


def test_too_many_wrong_pastes(shell: Shell, guarded: Sandbox, tmp_path: Path) -> None:
    """After five wrong addresses login ends."""
    args = [*PROGRAM[1:], "login", *to(guarded), "--no-browser"]
    with pexpect.spawn(PROGRAM[0], args, cwd=tmp_path, timeout=60) as terminal:
        for _ in range(5):
            terminal.expect("Address.*: ")
            _until_no_echo(terminal)
            terminal.sendline("hello")
        terminal.expect(pexpect.EOF)
    assert terminal.wait() == 64
    assert vault.entries() == {}


def test_declined_is_not_asked_again(shell: Shell, guarded: Sandbox, tmp_path: Path) -> None:
    """A declined sign-in is not asked for again, and Ctrl-C ends login."""
    args = [*PROGRAM[1:], "login", *to(guarded), "--no-browser"]
    for declines, code in ((True, 1), (False, 130)):
        with pexpect.spawn(PROGRAM[0], args, cwd=tmp_path, timeout=60) as terminal:
            terminal.expect(r"(http://\S+/oauth/authorize\S+)\r\n")
            back = sent_back(terminal.match[1].decode(), "deny")
            terminal.expect("Address.*: ")
            _until_no_echo(terminal)
            terminal.sendline(back) if declines else terminal.sendintr()
            terminal.expect(pexpect.EOF)
        assert terminal.wait() == code


def test_implicit(shell: Shell, live: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a service offers only the implicit flow, the user pastes the address with the token."""
    options = ["--implicit", "--profile", "live", "--no-browser", "--json"]
    with process("login", *to(live), *options, stdin=subprocess.PIPE) as running:
        assert running.stderr is not None
        while not (found := _URL.search(line := running.stderr.readline())):
            assert line
        out, err = running.communicate(f"{sent_back(found[0])}\n", timeout=60)
    assert running.returncode == 0, err
    assert json.loads(out)["kind"] == "implicit"


def test_typed_secret_does_not_show(shell: Shell, guarded: Sandbox, tmp_path: Path) -> None:
    """In a terminal the typed client id is visible, its secret is not."""
    env = {**os.environ, "TERM": "dumb"}
    args = [*PROGRAM[1:], "login", *to(guarded), "--client-credentials"]
    with pexpect.spawn(PROGRAM[0], args, env=env, cwd=tmp_path, timeout=60) as terminal:  # type: ignore[arg-type]
        terminal.expect("Client id: ")
        terminal.sendline(guarded.client_id)
        terminal.expect("Client secret.*: ")
        typed = terminal.before + terminal.after
        _until_no_echo(terminal)
        terminal.sendline(guarded.client_secret)
        terminal.expect(pexpect.EOF)
        seen = (typed + terminal.before).decode()
    assert terminal.wait() == 0, seen
    assert guarded.client_id in seen
    assert guarded.client_secret not in seen
    assert "You are signed in" in seen


def test_address_is_pasted_into_a_terminal(shell: Shell, guarded: Sandbox, tmp_path: Path) -> None:
    """In a terminal the address is shown on one line; the pasted address is not visible."""
    args = [*PROGRAM[1:], "login", *to(guarded), "--no-browser"]
    with pexpect.spawn(PROGRAM[0], args, cwd=tmp_path, timeout=60, dimensions=(24, 80)) as terminal:
        terminal.expect(r"(http://\S+/oauth/authorize\S+)\r\n")
        back = sent_back(terminal.match[1].decode())
        terminal.expect("Address.*: ")
        _until_no_echo(terminal)
        terminal.sendline(back)
        terminal.expect(pexpect.EOF)
        seen = terminal.before.decode()
    assert terminal.wait() == 0, seen
    assert "code=" not in seen
    assert "You are signed in" in seen


def _until_no_echo(terminal: pexpect.spawn) -> None:  # type: ignore[type-arg]
    end = time.monotonic() + 120
    while terminal.getecho():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_no_keyring(shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a keyring login reports this with the fix, and writes the token to no file."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setattr("keyring.core._keyring_backend", None)
    token = guarded.token()
    done = shell("login", *to(guarded), "--token", stdin=token)
    assert done.code == 64
    assert "no keyring" in done.err
    assert "Set PETSYNC_TOKEN, or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET" in shown(done)
    assert "install a keyring" in shown(done)
    assert "lasts as long as petsync runs" not in shown(done)
    assert token not in done.err
    assert not any(token in f.read_text("utf-8") for f in Path().rglob("*") if f.is_file())
    # Without a keyring, login opens no browser.
    done = shell("login", *to(guarded), "--no-browser")
    assert done.code == 64
    assert not _URL.search(done.err)


def test_secret_as_an_argument(shell: Shell, guarded: Sandbox) -> None:
    """A secret as an argument is refused and not repeated."""
    done = shell("login", *to(guarded), "--token", "s3cret-token")
    assert done.code == 64
    assert "must not be an argument" in shown(done)
    assert "s3cret" not in done.out + done.err


@pytest.mark.parametrize(
    "options",
    [
        ["--token", "--client-credentials"],
        ["--implicit", "--api-key"],
        ["--token-file", "-", "--implicit"],
    ],
)
def test_one_way_at_a_time(shell: Shell, guarded: Sandbox, options: list[str]) -> None:
    """Two kinds of sign-in at once are a usage error."""
    done = shell("login", *to(guarded), *options)
    assert done.code == 64
    assert "one way" in done.err


@pytest.mark.parametrize("given", ["", "\n", "  \n"])
def test_nothing_was_typed(shell: Shell, guarded: Sandbox, given: str) -> None:
    """Empty input is reported as a missing token."""
    done = shell("login", *to(guarded), "--token", stdin=given)
    assert done.code == 64
    assert "no access token was given" in done.err


def test_wrong_token_leaves_the_present_sign_in(shell: Shell, guarded: Sandbox) -> None:
    """A failed sign-in keeps the existing one."""
    signed_in(shell, guarded)
    before = vault.entries()
    done = shell("login", *to(guarded), "--token", stdin="wrong-token")
    assert done.code == 1
    assert "wrong-token" not in done.err
    assert vault.entries() == before
    assert shell("whoami", *to(guarded)).code == 0


def test_environment_comes_first(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token in the environment has priority over the sign-in, and login reports this."""
    monkeypatch.setenv("PETSYNC_TOKEN", guarded.token("read:pets"))
    done = signed_in(shell, guarded)
    assert "PETSYNC_TOKEN is set and takes precedence" in shown(done)
    who = shell("whoami", *to(guarded), "--json")
    assert (who.json["kept"], who.json["can_write"]) == ("environment", False)


def test_refused_token_is_named(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whoami names the source of a refused token, environment or file, and how to use the stored
    sign-in instead.
    """
    signed_in(shell, guarded)
    monkeypatch.setenv("PETSYNC_TOKEN", "wrong-token")
    done = shell("whoami", *to(guarded))
    assert done.code == 1
    message = "PETSYNC_TOKEN in the environment. Unset it to use the stored sign-in"
    assert message in shown(done)
    assert "wrong-token" not in shown(done)
    monkeypatch.delenv("PETSYNC_TOKEN")
    file = Path("token.txt")
    file.write_text("wrong-token")
    file.chmod(0o600)
    done = shell("whoami", *to(guarded), "--token-file", file)
    assert "Omit --token-file" in shown(done)
    done = shell("whoami", *to(guarded), "--token-file", "-", stdin="wrong-token")
    assert done.code == 1
    assert "PETSYNC_TOKEN" not in shown(done)
    assert shell("whoami", *to(guarded)).code == 0


def test_refused_token_of_the_keyring_is_named(shell: Shell, guarded: Sandbox) -> None:
    """A stored token that the service revoked is reported as the keyring's."""
    token = guarded.token()
    assert shell("login", *to(guarded), "--token", stdin=token).code == 0
    origin = guarded.url.removesuffix("/v2")
    auth = (guarded.client_id, guarded.client_secret)
    httpx.post(f"{origin}/oauth/revoke", data={"token": token}, auth=auth).raise_for_status()
    done = shell("whoami", *to(guarded))
    assert done.code == 1
    way = f"come from the keyring. Sign in again: `petsync login --url {guarded.url}`"
    assert way in shown(done)


def test_half_a_client(shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client id without its secret in the environment is an error that names both; login with
    --client-credentials asks for the secret, and reports that the half in the environment is in the
    way.
    """
    monkeypatch.setenv("PETSYNC_CLIENT_ID", guarded.client_id)
    done = shell("whoami", *to(guarded))
    assert done.code == 64
    assert "PETSYNC_CLIENT_ID is set, and PETSYNC_CLIENT_SECRET is not" in shown(done)
    done = shell("login", *to(guarded), "--client-credentials", stdin=guarded.client_secret)
    assert done.code == 0
    message = (
        "PETSYNC_CLIENT_ID is set, and PETSYNC_CLIENT_SECRET is not, so other commands fail; "
        "`unset PETSYNC_CLIENT_ID` to use this sign-in"
    )
    assert message in shown(done)
    assert "precedence" not in shown(done)
    monkeypatch.delenv("PETSYNC_CLIENT_ID")
    assert shell("whoami", *to(guarded)).code == 0


def test_sign_ins_are_distinguished(shell: Shell, guarded: Sandbox, live: Sandbox) -> None:
    """A sign-in is for one service and one state folder; no other sees it."""
    signed_in(shell, guarded)
    assert shell("whoami", *to(live), "--profile", "live").code == 1
    assert shell("whoami", *to(guarded), "--state", "other").code == 1
    assert shell("whoami", *to(guarded)).code == 0
