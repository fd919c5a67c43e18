"""Content negotiation: which representation was sent, which are welcome.

Source: RFC 9110, sections 8.3 and 12.5.1.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["FORM", "JSON", "MULTIPART", "XML", "media_type", "sent", "welcome"]

JSON = "application/json"
XML = "application/xml"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

_OFFERED = (JSON, XML)
_SENT = {JSON: JSON, XML: XML, "text/xml": XML}
_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\Z", re.ASCII)


def media_type(header: str | None) -> str:
    """The media type of a Content-Type header, in lower case and without its parameters."""
    return (header or "").partition(";")[0].strip().lower()


def sent(content_type: str | None) -> str | None:
    """`JSON` or `XML`, by the request's Content-Type; None for any other or none."""
    return _SENT.get(media_type(content_type))


@lru_cache(maxsize=256)
def welcome(accept: str) -> tuple[str, ...]:
    """Those of `JSON` and `XML` that an Accept header welcomes, the preferred one first.

    An empty header welcomes both; between equals JSON comes first.
    """
    ranges = dict(filter(None, map(_range, accept.split(","))))
    if not accept.strip():
        return _OFFERED
    scores = {media: _score(media, ranges) for media in _OFFERED}
    return tuple(sorted((m for m in _OFFERED if scores[m] > 0), key=lambda m: -scores[m]))


def _range(item: str) -> tuple[str, float] | None:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    if not name:
        return None
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            value = value.strip()
            quality = float(value) if _QUALITY.match(value) else 0.0
    return name, quality


def _score(media: str, ranges: dict[str, float]) -> float:
    """The most specific range decides."""
    for name in (media, media.partition("/")[0] + "/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0
