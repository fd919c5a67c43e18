"""The token endpoint, the endpoints for revocation and introspection, and the metadata of
`petstore_auth`.

Source: RFC 6749, RFC 7009, RFC 7662, RFC 8414.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from petsync.sandbox import incoming, parameters
from petsync.sandbox.access import SCOPES
from petsync.sandbox.clients import PUBLIC_CLIENT, who
from petsync.sandbox.negotiate import FORM, media_type
from petsync.sandbox.refusal import RefusedError
from petsync.sandbox.service import Service
from petsync.sandbox.tokens import Grant, Issued

__all__ = ["AUTHORIZE", "INTROSPECT", "METADATA", "REVOKE", "TOKEN", "OAuth", "scopes_in"]

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"  # noqa: S105  an address
REVOKE = "/oauth/revoke"
INTROSPECT = "/oauth/introspect"
METADATA = "/.well-known/oauth-authorization-server"

_MAX_FORM = 64 * 1024
_PERSON = "shopkeeper"
"""Who answers the sandbox's page: there is nobody to sign in as."""
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class _ProtocolError(Exception):
    """An error of the protocol: its code, and what to tell a person."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status


class OAuth:
    """The endpoints that programs talk to; the one for people is in consent.py."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def metadata(self, _: Request) -> Response:
        """Where everything is."""
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
        """Tokens for a grant, or an error of the protocol as JSON."""
        try:
            form, client_id, is_proven = await self._client(request)
            kind = form.get("grant_type", "")
            if kind not in self._grants:
                raise _ProtocolError(
                    "unsupported_grant_type", f"there is {', '.join(self._grants)}"
                )
            issued = await self._grants[kind](self, form, client_id, is_proven)
        except _ProtocolError as failure:
            return _failed(failure, request)
        return JSONResponse(_tokens(issued), headers=_NO_STORE)

    async def revoke(self, request: Request) -> Response:
        """The end of a token; an unknown one is no error."""
        try:
            form, client_id, _ = await self._client(request)
        except _ProtocolError as failure:
            return _failed(failure, request)
        await self._service.tokens.revoke(form.get("token", ""), client_id)
        return Response(headers=_NO_STORE)

    async def introspect(self, request: Request) -> Response:
        """What a token stands for, for a known client or for who holds the token itself."""
        try:
            form = await self._asker(request)
        except _ProtocolError as failure:
            return _failed(failure, request)
        grant = self._service.tokens.find(form.get("token", ""))
        said = {"active": False} if grant is None else self._described(grant)
        return JSONResponse(said, headers=_NO_STORE)

    async def _asker(self, request: Request) -> Mapping[str, str]:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return (await self._client(request))[0]
        if self._service.tokens.find(token.strip()) is None:
            raise _ProtocolError("invalid_token", "the access token is unknown or expired", 401)
        return await self._form(request)

    def _described(self, grant: Grant) -> dict[str, Any]:
        tokens = self._service.tokens
        is_person = grant.client_id == PUBLIC_CLIENT or tokens.is_refreshable(grant)
        known = {"username": _PERSON} if is_person else {}
        return {
            "active": True,
            "scope": " ".join(sorted(grant.scopes)),
            "client_id": grant.client_id,
            "sub": _PERSON if is_person else grant.client_id,
            "token_type": "Bearer",
            "exp": int(grant.expires),
            "iss": self._service.origin,
            **known,
        }

    def _grant_types(self, flows: list[str]) -> list[str]:
        names = set(self._grants)
        if "code" not in flows:
            names -= {"authorization_code", "refresh_token"}
        return sorted(names | ({"implicit"} if "token" in flows else set()))

    async def _client(self, request: Request) -> tuple[Mapping[str, str], str, bool]:
        form = await self._form(request)
        found = who(request.headers.get("authorization"), form, self._service.credentials)
        if found is None:
            raise _ProtocolError("invalid_client", "the client or its secret is not known", 401)
        return form, *found

    async def _form(self, request: Request) -> Mapping[str, str]:
        if media_type(request.headers.get("content-type")) != FORM:
            raise _ProtocolError("invalid_request", f"the request is sent as {FORM}")
        try:
            return parameters.form(await incoming.body(request, _MAX_FORM))
        except RefusedError as refusal:
            raise _ProtocolError("invalid_request", refusal.message, refusal.status) from None

    async def _by_client(self, form: Mapping[str, str], client_id: str, is_proven: bool) -> Issued:
        if not is_proven:
            raise _ProtocolError("unauthorized_client", "this grant needs a client with a secret")
        scopes = scopes_in(form.get("scope"))
        if scopes is None:
            raise _ProtocolError("invalid_scope", f"there is {' and '.join(SCOPES)}")
        return await self._service.tokens.issue(client_id, scopes)

    async def _by_code(self, form: Mapping[str, str], client_id: str, _: bool) -> Issued:
        text = form.get("code", "")
        code = self._service.codes.redeem(text)
        if code is None:
            await self._end_replayed(text)
            raise _ProtocolError("invalid_grant", "the code is unknown, spent or has expired")
        redirect_uri, verifier = form.get("redirect_uri", ""), form.get("code_verifier", "")
        if not code.opens_for(client_id, redirect_uri, verifier):
            raise _ProtocolError(
                "invalid_grant", "client_id, redirect_uri and code_verifier do not fit the code"
            )
        return await self._service.tokens.issue(
            client_id, code.asked.scopes, refreshable=True, family=code.family
        )

    async def _by_refresh(self, form: Mapping[str, str], client_id: str, _: bool) -> Issued:
        scopes = scopes_in(form["scope"]) if form.get("scope") else None
        if scopes is None and form.get("scope"):
            raise _ProtocolError("invalid_scope", f"there is {' and '.join(SCOPES)}")
        token = form.get("refresh_token", "")
        issued = await self._service.tokens.rotate(token, client_id, scopes)
        if issued is None:
            raise _ProtocolError(
                "invalid_grant", "the refresh token is unknown, spent or has expired"
            )
        return issued

    async def _end_replayed(self, code: str) -> None:
        family = self._service.codes.replayed(code)
        if family is not None:
            await self._service.tokens.end_family(family)

    _grants: ClassVar[Mapping[str, Callable[..., Awaitable[Issued]]]] = {
        "client_credentials": _by_client,
        "authorization_code": _by_code,
        "refresh_token": _by_refresh,
    }


def scopes_in(text: str | None) -> frozenset[str] | None:
    """The scopes of a `scope` parameter, all if there is none; None if one is unknown."""
    scopes = frozenset((text or "").split()) or frozenset(SCOPES)
    return scopes if scopes <= SCOPES.keys() else None


def _tokens(issued: Issued) -> dict[str, Any]:
    answer = {
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": int(issued.expires_in),
        "scope": " ".join(sorted(issued.scopes)),
    }
    return (
        answer if issued.refresh_token is None else answer | {"refresh_token": issued.refresh_token}
    )


def _failed(failure: _ProtocolError, request: Request) -> Response:
    headers = dict(_NO_STORE)
    if failure.status == 401 and "authorization" in request.headers:
        headers["WWW-Authenticate"] = 'Basic realm="petstore_auth"'
    said = {"error": failure.error, "error_description": failure.description}
    return JSONResponse(said, failure.status, headers)
