"""The forms as a page in a browser, served by Voilà on loopback."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_core.utils import ensure_async
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Router
from tornado.web import Application, RequestHandler, authenticated, decode_signed_value
from voila.app import Voila
from voila.shutdown_kernel_handler import VoilaShutdownKernelHandler
from voila.tornado.handler import TornadoVoilaHandler

from petsync._files import make_private_folder
from petsync.errors import SettingsError
from petsync.widgets.app_config import AppConfig

__all__ = ["AccessGate", "serve"]


# Gate: the check of each request before it reaches Voilà.
#
# A request without the token, or for an unknown path, gets a petsync page instead of Jupyter's
# login form or error page.


_THERE = re.compile(
    r"/|/api/kernels/.+|/voila/(templates/[^/]+/static|static|api/themes|api/shutdown|labextensions)/.+"
)
"""The paths that the page needs; Voilà has more."""
_GATE_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title} - petsync</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto 0;
  padding: 0 1rem; color: #1f2328; background: #fff; }}
h1 {{ font-size: 1.4rem; margin: 0 0 .5rem; }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e6e6e6; background: #111; }} }}
</style>
</head>
<body><main><h1>{title}</h1><p>{text}</p></main></body>
</html>
"""


class AccessGate(Router):
    """Passes a request to the application if its URL contains the token, or if it has the signed
    cookie that the page sets when it is opened with the token.
    """

    def __init__(self, app: Application, token: str, cookie: str) -> None:
        self._app, self._token, self._cookie = app, token, cookie

    def find_handler(self, request: HTTPServerRequest, **_: Any) -> HTTPMessageDelegate | None:
        if not self._admits(request):
            return self._app.get_handler_delegate(request, _ForbiddenPage)
        path = unquote(request.path)
        if ".." in path or not _THERE.fullmatch(path):
            return self._app.get_handler_delegate(request, _NotFoundPage)
        return self._app.find_handler(request)

    def _admits(self, request: HTTPServerRequest) -> bool:
        for token in request.query_arguments.get("token", ()):
            if hmac.compare_digest(token, self._token.encode()):
                return True
        cookie = request.cookies.get(self._cookie)
        secret = self._app.settings["cookie_secret"]
        return cookie is not None and bool(decode_signed_value(secret, self._cookie, cookie.value))


