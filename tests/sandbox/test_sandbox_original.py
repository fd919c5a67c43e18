"""The live profile compared with the recorded responses of the original server (original-v2.jsonl).

Each line of the record is one request with its response, in order, from the server's initial data.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx

from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox

RECORD = Path(__file__).with_name("original-v2.jsonl")
OF_THE_FRAMEWORK = {
    "unacceptable",
    "HEAD",
    "OPTIONS /pet",
    "upload metadata only",
    "add xml root lower-case pet",
    "add json array",
    "trailing slash PUT",
    "PUT /pet/1",
}
"""Responses of the framework, not of the service."""

_STATUSES = (
    "available",
    "available",
    "pending",
    "available",
    "sold",
    "pending",
    *["available"] * 4,
)
_KINDS = {"Cat": Category(2, "Cats"), "Dog": Category(1, "Dogs"), "Lion": Category(4, "Lions")}


def initial_data() -> list[Pet]:
    """Return the ten pets of the original server's initial data."""
    names = [f"{kind} {n}" for kind in _KINDS for n in (1, 2, 3)]
    tags = [(1, 2), (2, 3), (3, 4)]
    pets = [
        Pet(
            id=number,
            name=name,
            category=_KINDS[name.split()[0]],
            photo_urls=("url1", "url2"),
            tags=tuple(Tag(n, f"tag{t}") for n, t in enumerate(tags[(number - 1) % 3], 1)),
            status=_STATUSES[number - 1],
        )
        for number, name in enumerate(names, 1)
    ]
    rabbit = Pet(
        id=10,
        name="Rabbit 1",
        category=Category(3, "Rabbits"),
        photo_urls=("url1", "url2"),
        tags=(Tag(1, "tag3"), Tag(2, "tag4")),
        status="available",
    )
    return [*pets, rabbit]


def body_of(entry: dict[str, Any]) -> bytes | None:
    """Return the body as it was sent."""
    body = entry["body"]
    if body is None or isinstance(body, str):
        return None if body is None else body.encode()
    return json.dumps(body).encode()


def canonical(media: str | None, body: str) -> object:
    """Return a response's content without the order of JSON fields and of different XML elements.

    Messages of the framework are compared up to the method's signature.
    """
    if not body:
        return None
    if media and "xml" in media:
        return _element(ET.fromstring(body))
    value = json.loads(body)
    if isinstance(value, dict) and "message" in value:
        value["message"] = value["message"].partition(" for public")[0]
    return value


def _element(element: ET.Element) -> object:
    children = sorted((_element(child) for child in element), key=_name)
    return (element.tag, element.text or "", children)


def _name(element: Any) -> str:
    return str(element[0])


def test_live_answers_as_the_original() -> None:
    """Each recorded request gets the recorded status, media type and body."""
    entries = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
    assert len(entries) == 97
    differences = []
    with (
        Sandbox(profile="live", auth=False, pets=initial_data()) as box,
        httpx.Client(base_url=box.url) as client,
    ):
        del client.headers["accept"]
        for entry in entries:
            given = {k: v for k, v in entry["headers"].items() if k != "Authorization"}
            answer = client.request(
                entry["method"], entry["path"], headers=given, content=body_of(entry)
            )
            if entry["note"] in OF_THE_FRAMEWORK:
                continue
            media = answer.headers.get("content-type")
            ours = (answer.status_code, _media(media), canonical(media, answer.text))
            kept = entry["content_type"]
            theirs = (entry["status"], _media(kept), canonical(kept, entry["response"]))
            if ours != theirs:
                differences.append((entry["note"], theirs, ours))
    assert differences == []


def _media(header: str | None) -> str | None:
    return None if header is None else re.split(r"\s*;", header)[0]
