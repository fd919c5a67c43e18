"""The components of the forms: their traits, and the limits of their scripts."""

from __future__ import annotations

import asyncio
import re
import threading
from importlib.resources import files
from typing import Any

import pytest

from petsync.widgets.components import Files, Heading, Meter, Notice, Part, Steps, Table

PARTS = (Files, Heading, Meter, Notice, Steps, Table)
_ASSETS = files("petsync.widgets").joinpath("assets")
SCRIPTS = sorted(each.name for each in _ASSETS.iterdir() if each.name.endswith(".js"))


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_brings_its_script_along(kind: type[Part]) -> None:
    """Script and style come through the kernel and load nothing from an address."""
    part = kind()
    assert "export default" in part._esm
    assert "--jp-ui-font-color1" in part._css
    assert "import " not in part._esm
    assert not re.findall(r"https?://", part._esm + part._css)
    assert not re.findall(r"@import|url\(", part._css)
    part.close()


def test_a_front_end_that_opens_gets_the_newest_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread changed before the answer to a front end arrived is sent again after it,
    and nothing else: the user may have ticked a row meanwhile.
    """
    table = Table(caption="Pets")
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(table, "_send", lambda message, **_: sent.append(message["state"]))

    async def answer() -> dict[str, Any]:
        stale = table.get_state()
        changing = threading.Thread(target=_fill, args=[table])
        changing.start()
        changing.join()
        sent.append(stale)
        await asyncio.sleep(0)
        return sent[-1]

    newest = asyncio.run(answer())
    assert newest == {"total": 1, "rows": [{"key": "1"}]}
    table.close()


def test_an_answer_is_not_repeated_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front end that opens gets one answer, so that it loses no tick of a user who was quick."""
    table = Table(caption="Pets")
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(table, "_send", lambda message, **_: sent.append(message))

    async def answer() -> None:
        table.get_state()
        await asyncio.sleep(0)

    asyncio.run(answer())
    assert sent == []
    table.close()


def _fill(table: Table) -> None:
    with table.hold_sync():
        table.total, table.rows = 1, [{"key": "1"}]


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_html_of_text(name: str) -> None:
    """No script parses text as HTML or runs it as code."""
    source = _ASSETS.joinpath(name).read_text("utf-8")
    never = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|DOMParser"
    assert not re.findall(never, source)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_asks_a_network(name: str) -> None:
    """No script sends a request."""
    source = _ASSETS.joinpath(name).read_text("utf-8")
    assert not re.findall(r"\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|\bimport\(", source)


def test_a_notice_has_one_tone_at_a_time() -> None:
    """A new message replaces the text, hint and tone of the last one."""
    notice = Notice()
    notice.warn("The store answers nothing", "Try again.")
    assert (notice.text, notice.hint, notice.tone) == (
        "The store answers nothing",
        "Try again.",
        "problem",
    )
    notice.say("Done", done=True)
    assert (notice.text, notice.hint, notice.tone) == ("Done", "", "done")
    notice.clear()
    assert (notice.text, notice.hint, notice.tone) == ("", "", "")
    notice.close()


def test_a_picked_row_is_reported() -> None:
    """A row's button calls the listener with the row's key; other messages do not."""
    table, picked = Table(), list[str]()
    table.on_pick(picked.append)
    table._handle_message(table, {"picked": "pet 7"}, [])
    table._handle_message(table, {"picked": 7}, [])
    table._handle_message(table, {"other": "pet 8"}, [])
    assert picked == ["pet 7"]
    table.close()
