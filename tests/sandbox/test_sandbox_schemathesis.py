"""The sandbox compared with its own OpenAPI document, in both profiles.

schemathesis sends valid and invalid requests in JSON and XML, and compares each response with the
document. All its default checks are enabled, except those that are explained here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema

from petsync.sandbox import Sandbox
from petsync.sandbox.faults import OPERATIONS

pytestmark = pytest.mark.slow

SWITCHED_OFF: dict[str, dict[str, Any]] = {
    "standard": {},
    "live": {
        # The profile imitates a server that responds with 500 to a pet of the wrong type, as
        # documented.
        "not_a_server_error": {"enabled": False},
        # The profile accepts nearly everything, such as a null among the tags or an empty id in
        # XML.
        "negative_data_rejection": {"enabled": False},
    },
}
DEFAULTS = {
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
}


def config(sandbox: Sandbox, profile: str, examples: int) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": 20,
            "headers": {"Authorization": f"Bearer {sandbox.token()}"},
            "generation": {"max-examples": examples},
            "checks": SWITCHED_OFF[profile],
        }
    )


def results(sandbox: Sandbox, profile: str) -> Iterator[tuple[str, str | None]]:
    """Yield each check that was made, with its failure or None."""
    url = sandbox.url.removesuffix("/v2") + "/openapi.json"
    schema = schemathesis.openapi.from_url(url, config=config(sandbox, profile, 15))
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            yield "engine", str(event.info if hasattr(event, "info") else event)
        if isinstance(event, events.ScenarioFinished):
            yield from _checks(event.recorder)


def _checks(recorder: Any) -> Iterator[tuple[str, str | None]]:
    for case_id, checks in recorder.checks.items():
        request = recorder.interactions[case_id].request
        for check in checks:
            failed = check.status == Status.FAILURE and not _is_no_failure(check.name, request)
            yield check.name, _describe_failure(check) if failed else None


def _is_no_failure(check: str, request: Any) -> bool:
    """Return true if schemathesis marks the request as invalid but has sent a valid one.

    In XML an empty text and an empty list are the same; a part of a multipart form is always text.
    """
    kind = request.headers.get("Content-Type", [""])[0]
    body = request.body or b""
    empty = kind == "application/xml" and any(
        f"<{name}></{name}>".encode() in body for name in ("tags", "photoUrls", "category")
    )
    return check == "negative_data_rejection" and (empty or kind.startswith("multipart/"))


def _describe_failure(check: Any) -> str:
    failure = check.failure_info
    return f"{check.name}: {failure.failure.message}\n{failure.code_sample}"


@pytest.mark.parametrize("profile", SWITCHED_OFF)
def test_the_document_is_true(profile):
    """Each response of each operation matches the document, and each default check was made."""
    with Sandbox(profile=profile) as sandbox:
        found = list(results(sandbox, profile))
        asked = sandbox.requests
    failures = [failure for _, failure in found if failure is not None]
    assert failures == [], "\n\n".join(failures)
    made = Counter(name for name, _ in found)
    assert set(made) >= DEFAULTS - set(SWITCHED_OFF[profile])
    assert min(asked[name] for name in OPERATIONS) >= 20
