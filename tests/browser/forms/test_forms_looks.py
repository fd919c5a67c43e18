"""Accessibility of every form in both themes of JupyterLab and Voilà."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fronts import Lab, Theme, View, serious
from playwright.sync_api import expect

_SHEET = "ps.sample_data() / 'catalogue_edited.xlsx'"
# Each form, and a text that it shows when it is ready.
FORMS = {
    "login": ("ps.widgets.login(store)", "Sign out"),
    "upload": ("ps.widgets.upload_images(store, 1001)", "Pictures of pet 1001"),
    "review": (f"ps.widgets.review(store.plan({_SHEET}), store)", "337 changes"),
    "sheet": (f"ps.widgets.open_sheet(store, {_SHEET})", "solld"),
    "browse": ("ps.widgets.browse(store)", "Bella"),
    "app": ("ps.widgets.app(store)", "Sign in"),
}


CELLS = [f"{name} = {made}\n{name}" for name, (made, _) in FORMS.items()]


def test_jupyterlab_keeps_nobody_out(
    open_in: Callable[..., View], signed_in: str, lab: Lab
) -> None:
    """axe finds nothing serious or critical in any form in either theme of JupyterLab, also when
    the theme changes while the forms are shown.
    """
    view = open_in("lab", signed_in, *CELLS)
    _check_forms(view, "light")
    lab.theme("dark")
    _check_forms(view, "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_voila_keeps_nobody_out(open_in: Callable[..., View], signed_in: str, theme: Theme) -> None:
    """axe finds nothing serious or critical in any form in this theme of Voilà."""
    _check_forms(open_in("voila", signed_in, *CELLS, theme=theme), theme)


def _check_forms(view: View, theme: Theme) -> None:
    """Assert that every form is present and accessible, that the names of its facts are not broken,
    and that its text has the theme's brightness.
    """
    for _, text in FORMS.values():
        expect(view.forms.filter(has_text=text).first).to_be_attached()
    assert view.forms.count() >= len(FORMS)
    assert view.forms.evaluate_all(_TALL_NAMES) == []
    assert serious(view) == []
    assert set(view.forms.evaluate_all(_IS_LIGHT)) == {theme == "dark"}


# True for each form whose text is light.
_IS_LIGHT = """(forms) => forms.map((form) => {
  const heading = form.querySelector("h1, h2, h3, h4") ?? form;
  const [r, g, b] = getComputedStyle(heading).color.match(/[0-9.]+/g).map(Number);
  return r + g + b > 3 * 128;
})"""
# The names of facts that take more than one line.
_TALL_NAMES = """(forms) => forms.flatMap((form) => [...form.querySelectorAll(".ps-about dt")]
  .filter((name) => name.getBoundingClientRect().height > 30).map((name) => name.textContent))"""
