"""A saved notebook with a form, opened again without its kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fronts import View, Watch
from playwright.sync_api import expect

from petsync.sandbox import Sandbox

_AGAIN = """async () => {
  const { commands, shell } = window.jupyterapp;
  const { path } = shell.currentWidget.context;
  await shell.currentWidget.sessionContext.shutdown();
  await shell.currentWidget.context.save();
  shell.currentWidget.close();
  const options = { path, factory: "Notebook", kernel: { name: "" } };
  const widget = await commands.execute("docmanager:open", options);
  await widget.context.ready;
  // It starts a kernel of its own. A tab that closes meanwhile is an error of JupyterLab.
  await widget.sessionContext.ready;
  return true;
}"""
_IS_SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


@pytest.mark.parametrize(("theme", "kernel"), [("light", "7.4"), ("dark", "6.31")])
def test_what_a_saved_notebook_shows(
    open_in: Callable[..., View],
    connected: str,
    box: Sandbox,
    watch: Watch,
    theme: str,
    kernel: str,
) -> None:
    """A live form is shown once, and its fields show the focus. Ctrl+S on a button of the form
    saves the notebook; without the kernel the notebook shows the form's last state.
    """
    form = "form = ps.widgets.login(store)\nform"
    view = open_in("lab", connected, form, theme=theme, kernel=kernel)
    kept = view.root.locator(".petsync-still")
    how = view.forms.get_by_label("How")
    how.select_option(label="An access token that I have")
    token = view.forms.get_by_label("Access token")
    for field in (how, token):
        field.focus()
        assert field.evaluate("(field) => getComputedStyle(field).outline").endswith("solid 2px")
    token.fill(box.token())
    token.press("Enter")
    expect(view.forms).to_contain_text("You are signed in")
    expect(kept).to_contain_text("You are signed in")
    expect(kept).to_be_hidden()
    expect(view.root.get_by_role("heading", name="Sign in")).to_have_count(1)
    view.forms.get_by_role("button", name="Sign out").press("Control+s")
    view.page.wait_for_function(_IS_SAVED)

    view.page.evaluate(_AGAIN)
    expect(kept).to_be_visible()
    expect(kept).to_contain_text("You are signed in")
    expect(view.forms).to_have_count(0)
    expect(view.root.get_by_text("Error displaying widget")).to_be_hidden()
    # JupyterLab logs this only to the console.
    watch.unrest[:] = [
        message for message in watch.unrest if "widget model not found" not in message
    ]
    assert watch.unrest == []
