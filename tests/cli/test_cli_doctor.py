"""petsync doctor: what a service supports, found by read requests only."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from commands import READING, Done, Shell, shop, to

from petsync.protocol.json import encode_pets
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


def _verdicts(done: Done) -> dict[str, str]:
    return {check["topic"]: check["verdict"] for check in done.json["checks"]}


@pytest.fixture(params=["standard", "live"])
def service(request: pytest.FixtureRequest) -> str:
    """Return the profile that the service has."""
    profile: str = request.param
    return profile


def test_fitting_profile(shell: Shell, service: str) -> None:
    """Each profile's own service matches the profile."""
    with Sandbox(auth=False, profile=service, pets=shop()) as box:
        done = shell("doctor", *to(box), "--profile", service, "--json")
    assert done.code == 0
    assert done.json["works"] is True
    assert done.json["overrides"] == {}
    assert done.json["suggested_profile"] is None
    assert {"differs", "fails"}.isdisjoint(_verdicts(done).values())


def test_fields_that_only_a_write_could_show_are_named(shell: Shell, box: Sandbox) -> None:
    """The last check names the fields that only a write could show, and none that petsync sets."""
    last = shell("doctor", *to(box), "--json").json["checks"][-1]
    named = last["found"].partition(": ")[2].split(", ")
    assert last["topic"] == "not tested"
    assert {"update_unknown", "any_status", "capacity"} <= {*named}
    assert {"name", "statuses", "api_key_header", "answer_seconds"}.isdisjoint(named)
    assert "max_answer_mb" not in named


def test_other_profile_is_suggested(shell: Shell, service: str) -> None:
    """With the wrong profile the differences are shown, and the right profile is suggested."""
    wrong = {"standard": "live", "live": "standard"}[service]
    with Sandbox(auth=False, profile=service, pets=shop()) as box:
        done = shell("doctor", *to(box), "--profile", wrong, "--json")
        text = shell("doctor", *to(box), "--profile", wrong)
    assert done.json["suggested_profile"] == service
    assert {"unknown_status", "xml_tag_item", "xml_photo_item"} == done.json["overrides"].keys()
    assert _verdicts(done)["unknown status"] == "differs"
    assert f"--profile {service}" in text.out


