"""The page where a person allows a program to use the store.

There is no sign-in: whoever reaches the sandbox's page owns the sandbox. The answer is taken only
from the browser that was asked (a cookie), for a question that is open (a key in the form), from
this very page (Origin). Source: RFC 6749, section 4.1; RFC 9207 for `iss`; RFC 9700, section 4.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from string import Template
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from petsync.sandbox import incoming, parameters
from petsync.sandbox.access import SCOPES, same
from petsync.sandbox.clients import PUBLIC_CLIENT, is_registered
from petsync.sandbox.codes import Asked, is_challenge
from petsync.sandbox.oauth import AUTHORIZE, scopes_in
from petsync.sandbox.refusal import RefusedError
from petsync.sandbox.service import Service

__all__ = ["Consent"]

_COOKIE = "petsync_consent"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:10vh auto;padding:0 1rem;"
    "color-scheme:light dark}code{overflow-wrap:anywhere}"
    "button{font:inherit;padding:.4rem 1.2rem;margin-right:.6rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE = Template(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>$title</title>'
    '<meta name="viewport" content="width=device-width"><style>$style</style></head>'
    "<body><main><h1>$title</h1>$body</main></body></html>"
)
_QUESTION = Template(
    "<p>The program <strong>$client</strong> asks to use this pet store. It would be able to:</p>"
    "<ul>$scopes</ul><p>You will be sent back to <code>$place</code>.</p>"
    '<form method="post" action="$action"><input type="hidden" name="question" value="$key">'
    '<button name="answer" value="allow">Allow</button>'
    '<button name="answer" value="deny">Deny</button></form>'
)


class Consent:
    """The authorization endpoint: a question, and what the person answers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ask(self, request: Request) -> Response:
        """The page with the question; an error goes to the program where it can be trusted."""
        given = request.query_params
        redirect_uri = given.get("redirect_uri", "")
        known = (PUBLIC_CLIENT, self._service.credentials.client_id)
        if given.get("client_id") not in known:
            return _error_page("This program is not known to the pet store.")
        if not is_registered(redirect_uri, self._service.credentials):
            return _error_page("The program asks to be answered at an address that is not its own.")
        asked = Asked(
            client_id=given["client_id"],
            redirect_uri=redirect_uri,
            scopes=scopes_in(given.get("scope")) or frozenset(),
            state=given.get("state"),
            challenge=given.get("code_challenge", ""),
            flow=given.get("response_type", ""),
        )
        error = _error(given, asked, self._service.behaviour.flows)
        if error is not None:
            return self._back(asked, {"error": error[0], "error_description": error[1]})
        return self._question(asked)

    async def answer(self, request: Request) -> Response:
        """Back to the program, with a code or with `access_denied`."""
        try:
            form = parameters.form(await incoming.body(request, 4096))
        except RefusedError as refusal:
            return _error_page(f"{refusal.message}.")
        asked = self._service.codes.questions.take(form.get("question", ""))
        if asked is None or not self._is_own(request, asked):
            return _error_page("This question is no longer open. Start again from the program.")
        if form.get("answer") != "allow":
            return self._back(asked, {"error": "access_denied"})
        if asked.flow == "token":
            return self._back(asked, await self._token(asked))
        return self._back(asked, {"code": self._service.codes.grant(asked)})

    async def _token(self, asked: Asked) -> dict[str, str]:
        """What an implicit flow ends with. Source: RFC 6749, section 4.2.2."""
        issued = await self._service.tokens.issue(asked.client_id, asked.scopes)
        return {
            "access_token": issued.access_token,
            "token_type": "Bearer",
            "expires_in": str(int(issued.expires_in)),
            "scope": " ".join(sorted(issued.scopes)),
        }

    def _is_own(self, request: Request, asked: Asked) -> bool:
        origin = request.headers.get("origin", self._service.origin)
        is_here = origin in (self._service.origin, f"http://{request.headers.get('host')}")
        return is_here and same(request.cookies.get(_COOKIE, ""), asked.browser)

    def _question(self, asked: Asked) -> Response:
        browser = secrets.token_urlsafe(24)
        place = _origin(asked.redirect_uri)
        body = _QUESTION.substitute(
            client=escape(asked.client_id),
            scopes="".join(f"<li>{escape(SCOPES[name])}</li>" for name in sorted(asked.scopes)),
            place=escape(place),
            action=AUTHORIZE,
            key=self._service.codes.questions.put(replace(asked, browser=browser)),
        )
        page = _page("Use the pet store?", body, form_action=f"'self' {place}")
        page.set_cookie(_COOKIE, browser, path=AUTHORIZE, httponly=True, samesite="strict")
        return page

    def _back(self, asked: Asked, said: Mapping[str, str]) -> Response:
        state = {} if asked.state is None else {"state": asked.state}
        query = urlencode({**said, **state, "iss": self._service.origin})
        joint = "&" if urlsplit(asked.redirect_uri).query else "?"
        if asked.flow == "token" in self._service.behaviour.flows:
            joint = "#"
        return RedirectResponse(f"{asked.redirect_uri}{joint}{query}", 303, _SAFE)


def _error(
    given: Mapping[str, str], asked: Asked, flows: tuple[str, ...]
) -> tuple[str, str] | None:
    if asked.flow not in flows:
        return "unsupported_response_type", f"response_type must be {' or '.join(flows)}"
    if not asked.scopes:
        return "invalid_scope", f"there is {' and '.join(SCOPES)}"
    if asked.flow == "token":
        return None
    if given.get("code_challenge_method") != "S256" or not is_challenge(asked.challenge):
        return "invalid_request", "a code_challenge of the method S256 is needed"
    return None


_SAFE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def _page(title: str, body: str, *, form_action: str = "'none'", status: int = 200) -> Response:
    # Browsers hold a form's redirect to form-action too, hence the place to go back to in it.
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        **_SAFE,
        # With no-referrer a browser says that its form comes from the origin "null".
        "Referrer-Policy": "same-origin",
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    page = _PAGE.substitute(title=escape(title), style=_STYLE, body=body)
    return HTMLResponse(page, status, headers)


def _error_page(why: str) -> Response:
    return _page("This does not work", f"<p>{escape(why)}</p>", status=400)


def _origin(redirect_uri: str) -> str:
    parts = urlsplit(redirect_uri)
    return f"{parts.scheme}://{parts.netloc}"
