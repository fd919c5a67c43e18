"""A sign-in in the keyring: found by other stores, renewed once for all, removed by a sign-out."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keyring.errors
import pytest
import vault
from consenting import sent_back
from keyring.backend import KeyringBackend
from signing import age, credentials, forget_renewals, renewals, spoil, store_at

import petsync as ps
from petsync.client.auth.credentials import Credentials
from petsync.client.auth.keyring import CredentialStore
from petsync.models import Pet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

PETS = [Pet(id=1, name="Rex", status="available", photo_urls=[])]
_PROGRAM = """
import sys, petsync as ps
with ps.connect(sys.argv[1], state=sys.argv[2], environ={}) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    print(len(store.find_by_status("available")), store.who().kept, flush=True)
"""


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a keyring that belongs to this test."""
    vault.use(monkeypatch, tmp_path)


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
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(box: Sandbox, state: Path) -> Iterator[ps.Store]:
    """Yield a store that signed in by a code and stored its sign-in in the keyring."""
    with store_at(box, state) as one:
        pending = one.begin_sign_in(listen=False, keep="keyring")
        assert pending.paste(sent_back(pending.url)).kept == "keyring"
        yield one


def read_keyring() -> dict[str, object]:
    """Return the only stored sign-in with its secrets."""
    ((text,),) = (each.values() for each in vault.entries().values())
    found: dict[str, object] = json.loads(text)
    return found


def outdate(left: float = 1.0) -> None:
    """Set the lifetime of the stored tokens to `left` seconds."""
    import time

    found, now = vault.entries(), time.time()
    for entries in found.values():
        for name, text in entries.items():
            saved = json.loads(text)
            saved["grant"] |= {"issued": now - 3600, "expires": now + left}
            entries[name] = json.dumps(saved)
    Path(os.environ["PETSYNC_TEST_VAULT"]).write_text(json.dumps(found))


