"""The front ends of the forms, JupyterLab and Voilà, with records of their requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chromium import find_faults
from jupyters import Server, name_of, write_notebook
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page

Theme = Literal["light", "dark"]
PATIENCE = 120_000
# anywidget gives each widget two seconds to start, too few beside other tests. The page of
# `petsync app` raises this limit itself; JupyterLab and Voilà do not.
PATIENT = f"""{{
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = (limit) => timeout(Math.max(limit, {PATIENCE}));
}}"""
_LOOPBACK = re.compile(r"(https?|wss?)://(127\.0\.0\.1|localhost|\[::1\])[:/]|data:|blob:|about:")
# Messages of JupyterLab itself, whatever a notebook shows. The last one is an error of its widget
# manager, which asks for the kernel of a notebook that is opened without one.
_HARMLESS = re.compile(
    r"terminals plugin|ResizeObserver|Unrecognized feature|Plugin '"
    r"|reading 'kernel'\)\s+at \w+ \(\S+/@jupyter-widgets/jupyterlab-manager/"
)


class Watch:
    """Records the pages' requests to other hosts and their errors. A dialog counts as an error."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.unrest: list[str] = []

    def over(self, context: BrowserContext) -> BrowserContext:
        """Record the pages of the context, and return it."""
        context.on("request", lambda request: self._ask(request.url))
        context.on("page", self._page)
        return context

    def _page(self, page: Page) -> None:
        page.set_default_timeout(PATIENCE)
        page.on("websocket", lambda socket: self._ask(socket.url))
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._say(f"error {error.stack or error}"))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: object) -> None:
        if getattr(dialog, "type", "") != "beforeunload":
            self.unrest.append(f"dialog {getattr(dialog, 'message', '')}")
        dialog.accept()  # type: ignore[attr-defined]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._say(f"console {message.text}")

    def _say(self, text: str) -> None:
        if not _HARMLESS.search(text):
            self.unrest.append(text)

    def _ask(self, url: str) -> None:
        if not _LOOPBACK.match(url):
            self.asked.append(url)


@dataclass(slots=True)
class View:
    """A notebook that was run: its page, and the part of the page that shows the notebook."""

    page: Page
    root: Locator
    front: str

    @property
    def forms(self) -> Locator:
        """The forms in the notebook."""
        return self.root.locator(".petsync-form")


class Lab:
    """JupyterLab, loaded once; each notebook is a tab in it."""

    name = "lab"

    def __init__(self, server: Server, page: Page) -> None:
        self._server, self.page = server, page
        page.goto(f"{server.url}/lab?token={server.token}")
        page.wait_for_function("() => window.jupyterapp?.shell")
        page.evaluate("() => window.jupyterapp.restored.then(() => true)")
        self._theme: Theme = "light"

    def open(
        self, name: str, cells: Sequence[str], kernel: str = "7.4", theme: Theme = "light"
    ) -> View:
        """Write a notebook of these cells, run it in a new tab and return its view."""
        self.theme(theme)
        write_notebook(self._server.folder / f"{name}.ipynb", name_of(kernel), cells)
        self.page.evaluate(_OPEN, f"{name}.ipynb")
        return View(self.page, self.page.locator(_PANEL), self.name)

    def theme(self, theme: Theme) -> None:
        """Change the colour theme of JupyterLab."""
        if theme != self._theme:
            self._theme = theme
            self.page.evaluate(_THEME, f"JupyterLab {theme.title()}")

    def close(self, view: View) -> None:
        """End the notebook's kernel and close its tab."""
        self.page.evaluate(_CLOSE)


class Voila:
    """Voilà; each notebook is a separate page."""

    name = "voila"

    def __init__(self, server: Server, context: BrowserContext) -> None:
        self._server, self._context = server, context

    def open(
        self, name: str, cells: Sequence[str], kernel: str = "7.4", theme: Theme = "light"
    ) -> View:
        """Open a notebook of these cells as a page and return its view."""
        write_notebook(self._server.folder / f"{name}.ipynb", name_of(kernel), cells)
        page = self._context.new_page()
        address = f"{self._server.url}/voila/render/{name}.ipynb"
        page.goto(f"{address}?token={self._server.token}&theme={theme}")
        return View(page, page.locator("body"), self.name)

    def close(self, view: View) -> None:
        """Close the page, which ends its kernel."""
        view.page.close()


Front = Lab | Voila


def serious(view: View, within: str = ".petsync-form") -> list[str]:
    """Return the serious and critical findings of axe in the forms, as text."""
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    return find_faults(view.page, within, runOnly=rules)


def picture(view: View, file: Path) -> None:
    """Save a screenshot of the notebook's first form."""
    file.parent.mkdir(parents=True, exist_ok=True)
    view.forms.first.screenshot(path=file, animations="disabled")


_PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
_OPEN = """async (path) => {
  const { commands } = window.jupyterapp;
  const widget = await commands.execute("docmanager:open", { path, factory: "Notebook" });
  await widget.context.ready;
  await widget.sessionContext.ready;
  await commands.execute("notebook:run-all-cells");
  return true;
}"""
_CLOSE = """async () => {
  const { commands, shell } = window.jupyterapp;
  const widget = shell.currentWidget;
  await widget.sessionContext.shutdown();
  await widget.context.save();
  widget.close();
  return true;
}"""
_THEME = """async (theme) => {
  await window.jupyterapp.commands.execute("apputils:change-theme", { theme });
  const light = theme.includes("Light");
  while (document.body.dataset.jpThemeLight !== String(light))
    await new Promise((go) => setTimeout(go, 20));
  return true;
}"""
