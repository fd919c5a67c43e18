"""The components of forms in both front ends on every ipykernel; test_forms_review.py tests the
whole workflow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fronts import View
from playwright.sync_api import expect

_PARTS = """
import ipykernel
import ipywidgets
from petsync.widgets.form import Form
from petsync.widgets.components import Table

class Small(Form):
    title = "Small"

    def _iter_views(self):
        return []

    def _build_body(self):
        self.table = Table(
            caption="Pets",
            columns=[{"key": "name", "title": "Name"}],
            rows=[{"key": "1", "label": "Bella", "cells": {"name": "<b>Bella</b>"}}],
            total=1,
            tickable=True,
        )
        self.table.observe(self.work.wrap_callback(lambda _: self.later()), "ticked")
        return self.table

    def later(self):
        async def work():
            return ipykernel.__version__

        self.work.start(work(), lambda version: self.tell(f"Ticked on ipykernel {version}"))

Small()
"""


@pytest.mark.parametrize(("front", "kernel"), [("voila", "6.31"), ("lab", "7.3"), ("voila", "7.4")])
def test_a_form_answers(open_in: Callable[..., View], front: str, kernel: str) -> None:
    """A tick in the browser reaches the form, and the result of the form's background work comes
    back, on this version of ipykernel.
    """
    view = open_in(front, _PARTS, kernel=kernel)
    # Not check(), which fails if the kernel's first state arrives late and hides the tick shortly.
    view.forms.get_by_role("checkbox", name="Select Bella").click()
    expect(view.forms).to_contain_text(f"Ticked on ipykernel {kernel}.")
    expect(view.forms.get_by_role("rowheader")).to_have_text("<b>Bella</b>")
