"""An unconfirmed petsync.toml: its limits, and `petsync trust`."""

from __future__ import annotations

import os
import shutil
import ssl
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
import vault
from authority import make_files, serving
from commands import Done, Shell, shop

import petsync as ps
from petsync.apply.journal import Journal
from petsync.config.settings import read_settings
from petsync.errors import SettingsError
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.trust import confirm, is_confirmed, record_path

pytestmark = pytest.mark.slow

_TOKEN = "token-of-the-real-shop"
_JOB = '[jobs.catalogue]\nmode = "push"\nsheet = "catalogue.csv"\n'


class Stranger(ThreadingHTTPServer):
    """A foreign service that answers 401 and records its requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), _Noting)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v2"

    def got(self, secret: str) -> bool:
        """Return true if a request contained this text."""
        return any(secret in each for each in self.seen)


class _Noting(BaseHTTPRequestHandler):
    server: Stranger

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(f"{self.requestline}\n{self.headers}\n{body.decode()}")
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Yield the foreign service, running."""
    with Stranger() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def shell(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the command line in a folder of unknown origin; the user's configuration is in
    another.
    """
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return shell


def _file(text: str) -> None:
    Path("petsync.toml").write_text(text, "utf-8")


def test_a_file_gets_no_token_of_the_environment(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PETSYNC_TOKEN is not sent to an address that only an unconfirmed petsync.toml names: the exit
    code is 64 and the fix is shown. After a confirmation it is sent, until the address changes.
    """
    monkeypatch.setenv("PETSYNC_TOKEN", _TOKEN)
    _file(f'url = "{stranger.url}"\n')
    done = shell("export", "pets.csv")
    assert done.code == 64
    assert "petsync trust" in done.err
    assert stranger.seen == []
    assert shell("trust", "--yes").code == 0
    shell("export", "pets.csv")
    assert stranger.got(_TOKEN)
    stranger.seen.clear()
    _file(f'url = "{stranger.url}/other"\n')
    assert shell("export", "pets.csv").code == 64
    assert stranger.seen == []


@pytest.mark.parametrize("name", ["PETSYNC_API_KEY", "PETSYNC_CLIENT_SECRET", "--token-file"])
def test_no_other_secret_either(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An api key, a client secret and the token of --token-file are not sent to an unconfirmed
    address either.
    """
    words = []
    if name == "--token-file":
        Path("token").write_text(_TOKEN, "utf-8")
        Path("token").chmod(0o600)
        words = [name, "token"]
    else:
        monkeypatch.setenv(name, _TOKEN)
        monkeypatch.setenv("PETSYNC_CLIENT_ID", "me")
        if name == "PETSYNC_API_KEY":
            monkeypatch.delenv("PETSYNC_CLIENT_ID")
    _file(f'url = "{stranger.url}"\n')
    done = shell("export", "pets.csv", *words)
    assert done.code == 64
    assert "petsync trust" in done.err
    assert stranger.seen == []


def test_no_sign_in_of_the_keyring(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored sign-in is used with --url, but not for the address of an unconfirmed file; such an
    address cannot be signed in to either.
    """
    vault.use(monkeypatch, tmp_path)
    with Sandbox(pets=shop()) as box:
        where = ("--url", box.url)
        assert shell("login", "--token", *where, stdin=f"{box.token()}\n").code == 0
        _file(f'url = "{box.url}"\n')
        assert shell("export", "pets.csv", *where).code == 0
        for words in (("export", "pets.csv"), ("login", "--token"), ("login", "--no-browser")):
            done = shell(*words, stdin=f"{box.token()}\n")
            assert done.code == 64, words
            assert "petsync trust" in done.err


def test_auth_of_a_file_is_for_its_own_url(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --url the client secret is sent only to that service's own token endpoint, not to the
    token_url of a file for another service. The token_url of a file for the same service must be
    confirmed first.
    """
    auth = f'[auth]\ntoken_url = "{stranger.url}/token"\n'
    with Sandbox(pets=shop()) as box:
        monkeypatch.setenv("PETSYNC_CLIENT_ID", box.client_id)
        monkeypatch.setenv("PETSYNC_CLIENT_SECRET", box.client_secret)
        for text in ("", f'url = "{stranger.url}"\n', 'url = "https://shop.example"\n'):
            _file(text + auth)
            done = shell("export", "pets.csv", "--url", box.url)
            assert done.code == 0, done.err
        _file(f'url = "{box.url}/"\n{auth}')
        done = shell("export", "pets.csv", "--url", box.url)
        assert done.code == 64
        assert "petsync trust" in done.err
    assert stranger.seen == []


@pytest.mark.parametrize("confirmed", [True, False])
def test_allow_http_of_a_file_is_for_its_own_url(shell: Shell, confirmed: bool) -> None:
    """allow_http of a file applies only to the file's own service."""
    _file('url = "https://shop.example/v2"\nallow_http = ["shop.example"]\n')
    assert not confirmed or shell("trust", "--yes").code == 0
    other = read_settings({"url": "http://shop.example/v2"}, {}, Path.cwd())
    assert other.allow_http == ()
    same = read_settings({"url": "https://SHOP.example/v2/"}, {}, Path.cwd())
    assert same.allow_http == ("shop.example",)
    assert same.unconfirmed is not confirmed


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "PETSYNC_TOKEN", "PETSYNC_API_KEY"])
@pytest.mark.parametrize("words", [("export", "pets.csv"), ("reconcile", "petsync.toml")], ids=str)
def test_a_file_expands_no_variable_of_others(
    shell: Shell,
    stranger: Stranger,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    words: tuple[str, ...],
) -> None:
    """An address with a variable that the user has not listed is an error that names the variable,
    also in a file named on the command line. petsync's own secrets are never part of an address.
    """
    monkeypatch.setenv(name, "wJalrXUtnFEMI")
    Path("catalogue.csv").write_text("id,name\n1,Rex\n", "utf-8")
    _file(f'url = "{stranger.url}/${{{name}}}"\n{_JOB}')
    done = shell(*words)
    assert done.code == 64
    assert f"this file may not use the environment variable {name}" in " ".join(done.err.split())
    assert "wJalrXUtnFEMI" not in done.err + done.out
    assert stranger.seen == []


_PLACES = {
    "the top": 'url = "{url}"\n',
    "a job": 'url = "https://shop.example"\n' + _JOB + 'url = "{url}"\n',
    "[auth]": 'url = "https://shop.example"\n[auth]\ntoken_url = "{url}"\n' + _JOB,
    "a tag": 'url = "https://shop.example"\n' + _JOB + 'tags = ["{url}"]\n',
}


_OWN = """
client_id = "{client}"
client_secret = "${{SHOP_SECRET}}"
"""


def _text(done: Done) -> str:
    return " ".join(done.err.split())


@pytest.mark.parametrize(
    "words", [("export", "out.csv"), ("whoami",), ("doctor",), ("plan", "catalogue.csv")], ids=str
)
def test_commands_use_the_sign_in_of_a_job(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Without another sign-in, a command uses the one of a job of the folder's petsync.toml, at the
    job's store, once the file is confirmed and the variable is set. Until then, the error names
    both. Another store never gets the secret.
    """
    with Sandbox(pets=shop()) as box:
        Path("catalogue.csv").write_text("id,name\n1,Rex\n", "utf-8")
        _file(f'url = "{box.url}"\n{_JOB}{_OWN.format(client=box.client_id)}')
        refused = shell(*words)
        seen = " ".join((refused.out + refused.err).split())
        assert refused.code == 1
        assert "signs in with its `client_secret` (SHOP_SECRET)" in seen
        assert "`petsync trust petsync.toml`) and set SHOP_SECRET." in seen
        monkeypatch.setenv("SHOP_SECRET", box.client_secret)
        assert shell(*words).code == 1
        assert shell("trust", "--yes").code == 0
        done = shell(*words)
        assert (done.code, "the sign-in of a job" in done.err) == (0, words == ("whoami",))
        if words == ("whoami",):
            assert "in the variables of a job in petsync.toml" in " ".join(done.out.split())
            assert "PETSYNC_" not in done.out
        assert "There is no sign-in" in shell("logout").out
        shell("export", "other.csv", "--url", stranger.url)
        assert not any("authorization" in each.casefold() for each in stranger.seen)
        _file(f'url = "{stranger.url}"\n{_JOB}{_OWN.format(client=box.client_id)}')
        shell("export", "other.csv")
        assert not any("authorization" in each.casefold() for each in stranger.seen)
        monkeypatch.setenv("SHOP_SECRET", "wrong-secret")
        _file(f'url = "{box.url}"\n{_JOB}{_OWN.format(client=box.client_id)}')
        wrong = shell("export", "other.csv")
        assert "(SHOP_SECRET): correct it." in _text(wrong)
        assert "wrong-secret" not in wrong.err


def test_the_plan_of_a_job_is_released_with_its_sign_in(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`petsync apply`, `rehearse` and `undo` of a waiting plan, and `plan` of the sheet, use the
    sign-in of its job, in any folder, if the file of the jobs is confirmed and has this state
    folder. A refusal does not use the plan. The hint of the round names what to do.
    """
    with Sandbox(pets=shop()) as box:
        jobs = "".join(
            f"{_JOB.replace('catalogue', name)}{_OWN.format(client=box.client_id)}"
            f"[jobs.{name}.guard]\nmax_update = 1\n".replace("SHOP", name.upper())
            for name in ("cats", "dogs")
        )
        _file(f'url = "{box.url}"\n{jobs}')
        Path("cats.csv").write_text("id,name\n1,Max\n2,Ida\n", "utf-8")
        Path("vars").write_text(
            f"CATS_SECRET='{box.client_secret}'\nDOGS_SECRET='other'\n", "utf-8"
        )
        Path("vars").chmod(0o600)
        done = shell("reconcile", "petsync.toml", "--env-file", "vars", "--job", "cats", "--json")
        round_ = done.json["rounds"][0]["round"]
        hint, waiting = round_["hint"], round_["waiting"]
        own = Path.cwd()
        other = shell("export", "pets.csv")
        assert "The jobs cats and dogs sign in here in different ways" in _text(other)
        assert "CATS_SECRET" not in other.err
        assert "with the job's `client_secret` (CATS_SECRET)" in hint
        assert f"`petsync trust {own / 'petsync.toml'}`" in hint
        assert f"`set -a; . {own / 'vars'}; set +a`" in hint
        Path("../elsewhere").mkdir()
        monkeypatch.chdir(Path("../elsewhere"))
        monkeypatch.setenv("DOGS_SECRET", "other")
        apply = ("apply", waiting, "--yes", "--state", str(own / ".petsync"))
        monkeypatch.setenv("CATS_SECRET", box.client_secret)
        assert "petsync trust" in _text(shell(*apply))
        assert shell("trust", own, "--yes").code == 0
        monkeypatch.setenv("CATS_SECRET", "wrong")
        refused = shell(*apply)
        assert (refused.code, "the same plan can be applied" in _text(refused)) == (1, True)
        monkeypatch.setenv("CATS_SECRET", box.client_secret)
        other = shell("export", "pets.csv", "--url", box.url, *apply[3:])
        assert "The jobs cats and dogs sign in here in different ways" in _text(other)
        assert shell("rehearse", waiting, *apply[3:]).code == 0
        shutil.copy(own / "petsync.toml", "petsync.toml")
        assert shell("trust", "--yes").code == 0
        assert shell("rehearse", waiting).code == 0
        Path("petsync.toml").unlink()
        # The state folder of somebody else, which names this file.
        shutil.copytree(own / ".petsync", "theirs")
        refused = shell("apply", "theirs/reconcile/waiting/cats.json", "--yes", "--state", "theirs")
        assert (refused.code, "401" in refused.err) == (1, True)
        assert shell(*apply).code == 0
        assert {pet.name for pet in box.pets()} >= {"Max", "Ida"}
        assert shell("plan", own / "cats.csv", *apply[3:]).code == 0
        assert shell("undo", "--yes", *apply[3:]).code == 0
        assert {pet.name for pet in box.pets()} >= {"Rex", "Mia"}


def test_trust_names_the_file_in_its_advice(shell: Shell) -> None:
    """The advice contains the file's path, and a file that decides nothing is reported as such."""
    Path("job").mkdir()
    file = Path("job/petsync.toml")
    file.write_text('profile = "live"\n', "utf-8")
    done = shell("trust", "job")
    assert (done.code, "does not decide where secrets and data go" in done.err) == (64, True)
    assert f"`petsync trust {file} --yes` confirms" in " ".join(done.err.split())
    file.write_text("url =\n", "utf-8")
    assert f"`petsync config check {file}`" in " ".join(shell("trust", "job").err.split())


@pytest.mark.parametrize("token", ["", _TOKEN])
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("name", ["PETSYNC_NOTIFY", "PETSYNC_DB"])
def test_a_file_expands_no_variable_of_petsync(
    shell: Shell,
    stranger: Stranger,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
    token: str,
) -> None:
    """An unconfirmed file expands no PETSYNC_* variable, because it may contain a password. The
    error names the variable and `petsync trust`, never its value; after a confirmation the variable
    is expanded.
    """
    monkeypatch.setenv(name, "mailto://user:wJalrXUtnFEMI@mail.example")
    monkeypatch.setenv("PETSYNC_TOKEN", token)
    Path("catalogue.csv").write_text("id,name\n1,Rex\n", "utf-8")
    text = _PLACES[place].replace("{url}", f"{stranger.url}/${{{name}}}")
    _file(text if "[jobs" in text else text + _JOB)
    every: list[tuple[str, ...]] = [("reconcile",), ("reconcile", "--dry-run")]
    if place in ("the top", "[auth]"):
        every += [("export", "pets.csv"), ("doctor",), ("export", "pets.csv", "--json")]
    for words in every:
        done = shell(*words)
        assert done.code == 64, words
        output = " ".join((done.err + done.out).split())
        assert f"this file may not use the environment variable {name}" in output
        assert "petsync trust" in output
        assert "wJalr" not in output
    assert place == "a tag" or "wJalr" not in shell("config", "check").out
    assert "wJalr" not in shell("trust", "--yes").err
    assert stranger.seen == []
    if place == "the top":
        shell("export", "pets.csv")
        assert stranger.got("wJalrXUtnFEMI")


def test_the_address_of_the_environment_is_the_users_own(
    shell: Shell, box: Sandbox, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unconfirmed file may have ${PETSYNC_URL} as its whole address, but not as a part of
    one.
    """
    Path("catalogue.csv").write_text("id,name\n1,Rexi\n", "utf-8")
    monkeypatch.setenv("PETSYNC_URL", box.url)
    for text in (f'url = "${{PETSYNC_URL}}"\n{_JOB}', f'{_JOB}url = "${{PETSYNC_URL}}"\n'):
        _file(text)
        assert shell("reconcile", "--dry-run").code == 2
        _file(text.replace("${", f"{stranger.url}/${{"))
        assert shell("reconcile", "--dry-run").code == 64
    assert stranger.seen == []


def test_an_error_names_the_variable_and_not_its_value(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error shows the variable and not its value, also if the user lists the variable or the
    value makes the address invalid.
    """
    monkeypatch.setenv("PETSYNC_VARIABLES", "PLACE, PETSYNC_TOKEN")
    monkeypatch.setenv("PLACE", "wJalrXUtnFEMI")
    monkeypatch.setenv("PETSYNC_TOKEN", _TOKEN)
    _file(f'url = "{stranger.url}/${{PLACE}}"\n')
    done = shell("export", "pets.csv")
    assert (done.code, "/v2/${PLACE}, and it is not" in " ".join(done.err.split())) == (64, True)
    _file('url = "ftp://shop.example/${PLACE}"\n')
    assert shell("trust", "--yes").code == 0
    wrong = shell("export", "pets.csv")
    assert (wrong.code, "ftp://shop.example/${PLACE}" in wrong.err) == (64, True)
    _file(f'url = "{stranger.url}/${{PETSYNC_TOKEN}}"\n')
    listed = shell("export", "pets.csv")
    problem = "may not use the environment variable PETSYNC_TOKEN"
    assert (listed.code, problem in " ".join(listed.err.split())) == (64, True)
    assert "wJalr" not in done.err + wrong.err
    assert stranger.seen == []


def test_a_file_of_variables_lists_only_its_own(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An --env-file cannot make variables of the environment available to a petsync.toml that is
    not named.
    """
    Path("catalogue.csv").write_text("id,name\n1,Rex\n", "utf-8")
    Path("petsync.env").write_text("AWS_SECRET=x\nPETSYNC_VARIABLES=AWS_KEY\n", "utf-8")
    for name in ("AWS_SECRET", "AWS_KEY"):
        monkeypatch.setenv(name, "wJalrXUtnFEMI")
        _file(f'url = "{stranger.url}/${{{name}}}"\n{_JOB}')
        done = shell("reconcile", "--env-file", "petsync.env")
        assert done.code == 64
        assert f"may not use the environment variable {name}" in " ".join(done.err.split())
    assert stranger.seen == []


@pytest.mark.parametrize("way", ["list", "env file", "confirm"])
def test_a_variable_that_the_user_lists(
    shell: Shell, box: Sandbox, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A variable in PETSYNC_VARIABLES, in the --env-file or in a confirmed file is expanded."""
    Path("catalogue.csv").write_text("id,name\n1,Rexi\n", "utf-8")
    _file(f'url = "{box.url}"\n{_JOB}'.replace("catalogue.csv", "${SHEET}.csv"))
    words = ["reconcile", "petsync.toml", "--dry-run"]
    monkeypatch.setenv("SHEET", "catalogue")
    refused = shell(*words)
    ways_out = ("begins with PETSYNC_", "--env-file", "`petsync trust FILE`", "=SHEET")
    assert [each in " ".join(refused.err.split()) for each in ways_out] == [True] * 4
    unnamed = shell("reconcile", "--dry-run")
    assert "begins with PETSYNC_" not in unnamed.err
    assert (refused.code, unnamed.code) == (64, 64)
    if way == "list":
        monkeypatch.setenv("PETSYNC_VARIABLES", "OTHER, SHEET")
    elif way == "env file":
        Path("petsync.env").write_text("SHEET=catalogue\n", "utf-8")
        words += ["--env-file", "petsync.env"]
    else:
        assert "variables = ${SHEET}" in shell("trust", "--yes").err
    assert shell(*words).code == 2


def test_reconcile_gives_no_secret_to_a_file_that_nobody_named(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`petsync reconcile` sends no secret to the address of an unconfirmed file, once or with
    --every. A file named on the command line counts as confirmed.
    """
    monkeypatch.setenv("PETSYNC_TOKEN", _TOKEN)
    Path("catalogue.csv").write_text("id,name\n1,Rex\n", "utf-8")
    _file(f'url = "{stranger.url}"\n{_JOB}')
    for words in ((), ("--dry-run",), ("--every", "1h")):
        done = shell("reconcile", *words)
        assert done.code == 64
        assert "petsync trust" in done.err
    assert stranger.seen == []
    assert not Path(".petsync").exists()
    shell("reconcile", "petsync.toml", "--dry-run")
    assert stranger.got(_TOKEN)


_OUTSIDE = {
    "log": '[log]\nfile = "../precious"\n',
    "report": '[report]\nfolder = "../outside"\n',
    "metrics": '[metrics]\ntextfile = "../precious.prom"\n',
    "a link": '[log]\nfile = "link"\n',
    "sheet": "",
}


@pytest.mark.parametrize("what", _OUTSIDE)
def test_a_file_that_nobody_named_keeps_to_its_folder(
    shell: Shell, box: Sandbox, tmp_path: Path, what: str
) -> None:
    """An unconfirmed file reads and writes nothing outside its folder, also through a link; a file
    named on the command line may.
    """
    (tmp_path / "precious").write_text("precious\n", "utf-8")
    (tmp_path / "catalogue.csv").write_text("id,name\n1,Rexi\n", "utf-8")
    Path("catalogue.csv").write_text("id,name\n1,Rexi\n", "utf-8")
    Path("link").symlink_to(tmp_path / "precious")
    job = _JOB.replace('"catalogue', '"../catalogue') if what == "sheet" else _JOB
    _file(f'url = "{box.url}"\n{job}{_OUTSIDE[what]}')
    done = shell("reconcile")
    assert done.code == 64
    assert "petsync trust" in done.err
    assert (tmp_path / "precious").read_text("utf-8") == "precious\n"
    assert not (tmp_path / "outside").exists()
    assert box.pets()[0].name == "Rex"
    assert shell("reconcile", "petsync.toml").code == 0


def test_the_state_folder_of_a_file_is_below_it(shell: Shell, box: Sandbox) -> None:
    """A state folder outside the file's folder must be confirmed, or named with --state."""
    _file(f'url = "{box.url}"\nstate = "../state"\n')
    done = shell("runs")
    assert done.code == 64
    assert "petsync trust" in done.err
    assert shell("runs", "--state", "../state").code == 0
    assert shell("trust", "--yes").code == 0
    assert shell("runs").code == 0


def test_a_file_without_a_secret_in_sight_is_simply_used(shell: Shell, box: Sandbox) -> None:
    """A file needs no confirmation if there is no secret to send."""
    _file(f'url = "{box.url}"\n')
    assert shell("export", "pets.csv").code == 0


def test_from_python(
    shell: Shell, stranger: Stranger, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """connect() applies the same rules, also with an explicit `auth`."""
    del shell
    _file(f'url = "{stranger.url}"\n')
    with pytest.raises(SettingsError, match="is not confirmed") as caught:
        ps.connect(auth=ps.auth.bearer(_TOKEN), environ={})
    assert "[auth]" not in caught.value.hint
    with pytest.raises(SettingsError, match="is not confirmed"):
        ps.connect(environ={"PETSYNC_TOKEN": _TOKEN})
    with ps.connect(environ={}) as store, pytest.raises(SettingsError, match="is not confirmed"):
        store.sign_in(ps.auth.bearer(_TOKEN))
    monkeypatch.setenv("PETSYNC_TOKEN", _TOKEN)
    with ps.connect(box.url) as store:
        assert len(store.find_by_status("available")) == 2
    assert stranger.seen == []


_FULL = """
url = "https://shop.example/v2"
allow_http = ["shop.example"]
[auth]
token_url = "https://shop.example/token"
[columns]
Tier = "name"
[jobs.mode]
mode = "push"
sheet = "catalogue.csv"
token = "${SHOP_TOKEN}"
[jobs.mode.guard]
max_update = 10
[log]
file = "petsync.log"
level = "info"
[notify]
urls = ["${HOOK}"]
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("https://shop.example/v2", "https://evil.example/v2", False),
        ('["shop.example"]', '["evil.example"]', False),
        ("shop.example/token", "evil.example/token", False),
        ("catalogue.csv", "../../private.csv", False),
        ("${SHOP_TOKEN}", "${OTHER_TOKEN}", False),
        ("petsync.log", "../.bashrc", False),
        ("${HOOK}", "${AWS_SECRET}", False),
        ("[jobs.mode]", '[jobs.mode]\nurl = "https://evil.example"', False),
        ("max_update = 10", "max_update = 20", True),
        ('Tier = "name"', 'Tier = "status"', True),
        ('level = "info"', 'level = "debug"', True),
        ('Tier = "name"', 'Tier = "name"\n"${AWS}" = "id"', True),
        ("Tier", "# a comment\nTier", True),
    ],
)
def test_what_has_to_be_confirmed_again(shell: Shell, old: str, new: str, is_same: bool) -> None:
    """A setting that determines where secrets and data go must be confirmed again after a change;
    other settings may change.
    """
    _file(_FULL)
    assert shell("trust", "--yes").code == 0
    assert is_confirmed(Path("petsync.toml"), tomllib.loads(_FULL))
    changed = tomllib.loads(_FULL.replace(old, new, 1))
    assert changed != tomllib.loads(_FULL) or is_same
    assert is_confirmed(Path("petsync.toml"), changed) is is_same
    # The same content in another folder is a different file.
    assert not is_confirmed(Path("other/petsync.toml"), tomllib.loads(_FULL))


def test_trust_shows_what_it_is_about(shell: Shell) -> None:
    """trust shows addresses, variables and files; without --yes and without a terminal it confirms
    nothing.
    """
    _file(_FULL)
    done = shell("trust")
    assert done.code == 64
    assert "petsync trust petsync.toml --yes" in done.err
    for text in (
        "url = https://shop.example/v2",
        "auth.token_url = https://shop.example/token",
        "log.file = petsync.log",
        "variables = ${HOOK}, ${SHOP_TOKEN}",
    ):
        assert text in done.err
    assert "max_update" not in done.err
    # One document: the error.
    assert shell("trust", "--json").json["error"]["hint"] in " ".join(done.err.split())
    assert shell("trust", "--json", "--yes").json["file"] == "petsync.toml"
    assert shell("trust").code == 0  # Already confirmed.
    assert "no longer confirmed" in shell("trust", "--withdraw").err
    assert shell("trust").code == 64
    assert shell("trust", "elsewhere.toml").code == 64


def test_the_record_is_the_users_own(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of confirmations is private with any umask, and never in a folder relative to the
    current one. A damaged record is reported.
    """
    _file(_FULL)
    before = os.umask(0)
    try:
        confirm(Path("petsync.toml"), {"url": "x"})
    finally:
        os.umask(before)
    path = record_path()
    assert path == tmp_path / "config" / "petsync" / "trusted.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_text("{", "utf-8")
    assert "delete it" in shell("trust", "--yes").err
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert record_path() == tmp_path / "home" / ".config" / "petsync" / "trusted.json"


def _export(shell: Shell, box: Sandbox, *words: str) -> None:
    assert shell("export", "pets.xlsx", "--url", box.url, *words).code == 0


def test_a_store_is_named_once(shell: Shell, box: Sandbox) -> None:
    """After an export, an exported workbook, a saved plan and the journal name the store, and each
    command shows it and what names it.
    """
    _export(shell, box)
    by_sheet = f"Store: {box.url} (from pets.xlsx)\n"
    assert by_sheet in shell("export", "pets.xlsx").err
    Path("new.csv").write_text("id,name\n1,Max\n", "utf-8")
    assert shell("plan", "new.csv").code == 64
    assert by_sheet in shell("plan", "pets.xlsx", "-o", "plan.json").err
    assert by_sheet in shell("apply", "pets.xlsx", "--yes").err
    plan = shell("plan", "new.csv", "-o", "plan.json", "--url", box.url)
    assert plan.code == 0
    done = shell("apply", "plan.json", "--yes")
    assert f"Store: {box.url} (from plan.json)\n" in done.err
    assert done.code == 0
    (run, *_) = (each["run_id"] for each in shell("runs", "--json").json["runs"])
    by_run = f"Store: {box.url} (from run {run})\n"
    assert by_run in shell("doctor").err
    assert by_run in shell("undo", run[:-1], "--format", "json").err
    undone = shell("undo", "--yes")
    assert by_run in undone.err
    assert undone.code == 0
    assert box.pets() == shop()


def test_an_option_comes_before_what_a_file_names(shell: Shell, box: Sandbox) -> None:
    """--url, PETSYNC_URL and petsync.toml take precedence over the address in a file."""
    _export(shell, box)
    with Sandbox(auth=False) as other:
        _file(f'url = "{other.url}"\n')
        done = shell("plan", "pets.xlsx", "--url", other.url)
        assert "Store:" not in done.err
        assert other.requests
        other.requests.clear()
        assert "Store:" not in shell("plan", "pets.xlsx").err
        assert other.requests


@pytest.mark.parametrize("name", ["PETSYNC_TOKEN", "PETSYNC_API_KEY", "--token-file"])
@pytest.mark.parametrize("kind", ["workbook", "csv", "plan", "journal"])
def test_no_secret_goes_to_an_address_that_only_a_file_names(
    shell: Shell, stranger: Stranger, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """A token or a key is not sent to an address that an export, a plan or a journal from somebody
    else names: the exit code is 64, and the way out is shown. When the user has named the address
    once, it is sent.
    """
    words = _foreign_input(shell, stranger.url, kind)
    if name == "--token-file":
        Path("token").write_text(_TOKEN, "utf-8")
        Path("token").chmod(0o600)
        words += [name, "token"]
    else:
        monkeypatch.setenv(name, _TOKEN)
    done = shell(*words)
    assert done.code == 64
    assert f"--url {stranger.url}" in done.err
    assert stranger.seen == []
    shell(*words, "--url", stranger.url)
    stranger.seen.clear()
    assert shell(*words).code != 64
    # A plan without changes sends no request, and only a delete sends the key.
    assert stranger.got(_TOKEN) == (kind != "plan" and name != "PETSYNC_API_KEY")


def _foreign_input(shell: Shell, url: str, kind: str) -> list[str]:
    """Create files from somebody else that name the address, and return a command with them."""
    frame = pd.DataFrame({"id": [1], "name": ["Rex"], "status": ["sold"]})
    base = Base(pets=PetTable(frame=frame), store=url, taken_at="2026-11-21T00:00:00Z")
    if kind in ("workbook", "csv"):
        path = "pets.xlsx" if kind == "workbook" else "pets.csv"
        ps.write_sheet(base.pets, path, base=base)
        return ["plan", path]
    if kind == "plan":
        Plan(created="", store=url, profile="standard", source="a.csv").save("plan.json")
        return ["apply", "plan.json"]
    Journal.open(Path(".petsync"), create=True).begin(
        "20261121-0930", kind="apply", store=url, source="a.csv", started="", total=0
    )
    return ["doctor"]


@pytest.mark.parametrize("kind", ["workbook", "csv", "plan", "journal", "petsync.toml", "jobs"])
def test_no_client_certificate_goes_to_an_address_that_only_a_file_names(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A client certificate, which identifies the user, is not shown at an address that only a file
    from somebody else names: the exit code is 64, and the way out is shown. When the user has named
    the address once, or has confirmed the file, it is shown.
    """
    files = make_files(tmp_path)
    monkeypatch.setenv("PETSYNC_CA_FILE", str(files.authority))
    monkeypatch.setenv("PETSYNC_CLIENT_CERT", str(files.cert))
    monkeypatch.setenv("PETSYNC_CLIENT_KEY", str(files.key))
    with serving(files, ssl.CERT_OPTIONAL) as (url, who):
        is_settings = kind in ("petsync.toml", "jobs")
        if is_settings:
            _file(f'url = "{url}"\n{_JOB if kind == "jobs" else ""}')
            Path("catalogue.csv").write_text("id,name\n7,Rex\n", "utf-8")
            words, way_out = ["reconcile" if kind == "jobs" else "doctor"], "petsync trust"
        else:
            words, way_out = _foreign_input(shell, url, kind), f"--url {url}"
        done = shell(*words)
        assert done.code == 64
        assert way_out in done.err
        assert who == []
        if is_settings:
            assert shell("trust", "--yes").code == 0
        else:
            shell(*words, "--url", url)
            who.clear()
        assert shell(*words).code != 64
        # A plan without changes sends no request.
        assert set(who) == ({"nightly"} if kind != "plan" else set())


def test_runs_on_several_stores_name_none(shell: Shell) -> None:
    """Runs name the store of a command without an address only if all of them are on the same one:
    a change must not go to another store because of an unrelated run.
    """
    Path("new.csv").write_text("id,name,status\n1,Max,sold\n", "utf-8")
    with Sandbox(pets=shop(), auth=False) as first, Sandbox(pets=shop(), auth=False) as second:
        assert shell("apply", "new.csv", "--yes", "--url", first.url).code == 0
        assert f"Store: {first.url} (from run " in shell("plan", "new.csv").err
        assert shell("apply", "new.csv", "--yes", "--url", second.url).code == 0
        done = shell("apply", "new.csv", "--yes")
        assert (done.code, done.err.startswith("error: no service is given")) == (64, True)


def test_the_last_sign_in_names_the_store(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and scripts use the store of the last sign-in with this state folder, in any file
    format, and `petsync login` itself too. A CSV of another state folder names no store.
    """
    vault.use(monkeypatch, tmp_path)
    with Sandbox(pets=shop()) as first, Sandbox(pets=shop()) as box:
        for each in (first, box):
            signed = shell("login", "--token", "--url", each.url, stdin=f"{each.token()}\n")
            assert signed.code == 0
        by_sign_in = f"Store: {box.url} (from the last sign-in)\n"
        assert by_sign_in in shell("export", "pets.csv").err
        assert Path("pets.csv").exists()
        Path("new.csv").write_text("id,name\n1,Max\n", "utf-8")
        done = shell("apply", "new.csv", "--yes")
        assert by_sign_in in done.err
        assert done.code == 0
        with ps.connect() as store:
            assert store.url == box.url
        again = shell("login", "--token", stdin=f"{box.token()}\n")
        assert by_sign_in in again.err
        assert again.code == 0
        assert shell("doctor", "--state", "other").code == 64


def test_the_record_of_addresses_is_the_users_own(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The record is private, has no secret, and is not in the folder; without it, nothing is
    known.
    """
    monkeypatch.setenv("PETSYNC_TOKEN", token := guarded.token())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    _export(shell, guarded)
    assert shell("plan", "pets.xlsx").code == 0
    record = tmp_path / "user" / "petsync" / "addresses.json"
    assert record.stat().st_mode & 0o077 == 0
    assert token not in record.read_text("utf-8")
    record.write_text("{", "utf-8")
    assert shell("plan", "pets.xlsx").code == 64
