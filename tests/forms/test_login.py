"""The sign-in form, driven by its traits, with a running sandbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import AsyncMock, Mock
from urllib.parse import parse_qs, urlsplit

import ipywidgets
import keyring
import pytest
import vault
from consenting import agree, sent_back

import petsync as ps
from petsync.client.signin import SignInService
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.settings import Secret
from petsync.widgets.components import SecretField
from petsync.widgets.login import SIGN_IN_METHODS, LoginForm, login

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield a store that requires a token."""
    with Sandbox(pets=[Pet(id=1, name="Rex", status="available", photo_urls=("x",))]) as one:
        yield one


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection without a sign-in."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as one:
        yield one


@pytest.fixture
def form(store: ps.Store) -> Iterator[LoginForm]:
    """Yield the shown form after it has loaded the account."""
    one = login(store)
    assert one.widget is not None
    assert one.work.wait(120)
    yield one
    one.close()
    assert one.work.wait(120)


def until(is_so: Callable[[], object], seconds: float = 120) -> None:
    """Wait until the condition is true."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def every(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """Yield the widget and all its descendants."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every(child)


def states(form: LoginForm) -> str:
    """Return the state of every widget of the form, as a notebook may save it."""
    return repr([each.get_state() for each in every(form.widget)])


def begin_sign_in(form: LoginForm, way: str) -> str:
    """Begin this kind of sign-in, and return the form's link."""
    form.way.value = way
    form.go.click()
    until(lambda: form.link.url)
    return form.link.url


def test_it_says_that_nobody_is_signed_in(form: LoginForm) -> None:
    """At first the form shows that the user is not signed in, and how to begin."""
    assert form.account is not None
    assert not form.account.signed_in
    assert form.sign_out.layout.display == "none"
    assert form.go.description == "Begin"


def test_a_script_signs_in(store: ps.Store, box: Sandbox) -> None:
    """A script drives a form that is not shown by the names of its fields."""
    form = login(store)
    form.way.value = "token"
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    assert store.who().signed_in
    form.close()


def test_token(form: LoginForm, box: Sandbox) -> None:
    """An access token signs in, and the listener is called once."""
    accounts: list[ps.types.Account] = []
    form.on_signed_in(accounts.append)
    form.way.value = "token"
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert (form.account.signed_in, form.account.kind) == (True, "token")
    assert accounts == [form.account]
    assert form.notice.tone == "done"
    assert form.sign_out.layout.display != "none"
    assert len(form.store.find_by_status()) == 1


@pytest.mark.parametrize("token", ["wrong", "two words", "", "ümlaut"])
def test_bad_token(form: LoginForm, token: str) -> None:
    """An invalid token is reported with a fix and removed from the field, and the user is not
    signed in.
    """
    form.way.value = "token"
    form.token.value = token
    form.go.click()
    assert form.work.wait(120)
    assert form.token.value == ""
    assert form.notice.tone == "problem"
    assert form.notice.hint
    assert not token or token not in form.notice.text + form.notice.hint
    assert form.account is not None
    assert not form.account.signed_in


def test_failed_sign_in_leaves_the_present_one(form: LoginForm, box: Sandbox) -> None:
    """A failed sign-in keeps the existing one."""
    form.way.value = "token"
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    form.other.click()
    form.token.value = "wrong"
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.tone == "problem"
    assert form.account is not None
    assert form.account.signed_in
    assert len(form.store.find_by_status()) == 1


@pytest.mark.parametrize(
    ("way", "field"), [("token", "token"), ("client", "client_secret"), ("key", "api_key")]
)
def test_secrets_are_in_no_widget(form: LoginForm, way: str, field: str) -> None:
    """A secret is in no widget's state, before and after it is read. The browser clears the field,
    also if the sign-in fails.
    """
    secret = "s3cret with a space"
    entry: SecretField = getattr(form, field)
    form.way.value = way
    form.client_id.value = "somebody"
    sent: list[object] = []
    entry.send = lambda content, *_: sent.append(content)  # type: ignore[method-assign]
    entry._handle_message(entry, {"text": secret}, [])
    assert entry.value == secret
    assert secret not in states(form) + repr(entry) + repr(vars(entry))
    form.go.click()
    assert entry.value == ""
    assert sent == [{"clear": True}]
    assert form.work.wait(120)
    assert form.notice.tone == "problem"
    assert secret not in states(form)


