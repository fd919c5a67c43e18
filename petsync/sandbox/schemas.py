"""The OpenAPI document's schemas: what is taken, and what is answered.

A pet that is taken and one that is answered differ: an id may be left out of the first, and the
optional fields of the first may be null, which means the same.
"""

from __future__ import annotations

from typing import Any

from petsync.model import MAX_ID, MIN_ID
from petsync.sandbox.behaviour import Behaviour

__all__ = ["INT64", "all_of", "status", "tag_name"]

Json = dict[str, Any]

INT64 = {"minimum": MIN_ID, "maximum": MAX_ID}


def all_of(behaviour: Behaviour) -> dict[str, Json]:
    """Every schema by its name."""
    always = ["id"] if behaviour.imitates_original else ["id", "photoUrls", "tags"]
    return {
        "Pet": _pet(behaviour, "Label", nullable=False) | {"required": always},
        "Pets": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Pet"},
            "xml": {"name": behaviour.shape.list_root, "wrapped": True},
        },
        **_taken(behaviour, "", nullable=True),
        **_taken(behaviour, "Xml", nullable=False),
        "Label": _label(nullable=False),
        "NewLabel": _label(nullable=True),
        "ApiResponse": _api_response(behaviour.response_root),
    }


def status(behaviour: Behaviour) -> Json:
    """A status value."""
    if behaviour.statuses is None:
        return {"type": "string"}
    return {"type": "string", "enum": sorted(behaviour.statuses)}


def tag_name(behaviour: Behaviour) -> Json:
    """A tag to search for."""
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


def _taken(behaviour: Behaviour, suffix: str, *, nullable: bool) -> dict[str, Json]:
    """The pets that addPet and updatePet take; there is no null in XML."""
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
