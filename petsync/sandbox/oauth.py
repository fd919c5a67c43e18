"""OAuth 2.0 of the sandbox: consent page and token endpoint."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from html import escape
from string import Template
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from petsync.sandbox import http
from petsync.sandbox.http import FORM, RefusedError, media_type
from petsync.sandbox.service import Service
from petsync.sandbox.tokens import (
    PUBLIC_CLIENT,
    SCOPES,
    AuthorizationRequest,
    Grant,
    IssuedTokens,
    authenticate,
    equal_secrets,
    is_challenge,
    is_registered,
)

__all__ = [
    "AUTHORIZE",
    "INTROSPECT",
    "METADATA",
    "REVOKE",
    "TOKEN",
    "Consent",
    "OAuth",
    "scopes_in",
]


# The token endpoint, the endpoints for revocation and introspection, and the metadata of
# `petstore_auth`.
#
# Source: RFC 6749, RFC 7009, RFC 7662, RFC 8414.


AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"  # noqa: S105  a path
REVOKE = "/oauth/revoke"
INTROSPECT = "/oauth/introspect"
METADATA = "/.well-known/oauth-authorization-server"

_MAX_FORM = 64 * 1024
_PERSON = "shopkeeper"
"""The name of the sandbox's only user: there are no accounts."""
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class _ProtocolError(Exception):
    """An OAuth error response: its code, its description and the HTTP status."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status


class OAuth:
    """The endpoints for programs; `Consent` is the endpoint for users."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def metadata(self, _: Request) -> Response:
        """Return the URLs of the endpoints, and what the endpoints support."""
        origin = self._service.origin
        flows = list(self._service.behaviour.flows)
        methods = ["client_secret_basic", "client_secret_post", "none"]
        return JSONResponse(
            {
                "issuer": origin,
                "authorization_endpoint": origin + AUTHORIZE,
                "token_endpoint": origin + TOKEN,
                "revocation_endpoint": origin + REVOKE,
                "introspection_endpoint": origin + INTROSPECT,
                "scopes_supported": sorted(SCOPES),
                "response_types_supported": flows,
                "response_modes_supported": [
                    "query" if flow == "code" else "fragment" for flow in flows
                ],
                "grant_types_supported": self._grant_types(flows),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": methods,
                "revocation_endpoint_auth_methods_supported": methods,
                "introspection_endpoint_auth_methods_supported": [*methods, "Bearer"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def token(self, request: Request) -> Response:
        """Return tokens for a grant, or an OAuth error as JSON."""
        try:
            form, client_id, is_proven = await self._client(request)
            kind = form.get("grant_type", "")
            if kind not in self._grants:
                raise _ProtocolError(
                    "unsupported_grant_type", f"supported: {', '.join(self._grants)}"
                )
            issued = await self._grants[kind](self, form, client_id, is_proven)
        except _ProtocolError as failure:
            return _error_response(failure, request)
        return JSONResponse(_tokens(issued), headers=_NO_STORE)

    async def revoke(self, request: Request) -> Response:
        """Revoke a token of the client, and all tokens of the same consent; an unknown token is not
        an error.
        """
        try:
            form, client_id, _ = await self._client(request)
        except _ProtocolError as failure:
            return _error_response(failure, request)
        await self._service.tokens.revoke(form.get("token", ""), client_id)
        return Response(headers=_NO_STORE)

    async def introspect(self, request: Request) -> Response:
        """Return the claims of an access token to a known client or to the bearer of a valid token.
        For an unknown, expired or refresh token, return only that it is not active.
        """
        try:
            form = await self._authenticated_form(request)
        except _ProtocolError as failure:
            return _error_response(failure, request)
        grant = self._service.tokens.find(form.get("token", ""))
        claims = {"active": False} if grant is None else self._describe_token(grant)
        return JSONResponse(claims, headers=_NO_STORE)

    async def _authenticated_form(self, request: Request) -> Mapping[str, str]:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return (await self._client(request))[0]
        if self._service.tokens.find(token.strip()) is None:
            raise _ProtocolError("invalid_token", "the access token is unknown or expired", 401)
        return await self._form(request)

    def _describe_token(self, grant: Grant) -> dict[str, Any]:
        tokens = self._service.tokens
        is_person = grant.client_id == PUBLIC_CLIENT or tokens.is_refreshable(grant)
        user_claims = {"username": _PERSON} if is_person else {}
        return {
            "active": True,
            "scope": " ".join(sorted(grant.scopes)),
            "client_id": grant.client_id,
            "sub": _PERSON if is_person else grant.client_id,
            "token_type": "Bearer",
            "exp": int(grant.expires),
            "iss": self._service.origin,
            **user_claims,
        }

    def _grant_types(self, flows: list[str]) -> list[str]:
        names = set(self._grants)
        if "code" not in flows:
            names -= {"authorization_code", "refresh_token"}
        return sorted(names | ({"implicit"} if "token" in flows else set()))

    async def _client(self, request: Request) -> tuple[Mapping[str, str], str, bool]:
        form = await self._form(request)
        found = authenticate(request.headers.get("authorization"), form, self._service.credentials)
        if found is None:
            raise _ProtocolError(
                "invalid_client", "the client is unknown or its secret is wrong", 401
            )
        return form, *found

    async def _form(self, request: Request) -> Mapping[str, str]:
        if media_type(request.headers.get("content-type")) != FORM:
            raise _ProtocolError("invalid_request", f"Content-Type must be {FORM}")
        try:
            return http.form(await http.body(request, _MAX_FORM))
        except RefusedError as refusal:
            raise _ProtocolError("invalid_request", refusal.message, refusal.status) from None

    async def _by_client(
        self, form: Mapping[str, str], client_id: str, is_proven: bool
    ) -> IssuedTokens:
        if not is_proven:
            raise _ProtocolError("unauthorized_client", "this grant needs a client with a secret")
        scopes = scopes_in(form.get("scope"))
        if scopes is None:
            raise _ProtocolError("invalid_scope", f"supported: {' and '.join(SCOPES)}")
        return await self._service.tokens.issue(client_id, scopes)

    async def _by_code(self, form: Mapping[str, str], client_id: str, _: bool) -> IssuedTokens:
        text = form.get("code", "")
        code = self._service.codes.redeem(text)
        if code is None:
            await self._end_replayed(text)
            raise _ProtocolError("invalid_grant", "the code is unknown, used or expired")
        redirect_uri, verifier = form.get("redirect_uri", ""), form.get("code_verifier", "")
        if not code.is_valid_for(client_id, redirect_uri, verifier):
            raise _ProtocolError(
                "invalid_grant", "client_id, redirect_uri or code_verifier does not match the code"
            )
        return await self._service.tokens.issue(
            client_id, code.request.scopes, refreshable=True, family=code.family
        )

    async def _by_refresh(self, form: Mapping[str, str], client_id: str, _: bool) -> IssuedTokens:
        scopes = scopes_in(form["scope"]) if form.get("scope") else None
        if scopes is None and form.get("scope"):
            raise _ProtocolError("invalid_scope", f"supported: {' and '.join(SCOPES)}")
        token = form.get("refresh_token", "")
        issued = await self._service.tokens.rotate(token, client_id, scopes)
        if issued is None:
            raise _ProtocolError("invalid_grant", "the refresh token is unknown, used or expired")
        return issued

    async def _end_replayed(self, code: str) -> None:
        family = self._service.codes.replayed_family(code)
        if family is not None:
            await self._service.tokens.end_family(family)

    _grants: ClassVar[Mapping[str, Callable[..., Awaitable[IssuedTokens]]]] = {
        "client_credentials": _by_client,
        "authorization_code": _by_code,
        "refresh_token": _by_refresh,
    }


def scopes_in(text: str | None) -> frozenset[str] | None:
    """Return the scopes of a `scope` parameter, by default all; None if one is unknown."""
    scopes = frozenset((text or "").split()) or frozenset(SCOPES)
    return scopes if scopes <= SCOPES.keys() else None


def _tokens(issued: IssuedTokens) -> dict[str, Any]:
    answer = {
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": int(issued.expires_in),
        "scope": " ".join(sorted(issued.scopes)),
    }
    return (
        answer if issued.refresh_token is None else answer | {"refresh_token": issued.refresh_token}
    )


def _error_response(failure: _ProtocolError, request: Request) -> Response:
    headers = dict(_NO_STORE)
    if failure.status == 401 and "authorization" in request.headers:
        headers["WWW-Authenticate"] = 'Basic realm="petstore_auth"'
    document = {"error": failure.error, "error_description": failure.description}
    return JSONResponse(document, failure.status, headers)


# Consent: the page on which the user allows a program to use the store.
#
# There is no sign-in: anybody who can reach the sandbox's page has full control of the sandbox. An
# answer is accepted only from the browser that got the question (a cookie), for an open question (a
# key in the form), and from this page (Origin). Source: RFC 6749, section 4.1; RFC 9207 for `iss`;
# RFC 9700, section 4.


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
    """The authorization endpoint: a question, and the user's answer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ask(self, request: Request) -> Response:
        """Return the page with the question. Errors are sent to the program by redirect; if the
        program is unknown or its redirect URI is not registered, the user gets an error page.
        """
        parameters = request.query_params
        redirect_uri = parameters.get("redirect_uri", "")
        known = (PUBLIC_CLIENT, self._service.credentials.client_id)
        if parameters.get("client_id") not in known:
            return _error_page("This program is not known to the pet store.")
        if not is_registered(redirect_uri, self._service.credentials):
            return _error_page("The program's redirect address is not registered.")
        authorization = AuthorizationRequest(
            client_id=parameters["client_id"],
            redirect_uri=redirect_uri,
            scopes=scopes_in(parameters.get("scope")) or frozenset(),
            state=parameters.get("state"),
            challenge=parameters.get("code_challenge", ""),
            flow=parameters.get("response_type", ""),
        )
        error = _error(parameters, authorization, self._service.behaviour.flows)
        if error is not None:
            response = {"error": error[0], "error_description": error[1]}
            return self._redirect(authorization, response)
        return self._question(authorization)

    async def answer(self, request: Request) -> Response:
        """Redirect to the program, with a code, a token (implicit flow) or `access_denied`; return
        an error page if the question is no longer open.
        """
        try:
            form = http.form(await http.body(request, 4096))
        except RefusedError as refusal:
            return _error_page(f"{refusal.message}.")
        authorization = self._service.codes.questions.take(form.get("question", ""))
        if authorization is None or not self._is_own(request, authorization):
            return _error_page("This question is no longer open. Start again from the program.")
        if form.get("answer") != "allow":
            return self._redirect(authorization, {"error": "access_denied"})
        if authorization.flow == "token":
            return self._redirect(authorization, await self._token(authorization))
        code = self._service.codes.grant(authorization)
        return self._redirect(authorization, {"code": code})

    async def _token(self, authorization: AuthorizationRequest) -> dict[str, str]:
        """Return the parameters of the redirect that ends an implicit flow. Source: RFC 6749,
        section 4.2.2.
        """
        issued = await self._service.tokens.issue(authorization.client_id, authorization.scopes)
        return {
            "access_token": issued.access_token,
            "token_type": "Bearer",
            "expires_in": str(int(issued.expires_in)),
            "scope": " ".join(sorted(issued.scopes)),
        }

    def _is_own(self, request: Request, authorization: AuthorizationRequest) -> bool:
        origin = request.headers.get("origin", self._service.origin)
        is_here = origin in (self._service.origin, f"http://{request.headers.get('host')}")
        return is_here and equal_secrets(request.cookies.get(_COOKIE, ""), authorization.browser)

    def _question(self, authorization: AuthorizationRequest) -> Response:
        browser = secrets.token_urlsafe(24)
        place, scopes = _origin(authorization.redirect_uri), sorted(authorization.scopes)
        body = _QUESTION.substitute(
            client=escape(authorization.client_id),
            scopes="".join(f"<li>{escape(SCOPES[name])}</li>" for name in scopes),
            place=escape(place),
            action=AUTHORIZE,
            key=self._service.codes.questions.put(replace(authorization, browser=browser)),
        )
        page = _page("Use the pet store?", body, form_action=f"'self' {place}")
        page.set_cookie(_COOKIE, browser, path=AUTHORIZE, httponly=True, samesite="strict")
        return page

    def _redirect(
        self, authorization: AuthorizationRequest, parameters: Mapping[str, str]
    ) -> Response:
        state = {} if authorization.state is None else {"state": authorization.state}
        query = urlencode({**parameters, **state, "iss": self._service.origin})
        separator = "&" if urlsplit(authorization.redirect_uri).query else "?"
        if authorization.flow == "token" in self._service.behaviour.flows:
            separator = "#"
        return RedirectResponse(f"{authorization.redirect_uri}{separator}{query}", 303, _SAFE)


def _error(
    parameters: Mapping[str, str], authorization: AuthorizationRequest, flows: tuple[str, ...]
) -> tuple[str, str] | None:
    if authorization.flow not in flows:
        return "unsupported_response_type", f"response_type must be {' or '.join(flows)}"
    if not authorization.scopes:
        return "invalid_scope", f"supported: {' and '.join(SCOPES)}"
    if authorization.flow == "token":
        return None
    if parameters.get("code_challenge_method") != "S256" or not is_challenge(
        authorization.challenge
    ):
        return "invalid_request", "a code_challenge with the method S256 is required"
    return None


_SAFE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def _page(title: str, body: str, *, form_action: str = "'none'", status: int = 200) -> Response:
    # Browsers also apply form-action to a form's redirect, so this directive includes the program's
    # address.
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        **_SAFE,
        # With no-referrer, a browser sends the origin "null" with the form.
        "Referrer-Policy": "same-origin",
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    page = _PAGE.substitute(title=escape(title), style=_STYLE, body=body)
    return HTMLResponse(page, status, headers)


def _error_page(why: str) -> Response:
    return _page("This request cannot be completed", f"<p>{escape(why)}</p>", status=400)


def _origin(redirect_uri: str) -> str:
    parts = urlsplit(redirect_uri)
    return f"{parts.scheme}://{parts.netloc}"
