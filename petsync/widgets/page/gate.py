"""The page's door: who has not come by the link, and what there is not, gets a page of petsync's.

It stands before Voilà, which would answer both with words of Jupyter's: a login form, an error.
"""

from __future__ import annotations

import hmac
import re
from typing import Any
from urllib.parse import unquote

from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import Router
from tornado.web import Application, RequestHandler, decode_signed_value

__all__ = ["Gate"]

_THERE = re.compile(
    r"/|/api/kernels/.+|/voila/(templates/[^/]+/static|static|api/themes|api/shutdown|labextensions)/.+"
)
"""What a page asks for; Voilà has more, which no page of petsync needs."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'"
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


class Gate(Router):
    """Lets through to the application whoever has the token in the address, or the cookie that the
    page set, signed by it, when it was opened so.
    """

    def __init__(self, app: Application, token: str, cookie: str) -> None:
        self._app, self._token, self._cookie = app, token, cookie

    def find_handler(self, request: HTTPServerRequest, **_: Any) -> HTTPMessageDelegate | None:
        if not self._admits(request):
            return self._app.get_handler_delegate(request, _Refused)
        path = unquote(request.path)
        if ".." in path or not _THERE.fullmatch(path):
            return self._app.get_handler_delegate(request, _Absent)
        return self._app.find_handler(request)

    def _admits(self, request: HTTPServerRequest) -> bool:
        for given in request.query_arguments.get("token", ()):
            if hmac.compare_digest(given, self._token.encode()):
                return True
        cookie = request.cookies.get(self._cookie)
        secret = self._app.settings["cookie_secret"]
        return cookie is not None and bool(decode_signed_value(secret, self._cookie, cookie.value))


class _Told(RequestHandler):
    status, title, text = 404, "", ""

    def check_xsrf_cookie(self) -> None:
        """Nothing is done here that anybody could be tricked into."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def prepare(self) -> None:
        self.set_status(self.status)
        self.finish(_PAGE.format(title=self.title, text=self.text))


class _Refused(_Told):
    status, title = 403, "Open the link from the terminal"
    text = (
        "This page is only for who started it. Where <code>petsync app</code> runs, the terminal"
        " shows a link that begins with this address: open the whole of it. It is a new one each"
        " time petsync is started."
    )


class _Absent(_Told):
    status, title = 404, "There is nothing here"
    text = 'Everything is on one page: <a href="/">go there</a>.'
