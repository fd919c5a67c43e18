"""Entering: Enter in a field does what the button beside it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ipywidgets

from petsync.widgets.work import Work

__all__ = ["on_enter"]

_SOON = 0.2


def on_enter(field: ipywidgets.Text, work: Work, act: Callable[[], object]) -> None:
    """Call the function when Enter is pressed in the field; leaving it alone does nothing."""

    def heard(_: object, content: dict[str, Any], __: object) -> None:
        # The browser tells of the key first, and of the text that it ended only then.
        if content.get("event") == "submit":
            work.start(asyncio.sleep(_SOON), lambda _: act())

    field.on_msg(work.guarded(heard))
