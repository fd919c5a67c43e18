"""Renewal of a sign-in: before its token expires, once for all requests, and without losing it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from consenting import sent_back
from hypothesis import given
from hypothesis import strategies as st
from scripted import ScriptedServer, answer
from signing import age, confirmed_file, credentials, forget_renewals, renewals, spoil, store_at

import petsync as ps
from petsync._sync import LoopThread
from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.auth.oauth import Authority
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.settings import Secret

pytestmark = pytest.mark.slow

GRANTED = answer(200, b'{"access_token": "new"}')
PETS = [Pet(id=1, name="Rex", status="available", photo_urls=[])]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    with Sandbox(pets=PETS) as sandbox:
        yield sandbox


@pytest.fixture
def box(shared: Sandbox) -> Sandbox:
    """Return the sandbox with no recorded renewals."""
    forget_renewals(shared)
    return shared


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store that is signed in by a code."""
    with store_at(box, tmp_path) as one:
        pending = one.begin_sign_in(listen=False)
        pending.paste(sent_back(pending.url))
        yield one


def test_before_the_end(box: Sandbox, store: ps.Store) -> None:
    """A token that is about to expire is renewed before use, and no request is refused."""
    before = credentials(store)
    age(store)
    assert len(store.find_by_status("available")) == 1
    after = credentials(store)
    assert after.token != before.token
    assert after.grant.refresh != before.grant.refresh
    assert after.grant.name == before.grant.name
    assert (renewals(box), store.aio.api.session.traffic().retries) == (1, 0)
    assert store.who().user == "shopkeeper"


def test_after_a_refusal(box: Sandbox, store: ps.Store) -> None:
    """A token that is refused with 401 is renewed, and the request is repeated."""
    spoil(store)
    assert len(store.find_by_status("available")) == 1
    assert renewals(box) == 1


def test_who_renews_too(box: Sandbox, store: ps.Store) -> None:
    """`who` renews a refused token before it reports the sign-in as refused."""
    spoil(store)
    assert store.who().signed_in
    assert renewals(box) == 1


@pytest.mark.parametrize("how", [age, spoil])
def test_once_for_all(box: Sandbox, store: ps.Store, how) -> None:
    """Requests at the same time, on two event loops and from threads, renew once."""
    how(store)

    async def many() -> list[object]:
        asked = (store.aio.find_by_status("available") for _ in range(25))
        return list(await asyncio.gather(*asked))

    other = LoopThread("other")
    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(lambda: len(other.run(many()))),
            pool.submit(lambda: len(store._loop.run(many()))),
            pool.submit(lambda: len(store.find_by_status("available"))),
        ]
        assert [each.result(60) for each in found] == [25, 25, 1]
    assert renewals(box) == 1
    other.run(store.aio.close())
    other.close()


def test_again_and_again(box: Sandbox, store: ps.Store) -> None:
    """Each renewal returns the refresh token for the next one."""
    for n in range(1, 6):
        age(store)
        store.find_by_status("available")
        assert renewals(box) == n


def test_short_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tokens live for one second, no request of a long run is refused."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with Sandbox(token_lifetime=1.0, pets=PETS) as box, store_at(box, tmp_path) as store:
        store.sign_in(ps.auth.client_credentials(box.client_id, box.client_secret))
        tokens = []
        for _ in range(20):
            store.find_by_status("available")
            tokens.append(credentials(store).token)
            now[0] += 0.15
        # A token is used for four fifths of its one-second lifetime: six requests.
        assert [tokens.count(each) for each in dict.fromkeys(tokens)] == [6, 6, 6, 2]
        assert store.aio.api.session.traffic().retries == 0


def test_a_token_without_life(tmp_path: Path) -> None:
    """A token that has expired on arrival raises an error and is not renewed repeatedly."""
    with Sandbox(token_lifetime=0, pets=PETS) as box, store_at(box, tmp_path) as store:
        auth = ps.auth.client_credentials(box.client_id, box.client_secret)
        with pytest.raises(ps.errors.AuthError, match="does not accept this token"):
            store.sign_in(auth)
        with (
            store_at(box, tmp_path, auth=auth) as unasked,
            pytest.raises(ps.errors.AuthError, match="just renewed"),
        ):
            unasked.find_by_status("available")


def test_the_refresh_token_is_spent(box: Sandbox, store: ps.Store) -> None:
    """A refresh token that the service refuses raises an error that says to sign in again."""
    other = credentials(store)
    age(store)
    store.find_by_status("available")
    store.aio.api.session.use(other)
    age(store)
    with pytest.raises(
        ps.errors.AuthError, match="does not accept this sign-in any more"
    ) as failed:
        store.find_by_status("available")
    assert "Sign in again" in failed.value.hint
    with pytest.raises(ps.errors.AuthError):
        store.who()


