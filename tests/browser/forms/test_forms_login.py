"""The sign-in form in both front ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fronts import View, serious
from playwright.sync_api import Page, expect

from petsync.sandbox import Sandbox

_FORM = "form = ps.widgets.login(store)\nform"
_LINK = "Open the sign-in page"


def _consent(view: View) -> Page:
    """Open the service's consent page from the form, and return it."""
    with view.page.expect_popup() as opened:
        view.forms.get_by_role("link", name=_LINK).click()
    page = opened.value
    expect(page.get_by_role("heading", name="Use the pet store?")).to_be_visible()
    return page


@pytest.mark.parametrize("front", ["lab", "voila"])
def test_a_person_agrees_in_the_browser(
    open_in: Callable[..., View], connected: str, box: Sandbox, front: str
) -> None:
    """Sign-in with a code and PKCE: the form opens the service's page and continues by itself after
    the user allows access. It shows the granted scopes and signs out again.
    """
    view = open_in(front, connected, _FORM)
    view.forms.get_by_role("button", name="Begin").click()
    consent = _consent(view)
    consent.get_by_role("button", name="Allow").click()
    expect(view.forms).to_contain_text("You are signed in")
    expect(view.forms).to_contain_text("write:pets")
    expect(consent.get_by_role("heading")).to_have_text("You are signed in")
    assert serious(view) == []
    view.forms.get_by_role("button", name="Sign out").click()
    expect(view.forms).to_contain_text("You are signed out")
    consent.close()


def test_a_person_refuses_in_the_browser(open_in: Callable[..., View], connected: str) -> None:
    """A refused consent is reported in the form, and the user can try again."""
    view = open_in("voila", connected, _FORM)
    view.forms.get_by_role("button", name="Begin").click()
    consent = _consent(view)
    consent.get_by_role("button", name="Deny").click()
    expect(view.forms.get_by_role("alert")).not_to_be_empty()
    expect(view.forms.get_by_role("button", name="Begin")).to_be_enabled()
    consent.close()


def test_a_person_carries_the_address_over(open_in: Callable[..., View], connected: str) -> None:
    """Where the browser cannot reach the kernel, the user pastes the address on which the browser
    ended; the address of another sign-in is refused.
    """
    view = open_in("lab", connected, _FORM)
    how = view.forms.get_by_label("How")
    how.select_option(label="In the browser, with petsync on another computer")
    view.forms.get_by_role("button", name="Begin").click()
    consent = _consent(view)
    with consent.expect_event("requestfailed") as refused:
        consent.get_by_role("button", name="Allow").click()
    ended = refused.value.url
    address = view.forms.get_by_label("Address", exact=True)
    state = ended.partition("state=")[2].partition("&")[0]
    address.fill(ended.replace(state, "A" * len(state)))
    view.forms.get_by_role("button", name="Continue with this address").click()
    expect(view.forms.get_by_role("alert")).not_to_be_empty()
    expect(address).to_have_value("")
    address.fill(ended)
    address.press("Enter")
    expect(view.forms).to_contain_text("You are signed in")
    consent.close()


def test_nothing_typed_is_saved(
    open_in: Callable[..., View], connected: str, box: Sandbox, tmp_path: Path, house: object
) -> None:
    """A typed client secret signs in without the write scope, and the form shows that this scope is
    missing. Neither the page nor the notebook, saved with the state of all widgets, contains the
    secret.
    """
    view = open_in("lab", connected, _FORM)
    view.forms.get_by_label("How").select_option(label="A client id and its secret")
    secret = view.forms.get_by_label("Client secret")
    expect(secret).to_be_visible()
    view.forms.get_by_label("Client id").fill(box.client_id)
    secret.fill("wrong-" + box.client_secret)
    view.forms.get_by_label("I want to change pets too").uncheck()
    view.forms.get_by_role("button", name="Sign in", exact=True).click()
    expect(view.forms.get_by_role("alert")).not_to_be_empty()
    expect(secret).to_have_value("")
    secret.fill(box.client_secret)
    secret.press("Enter")
    expect(view.forms).to_contain_text("write:pets is missing")
    state = view.page.evaluate(_SAVED)
    assert "Client secret" in json.dumps(state["widgets"])
    for text in (json.dumps(state), view.page.content()):
        assert box.client_secret not in text


_SAVED = """async () => {
  const widget = window.jupyterapp.shell.currentWidget;
  const { commands } = window.jupyterapp;
  await commands.execute("@jupyter-widgets/jupyterlab-manager:saveWidgetState").catch(() => null);
  await commands.execute("docmanager:save");
  const whole = widget.context.model.toJSON();
  return { widgets: whole.metadata.widgets ?? {}, whole };
}"""
