"""The ASGI application: which request goes where, and what surrounds every operation."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from petsync.sandbox import answer, breakage, images, openapi, pets
from petsync.sandbox.access import READ, WRITE, Need, refuse_foreign_pages
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.consent import Consent
from petsync.sandbox.drift import KEY
from petsync.sandbox.faults import Hit
from petsync.sandbox.oauth import AUTHORIZE, INTROSPECT, METADATA, REVOKE, TOKEN, OAuth
from petsync.sandbox.refusal import Original, RefusedError
from petsync.sandbox.service import BASE, Service

__all__ = ["application"]

logger = logging.getLogger(__name__)

Handler = Callable[[Service, Request], Awaitable[ASGIApp]]

_BOTH = Need(frozenset({WRITE, READ}))
_READ = Need(frozenset({READ}))
_OPERATIONS: Mapping[str, tuple[Handler, Need]] = {
    "addPet": (pets.add_pet, _BOTH),
    "updatePet": (pets.update_pet, _BOTH),
    "deletePet": (pets.delete_pet, Need(_BOTH.scopes, api_key="right")),
    "findPetsByStatus": (pets.find_pets_by_status, _READ),
    "findPetsByTags": (pets.find_pets_by_tags, _READ),
    "getPetById": (pets.get_pet_by_id, Need(_READ.scopes, api_key="alone")),
    "updatePetWithForm": (pets.update_pet_with_form, _BOTH),
    "uploadFile": (images.upload_file, _BOTH),
}
_PATHS = {
    "/pet": {"POST": "addPet", "PUT": "updatePet"},
    "/pet/findByStatus": {"GET": "findPetsByStatus"},
    "/pet/findByTags": {"GET": "findPetsByTags"},
    "/pet/{petId}": {
        "GET": "getPetById",
        "POST": "updatePetWithForm",
        "DELETE": "deletePet",
    },
    "/pet/{petId}/uploadImage": {"POST": "uploadFile"},
}


def application(service: Service, *, hosts: tuple[str, ...] = ("*",)) -> ASGIApp:
    """The whole sandbox. Requests for other host names than `hosts` are refused, so that a page
    elsewhere cannot reach a sandbox on this machine through a name of its own (DNS rebinding).
    """
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)]
    app = Starlette(routes=_routes(service), middleware=middleware)
    app.router.redirect_slashes = False
    for kind in (RefusedError, HTTPException, Exception):
        app.add_exception_handler(kind, partial(_failed, service.behaviour))
    return app


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation of the interface: counted, guarded, and hit by faults."""

    name: str
    service: Service
    handler: Handler
    need: Need

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.service.requests[self.name] += 1
        hit = self.service.faults.next(self.name, scope["query_string"])
        scope.setdefault("state", {})[KEY] = hit.drift
        try:
            if hit.kind == "late":
                receive = await breakage.read_at_once(receive)
            if hit.wait:
                await asyncio.sleep(hit.wait)
            await self._broken(hit, scope, receive, send)
        except ClientDisconnect:
            logger.debug("%s: the client went away", self.name)

    async def _broken(self, hit: Hit, scope: Scope, receive: Receive, send: Send) -> None:
        match hit.kind:
            case "drop_before":
                await breakage.drop(scope, receive)
            case "drop_after":
                await breakage.do_and_drop(partial(self._answer, hit), scope, receive)
            case "torn":
                await breakage.tear(partial(self._answer, hit), scope, receive, send)
            case "html":
                answered = partial(self._answer, hit)
                await breakage.do_and_show_a_page(answered, scope, receive, send)
            case "portal":
                await breakage.show_a_page(scope, receive, send)
            case _:
                await self._answer(hit, scope, receive, send)

    async def _answer(self, hit: Hit, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._handled(hit, request)
        except RefusedError as refusal:
            response = answer.problem(refusal, request, self.service.behaviour)
        await response(scope, receive, send)

    async def _handled(self, hit: Hit, request: Request) -> ASGIApp:
        self._refuse(hit)
        if self.service.guard is not None:
            self.service.guard.admit(request.headers, self.need)
        elif request.method != "GET":
            refuse_foreign_pages(request.headers, self.service.origin)
        try:
            return await self.handler(self.service, request)
        except sqlite3.Error as error:
            logger.exception("%s: the store's file failed", self.name)
            raise RefusedError(500, f"the store's file failed: {error}") from None

    def _refuse(self, hit: Hit) -> None:
        if hit.kind == "too_many":
            wait = str(self.service.faults.retry_after)
            raise RefusedError(429, "too many requests", headers={"Retry-After": wait})
        if hit.kind == "unavailable":
            raise RefusedError(503, "the store is not available right now")


class _Methods:
    """The operations of one path, by method."""

    def __init__(self, service: Service, names: Mapping[str, str]) -> None:
        self._service = service
        self._operations = {
            method: _Operation(name, service, *_OPERATIONS[name]) for method, name in names.items()
        }
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"])
        if operation is not None:
            await operation(scope, receive, send)
            return
        allow = ", ".join(self._operations)
        original = Original(
            f"RESTEASY003650: No resource method found for {scope['method']}, "
            "return 405 with Allow header"
        )
        said = f"the methods here are {allow}"
        raise RefusedError(405, said, headers={"Allow": allow}, original=original)


def _routes(service: Service) -> list[BaseRoute]:
    oauth, consent = OAuth(service), Consent(service)
    operations = [Route(BASE + path, _Methods(service, names)) for path, names in _PATHS.items()]
    return [
        *operations,
        Route(BASE + "/images/{number}", partial(images.serve_image, service)),
        Route("/openapi.json", partial(_document, service)),
        Route(BASE + "/openapi.json", partial(_document, service)),
        Route(METADATA, oauth.metadata),
        Route(TOKEN, oauth.token, methods=["POST"]),
        Route(REVOKE, oauth.revoke, methods=["POST"]),
        Route(INTROSPECT, oauth.introspect, methods=["POST"]),
        Route(AUTHORIZE, consent.ask, methods=["GET"]),
        Route(AUTHORIZE, consent.answer, methods=["POST"]),
    ]


async def _document(service: Service, _: Request) -> Response:
    return JSONResponse(openapi.document(service))


async def _failed(behaviour: Behaviour, request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = RefusedError(error.status_code, error.detail, headers=error.headers)
    if not isinstance(error, RefusedError):
        error = RefusedError(500, "the sandbox failed; its log says why")
    return answer.problem(error, request, behaviour)