def test_a_failed_renewal_spares_a_good_token(box: Sandbox, store: ps.Store) -> None:
    """After a failed renewal the current token is used as long as it works, without a retry."""
    token = ps.auth.checked_token(box.token())
    spent = replace(credentials(store).grant, refresh=Secret("unknown-refresh-token"))
    store.api.aio.session.use(Credentials(token, grant=spent))
    age(store, left=30)
    for _ in range(3):
        assert len(store.find_by_status("available")) == 1
    assert credentials(store).token == token
    assert store.api.aio.session.traffic().retries == 0


@pytest.mark.parametrize(
    ("replies", "asked"),
    [
        ([answer(429), GRANTED], 2),
        ([answer(429), answer(429), answer(429)], 3),
        ([answer(503), GRANTED], 1),
        ([None, GRANTED], 1),
    ],
)
def test_what_is_asked_again(replies: list[bytes | None], asked: int) -> None:
    """A refresh token is sent again only where the service surely did not process it: a second use
    ends the sign-in.
    """
    with ScriptedServer(*replies) as server:
        place = {"token_url": f"{server.url}/token"}
        authority = Authority(server.url, auth=place, timeout=5)
        mine = Credentials(Secret("old"), grant=Grant(refresh=Secret("r"), client_id="petsync"))
        if replies[-1] == GRANTED and asked > 1:
            assert asyncio.run(authority.renew(mine)).token == Secret("new")
        else:
            with pytest.raises(ps.errors.PetsyncError):
                asyncio.run(authority.renew(mine))
        assert len(server.requests) == asked


def test_metadata_that_are_lost() -> None:
    """If the response with the metadata is lost, the refresh token was not sent: it is not in
    doubt, and the renewal is tried again.
    """
    with ScriptedServer(None, None, None, lambda: metadata, GRANTED) as server:
        origin = server.url.removesuffix("/v2")
        document = f'{{"issuer": "{origin}", "token_endpoint": "{origin}/token"}}'
        metadata = answer(200, document.encode())
        authority = Authority(server.url, timeout=5)
        mine = Credentials(Secret("old"), grant=Grant(refresh=Secret("r"), client_id="petsync"))
        with pytest.raises(ps.errors.TransportError) as failed:
            asyncio.run(authority.renew(mine))
        assert mine.with_failed_renewal(failed.value) is mine
        assert asyncio.run(authority.renew(mine)).token == Secret("new")
        assert len([each for each in server.requests if each.startswith("POST")]) == 1


