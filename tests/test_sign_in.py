"""Signing in and out: each method, and the account that it returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest
from consenting import sent_back
from signing import confirmed_file, credentials, store_at

import petsync as ps
from petsync.client.auth.credentials import Grant
from petsync.client.auth.oauth import Endpoints
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.sandbox.tokens import PUBLIC_CLIENT
from petsync.settings import Secret

pytestmark = pytest.mark.slow

BOTH = frozenset({"read:pets", "write:pets"})


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(pets=[Pet(id=1, name="Rex", status="available", photo_urls=[])]) as sandbox:
        yield sandbox


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    with store_at(box, tmp_path) as one:
        yield one


def test_nobody(store: ps.Store) -> None:
    """Without a sign-in, the account reports that nobody is signed in and reading is refused."""
    account = store.who()
    assert (account.signed_in, account.kind, account.can_read) == (False, "none", False)
    assert account.kept == "none"
    assert "not signed in" in str(account)


def test_by_token(store: ps.Store, box: Sandbox) -> None:
    """A token signs in; the account has the token's user, scopes and expiry from the service."""
    account = store.sign_in(ps.auth.bearer(box.token(), api_key=box.api_key))
    assert (account.kind, account.kept, account.user) == ("token", "memory", box.client_id)
    assert account.scopes == BOTH
    assert (account.can_read, account.can_write, account.renews) == (True, True, False)
    assert account.api_key
    assert account.expires is not None
    assert timedelta(0) < account.expires - datetime.now(UTC) <= timedelta(hours=1)
    assert store.who() == account
    assert len(store.find_by_status("available")) == 1


def test_by_client_credentials(store: ps.Store, box: Sandbox) -> None:
    """A client's id and secret sign in, and their token renews automatically."""
    account = store.sign_in(ps.auth.client_credentials(box.client_id, box.client_secret))
    assert (account.kind, account.client_id) == ("client credentials", box.client_id)
    assert (account.scopes, account.renews) == (BOTH, True)
    assert len(store.find_by_status("available")) == 1


def test_client_credentials_at_connect(box: Sandbox, tmp_path: Path) -> None:
    """Client credentials given to `connect` get a token only when a request needs one."""
    auth = ps.auth.client_credentials(box.client_id, box.client_secret, scopes="read:pets")
    with store_at(box, tmp_path, auth=auth) as store:
        assert credentials(store).token is None
        assert len(store.find_by_status("available")) == 1
        account = store.who()
    assert (account.kept, account.scopes) == ("argument", frozenset({"read:pets"}))
    assert account.can_write is False
    assert "write:pets" in account.problem


def test_from_the_environment(box: Sandbox, tmp_path: Path) -> None:
    """PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET, PETSYNC_TOKEN or PETSYNC_API_KEY sign in;
    signing out names the variables that remain.
    """
    client = {"PETSYNC_CLIENT_ID": box.client_id, "PETSYNC_CLIENT_SECRET": box.client_secret}
    for environ in (client, {"PETSYNC_TOKEN": box.token()}, {"PETSYNC_API_KEY": box.api_key}):
        with store_at(box, tmp_path, environ=environ) as store:
            account = store.who()
            assert (account.kept, account.signed_in) == ("environment", True)
            left = store.sign_out()
            assert "PETSYNC_" in left.problem


def test_by_api_key(store: ps.Store, box: Sandbox) -> None:
    """The api key gives access to getPetById, and the account reports its other limits."""
    account = store.sign_in(ps.auth.api_key(box.api_key))
    assert (account.kind, account.signed_in, account.can_write) == ("api key", True, False)
    assert account.problem
    assert store.api.get_pet_by_id(1).name == "Rex"


@pytest.mark.parametrize("scope", ["read:pets", "write:pets"])
def test_a_missing_scope_is_reported(store: ps.Store, box: Sandbox, scope: str) -> None:
    """The account names the scope that the token lacks before any request needs it."""
    account = store.sign_in(ps.auth.bearer(box.token(scope)))
    lacking = "write:pets" if scope == "read:pets" else "read:pets"
    assert (account.can_read, account.can_write) == (scope == "read:pets", scope == "write:pets")
    assert lacking in account.problem


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda box: ps.auth.bearer("unknown-token"), "does not accept this token"),
        (lambda box: ps.auth.bearer(box.token(expires_in=-5)), "does not accept this token"),
        (lambda box: ps.auth.api_key("wrong"), "does not accept this API key"),
        (lambda box: ps.auth.client_credentials(box.client_id, "wrong"), "client id"),
        (lambda box: ps.auth.client_credentials("nobody", box.client_secret), "client id"),
        (
            lambda box: ps.auth.client_credentials(box.client_id, box.client_secret, scopes="all"),
            "permissions",
        ),
        (lambda box: ps.auth.implicit("unknown-token"), "does not accept this token"),
    ],
)
def test_what_the_service_refuses(store: ps.Store, box: Sandbox, make, message: str) -> None:
    """A refused sign-in raises AuthError with a hint, and the previous credentials stay in use."""
    store.sign_in(ps.auth.bearer(box.token()))
    before = credentials(store)
    with pytest.raises(ps.errors.AuthError, match=message) as failed:
        store.sign_in(make(box))
    assert failed.value.hint
    assert credentials(store) is before