def test_found_by_the_next_store(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Another store with the same state folder is signed in already, as the same user."""
    with store_at(box, state) as other:
        account = other.who()
    assert account == store.who()
    assert (account.kept, account.user, account.renews) == ("keyring", "shopkeeper", True)


@pytest.mark.parametrize("how", ["token", "client", "key"])
def test_each_way_is_kept(box: Sandbox, state: Path, how: str) -> None:
    """A stored sign-in of each kind is found again complete."""
    auth = {
        "token": ps.auth.bearer(box.token("read:pets"), api_key=box.api_key),
        "client": ps.auth.client_credentials(box.client_id, box.client_secret),
        "key": ps.auth.api_key(box.api_key),
    }[how]
    with store_at(box, state) as one:
        account = one.sign_in(auth, keep="keyring")
        assert account.kept == "keyring"
    with store_at(box, state) as other:
        assert other.who() == account
        other.api.get_pet_by_id(1)


def test_not_for_another_folder_or_service(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """A store with another state folder or another service does not find the sign-in."""
    with store_at(box, tmp_path / "other") as other:
        assert not other.who().signed_in
    with Sandbox() as second, store_at(second, tmp_path / "state") as other:
        assert not other.who().signed_in


def test_the_keyring_is_not_asked_in_vain(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no sign-in is stored, the keyring is not opened: it might ask for a password."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "no.such.Backend")
    with store_at(box, tmp_path / "none") as store:
        assert not store.who().signed_in
        assert store.who().problem == ""


def test_first_comes_first(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A sign-in given as an argument or in the environment has precedence over the keyring."""
    token = box.token("read:pets")
    with store_at(box, state, auth=ps.auth.bearer(token)) as other:
        assert other.who().kept == "argument"
    with store_at(box, state, environ={"PETSYNC_TOKEN": token}) as other:
        assert other.who().kept == "environment"


def test_no_secret_in_the_state_folder(store: ps.Store, state: Path) -> None:
    """Files in the state folder contain no secret and can be read only by their owner."""
    mine = credentials(store)
    secrets = [mine.token, *mine.grant.secrets()]
    files = [path for path in state.rglob("*") if path.is_file()]
    assert state / "sign-in.json" in files
    for path in files:
        content = path.read_bytes()
        assert not [each for each in secrets if each and each.reveal().encode() in content]
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_signed_out(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A sign-out removes the keyring's entry and ends the sign-in for every store."""
    with store_at(box, state) as other:
        store.sign_out()
        assert vault.entries() == {}
        assert json.loads((state / "sign-in.json").read_text()) == {}
        with pytest.raises(ps.errors.AuthError, match="no longer exists"):
            other.find_by_status("available")
    with store_at(box, state) as third:
        assert not third.who().signed_in


def test_signing_out_of_the_environment_clears_the_keyring(
    box: Sandbox, store: ps.Store, state: Path
) -> None:
    """A sign-out while PETSYNC_TOKEN is set also removes the sign-in from the keyring."""
    with store_at(box, state, environ={"PETSYNC_TOKEN": box.token()}) as other:
        assert "PETSYNC_" in other.sign_out().problem
    assert vault.entries() == {}
    with pytest.raises(ps.errors.AuthError):
        store.find_by_status("available")


def test_signing_out_of_memory_leaves_the_keyring(
    box: Sandbox, store: ps.Store, state: Path
) -> None:
    """A sign-out from a sign-in in memory leaves the stored one in the keyring."""
    with store_at(box, state) as other:
        other.sign_in(ps.auth.bearer(box.token()))
        other.sign_out()
    assert store.who().signed_in
    assert read_keyring()


def test_renewed_is_kept(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A renewed token is stored in the keyring immediately, and the next store uses it."""
    age(store)
    outdate()
    store.find_by_status("available")
    mine = credentials(store)
    assert mine.token is not None
    assert read_keyring()["token"] == mine.token.reveal()
    with store_at(box, state) as other:
        outdate()
        age(other)
        assert len(other.find_by_status("available")) == 1
    assert renewals(box) == 2


def test_another_renewed_already(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A store whose token expires uses the token that another store has renewed. Its own refresh
    token is used up, and sending it would end the sign-in for all.
    """
    with store_at(box, state) as other:
        age(store)
        outdate()
        store.find_by_status("available")
        for make in (age, spoil):
            make(other)
            assert len(other.find_by_status("available")) == 1
            assert credentials(other).token == credentials(store).token
    assert renewals(box) == 1


def test_many_stores_at_once(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Eight stores in threads with an expiring token renew it once, and all continue."""
    outdate()
    stores = [ps.connect(box.url, state=state, environ={}) for _ in range(8)]
    ready = threading.Barrier(8)

    def go(one: ps.Store) -> int:
        ready.wait(60)
        return len(one.find_by_status("available"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(go, stores)) == [1] * 8
    assert renewals(box) == 1
    assert len({credentials(one).token for one in stores}) == 1
    for one in stores:
        one.close()


def test_many_processes_at_once(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Two processes with an expiring token renew it once, and both continue."""
    outdate()
    command = [sys.executable, "-c", _PROGRAM, box.url, str(state)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    assert [each.stdout.readline() for each in started] == ["ready\n"] * 2
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.communicate(timeout=120)[0] for each in started] == ["1 keyring\n"] * 2
    assert [each.returncode for each in started] == [0, 0]
    assert renewals(box) == 1
    age(store)
    assert len(store.find_by_status("available")) == 1


def test_somebody_else_signs_in(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A store keeps its user when another user signs in with the same folder; the next store has
    the new user.
    """
    with store_at(box, state) as other:
        other.sign_in(ps.auth.bearer(box.token("read:pets")), keep="keyring")
    age(store)
    assert len(store.find_by_status("available")) == 1
    account = store.who()
    assert (account.user, account.kept, account.can_write) == ("shopkeeper", "memory", True)
    with store_at(box, state) as third:
        assert third.who().can_write is False


class Broken(KeyringBackend):
    """A keyring that raises the error that the test sets."""

    priority = 1.0  # type: ignore[assignment]
    error: BaseException | None = None
    forgets = False

    def get_password(self, service: str, username: str) -> str | None:
        self._fail()
        return None if self.forgets else vault.Vault().get_password(service, username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self._fail(password)
        vault.Vault().set_password(service, username, password)

    def delete_password(self, service: str, username: str) -> None:
        self._fail()
        vault.Vault().delete_password(service, username)

    def _fail(self, about: str = "") -> None:
        if self.error is not None:
            raise type(self.error)(*self.error.args, about)


class PlaintextKeyring(Broken):
    """A keyring whose name shows that it stores passwords in a plain-text file."""


@pytest.fixture
def broken() -> Iterator[Broken]:
    """Yield a keyring with errors that is the current keyring during the test."""
    before = keyring.get_keyring()
    one = Broken()
    keyring.set_keyring(one)
    yield one
    keyring.set_keyring(before)


ERRORS = [
    (keyring.errors.NoKeyringError("x"), "no keyring"),
    (keyring.errors.KeyringLocked("x"), "locked"),
    (keyring.errors.InitError("x"), "failed to read the sign-in"),
    (keyring.errors.PasswordSetError("x"), "failed to read the sign-in"),
    (RuntimeError("D-Bus"), "failed to read the sign-in"),
]


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_a_keyring_that_fails(
    box: Sandbox, state: Path, broken: Broken, error: BaseException, message: str
) -> None:
    """An unusable keyring is reported before the user is asked to sign in. The token is stored
    nowhere else, and a sign-in without the keyring works.
    """
    broken.error = error
    token = box.token()
    with store_at(box, state) as store:
        for begin in (
            lambda: store.begin_sign_in(keep="keyring"),
            lambda: store.sign_in(ps.auth.bearer(token), keep="keyring"),
        ):
            with pytest.raises(ps.errors.SettingsError, match=message) as failed:
                begin()
            assert "PETSYNC_TOKEN" in failed.value.hint
            # A locked keyring needs no other one.
            assert ("install a keyring" in failed.value.hint) == (message != "locked")
        assert not credentials(store)
        assert store.sign_in(ps.auth.bearer(token)).kept == "memory"
    assert not [path for path in state.rglob("*") if token.encode() in path.read_bytes()]


def test_a_keyring_that_waits(
    box: Sandbox, state: Path, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyring that waits for a password raises an error after a time limit."""
    monkeypatch.setattr("petsync.client.auth.keyring._KEYRING_TIMEOUT_S", 0.05)
    unlocked = threading.Event()
    broken._fail = lambda about="": unlocked.wait(60)  # type: ignore[method-assign]
    with store_at(box, state) as store, pytest.raises(ps.errors.SettingsError, match="not answer"):
        store.begin_sign_in(keep="keyring")
    unlocked.set()


def test_a_keyring_that_forgets(box: Sandbox, state: Path, broken: Broken) -> None:
    """A keyring that accepts entries and stores none is detected."""
    broken.forgets = True
    with (
        store_at(box, state) as store,
        pytest.raises(ps.errors.SettingsError, match="did not store"),
    ):
        store.sign_in(ps.auth.bearer(box.token()), keep="keyring")


def test_a_keyring_for_everybody(box: Sandbox, state: Path, broken: Broken) -> None:
    """A keyring that is a plain-text file gets no secret."""
    keyring.set_keyring(PlaintextKeyring())
    with (
        store_at(box, state) as store,
        pytest.raises(ps.errors.SettingsError, match="plain-text file"),
    ):
        store.sign_in(ps.auth.bearer(box.token()), keep="keyring")
    assert vault.entries() == {}


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_locked_when_it_is_needed(
    box: Sandbox, store: ps.Store, state: Path, broken: Broken, error: BaseException, message: str
) -> None:
    """With an unreadable stored sign-in a store still connects; the account and the first refused
    request report the cause.
    """
    broken.error = error
    with store_at(box, state) as other:
        assert message in other.who().problem
        with pytest.raises(ps.errors.AuthError, match=message):
            other.find_by_status("available")


def test_locked_at_a_renewal(box: Sandbox, store: ps.Store, broken: Broken) -> None:
    """A keyring that is locked when a renewal is due leaves the refresh token unused: another store
    may have renewed it.
    """
    age(store, left=30)
    broken.error = keyring.errors.KeyringLocked("x")
    assert len(store.find_by_status("available")) == 1
    assert renewals(box) == 0


def test_full_at_a_renewal(box: Sandbox, store: ps.Store, broken: Broken) -> None:
    """A renewed token that cannot be stored is used, and the account reports the problem."""
    age(store)
    outdate()
    broken.error = None

    def refuse(about: str = "") -> None:
        if about:
            raise keyring.errors.PasswordSetError(about)

    broken._fail = refuse  # type: ignore[method-assign]
    assert len(store.find_by_status("available")) == 1
    account = store.who()
    assert "could not be stored" in account.problem
    assert (account.signed_in, account.kept) == (True, "memory")


@pytest.mark.parametrize("removes", [True, False])
def test_full_once(
    box: Sandbox, store: ps.Store, state: Path, broken: Broken, removes: bool
) -> None:
    """After a renewal that could not be stored, the next one uses the new refresh token. No store
    sends the used one from the keyring, which would end the sign-in.
    """
    with store_at(box, state) as other:
        outdate()
        age(store)

        def refuse(*about: str) -> None:
            raise keyring.errors.PasswordSetError(about)

        put = broken.set_password
        broken.set_password = refuse  # type: ignore[method-assign]
        if not removes:
            broken.delete_password = refuse  # type: ignore[method-assign]
        assert len(store.find_by_status("available")) == 1
        broken.set_password = put  # type: ignore[method-assign]
        for n in (2, 3):
            age(store)
            assert len(store.find_by_status("available")) == 1
            assert renewals(box) == n
        assert store.who().signed_in
        spoil(other)
        with pytest.raises(ps.errors.AuthError, match="no longer exists"):
            other.find_by_status("available")
    with store_at(box, state) as third:
        assert "no longer contains the stored sign-in" in third.who().problem
        assert third.sign_in(ps.auth.bearer(box.token()), keep="keyring").kept == "keyring"
    assert store.who().signed_in
    assert len([text for each in vault.entries().values() for text in each.values()]) == 2 - removes


def test_a_lost_answer_is_shared_with_others(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Where the response to one process was lost, no other sends the same refresh token while the
    access token works. After that, one of them tries it once more.
    """
    sent: list[Credentials] = []

    async def lost(mine: Credentials) -> Credentials:
        sent.append(mine)
        raise ps.errors.TransportError("sign-in: no whole answer", may_have_happened=True)

    kept_here = CredentialStore(state, box.url)
    with store_at(box, state) as other:
        outdate(30)
        for one in (store, other):
            age(one, left=30)
            with pytest.raises(ps.errors.TransportError):
                asyncio.run(kept_here.renew(credentials(one), lost))
        assert len(sent) == 1
        assert len(other.find_by_status("available")) == 1
        assert renewals(box) == 0
        outdate(-5)
        age(other, left=-5)
        spoil(other)
        assert len(other.find_by_status("available")) == 1
        assert renewals(box) == 1
        outdate(-5)
        age(other, left=-5)
        for _ in range(2):
            with pytest.raises(ps.errors.TransportError):
                asyncio.run(kept_here.renew(credentials(other), lost))
        with pytest.raises(ps.errors.AuthError, match="an earlier renewal failed"):
            asyncio.run(kept_here.renew(credentials(other), lost))
        assert len(sent) == 3


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "{}", '{"format": 2}', '{"format": 1, "token": 7}']
)
def test_what_is_kept_is_damaged(box: Sandbox, store: ps.Store, state: Path, text: str) -> None:
    """A stored entry that cannot be read is reported, and the next sign-in replaces it."""
    found = {name: dict.fromkeys(each, text) for name, each in vault.entries().items()}
    Path(os.environ["PETSYNC_TEST_VAULT"]).write_text(json.dumps(found))
    with store_at(box, state) as other:
        assert "keyring" in other.who().problem
        other.sign_in(ps.auth.bearer(box.token()), keep="keyring")
    with store_at(box, state) as third:
        assert third.who().signed_in


def test_the_entry_is_gone(box: Sandbox, store: ps.Store, state: Path) -> None:
    """An entry that was deleted by hand is reported as lost."""
    Path(os.environ["PETSYNC_TEST_VAULT"]).unlink()
    with store_at(box, state) as other:
        assert "no longer contains" in other.who().problem
        assert other.sign_out().problem == ""
        assert other.who().problem == ""


def test_the_mark_is_damaged(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A damaged sign-in.json in the state folder is reported by name."""
    (state / "sign-in.json").write_text("{")
    with store_at(box, state) as other:
        assert "sign-in.json cannot be read: it is damaged" in other.who().problem
    (state / "sign-in.json").write_bytes(bytes(16_000_001))
    with store_at(box, state) as other:
        assert "sign-in.json cannot be read: it is larger than 16 MB" in other.who().problem


def test_a_folder_that_cannot_be_written(box: Sandbox, tmp_path: Path) -> None:
    """Where the state folder cannot be created, a sign-in for the keyring raises an error."""
    (tmp_path / "file").write_text("")
    with (
        store_at(box, tmp_path / "file" / "state") as store,
        pytest.raises(ps.errors.SettingsError, match="cannot write to the folder"),
    ):
        store.sign_in(ps.auth.bearer(box.token()), keep="keyring")


def test_two_services_in_one_folder(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Each service has its own sign-in; a sign-out from one leaves the other."""
    with Sandbox(pets=PETS) as second:
        with store_at(second, state) as other:
            other.sign_in(ps.auth.bearer(second.token()), keep="keyring")
            store.sign_out()
        with store_at(second, state) as other:
            assert other.who().signed_in


def test_a_sign_in_is_bound_to_its_address(box: Sandbox, store: ps.Store, state: Path) -> None:
    """A changed sign-in.json cannot make petsync send one service's sign-in to another."""
    marks = json.loads((state / "sign-in.json").read_text())
    with Sandbox(pets=PETS) as other:
        (state / "sign-in.json").write_text(json.dumps({other.url: marks[box.url]}))
        with store_at(other, state) as thief:
            assert credentials(thief).token is None
            assert "for another address" in thief.who().problem
            with pytest.raises(ps.errors.SettingsError, match="for another address"):
                asyncio.run(CredentialStore(state, other.url).forget(credentials(store)))
            thief.sign_in(ps.auth.bearer(other.token()), keep="keyring")
        with store_at(other, state) as own:
            assert own.who().signed_in
    assert any(box.url in name for names in vault.entries().values() for name in names)


def test_what_is_not_kept_is_not_forgotten(box: Sandbox, store: ps.Store, state: Path) -> None:
    """Forgetting a sign-in that was replaced in the keyring leaves the new one."""
    old = credentials(store)
    with store_at(box, state) as other:
        other.sign_in(ps.auth.bearer(box.token()), keep="keyring")
    asyncio.run(CredentialStore(state, box.url).forget(old))
    with store_at(box, state) as third:
        assert third.who().kind == "token"