def test_enter_in_the_field_signs_in(form: LoginForm, box: Sandbox) -> None:
    """Enter in a secret field signs in, as the button does."""
    form.way.value = "token"
    form.token._handle_message(form.token, {"text": box.token(), "enter": True}, [])
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.signed_in


def test_choosing_another_way_forgets_what_was_typed(form: LoginForm) -> None:
    """Another kind of sign-in clears a typed secret."""
    form.way.value = "token"
    form.token.value = "abc"
    form.way.value = "client"
    assert form.token.value == ""


@pytest.mark.parametrize("way", SIGN_IN_METHODS, ids=lambda way: way.name)
def test_only_the_fields_of_a_way_are_shown(form: LoginForm, way: object) -> None:
    """Each kind of sign-in shows only its own fields and button, and each field has a label."""
    assert way in SIGN_IN_METHODS
    form.way.value = way.name  # type: ignore[attr-defined]
    seen = list(every(form.widget))
    for name in ("client_id", "client_secret", "token", "api_key", "can_write"):
        assert (getattr(form, name) in seen) == (name in (*way.fields, *way.options))  # type: ignore[attr-defined]
    assert form.go.description == way.button  # type: ignore[attr-defined]
    labelled = (ipywidgets.Text, ipywidgets.Dropdown, ipywidgets.Checkbox, ipywidgets.Button)
    assert all(each.description for each in seen if isinstance(each, labelled))
    assert all(each.label for each in seen if isinstance(each, SecretField))


def test_client_credentials(form: LoginForm, box: Sandbox) -> None:
    """A client id and secret sign in for the ticked scopes, and the token is renewed."""
    form.way.value = "client"
    form.client_id.value = box.client_id
    form.client_secret.value = box.client_secret
    form.can_write.value = False
    form.go.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.kind == "client credentials"
    assert form.account.scopes == {"read:pets"}
    assert form.account.renews