class Service(ScriptedServer):
    """A service with one token; its token endpoint sends `reply`, or no response for None."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.good, self.reply = True, None

    def _serve(self, handler):
        self._script = [self._answer]
        return super()._serve(handler)

    def _answer(self) -> bytes | None:
        if "/token" in self.requests[-1].partition("\r\n")[0]:
            return self.reply
        return answer(200 if self.good else 401, b"[]", content_type="application/json")

    @property
    def renewals(self) -> int:
        return len([each for each in self.requests if each.startswith("POST /token")])


@pytest.mark.parametrize("second", [None, answer(400, b'{"error": "invalid_grant"}'), GRANTED])
def test_a_lost_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: bytes | None
) -> None:
    """A refresh token whose response was lost is not sent again while the access token works, as it
    may be used up. When the token is refused, one more attempt is made; if it fails, the error says
    to sign in again.
    """
    monkeypatch.setattr("petsync.client.auth.renewal._PAUSE_S", 0.0)
    monkeypatch.chdir(tmp_path)
    with Service() as server:
        place = f"{server.url.removesuffix('/v2')}/token"
        text = f'url = "{server.url}"\n[auth]\ntoken_url = "{place}"\n'
        confirmed_file(tmp_path, text, monkeypatch)
        with ps.connect(server.url, state=tmp_path, environ={}, timeout=5) as store:
            now = time.time()
            grant = Grant(
                kind="code",
                client_id="petsync",
                refresh=Secret("refresh"),
                issued=now - 3600,
                expires=now + 30,
            )
            store.api.aio.session.use(Credentials(Secret("old"), grant=grant))
            for _ in range(3):
                store.find_by_status("available")
            assert server.renewals == 1
            assert "got no response" in store.who().problem
            server.good, server.reply = False, second
            for _ in range(3):
                with pytest.raises(ps.errors.AuthError) as failed:
                    store.find_by_status("available")
            if second == GRANTED:
                assert credentials(store).token == Secret("new")
            else:
                assert "a second attempt failed" in failed.value.message
                assert "Sign in again" in failed.value.hint
                assert server.renewals == 2


@pytest.mark.parametrize("is_accepted", [True, False])
def test_the_same_token_with_a_new_refresh_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_accepted: bool
) -> None:
    """A renewal that returns the same access token with a new refresh token replaces the refresh
    token, before the token expires and after a refusal; the earlier one stays masked.
    """
    monkeypatch.setattr("petsync.client.auth.renewal._PAUSE_S", 0.0)
    with Service() as server:
        server.good = is_accepted
        place = f"{server.url.removesuffix('/v2')}/token"
        text = f'url = "{server.url}"\n[auth]\ntoken_url = "{place}"\n'
        confirmed_file(tmp_path, text, monkeypatch)
        with ps.connect(server.url, state=tmp_path, environ={}, timeout=5) as store:
            now = time.time()
            grant = Grant(kind="code", client_id="petsync", refresh=Secret("refresh-0"))
            if is_accepted:
                grant = replace(grant, issued=now - 3600, expires=now + 30)
            store.api.aio.session.use(Credentials(Secret("same"), grant=grant))
            for number in (1, 2):
                body = f'{{"access_token": "same", "refresh_token": "refresh-{number}"}}'
                server.reply = answer(200, body.encode())
                if is_accepted:
                    age(store)
                    store.find_by_status("available")
                else:
                    with pytest.raises(ps.errors.AuthError, match="returned the same token"):
                        store.find_by_status("available")
                (*_, renewal) = [each for each in server.requests if each.startswith("POST")]
                assert f"refresh_token=refresh-{number - 1}&" in f"{renewal}&"
                assert credentials(store).grant.refresh == Secret(f"refresh-{number}")
                assert "refresh-0" not in credentials(store).mask("refresh-0")


@pytest.mark.parametrize("skew", [-86_400.0, 86_400.0])
def test_clock_skew(box: Sandbox, store: ps.Store, skew: float) -> None:
    """A clock that was changed by a day causes at most one renewal and never ends the sign-in."""
    mine = credentials(store)
    grant = mine.grant.with_terms(
        refresh=mine.grant.refresh,
        scopes=mine.grant.scopes,
        issued=mine.grant.issued + skew,
        expires=(mine.grant.expires or 0.0) + skew,
    )
    assert mine.token is not None
    store.api.aio.session.use(mine.with_grant(mine.token, grant))
    assert len(store.find_by_status("available")) == 1
    assert renewals(box) <= 1
    assert len(store.find_by_status("available")) == 1
    assert renewals(box) <= 1


def test_signing_in_while_it_renews(box: Sandbox, store: ps.Store) -> None:
    """A new sign-in during a renewal stays in use, whatever the renewal returns."""
    token = box.token("read:pets")
    age(store)
    asking = threading.Thread(target=lambda: store.find_by_status("available"))
    asking.start()
    store.sign_in(ps.auth.bearer(token))
    asking.join(60)
    assert credentials(store).token == ps.auth.checked_token(token)
    assert store.who().scopes == frozenset({"read:pets"})


def test_old_secrets_stay_masked(box: Sandbox, store: ps.Store) -> None:
    """Tokens and refresh tokens from before a renewal stay masked."""
    before = credentials(store)
    age(store)
    store.find_by_status("available")
    now = credentials(store)
    for secret in (before.token, before.grant.refresh, now.token, now.grant.refresh):
        assert secret is not None
        assert now.mask(f"you sent {secret.reveal()}") == "you sent ***"


def test_an_implicit_token_ends(tmp_path: Path) -> None:
    """A token that cannot be renewed is used until its refusal; the error says to sign in."""
    with Sandbox(pets=PETS) as box, store_at(box, tmp_path) as store:
        store.sign_in(ps.auth.implicit(box.token()))
        assert not store.who().renews
        spoil(store)
        with pytest.raises(ps.errors.AuthError) as failed:
            store.find_by_status("available")
        assert "ign in" in failed.value.hint


def test_closing_waits_for_a_renewal(box: Sandbox, store: ps.Store) -> None:
    """A store that is closed during a renewal waits for it and keeps the new refresh token."""
    age(store)
    before = credentials(store)

    async def story() -> None:
        asking = asyncio.create_task(store.aio.find_by_status("available"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert store.api.aio.session._current._renewing is not None
        asking.cancel()
        await store.aio.close()
        await asyncio.gather(asking, return_exceptions=True)

    store._loop.run(story())
    assert credentials(store).grant.refresh != before.grant.refresh
    assert renewals(box) == 1


@given(
    issued=st.floats(-1e12, 1e12),
    life=st.one_of(st.none(), st.floats(-1e9, 1e12)),
    now=st.floats(-1e12, 1e12),
)
def test_when_it_is_due(issued: float, life: float | None, now: float) -> None:
    """A token is due for renewal only if its lifetime is known and nearly over, and its expiry can
    always be shown.
    """
    grant = Grant(issued=issued, expires=None if life is None else issued + life)
    due = grant.is_due(now)
    if grant.expires is None or grant.expires <= issued:
        assert not due
    elif now >= grant.expires:
        assert due
    elif now < grant.expires - 60:
        assert not due or now >= issued + 0.8 * (grant.expires - issued) - 60
    assert (grant.until is None) == (grant.expires is None)