def test_signed_out(store: ps.Store, box: Sandbox) -> None:
    """After a sign-out, requests carry no token; a token that the user supplied stays valid."""
    token = box.token()
    store.sign_in(ps.auth.bearer(token))
    account = store.sign_out()
    assert (account.signed_in, account.kind) == (False, "none")
    with pytest.raises(ps.errors.AuthError):
        store.find_by_status("available")
    assert store.sign_in(ps.auth.bearer(token)).signed_in
    for problem in ("", "there was no sign-in"):
        left = store.sign_out()
        assert (left.signed_in, left.kept, left.problem) == (False, "none", problem)


def test_signing_out_ends_the_tokens(store: ps.Store, box: Sandbox) -> None:
    """A sign-out revokes a token that petsync requested itself at the service."""
    store.sign_in(ps.auth.client_credentials(box.client_id, box.client_secret))
    token = credentials(store).token
    assert token is not None
    store.sign_out()
    with pytest.raises(ps.errors.AuthError, match="does not accept this token"):
        store.sign_in(ps.auth.bearer(token))


def test_an_open_service(tmp_path: Path) -> None:
    """At a service that needs no token, a token without known scopes has unknown write access."""
    with Sandbox(auth=False) as box, store_at(box, tmp_path) as store:
        assert store.who().can_read is True
        account = store.sign_in(ps.auth.bearer("whatever"))
        assert (account.can_read, account.can_write) == (True, None)
        assert "needs no token" in account.problem


def test_the_service_is_gone(tmp_path: Path) -> None:
    """A service that does not answer raises TransportError, and no credentials are stored."""
    with Sandbox() as box:
        url, token = box.url, box.token()
    with ps.connect(url, state=tmp_path, environ={}) as store:
        for given in (ps.auth.bearer(token), ps.auth.client_credentials("a", "b")):
            with pytest.raises(ps.errors.TransportError):
                store.sign_in(given)
        assert not credentials(store)


@pytest.mark.parametrize("given", [None, "token", 7])
def test_what_is_no_sign_in(store: ps.Store, given: object) -> None:
    """`sign_in` refuses any argument that ps.auth did not make."""
    with pytest.raises(ps.errors.SettingsError, match="nothing to sign in with"):
        store.sign_in(given)  # type: ignore[arg-type]


def test_keep_is_one_of_two(store: ps.Store, box: Sandbox) -> None:
    """`keep` refuses any value that is not a known place."""
    with pytest.raises(ps.errors.SettingsError, match="keep is 'file'"):
        store.sign_in(ps.auth.bearer(box.token()), keep="file")  # type: ignore[arg-type]


def test_over_plain_http(tmp_path: Path) -> None:
    """No secret goes to another machine over http: the sign-in is refused before any request."""
    with ps.connect("http://shop.example/v2", state=tmp_path, environ={}) as store:
        for given in (ps.auth.bearer("t"), ps.auth.client_credentials("a", "b")):
            with pytest.raises(ps.errors.SettingsError, match="unencrypted"):
                store.sign_in(given)


def test_async_twin(box: Sandbox, tmp_path: Path) -> None:
    """`store.aio` signs in as the store does."""

    async def story(store: ps.types.AsyncStore) -> list[bool]:
        account = await store.sign_in(ps.auth.bearer(box.token()))
        return [
            account.signed_in,
            (await store.who()).signed_in,
            (await store.sign_out()).signed_in,
        ]

    with store_at(box, tmp_path) as store:
        assert store._loop.run(story(store.aio)) == [True, True, False]


def test_by_localhost(box: Sandbox, tmp_path: Path) -> None:
    """A service on this machine may use another name for itself; secrets go only to the name that
    was given.
    """
    url = box.url.replace("127.0.0.1", "localhost")
    with ps.connect(url, state=tmp_path, environ={}) as store:
        auth = ps.auth.client_credentials(box.client_id, box.client_secret)
        assert store.sign_in(auth).signed_in
        places = store._loop.run(store.aio._sign_in.service._authority.endpoints())
        origin = url.removesuffix("/v2")
        used = (places.authorize, places.token, places.revoke, places.introspect)
        assert [each for each in used if each.startswith(f"{origin}/")] == list(used)
        pending = store.begin_sign_in(listen=False)
        assert pending.paste(sent_back(pending.url)).signed_in