class _MessagePage(RequestHandler):
    status, title, text = 404, "", ""

    def check_xsrf_cookie(self) -> None:
        """Accept every request: this page changes nothing."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", _GATE_POLICY)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def prepare(self) -> None:
        self.set_status(self.status)
        self.finish(_PAGE.format(title=self.title, text=self.text))


class _ForbiddenPage(_MessagePage):
    status, title = 403, "Open the link from the terminal"
    text = (
        "This page is only for the user who started it. The terminal that runs <code>petsync "
        "app</code> shows a link that begins with this address: open the complete link. The link "
        "changes at each start."
    )


class _NotFoundPage(_MessagePage):
    status, title = 404, "This page does not exist"
    text = 'Everything is on one page: <a href="/">go there</a>.'


# The server's side of the page: Voilà on loopback, for requests with the token.


_HERE = Path(__file__).parent / "assets"
_HOST = "127.0.0.1"
_NOTEBOOK = _HERE / "app.ipynb"
_MAX_BYTES = 64 * 1024 * 1024
"""The maximum size of a message; tornado drops a connection that sends a larger one."""
_PAGE_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' blob: data:",
        "frame-ancestors 'none'",
        "form-action 'self'",
    )
)
"""The Content-Security-Policy of the page: the browser loads nothing from other servers."""
RELOAD_S = 10.0
"""The time during which a reload finds the kernel of its tab again. It covers a slow browser, and a
user who closed the tab by mistake.
"""
_LEAVE_S = 2.0
"""How long a reload waits for the request that its tab sends when it leaves the page."""
_POLL_S = 0.05
_KERNEL_ID = re.compile(r'"kernelId": *"([\w-]+)"')
_MAX_FOLDER = 30
"""The path of a socket has at most 103 characters, of which Voilà and Jupyter use 70."""
_KERNEL = ["--log-level=ERROR", "--InteractiveShellApp.ignore_cwd=True"]
_ENVIRONMENT = {"QUERY_STRING": "", "VOILA_REQUEST_URL": "", "PYTHONSAFEPATH": "1"}
"""The environment of each kernel. The empty values replace Voilà's, which contain the page's token:
other processes could read it while the kernel runs. The working folder may belong to
anybody, so Python and IPython must not put it on the module path.
"""


def serve(
    port: int,
    given: AppConfig,
    *,
    token: str | None = None,
    theme: str = "light",
    again: str = "petsync app",
    on_ready: Callable[[str], object],
) -> None:
    """Serve the page until Ctrl-C, which also ends the kernels.

    `port` 0 chooses a free port; `given` and the service's access `token` are for the kernels;
    `again` is the command that starts the page again, which the page shows when the server has
    ended; `on_ready` gets the link that opens the page. Raises SettingsError if the port cannot be
    used.
    """
    page = _Page(
        notebook_path=str(_NOTEBOOK),
        listening=_bind_socket(port),
        on_ready=on_ready,
        token=secrets.token_urlsafe(24),
        theme=theme,
        ended={"command": again, "folder": given.folder},
    )
    page.initialize([])
    # Only this user can read the files of Jupyter and IPython; the forms create files with the
    # user's umask.
    umask = os.umask(0o077)
    try:
        with replace(given, umask=umask).export_to(os.environ, token), suppress(KeyboardInterrupt):
            page.run()
    finally:
        os.umask(umask)


def open_browser(link: str) -> Path | None:
    """Open the link through a private file, and return the file, which the caller removes; None if
    there is no browser. This keeps the link out of the process list, which other users can read.
    """
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    folder = Path(jupyter_runtime_dir())
    make_private_folder(folder)
    refresh = f'<meta http-equiv="refresh" content="0; url={escape(link)}">'
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix="petsync-", suffix=".html", delete=False, encoding="utf-8"
    ) as file:
        file.write(
            f'<!doctype html><title>petsync</title>{refresh}<a href="{escape(link)}">petsync</a>'
        )
    path = Path(file.name)
    threading.Thread(target=browser.open, args=(path.as_uri(),), daemon=True).start()
    return path


def _bind_socket(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_HOST, port))
        listening.listen(128)
        listening.setblocking(False)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"--port {port} cannot be used: {reason}", hint="Omit --port to use a free one."
        ) from None
    return listening


class _Native(KernelSpecManager):
    """Offers only a kernel that uses the Python interpreter of petsync."""

    def get_kernel_spec(self, _: str) -> KernelSpec:
        native = get_kernel_dict(_KERNEL)
        return KernelSpec(resource_dir=RESOURCES, **{**native, "env": _ENVIRONMENT})


class _Tabs:
    """The pages that were served, by kernel. The kernel of a tab that was closed or reloaded ends
    after `RELOAD_S`, unless the page is requested again before.
    """

    def __init__(self) -> None:
        self._pages: dict[str, str] = {}
        self._leaving: dict[str, object] = {}
        self._left = asyncio.Event()

    def add(self, page: str) -> None:
        """Remember a page, so that its tab can be reloaded."""
        if found := _KERNEL_ID.search(page):
            self._pages[found.group(1)] = page

    async def wait_for_leave(self) -> None:
        """Wait until a tab leaves its page: a browser sends this request together with the one for
        the new page, on another connection, so that either may arrive first.
        """
        if self._pages and not self._leaving:
            self._left.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), _LEAVE_S)

    def return_last(self) -> str:
        """Return the page of the tab that was left last, and keep its kernel; "" if none was."""
        if not self._leaving:
            return ""
        kernel_id, timer = self._leaving.popitem()
        IOLoop.current().remove_timeout(timer)
        return self._pages[kernel_id]

    def leave(self, kernel_id: str, end: Callable[[str], Awaitable[object]]) -> bool:
        """End the kernel after `RELOAD_S`. False if it has no page, so that it can end at once."""
        if kernel_id not in self._pages:
            return False

        async def finish() -> None:
            self._leaving.pop(kernel_id, None)
            self._pages.pop(kernel_id, None)
            await end(kernel_id)

        if kernel_id not in self._leaving:
            self._leaving[kernel_id] = IOLoop.current().call_later(RELOAD_S, finish)
            self._left.set()
        return True


class _AppPage(TornadoVoilaHandler):  # type: ignore[misc]  # Voilà has no types
    async def get(self, path: str | None = None) -> None:
        # Reading the XSRF token sets the cookie that a closing tab needs to end its kernel.
        assert self.xsrf_token
        tabs: _Tabs = self.settings["petsync_tabs"]
        # Browsers send this header to reload a page.
        if "Cache-Control" in self.request.headers:
            await tabs.wait_for_leave()
        while page := tabs.return_last():
            found = _KERNEL_ID.search(page)
            if found and found.group(1) in self.kernel_manager:
                self.set_header("Cache-Control", "no-store")
                self.write(page)
                return
        # Voilà starts another kernel if the prepared one is not listed yet.
        await asyncio.gather(*_preparations(self.kernel_manager))
        parts = []
        async for part in self.get_generator(path=path):
            parts.append(part)
            self.write(part)
            self.flush()
        tabs.add("".join(parts))


class _LeavePage(VoilaShutdownKernelHandler):  # type: ignore[misc]  # Voilà has no types
    @authenticated
    async def post(self, kernel_id: str) -> None:
        manager = self.kernel_manager

        async def end(kernel_id: str) -> None:
            if kernel_id in manager:
                await ensure_async(manager.shutdown_kernel(kernel_id))

        if not self.settings["petsync_tabs"].leave(kernel_id, end):
            await end(kernel_id)
        self.set_status(204)
        self.finish()


def _preparations(manager: Any) -> list[asyncio.Task[object]]:
    """Return the tasks that prepare kernels. Voilà has them in a private attribute."""
    return [*chain(*getattr(manager, "_pools", {}).values())]


async def _end_prepared(manager: Any) -> None:
    """End the kernels that no tab uses, as soon as they have started. A kernel that is asked to end
    while it works prints an error.
    """
    for prepared in await asyncio.gather(*_preparations(manager), return_exceptions=True):
        if isinstance(prepared, dict):
            task, renderer = prepared["task"], prepared["renderer"]
            # The threads of a client that is still starting cannot be ended.
            while not (renderer.kernel_started or task.done()):  # noqa: ASYNC110 - Voilà sets no event
                await asyncio.sleep(_POLL_S)
            task.cancel()
            await asyncio.wait([task])
            if renderer.kernel_started:
                # Voilà does this only if the page is complete.
                renderer.executor.kc.stop_channels()
            await ensure_async(manager.shutdown_kernel(prepared["kernel_id"], now=True))


class _Page(Voila):  # type: ignore[misc]  # Voilà has no types
    """Voilà without the user's configuration, which could expose it to a network."""

    def __init__(
        self,
        *,
        listening: socket.socket,
        on_ready: Callable[[str], object],
        theme: str,
        ended: Mapping[str, str],
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._listening, self._on_ready, self._theme = listening, on_ready, theme
        self._ended = {**ended}
        self.port = listening.getsockname()[1]

    def initialize(self, argv: list[str] | None = None) -> None:
        self.config_file_paths: list[str] = []
        self.log_level = logging.ERROR
        self.ip = _HOST
        self.open_browser = False
        if os.name == "posix":
            # Any user of the machine could read what a kernel sends through a TCP port.
            self.config.KernelManager.transport = "ipc"
            if len(tempfile.gettempdir()) > _MAX_FOLDER:
                self.connection_dir_root = "/tmp"  # noqa: S108  # Voilà makes a private folder in it
        config = self.config.VoilaConfiguration
        config.theme = self._theme
        config.resources = {"petsync_ended": self._ended}
        config.allow_template_override = "NO"
        config.file_allowlist = []
        config.extension_denylist = ["@jupyter-notebook/lab-extension"]
        config.kernel_spec_manager_class = _Native
        # The first kernel starts and renders the page while the browser starts.
        config.preheat_kernel = True
        config.default_pool_size = 1
        self.tornado_settings = {
            "websocket_max_message_size": _MAX_BYTES,
            "headers": {"Content-Security-Policy": _PAGE_POLICY},
            "allow_remote_access": False,
            "local_hostnames": ["localhost", _HOST],
            "log_function": lambda _: None,
            "petsync_tabs": _Tabs(),
        }
        # tornado warns that Jupyter's ping timeout is longer than the ping interval.
        logging.getLogger("tornado.general").setLevel(logging.ERROR)
        ending = signal.getsignal(signal.SIGTERM)
        super().initialize(argv)
        # Voilà's handler would stop the loop under the coroutines that end the kernels.
        signal.signal(signal.SIGTERM, ending)

    def setup_template_dirs(self) -> None:
        super().setup_template_dirs()
        self.template_paths.insert(0, str(_HERE / "templates"))

    def init_handlers(self) -> list[Any]:
        *others, (path, _, given) = super().init_handlers()
        leaving = [
            (at, _LeavePage, *more)
            if handler is VoilaShutdownKernelHandler
            else (at, handler, *more)
            for at, handler, *more in others
        ]
        return [*leaving, (path, _AppPage, given)]

    def listen(self) -> None:
        # Only the first page is prepared: a spare kernel would occupy memory as long as the page.
        self.kernel_manager.kernel_pools_config = {"default": {"pool_size": 0}}
        provider = self.identity_provider
        provider.cookie_name = f"petsync-page-{self.port}"
        # The browser sends neither cookie with requests from pages of other sites.
        provider.cookie_options = {"samesite": "Strict"}
        self.app.settings["xsrf_cookie_kwargs"] = {"samesite": "Strict"}
        self._server = HTTPServer(AccessGate(self.app, provider.token, provider.cookie_name))
        self._server.add_socket(self._listening)
        self.ioloop = IOLoop.current()

    def run(self) -> None:
        """Serve until an interrupt, then end the kernels."""
        # Voilà, tornado and the kernels need the running loop: without one, each would take another
        # from asyncio, which warns or raises an error, depending on the version of Python.
        with asyncio.Runner() as runner:
            try:
                runner.run(self._serve())
            finally:
                runner.run(self._end())

    async def _serve(self) -> None:
        self.start()
        self._on_ready(f"http://{_HOST}:{self.port}/?token={self.token}")
        await asyncio.Event().wait()

    async def _end(self) -> None:
        self._server.stop()
        await _end_prepared(self.kernel_manager)
        await self.kernel_manager.shutdown_all()
        shutil.rmtree(self.connection_dir)
