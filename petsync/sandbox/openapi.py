"""The OpenAPI document of the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petsync.models import MAX_ID, MIN_ID
from petsync.sandbox.http import FORM, JSON, MULTIPART, XML, Behaviour
from petsync.sandbox.oauth import AUTHORIZE, TOKEN
from petsync.sandbox.service import BASE, Service
from petsync.sandbox.tokens import READ, SCOPES, WRITE

__all__ = ["INT64", "all_of", "document", "status", "tag_name"]


# The OpenAPI document's schemas of requests and responses.
#
# Pets in requests and in responses differ: a request may omit the id, and its optional fields may
# be null, which means the same as an omitted field.


Json = dict[str, Any]

INT64 = {"minimum": MIN_ID, "maximum": MAX_ID}


def all_of(behaviour: Behaviour) -> dict[str, Json]:
    """Return all schemas by name."""
    always = ["id"] if behaviour.imitates_original else ["id", "photoUrls", "tags"]
    return {
        "Pet": _pet(behaviour, "Label", nullable=False) | {"required": always},
        "Pets": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Pet"},
            "xml": {"name": behaviour.shape.list_root, "wrapped": True},
        },
        **_input_schemas(behaviour, "", nullable=True),
        **_input_schemas(behaviour, "Xml", nullable=False),
        "Label": _label(nullable=False),
        "NewLabel": _label(nullable=True),
        "ApiResponse": _api_response(behaviour.response_root),
    }


def status(behaviour: Behaviour) -> Json:
    """Return the schema of a status."""
    if behaviour.statuses is None:
        return {"type": "string"}
    return {"type": "string", "enum": sorted(behaviour.statuses)}


def tag_name(behaviour: Behaviour) -> Json:
    """Return the schema of a tag to search for."""
    return {"type": "string", "pattern": "^[^,]*$" if behaviour.imitates_original else "^[^,]+$"}


def _pet(behaviour: Behaviour, label: str, *, nullable: bool) -> Json:
    shape = behaviour.shape
    labelled = {"$ref": f"#/components/schemas/{label}"}
    properties = {
        "id": _id(nullable=nullable),
        "name": {"type": "string", "example": "Rex"},
        "photoUrls": {
            "type": "array",
            "items": {"type": "string", "xml": {"name": shape.photo_item}},
            "xml": {"wrapped": True},
        },
        "category": {"allOf": [labelled]} | _null(nullable=nullable),
        "tags": {
            "type": "array",
            "items": {"allOf": [labelled], "xml": {"name": shape.tag_item}},
            "xml": {"wrapped": True},
        }
        | _null(nullable=nullable),
        "status": status(behaviour),
    }
    return {"type": "object", "properties": properties, "xml": {"name": "Pet"}}


def _input_schemas(behaviour: Behaviour, suffix: str, *, nullable: bool) -> dict[str, Json]:
    """Return the schemas of the pets in requests for addPet and updatePet; XML has no null."""
    required = ["name", "photoUrls"] if behaviour.strict_pets else []
    pet = _pet(behaviour, "NewLabel" if nullable else "Label", nullable=nullable)
    known = {**pet["properties"], "id": _id(nullable=False)}
    return {
        f"NewPet{suffix}": pet | ({"required": required} if required else {}),
        f"KnownPet{suffix}": pet | {"properties": known, "required": ["id", *required]},
    }


def _label(*, nullable: bool) -> Json:
    name = {"type": "string"} | _null(nullable=nullable)
    return {"type": "object", "properties": {"id": _id(nullable=nullable), "name": name}}


def _id(*, nullable: bool) -> Json:
    return {"type": "integer", "format": "int64"} | INT64 | _null(nullable=nullable)


def _null(*, nullable: bool) -> Json:
    return {"nullable": True} if nullable else {}


def _api_response(name: str) -> Json:
    properties = {
        "code": {"type": "integer", "format": "int32"},
        "type": {"type": "string"},
        "message": {"type": "string"},
    }
    return {"type": "object", "properties": properties, "xml": {"name": name}}


# The OpenAPI document: the behaviour of this sandbox in its profile.
#
# Source of the operations: interface.md. `Behaviour` decides the rest; the document must match it
# in every HTTP status, and a test checks this.


_WORDS = {
    400: "Invalid input",
    401: "No valid token",
    403: "The token lacks a scope, or the request is from a page of another origin",
    404: "No such pet",
    405: "No such method",
    406: "Neither JSON nor XML is accepted, or XML cannot represent the pet",
    409: "A pet with this id already exists",
    413: "The body is too large",
    415: "The body's media type is not supported",
    429: "Too many requests",
    500: "The store failed",
    503: "The store is not available",
}


def document(service: Service) -> Json:
    """Return the document of a running sandbox as plain JSON values."""
    behaviour = service.behaviour
    document: Json = {
        "openapi": "3.0.3",
        "info": {
            "title": f"Pet store sandbox, profile {behaviour.name}",
            "version": "2.0.0",
            "description": "A catalogue of pets: add, update, delete, search, and upload images.",
        },
        "servers": [{"url": BASE}],
        "tags": [{"name": "pet", "description": "The store's records"}],
        "paths": _Paths(behaviour, is_guarded=service.guard is not None).all(),
        "components": {"schemas": all_of(behaviour)},
    }
    if service.guard is not None:
        document["components"]["securitySchemes"] = _schemes(
            service.origin, service.behaviour.flows
        )
    return document


class _Paths:
    """The paths of the document, with the eight operations."""

    def __init__(self, behaviour: Behaviour, *, is_guarded: bool) -> None:
        self._behaviour = behaviour
        self._is_guarded = is_guarded
        self._is_live = behaviour.imitates_original

    def all(self) -> Json:
        named = [_path_id(self._behaviour)]
        return {
            "/pet": {"post": self._add(), "put": self._update()},
            "/pet/findByStatus": {"get": self._by_status()},
            "/pet/findByTags": {"get": self._by_tags()},
            "/pet/{petId}": {
                "parameters": named,
                "get": self._get(),
                "post": self._form(),
                "delete": self._delete(),
            },
            "/pet/{petId}/uploadImage": {"parameters": named, "post": self._upload()},
        }

    def _add(self) -> Json:
        codes = () if self._behaviour.post_replaces else (409,)
        return self._operation(
            "addPet", "Add a new pet", "Pet", (400, 413, 415, *codes), requestBody=_body("NewPet")
        )

    def _update(self) -> Json:
        codes = () if self._behaviour.put_creates else (404,)
        schema = "NewPet" if self._behaviour.put_creates else "KnownPet"
        return self._operation(
            "updatePet",
            "Replace a pet",
            "Pet",
            (400, 413, 415, *codes),
            requestBody=_body(schema),
        )

    def _by_status(self) -> Json:
        parameter = self._array("status", "The status values to filter by", status)
        return self._operation(
            "findPetsByStatus",
            "List the pets of any of these statuses",
            "Pets",
            (400,),
            writes=False,
            parameters=[parameter | {"deprecated": True}],
        )

    def _by_tags(self) -> Json:
        parameter = self._array("tags", "The tags to filter by", tag_name)
        return self._operation(
            "findPetsByTags",
            "List the pets with any of these tags",
            "Pets",
            (400,),
            writes=False,
            parameters=[parameter],
        )

    def _get(self) -> Json:
        codes = (self._behaviour.bad_id, 404)
        operation = self._operation("getPetById", "Fetch one pet", "Pet", codes, writes=False)
        if self._is_guarded:
            operation["security"].append({"api_key": []})
        return operation

    def _form(self) -> Json:
        properties = {
            "name": {"type": "string", "description": "The new name"},
            "status": {**status(self._behaviour), "description": "The new status"},
        }
        form = {"type": "object", "properties": properties}
        return self._operation(
            "updatePetWithForm",
            "Update a pet's name and status",
            None,
            (400, self._behaviour.bad_id, 404, 413, 415),
            requestBody={"content": {FORM: {"schema": form}}},
        )

    def _delete(self) -> Json:
        key = {
            "name": "api_key",
            "in": "header",
            "description": "The API key; it may be omitted, but must not be wrong",
            "schema": {"type": "string"},
        }
        operation = self._operation(
            "deletePet",
            "Delete a pet",
            None,
            (self._behaviour.bad_id, 404),
            parameters=[key],
        )
        if self._is_live:
            operation["responses"]["404"] = {"description": _WORDS[404]}
        return operation

    def _upload(self) -> Json:
        form: Json = {
            "type": "object",
            "properties": {
                "additionalMetadata": {"type": "string", "description": "Extra data"},
                "file": {"type": "string", "format": "binary", "description": "The image"},
            },
        }
        operation = self._operation(
            "uploadFile",
            "Upload an image of a pet",
            "ApiResponse",
            (400, self._behaviour.bad_id, 404, 413, 415),
            requestBody={"content": {MULTIPART: {"schema": form}}},
        )
        if self._is_live:
            form["required"] = ["file"]
            operation["responses"]["200"]["content"] = {JSON: _reference("ApiResponse")}
            operation["responses"]["500"] = {"description": _WORDS[500]}
        return operation

    def _operation(
        self,
        name: str,
        summary: str,
        result: str | None,
        codes: tuple[int, ...],
        *,
        writes: bool = True,
        **more: Any,
    ) -> Json:
        all_codes = {*codes, 403, 405, 406, 429, 500, 503, *((401,) if self._is_guarded else ())}
        responses = {"200": self._success(result)}
        responses |= {str(code): self._failure(code) for code in sorted(all_codes)}
        operation = {"operationId": name, "tags": ["pet"], "summary": summary, **more}
        if self._is_guarded:
            operation["security"] = [{"petstore_auth": [WRITE, READ] if writes else [READ]}]
        return {**operation, "responses": responses}

    def _success(self, result: str | None) -> Json:
        if result is None and self._behaviour.says_done:
            result = "ApiResponse"
        done: Json = {"description": "Done"}
        return done if result is None else done | {"content": _both_formats(result)}

    def _failure(self, code: int) -> Json:
        failure: Json = {"description": _WORDS[code]}
        if self._is_live and code == 413:
            failure["content"] = {"text/plain": {"schema": {"type": "string"}}}
        else:
            failure["content"] = _both_formats("ApiResponse")
        if code == 429:
            failure["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
        return failure

    def _array(self, name: str, description: str, items: Any) -> Json:
        return {
            "name": name,
            "in": "query",
            "description": description,
            "required": not self._is_live,
            "style": "form",
            "explode": self._behaviour.first_value_only,
            "schema": {"type": "array", "minItems": 1, "items": items(self._behaviour)},
        }


def _path_id(behaviour: Behaviour) -> Json:
    return {
        "name": "petId",
        "in": "path",
        "required": True,
        "description": f"The pet's id; text other than an int64 gets {behaviour.bad_id}",
        "schema": {"type": "integer", "format": "int64"} | INT64,
    }


def _body(schema: str) -> Json:
    content = {JSON: _reference(schema), XML: _reference(f"{schema}Xml")}
    return {"description": "One pet", "required": True, "content": content}


def _both_formats(schema: str) -> Json:
    return {JSON: _reference(schema), XML: _reference(schema)}


def _reference(schema: str) -> Json:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}}


def _schemes(origin: str, flows: tuple[str, ...]) -> Mapping[str, Json]:
    at = {"tokenUrl": origin + TOKEN, "scopes": SCOPES}
    asks = {"authorizationUrl": origin + AUTHORIZE}
    by_person = {
        "code": ("authorizationCode", {**at, **asks, "refreshUrl": origin + TOKEN}),
        "token": ("implicit", {**asks, "scopes": SCOPES}),
    }
    return {
        "petstore_auth": {
            "type": "oauth2",
            "flows": {"clientCredentials": at, **dict(by_person[flow] for flow in flows)},
        },
        "api_key": {"type": "apiKey", "name": "api_key", "in": "header"},
    }