_NO_SIGN_IN = {
    "none": {},
    "a wrong token": {"PETSYNC_TOKEN": "wrong"},
    "a wrong client secret": {"PETSYNC_CLIENT_ID": "nightly", "PETSYNC_CLIENT_SECRET": "wrong"},
}


@pytest.mark.parametrize("recheck", ["each", "bulk"])
@pytest.mark.parametrize("given", _NO_SIGN_IN)
@pytest.mark.parametrize("row", [{"id": 1, "name": "Max"}, {"name": "New"}], ids=["id", "no id"])
def test_a_refused_run_does_not_use_its_plan(
    box: Sandbox,
    tmp_path: Path,
    row: dict[str, object],
    given: str,
    recheck: Literal["each", "bulk"],
) -> None:
    """If access is refused before the first change, the error says that nothing was sent, and no
    run is recorded: the plan can be applied once somebody is signed in, and only once.
    """
    box.reset([Pet(id=1, name="Rex", status="available", photo_urls=[])])
    with store_at(box, tmp_path, auth=ps.auth.bearer(box.token())) as signed_in:
        plan = signed_in.plan(pd.DataFrame([{"status": "available", **row}]))
        with store_at(box, tmp_path, environ=_NO_SIGN_IN[given]) as refused:
            with pytest.raises(ps.errors.AuthError, match="; nothing was sent") as caught:
                refused.apply(plan, recheck=recheck)
            assert "the same plan can be applied" in caught.value.hint
            assert refused.runs().empty
        assert signed_in.apply(plan, recheck=recheck).counts["applied"] == 1
        with pytest.raises(ps.errors.StalePlanError):
            signed_in.apply(plan)


def test_a_run_that_was_refused_later_uses_its_plan(box: Sandbox, tmp_path: Path) -> None:
    """If the service refuses a change itself, the run stays: its plan is used, and a resume
    continues it. A resume without a sign-in says that it sent nothing, and changes nothing.
    """
    box.reset([Pet(id=1, name="Rex", status="available", photo_urls=[])])
    with store_at(box, tmp_path, auth=ps.auth.bearer(box.token())) as signed_in:
        plan = signed_in.plan(pd.DataFrame([{"id": 1, "name": "Max"}]))
        only_reads = ps.auth.bearer(box.token("read:pets"))
        with (
            store_at(box, tmp_path, auth=only_reads) as store,
            pytest.raises(ps.errors.InterruptedRunError),
        ):
            store.apply(plan)
        with pytest.raises(ps.errors.StalePlanError):
            signed_in.apply(plan)
        (run,) = signed_in.runs()["id"]
        with store_at(box, tmp_path) as store:
            with pytest.raises(ps.errors.AuthError, match="; nothing was sent") as caught:
                store.resume(run)
            assert f'store.resume("{run}")' in caught.value.hint
            assert list(store.runs()["state"]) == ["stopped"]
        assert signed_in.resume(run).counts["applied"] == 1


def test_configured_addresses(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses under [auth] in petsync.toml are used without a request for metadata."""
    origin = box.url.removesuffix("/v2")
    auth = f'client_id = "{box.client_id}"\ntoken_url = "{origin}/oauth/token"\n'
    confirmed_file(tmp_path, f'url = "{box.url}"\n[auth]\n{auth}', monkeypatch)
    environ = {"PETSYNC_CLIENT_SECRET": box.client_secret}
    with store_at(box, tmp_path, environ=environ) as store:
        account = store.who()
        assert (account.client_id, account.user) == (box.client_id, "")
        with pytest.raises(ps.errors.SettingsError, match="authorize_url"):
            store.begin_sign_in()
        left = store.sign_out().problem
    assert "cannot revoke tokens" in left
    assert "PETSYNC_" in left


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('client_secret = "s3cret"', "client_secret: it does not belong in a file"),
        ('tokenurl = "https://a.example"', r"no such option\n  Did you mean token_url\?"),
        ("token_url = 7", "must be text"),
        ('token_url = "http://other.example/token"', "unencrypted"),
        ('token_url = "https://user:pw@other.example/token"', "an address without a password"),
        ('token_url = "https://other.example/#x"', "not a valid https address"),
        ('authorize_url = "javascript:alert(1)"', "not a valid https address"),
        ('issuer = "ftp://a.example"', "not a valid https address"),
    ],
)
def test_configured_wrongly(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    """An unusable setting under [auth] raises an error that names it and shows no secret."""
    confirmed_file(tmp_path, f'url = "{box.url}"\n[auth]\n{line}\n', monkeypatch)
    with (
        pytest.raises(ps.errors.SettingsError, match=message) as failed,
        store_at(box, tmp_path) as store,
    ):
        store.begin_sign_in()
    assert "s3cret" not in str(failed.value)
    assert "pw" not in str(failed.value)


def test_configured_issuer(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured issuer is asked for its metadata instead of the service."""
    with Sandbox() as other:
        origin = other.url.removesuffix("/v2")
        text = f'url = "{box.url}"\n[auth]\nissuer = "{origin}"\n'
        confirmed_file(tmp_path, text, monkeypatch)
        with store_at(box, tmp_path) as store:
            pending = store.begin_sign_in(listen=False)
            assert pending.url.startswith(f"{origin}/oauth/authorize?")
            pending.close()
            token = box.token()
            assert store.sign_in(ps.auth.bearer(token)).user == ""


@pytest.mark.parametrize("besides", [{}, {"PETSYNC_API_KEY": "key"}])
@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ("PETSYNC_CLIENT_SECRET", "PETSYNC_CLIENT_ID"),
        ("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET"),
    ],
)
def test_half_a_client(
    box: Sandbox, tmp_path: Path, there: str, missing: str, besides: dict[str, str]
) -> None:
    """A client secret without its id, or an id without its secret, is reported as incomplete."""
    with pytest.raises(
        ps.errors.SettingsError, match=f"^{there} is set, and {missing} is not"
    ) as failed:
        ps.connect(box.url, state=tmp_path, environ={there: "half", **besides})
    assert "half" not in str(failed.value)