def test_browser_comes_back_by_itself(form: LoginForm) -> None:
    """Code with PKCE: the user who allows access in the browser is signed in, and the browser shows
    this.
    """
    url = begin_sign_in(form, "browser")
    asked = parse_qs(urlsplit(url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert "state" in asked
    assert form.go.layout.display != "none"
    assert "signed in" in agree(url)
    assert form.work.wait(120)
    assert form.account is not None
    assert (form.account.kind, form.account.renews) == ("code", True)
    assert form.account.can_write
    assert form.link.url == ""


def test_the_link_is_in_no_widget(form: LoginForm) -> None:
    """The link with its state is in no widget's state: it is sent as a message, also to a reloaded
    page.
    """
    url = begin_sign_in(form, "browser")
    state = parse_qs(urlsplit(url).query)["state"][0]
    assert state not in states(form)
    sent: list[object] = []
    form.link.send = lambda content, *_: sent.append(content)
    form.link._handle_message(form.link, {"ready": True}, [])
    assert sent == [{"url": url}]


def test_declined(form: LoginForm) -> None:
    """A declined sign-in is reported, and the user can begin again."""
    agree(begin_sign_in(form, "browser"), "deny")
    assert form.work.wait(120)
    assert form.notice.tone == "problem"
    assert form.link.url == ""
    assert begin_sign_in(form, "browser")


def test_pasted_address(form: LoginForm) -> None:
    """If the notebook runs on another machine, the user pastes the address on which the browser
    ended; the field is cleared when it is read.
    """
    accounts: list[ps.types.Account] = []
    form.on_signed_in(accounts.append)
    form.address.value = sent_back(begin_sign_in(form, "elsewhere"))
    form.paste.click()
    assert form.address.value == ""
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.kind == "code"
    assert accounts == [form.account]


@pytest.mark.parametrize(
    "wrong", ["", "hello", "http://127.0.0.1:1/petsync?code=abc&state=of-another", "URL"]
)
def test_wrong_address_leaves_it_open(form: LoginForm, wrong: str) -> None:
    """An address that does not belong to this sign-in is reported with a fix, and the right address
    still works afterwards.
    """
    url = begin_sign_in(form, "elsewhere")
    form.address.value = url if wrong == "URL" else wrong
    form.paste.click()
    until(lambda: form.notice.tone == "problem")
    assert form.notice.hint
    assert form.address.value == ""
    form.address.value = sent_back(url)
    form.paste.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.signed_in


def test_cancel(form: LoginForm) -> None:
    """Cancel ends the sign-in and hides its link."""
    url = begin_sign_in(form, "browser")
    assert form.stop.layout.display != "none"
    form.stop.click()
    assert form.work.wait(120)
    assert form.link.url == ""
    assert form.stop.layout.display == "none"
    assert form.account is not None
    assert not form.account.signed_in
    assert url


def test_implicit(form: LoginForm, tmp_path: Path) -> None:
    """If a service offers only the implicit flow, the user pastes the address with the token."""
    with (
        Sandbox(profile="live") as old,
        ps.connect(old.url, profile="live", state=tmp_path / "old", environ={}) as store,
    ):
        old_form = login(store)
        assert old_form.widget is not None
        old_form.address.value = sent_back(begin_sign_in(old_form, "implicit"))
        old_form.paste.click()
        assert old_form.work.wait(120)
        assert old_form.account is not None
        assert old_form.account.kind == "implicit"
        assert old_form.account.signed_in
        old_form.close()


def test_a_kind_of_sign_in_that_is_not_offered_names_the_one_that_is(
    form: LoginForm, tmp_path: Path
) -> None:
    """If the service does not offer the chosen kind of sign-in, the form names the other kind as in
    its list, and no option of the command line.
    """
    form.way.value = "implicit"
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.hint == "Choose “In the browser (usual)”."
    with (
        Sandbox(profile="live") as old,
        ps.connect(old.url, profile="live", state=tmp_path / "old", environ={}) as store,
    ):
        old_form = login(store)
        assert old_form.widget is not None
        old_form.go.click()
        assert old_form.work.wait(120)
        assert old_form.notice.hint == (
            "Choose “In the browser, for a service that offers only a token”."
        )
        old_form.close()


def test_a_port_that_cannot_be_used_leads_to_the_way_by_hand(
    form: LoginForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If petsync cannot listen for the browser, the form names the way that needs no listening."""
    monkeypatch.setattr(asyncio, "start_server", AsyncMock(side_effect=OSError(98, "in use")))
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.hint.startswith(
        "Begin again with “In the browser, with petsync on another computer”, and paste"
    )


def test_a_machine_without_a_keyring_leads_to_the_tick(
    form: LoginForm, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the sign-in cannot be stored, the form names its own tick."""
    monkeypatch.setattr(keyring, "get_keyring", Mock(side_effect=keyring.errors.NoKeyringError))
    form.way.value, form.keep.value = "token", True
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.hint == ("Untick “Keep me signed in”. Or install a keyring for this system.")


def test_missing_scope_is_reported_loudly(form: LoginForm, box: Sandbox) -> None:
    """A token without the write scope is reported at once, and shown above all else in the static
    view.
    """
    form.way.value = "token"
    form.token.value = box.token("read:pets")
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.tone == "problem"
    assert "write:pets" in form.notice.text
    shown = form.html()
    assert shown.index("write:pets is missing") < shown.index(box.url)
    assert 'role="note"' in shown
    assert "write:pets is missing" in form.text()


def test_reading_alone_is_no_problem_if_it_was_wished(form: LoginForm, box: Sandbox) -> None:
    """If the user asks for the read scope only, the missing write scope is not a problem."""
    form.way.value = "client"
    form.client_id.value = box.client_id
    form.client_secret.value = box.client_secret
    form.can_write.value = False
    form.go.click()
    assert form.work.wait(120)
    assert form.notice.tone == "done"
    assert "write:pets" in form.notice.text


@pytest.mark.parametrize("can_write", [True, False])
def test_a_token_that_cannot_read_is_reported_so(
    form: LoginForm, box: Sandbox, *, can_write: bool
) -> None:
    """A token without any permission is reported as one that cannot read, also if the user does not
    ask for the write scope.
    """
    form.can_write.value = can_write
    form.way.value = "token"
    form.token.value = box.token("other")
    form.go.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert (form.account.can_read, form.account.can_write) == (False, False)
    assert form.notice.tone == "problem"
    assert "without read:pets" in form.notice.text
    for shown in (form.html(), form.text()):
        assert "You cannot read the catalogue: read:pets is missing" in shown
        assert "You can read pets" not in shown


def test_api_key_alone_is_little(form: LoginForm, box: Sandbox) -> None:
    """A sign-in with an API key alone shows that the key only reads single pets."""
    form.way.value = "key"
    form.api_key.value = box.api_key
    form.go.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.api_key
    assert "single pets" in form.notice.text
    for shown in (form.html(), form.text()):
        assert "and nothing else" in shown
        assert "single pets by their id" not in shown


def test_sign_out(form: LoginForm, box: Sandbox) -> None:
    """After the sign-out the store sends no token."""
    left: list[ps.types.Account] = []
    form.on_signed_out(left.append)
    form.way.value = "token"
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    form.sign_out.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert not form.account.signed_in
    assert left == [form.account]
    with pytest.raises(ps.errors.AuthError):
        form.store.api.get_pet_by_id(1)


def test_a_cancelled_sign_out_shows_the_account_as_it_is(
    form: LoginForm, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a sign-out is cancelled while the service does not answer, the form shows that nobody is
    signed in any more.
    """

    async def never(*_: object) -> str:
        await asyncio.sleep(60)
        return ""

    form.way.value = "token"
    form.token.value = box.token()
    form.go.click()
    assert form.work.wait(120)
    monkeypatch.setattr(SignInService, "_revoke", never)
    form.sign_out.click()
    assert form.account is not None
    assert form.account.signed_in
    while form.store.aio.api.session.credentials:
        time.sleep(0.01)
    form.stop.click()
    assert form.work.wait(120)
    assert not form.account.signed_in


def test_keyring_is_used_if_ticked(
    form: LoginForm, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If ticked, the sign-in is stored in the keyring and a new form is signed in already; if not,
    nothing is stored.
    """
    vault.use(monkeypatch, tmp_path)
    form.way.value = "client"
    form.client_id.value, form.client_secret.value = box.client_id, box.client_secret
    form.go.click()
    assert form.work.wait(120)
    assert vault.entries() == {}
    form.other.click()
    form.keep.value = True
    form.client_secret.value = box.client_secret
    form.go.click()
    assert form.work.wait(120)
    assert form.account is not None
    assert form.account.kept == "keyring"
    assert vault.entries()
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as again:
        accounts: list[ps.types.Account] = []
        other = login(again)
        other.on_signed_in(accounts.append)
        assert other.widget is not None
        assert other.work.wait(120)
        assert accounts == [other.account]
        other.close()


def test_twins(store: ps.Store, box: Sandbox) -> None:
    """Without a live kernel the form is text and HTML with the account, and creates no widget."""
    store.sign_in(ps.auth.bearer(box.token()))
    form = login(store)
    assert "<h3>Sign in</h3>" in form.html()
    assert max(map(len, form.text().splitlines())) <= 80
    for text in (form.html(), form.text()):
        assert box.url in text
        assert "change pets" in text
    assert form._widget is None
    form.close()


def test_service_that_is_away(tmp_path: Path) -> None:
    """If the service does not answer, the form is shown and reports it."""
    with ps.connect(
        "http://127.0.0.1:9/v2", state=tmp_path, environ={}, retry=ps.RetryPolicy(attempts=1)
    ) as store:
        form = login(store)
        assert form.widget is not None
        form.way.value = "token"
        form.token.value = "abc"
        form.go.click()
        assert form.work.wait(120)
        assert form.notice.tone == "problem"
        assert form.token.value == ""
        assert "127.0.0.1:9" in form.text() + form.notice.text
        form.close()


def test_closing_ends_what_was_begun(store: ps.Store) -> None:
    """A closed form no longer listens for the browser, and its secret fields are empty."""
    form = login(store)
    assert form.widget is not None
    assert form.work.wait(120)
    url = begin_sign_in(form, "browser")
    form.api_key.value = "abc"
    form.close()
    assert form.work.wait(120)
    back = sent_back(url)
    with pytest.raises(OSError, match="refused"):
        agree_at(back)
    assert form.api_key.value == ""


def agree_at(url: str) -> None:
    """Open the address as a browser does."""
    from urllib.request import urlopen

    urlopen(url, timeout=120).read()


def test_taking_gives_a_masked_text() -> None:
    """The value of a secret field is masked wherever it is shown, and taking it clears the
    field.
    """
    field = SecretField(label="Token")
    field.value = "abc"
    taken = field.take()
    assert isinstance(taken, Secret)
    assert (repr(taken), taken.reveal(), field.value) == ("***", "abc", "")
    field.close()