def test_only_get_requests_are_sent(
    shell: Shell, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store receives only the three read operations, and no pet changes."""
    with Sandbox(profile=service, pets=shop()) as box:
        monkeypatch.setenv("PETSYNC_TOKEN", box.token())
        monkeypatch.setenv("PETSYNC_API_KEY", box.api_key)
        before = box.pets()
        done = shell("doctor", *to(box), "--profile", service, "--json")
        assert done.code == 0
        assert set(box.requests) == READING
        assert sum(box.requests.values()) == done.json["requests"]
        assert box.pets() == before


def test_numbers(shell: Shell, box: Sandbox) -> None:
    """The pets are counted by status, and the response times are measured."""
    done = shell("doctor", *to(box), "--json")
    assert done.json["pets"] == {"available": 2, "pending": 2, "sold": 2}
    assert 0 < done.json["median_ms"] < 60_000


def test_one_request(shell: Shell, guarded: Sandbox) -> None:
    """A service that needs a sign-in gets one request, and the text counts it as one."""
    done = shell("doctor", *to(guarded))
    assert done.code == 1
    assert "\n1 GET request, " in done.out


def test_token_and_api_key(shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid token and API key are reported as matching, a wrong API key as noted."""
    monkeypatch.setenv("PETSYNC_TOKEN", guarded.token())
    monkeypatch.setenv("PETSYNC_API_KEY", guarded.api_key)
    done = shell("doctor", *to(guarded), "--json")
    assert _verdicts(done)["access"] == "fits"
    assert _verdicts(done)["api key"] == "fits"
    monkeypatch.setenv("PETSYNC_API_KEY", "wrong")
    assert _verdicts(shell("doctor", *to(guarded), "--json"))["api key"] == "noted"


def test_a_client_s_id_and_secret(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client id and secret get the first token when it is needed; a wrong secret fails."""
    monkeypatch.setenv("PETSYNC_CLIENT_ID", guarded.client_id)
    monkeypatch.setenv("PETSYNC_CLIENT_SECRET", guarded.client_secret)
    done = shell("doctor", *to(guarded), "--json")
    assert done.code == 0
    assert _verdicts(done)["access"] == "fits"
    monkeypatch.setenv("PETSYNC_CLIENT_SECRET", "wrong")
    done = shell("doctor", *to(guarded), "--json")
    assert done.code == 1
    assert done.json["checks"][-1]["topic"] == "access"
    found = done.json["checks"][-1]["found"]
    assert found.startswith("sign-in: the service does not recognise this client id, or its secret")
    assert ", so there is no token. " in found
    assert found.endswith("Correct or unset PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET.")


def test_open_service_cannot_vouch_for_a_token(
    shell: Shell, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If reading needs no token, a successful response does not prove that the token is valid."""
    monkeypatch.setenv("PETSYNC_TOKEN", "whatever")
    done = shell("doctor", *to(box))
    assert "and whether yours is valid" in " ".join(done.out.split())


@pytest.mark.parametrize("token", [None, "wrong", "expired", "write"])
def test_token_that_does_not_open(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """No token, a wrong or expired one, or one without the read scope exits with 1 and shows the
    fix.
    """
    given = {
        "expired": guarded.token(expires_in=-1),
        "write": guarded.token(["write:pets"]),
    }.get(token or "", token)
    if given is not None:
        monkeypatch.setenv("PETSYNC_TOKEN", given)
    done = shell("doctor", *to(guarded), "--json")
    assert done.code == 1
    assert done.json["works"] is False
    assert done.json["checks"][-1]["topic"] == "access"
    text = done.json["checks"][-1]["found"]
    assert ("read:pets" if token == "write" else "PETSYNC_TOKEN") in text


def test_wrong_base_url(shell: Shell, box: Sandbox) -> None:
    """A base URL without the operations is reported with what to check."""
    done = shell("doctor", "--url", box.url.removesuffix("/v2") + "/v3")
    assert done.code == 1
    assert "Check the base URL" in done.out


def test_unreachable_service(shell: Shell) -> None:
    """A service that cannot be reached is a failed check with exit code 1."""
    done = shell("doctor", "--url", "http://127.0.0.1:1/v2", "--json")
    assert done.code == 1
    assert _verdicts(done) == {"address": "fits", "reachable": "fails"}


def test_busy_service_is_asked_again(shell: Shell, box: Sandbox) -> None:
    """429 and 503 are retried and reported, and fail no check."""
    box.set_faults("429=0.2,503=0.1,retry_after=0,seed=3")
    done = shell("doctor", *to(box), "--json")
    assert done.code == 0
    limits = next(c["found"] for c in done.json["checks"] if c["topic"] == "limits")
    assert "retry-after: 0" in limits
    assert "busy" in limits


def test_empty_store(shell: Shell, box: Sandbox) -> None:
    """In an empty store, the checks that need a pet are not decided, and none fails."""
    box.reset()
    done = shell("doctor", *to(box), "--json")
    assert done.code == 0
    assert _verdicts(done)["several statuses"] == "unknown"
    assert _verdicts(done)["XML"] == "unknown"


class _Service:
    """A service that answers findPetsByStatus by the test's rule, getPetById from the shop, else
    404.
    """

    def __init__(self, rule: Callable[[list[str]], list[str]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                is_find = parts.path.endswith("findByStatus")
                wanted = rule(parse_qs(parts.query)["status"]) if is_find else []
                found = [pet for pet in shop() if pet.status in wanted]
                named = [pet for pet in shop() if parts.path.endswith(f"/pet/{pet.id}")]
                body = encode_pets(found) if is_find else b"".join(map(_one, named)) or b"{}"
                self.send_response(200 if is_find or named else 404)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> list[str]:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return ["--url", f"http://127.0.0.1:{self._server.server_port}/v2"]

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _one(pet: object) -> bytes:
    from petsync.protocol.json import encode_pet

    return encode_pet(pet)  # type: ignore[arg-type]


def test_service_that_takes_only_repeated_parameters(shell: Shell) -> None:
    """If a service does not accept csv parameters, the standard profile would miss pets: the check
    fails, and the setting for petsync.toml is printed.
    """
    with _Service(lambda values: [v for v in values if "," not in v]) as url:
        done = shell("doctor", *url, "--json")
        assert done.code == 1
        assert _verdicts(done)["several statuses"] == "fails"
        assert done.json["overrides"]["array_style"] == "multi"
        text = shell("doctor", *url)
    assert 'array_style = "multi"' in text.out or "--profile live" in text.out


def test_service_that_takes_one_value(shell: Shell) -> None:
    """If a service accepts only one value, one query per value is suggested."""
    with _Service(lambda values: values[:1] if "," not in values[0] else []) as url:
        done = shell("doctor", *url, "--json")
        assert done.json["overrides"]["one_value_a_query"] is True
        assert shell("doctor", *url, "--profile", "live").code == 0


def test_service_without_xml(shell: Shell) -> None:
    """A service without XML is noted; the check fails only for a profile that sends XML."""
    with _Service(lambda values: ",".join(values).split(",")) as url:
        assert _verdicts(shell("doctor", *url, "--json"))["XML"] == "noted"


def test_service_whose_filter_does_not_filter(shell: Shell) -> None:
    """A status query that also returns other statuses would cause wrong plans: the check fails."""
    with _Service(lambda _: ["available", "sold"]) as url:
        done = shell("doctor", *url, "--json")
    assert done.code == 1
    assert done.json["checks"][-1]["topic"] == "findPetsByStatus"


def test_one_broken_operation_does_not_end_the_examination(shell: Shell, box: Sandbox) -> None:
    """An operation that never answers fails its own check; the other checks still run."""
    box.set_faults("drop_before=1,only=findPetsByTags")
    done = shell("doctor", *to(box), "--json")
    assert done.code == 1
    assert [topic for topic, verdict in _verdicts(done).items() if verdict == "fails"] == [
        "several tags"
    ]
    assert _verdicts(done)["XML"] == "fits"


def test_text_fits_eighty_columns(shell: Shell, box: Sandbox) -> None:
    """Each line fits 80 columns, and the conclusion comes last."""
    done = shell("doctor", *to(box))
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.out.splitlines()[-1].startswith("petsync can work with this service")
    assert json.loads(shell("doctor", *to(box), "--json").out)["url"] == box.url
