"""The sandbox's OpenAPI documents, compared with its routes, permissions and models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from petsync.models import MAX_ID, MIN_ID
from petsync.sandbox import Sandbox, app, http
from petsync.sandbox.oauth import AUTHORIZE, TOKEN
from petsync.sandbox.service import BASE
from petsync.sandbox.tokens import SCOPES

PROFILES = pytest.mark.parametrize("profile", sorted(http.BEHAVIOURS))


def fetch(profile: str, *, auth: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the origin of a sandbox, and its document."""
    with Sandbox(profile=profile, auth=auth) as sandbox:
        origin = sandbox.url.removesuffix(BASE)
        return origin, httpx.get(f"{origin}/openapi.json").json()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the document's operations by id."""
    return {
        operation["operationId"]: operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each JSON object in the value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from mappings(item)


@PROFILES
def test_paths(profile):
    """The document has exactly the routes of the operations: paths, methods and operation ids."""
    _, document = fetch(profile)
    named = {
        path: {
            method.upper(): operation["operationId"]
            for method, operation in item.items()
            if method != "parameters"
        }
        for path, item in document["paths"].items()
    }
    assert named == app._PATHS
    assert [server["url"] for server in document["servers"]] == [BASE]


@PROFILES
def test_permissions(profile):
    """The document names the scopes that each operation requires, and where the API key is enough;
    its URLs are those of the server.
    """
    origin, document = fetch(profile)
    for name, operation in operations(document).items():
        _, need = app._OPERATIONS[name]
        first, *others = operation["security"]
        assert set(first["petstore_auth"]) == need.scopes
        assert others == ([{"api_key": []}] if need.api_key == "alone" else [])
        assert "401" in operation["responses"]
    flows = document["components"]["securitySchemes"]["petstore_auth"]["flows"]
    by_person = {"code": "authorizationCode", "token": "implicit"}
    assert flows.keys() == {
        "clientCredentials",
        *(by_person[flow] for flow in http.BEHAVIOURS[profile].flows),
    }
    urls = {"tokenUrl": TOKEN, "refreshUrl": TOKEN, "authorizationUrl": AUTHORIZE}
    for flow in flows.values():
        assert flow.pop("scopes") == SCOPES
        assert flow == {key: origin + urls[key] for key in flow}


@PROFILES
def test_values(profile):
    """The document has the limits, the statuses, the XML names and the required fields of the
    sandbox's code.
    """
    _, document = fetch(profile)
    behaviour, schemas = http.BEHAVIOURS[profile], document["components"]["schemas"]
    ids = [each for each in mappings(document) if each.get("format") == "int64"]
    assert {(each["minimum"], each["maximum"]) for each in ids} == {(MIN_ID, MAX_ID)}
    enums = [set(each["enum"]) for each in mappings(document) if "enum" in each]
    statuses = [] if behaviour.statuses is None else [set(behaviour.statuses)] * 7
    assert enums == statuses
    names = {name: schemas[name]["items"]["xml"]["name"] for name in ("PhotoUrls", "Tags")}
    shape = behaviour.shape
    assert names == {"PhotoUrls": shape.photo_item, "Tags": shape.tag_item}
    assert schemas["Pets"]["xml"]["name"] == shape.list_root
    assert schemas["ApiResponse"]["xml"]["name"] == behaviour.response_root
    required = {"name", "photoUrls"} if behaviour.strict_pets else set()
    for name in ("NewPet", "NewPetXml"):
        assert set(schemas[name].get("required", ())) == required
        known = schemas.get(name.replace("New", "Known"))
        assert (known is None) is behaviour.put_creates
        assert known is None or set(known["required"]) == required | {"id"}
    responses = {name: set(each["responses"]) for name, each in operations(document).items()}
    assert ("409" in responses["addPet"]) is not behaviour.post_replaces
    assert ("404" in responses["updatePet"]) is not behaviour.put_creates
    assert str(behaviour.bad_id) in responses["getPetById"]


@PROFILES
def test_references(profile):
    """Each reference in the document has its target, and each component is referred to."""
    for auth in (True, False):
        _, document = fetch(profile, auth=auth)
        references = {each["$ref"] for each in mappings(document) if "$ref" in each}
        for reference in references:
            target: Any = document
            for key in reference.removeprefix("#/").split("/"):
                target = target[key]
        components = document["components"]
        names = [(kind, name) for kind in components for name in components[kind]]
        unused = [n for n in names if "#/components/{}/{}".format(*n) not in references]
        assert {kind for kind, _ in unused} <= {"securitySchemes"}


@PROFILES
def test_no_token(profile):
    """Without tokens the document says nothing about them."""
    _, document = fetch(profile, auth=False)
    assert all("401" not in each["responses"] for each in operations(document).values())
    text = json.dumps(document["paths"]) + json.dumps(document["components"]["schemas"])
    assert "petstore_auth" not in text