@pytest.mark.parametrize("name", ["PETSYNC_TOKEN", "PETSYNC_API_KEY", "PETSYNC_CLIENT_SECRET"])
def test_where_what_is_refused_came_from(box: Sandbox, tmp_path: Path, name: str) -> None:
    """A refused secret from the environment is reported with its variable's name and a hint."""
    environ = {name: "wrong"}
    if name == "PETSYNC_CLIENT_SECRET":
        environ["PETSYNC_CLIENT_ID"] = box.client_id
    with (
        store_at(box, tmp_path, environ=environ) as store,
        pytest.raises(ps.errors.AuthError) as failed,
    ):
        store.who()
    assert all(each in failed.value.hint for each in environ)
    assert "unset" in failed.value.hint.casefold()
    assert "wrong" not in failed.value.hint


def test_a_dead_token_at_an_open_service(tmp_path: Path) -> None:
    """Where reading needs no token, introspection detects a token that is not valid."""
    with Sandbox(auth=False) as box, store_at(box, tmp_path) as store:
        dead = replace(ps.auth.implicit("dead"), grant=Grant(client_id=PUBLIC_CLIENT))
        with pytest.raises(ps.errors.AuthError, match="does not accept this token"):
            store.sign_in(dead)


def test_another_client_id(store: ps.Store, box: Sandbox) -> None:
    """The client id in a sign-in is `petsync`, or the one that is given, without spaces around
    it.
    """
    for given in (None, "", "  ", box.client_id, f" {box.client_id}\n"):
        pending = store.begin_sign_in(client_id=given, listen=False)
        assert f"client_id={(given or '').strip() or PUBLIC_CLIENT}&" in pending.url
        pending.close()


@pytest.mark.parametrize("given", ["", "  ", "\n", "a\nb", None, 7])
def test_what_is_no_client_id(given: object) -> None:
    """A client id that is empty, only spaces, or not printable text is refused."""
    with pytest.raises(ps.errors.SettingsError, match="the client id is empty or not printable"):
        ps.auth.client_credentials(given, "secret")  # type: ignore[arg-type]


def test_places_show_no_secret() -> None:
    """Sign-in endpoints are compared by value, and `ps.auth` holds no secret."""
    assert Endpoints(issuer="a") == Endpoints(issuer="a")
    assert Secret("x") not in vars(ps.auth).values()


def test_account_shows_itself(store: ps.Store, box: Sandbox) -> None:
    """The account fits in 80 columns as text, and neither text nor HTML contains the token."""
    token = box.token()
    account = store.sign_in(ps.auth.bearer(token))
    shown = (str(account), repr(account), account._repr_html_())
    assert all(token not in text for text in shown)
    assert max(map(len, str(account).splitlines())) <= 80
    assert f"You are signed in as {box.client_id}." in str(account)
    assert "write" not in account.problem
    assert "<dl" in account._repr_html_()
    assert "Kind" not in account._repr_html_()


def test_a_hostile_name_is_text() -> None:
    """A user name from the service is shown as plain text, whatever characters it contains."""
    account = ps.types.Account(
        url="https://a.example/v2", signed_in=True, kind="token", user="<script>x\u202e\n" * 40
    )
    assert "<script>" not in account._repr_html_()
    assert "\u202e" not in str(account)
    assert max(map(len, str(account).splitlines())) <= 80
