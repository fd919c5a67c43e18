"""Faults on demand, reproducible by their seed."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.errors import SettingsError
from petsync.models import Pet
from petsync.protocol import json, xml
from petsync.sandbox import Sandbox
from petsync.sandbox.faults import Faults, Throttle, parse

pytestmark = pytest.mark.slow


def until(holds):
    """Wait until the condition is true."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


REX = {"id": 1, "name": "Rex", "photoUrls": []}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("429", "'429': a = and a value are missing"),
        ("429=", "429="),
        ("429=2", "429=2"),
        ("torn=-0.1", "torn=-0.1"),
        ("torn=nan", "torn=nan"),
        ("latency=soon", "latency=soon"),
        ("seed=1.5", "seed=1.5"),
        ("chaos=1", "chaos=1"),
        ("too_many=1", "too_many=1"),
        ("only=addCat", "addCat"),
        ("seed=1,429=0.1,seed=2", "seed=2"),
        ("429=0.6,503=0.6", "add up to more than 1"),
        ("twice=0.6,stale=0.6", "add up to more than 1"),
        ("moves=7", "moves=7"),
        ("moves=rex:sold", "moves=rex:sold"),
        ("html=3", "html=3"),
        ("limit=0", "limit=0"),
        ("limit=200,burst=0.5", "burst=0.5"),
        ("limit=200,window=0", "window=0"),
        ("burst=20", "need a limit"),
        ("window=1", "need a limit"),
        ("late=0.6,torn=0.6", "add up to more than 1"),
        ("latency=3600", "below 3600"),
        ("limit=200,window=5000", "below 3600"),
        ("torn=5000", "between 0 and 1"),
        ("limit=inf", "limit=inf"),
        ("limit=200,burst=nan", "burst=nan"),
    ],
)
def test_errors_name_the_item(spec, named):
    """An invalid specification is an error that names the item."""
    with pytest.raises(SettingsError) as caught:
        parse(spec)
    assert named in str(caught.value)
    assert caught.value.hint


def test_specification():
    """Each item is parsed; spaces and an empty specification are valid."""
    assert parse("") == Faults()
    assert parse(" latency=0.05 , 429=0.02,503=0.03,drop_before=0.1,drop_after=0.1,torn=0.3,"
                 "retry_after=7,seed=8,first=9,only=addPet+getPetById,html=0.3,twice=0.4,stale=0.5,"
                 "status=sold+pending,moves=7:sold+-9:,late=0.01,portal=0.1,limit=200,burst=20,window=60"
                 ) == Faults(
        latency=0.05, too_many=0.02, unavailable=0.03, drop_before=0.1, drop_after=0.1, torn=0.3,
        retry_after=7, seed=8, first=9, only=frozenset({"addPet", "getPetById"}),
        html=0.3, twice=0.4, stale=0.5, status=frozenset({"sold", "pending"}),
        moves=((7, "sold"), (-9, "")), late=0.01, portal=0.1, limit=200.0, burst=20.0, window=60.0,
    )  # fmt: skip


def test_a_rate_and_a_burst_are_not_seconds():
    """A limit and a burst can be above the upper bound of seconds."""
    assert parse("limit=5000,burst=6000") == Faults(limit=5000.0, burst=6000.0)


@given(st.integers(0, 2**32), st.integers(1, 2**32))
def test_the_seed_decides(seed, number):
    """The same seed and request number always give the same fault, within its limits."""
    faults = Faults(seed=seed, latency=2.0, too_many=0.3, torn=0.3)
    hit = faults.hit(number)
    assert hit == Faults(seed=seed, latency=2.0, too_many=0.3, torn=0.3).hit(number)
    assert 1.0 <= hit.wait <= 3.0
    assert hit.kind in (None, "too_many", "torn")


def test_shares_are_kept():
    """Over many requests each fault has its share."""
    faults = parse("429=0.2,drop_after=0.1,seed=3")
    kinds = [faults.hit(number).kind for number in range(1, 5001)]
    assert 900 < kinds.count("too_many") < 1100
    assert 420 < kinds.count("drop_after") < 580
    assert kinds.count(None) > 3300


def statuses(spec: str, count: int = 30) -> list[int | str]:
    """Return the results of successive requests for a pet."""
    found: list[int | str] = []
    with Sandbox(auth=False, pets=[Pet(id=1, name="x")], faults=spec) as sandbox:
        for _ in range(count):
            try:
                found.append(httpx.get(f"{sandbox.url}/pet/1").status_code)
            except httpx.TransportError as error:
                found.append("torn" if "body" in str(error) else "dropped")
    return found


def test_a_run_repeats_itself():
    """Two sandboxes with the same specification have the same faults at the same requests."""
    spec = "429=0.2,503=0.2,drop_before=0.2,torn=0.2,seed=5"
    first = statuses(spec)
    assert statuses(spec) == first
    assert set(first) == {200, 429, 503, "dropped", "torn"}
    assert statuses(spec.replace("seed=5", "seed=6")) != first


@pytest.fixture(scope="module")
def broken():
    with Sandbox(auth=False) as sandbox:
        yield sandbox


def test_too_many(broken):
    """429 has a Retry-After, and the request is not carried out."""
    broken.reset()
    broken.set_faults("429=1,retry_after=3")
    answer = httpx.post(f"{broken.url}/pet", json=REX)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["type"] == "too_many_requests"
    assert broken.pets() == []


@pytest.mark.parametrize(
    ("kind", "is_done", "words"),
    [
        ("drop_before", False, "without sending a response"),
        ("drop_after", True, "without sending a response"),
        ("torn", True, "incomplete message body|complete message body"),
    ],
)
def test_broken_connections(broken, kind, is_done, words):
    """A connection that ends before, after or during the response: the pet is stored in the last
    two cases.
    """
    broken.reset()
    broken.set_faults(f"{kind}=1")
    # If the server has unread data when the connection ends, the client may get a reset.
    ended = httpx.RemoteProtocolError, httpx.ReadError
    with pytest.raises(ended, match=f"{words}|reset by peer"):
        httpx.post(f"{broken.url}/pet", json=REX)
    assert [pet.id for pet in broken.pets()] == ([1] if is_done else [])


@pytest.mark.parametrize(("fault", "ids"), [("html", [1]), ("portal", [])])
def test_a_page_in_the_answers_place(broken, fault, ids):
    """The response is 200 with a web page; `html` carries out the request, `portal` does not."""
    broken.reset()
    broken.set_faults(f"{fault}=1")
    answer = httpx.post(f"{broken.url}/pet", json=REX)
    assert (answer.status_code, answer.headers["content-type"][:9]) == (200, "text/html")
    assert answer.text.startswith("<!doctype html>")
    assert [pet.id for pet in broken.pets()] == ids


def listed(broken, query: str, accept: str = "application/json") -> list[tuple[int | None, str]]:
    """Return the ids and names of a list in its order."""
    answer = httpx.get(f"{broken.url}/pet/{query}", headers={"accept": accept})
    assert answer.status_code == 200
    found = json.decode_pets if accept.endswith("json") else xml.decode_pets
    return [(pet.id, pet.name or "") for pet in found(answer.content)]


@pytest.mark.parametrize("accept", ["application/json", "application/xml"])
def test_pets_listed_twice(broken, accept):
    """A share of each list is doubled, unchanged or with an old name that getPetById does not
    return. The pets are always the same, in JSON and XML, also in long lists.
    """
    broken.set_faults(None)
    broken.reset(Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 2501))
    plain = listed(broken, "findByStatus?status=sold", accept)
    broken.set_faults("twice=0.1,stale=0.2,seed=4")
    found = listed(broken, "findByStatus?status=sold", accept)
    assert found == listed(broken, "findByStatus?status=sold", accept)
    assert list(dict(reversed(found)).items()) == list(reversed(plain))
    stale = [name for _, name in found if name.endswith(" (as it was)")]
    assert 400 < len(stale) < 600
    assert 180 < len(found) - len(plain) - len(stale) < 320
    assert httpx.get(f"{broken.url}/pet/1").json()["name"] == "p1"


def test_pets_on_the_move(broken):
    """After the first list by status, which still has these pets, they get another status or are
    deleted.
    """
    broken.reset(Pet(id=n, name="x", status="sold", photo_urls=("u",)) for n in (1, 2, 3))
    broken.set_faults("moves=1:pending+2:+9:sold")
    httpx.get(f"{broken.url}/pet/1")
    assert len(listed(broken, "findByStatus?status=sold")) == 3
    assert {pet.id: pet.status for pet in broken.pets()} == {1: "pending", 3: "sold"}
    broken.put(Pet(id=1, name="x", status="sold"))
    assert len(listed(broken, "findByStatus?status=sold")) == 2
    assert {pet.id: pet.status for pet in broken.pets()} == {1: "sold", 3: "sold"}


def test_only_some_statuses(broken):
    """`status` applies the fault only to queries for one of these statuses."""
    broken.reset([Pet(id=1, name="x", status="sold")])
    broken.set_faults("503=1,status=sold+pending")
    paths = [
        "findByStatus?status=available",
        "findByStatus?status=available,sold",
        "findByStatus?status=available&status=pending",
        "findByStatus?status=sol%64",
        "findByStatus?status=%ff",
        "findByStatus",
        "findByTags?tags=sold",
        "1",
    ]
    codes = [httpx.get(f"{broken.url}/pet/{path}").status_code for path in paths]
    assert codes == [200, 503, 503, 503, 400, 400, 200, 200]


def test_torn_long_list(broken):
    """A list that is streamed can be torn too."""
    broken.reset(Pet(id=n, name="x", status="sold") for n in range(3000))
    broken.set_faults("torn=1")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{broken.url}/pet/findByStatus?status=sold")


def test_latency(broken):
    """A request waits at least half of the given latency."""
    broken.set_faults("latency=0.2")
    start = time.monotonic()
    httpx.get(f"{broken.url}/pet/9")
    assert time.monotonic() - start >= 0.1


def test_only_some_operations(broken):
    """`only` limits the fault to some operations, and `first` to the first requests."""
    broken.reset([Pet(id=1, name="x")])
    broken.set_faults("503=1,only=getPetById,first=2")
    codes = [httpx.get(f"{broken.url}/pet/{path}").status_code
             for path in ("1", "findByTags?tags=a", "1", "1")]  # fmt: skip
    assert codes == [503, 200, 503, 200]
    broken.set_faults(None)
    assert httpx.get(f"{broken.url}/pet/1").status_code == 200


def test_requests_are_counted(broken):
    """Each request is counted by its operation, also a broken one, and reset clears the counts."""
    broken.reset()
    broken.set_faults("503=1,first=1")
    for _ in range(2):
        httpx.post(f"{broken.url}/pet", json=REX)
    assert broken.requests == {"addPet": 2}
    broken.reset()
    assert broken.requests == {}


def test_a_limit_is_kept_for_all_operations_together(broken):
    """The limit is for all operations together; a refused request has a Retry-After, is counted,
    and changes nothing.
    """
    broken.reset([Pet(id=1, name="x")])
    broken.set_faults("limit=0.01,burst=3,retry_after=7,503=0")
    with httpx.Client(base_url=broken.url) as client:
        taken = [client.get("pet/1"), client.get("pet/findByTags?tags=a"), client.delete("pet/1")]
        refused = [client.get("pet/1"), client.post("pet", json=REX)]
    assert [each.status_code for each in (*taken, *refused)] == [200, 200, 200, 429, 429]
    assert all(each.headers["retry-after"] == "7" for each in refused)
    assert broken.broken == {"limit": 2}
    assert broken.pets() == []


def test_a_bucket_fills_evenly():
    """The bucket is full at first, then gets a constant number of tokens per second, up to its
    capacity.
    """
    bucket = Throttle(10.0, burst=3.0)
    assert [bucket.takes(5.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.takes(now) for now in (5.05, 5.11, 5.12, 5.22)] == [False, True, False, True]
    assert sum(bucket.takes(100.0) for _ in range(9)) == 3


def test_a_window_begins_again_by_the_clock():
    """A window starts again at a fixed time, whatever was refused in the last one."""
    window = Throttle(10.0, burst=10.0, window=2.0)
    assert sum(window.takes(3.9) for _ in range(50)) == 20
    assert not window.takes(3.999)
    assert sum(window.takes(4.0) for _ in range(50)) == 20
    assert not window.takes(5.9)


@pytest.mark.parametrize(("spec", "is_done"), [("latency=2,late=1", 1), ("latency=2", 0)])
def test_a_request_whose_client_has_gone_away(broken, spec, is_done, caplog):
    """After the client has disconnected, `late` carries out the request when its latency has
    passed; otherwise the request is not carried out.
    """
    caplog.set_level("DEBUG", "petsync.sandbox")
    broken.reset()
    broken.set_faults(spec)
    parts = urlsplit(broken.url)
    body = b'{"id":1,"name":"Rex","photoUrls":[]}'
    head = f"POST {parts.path}/pet HTTP/1.1\r\nHost: {parts.netloc}\r\ncontent-length: {len(body)}"
    head += "\r\ncontent-type: application/json\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as client:
        client.sendall(head.encode() + body)
        until(lambda: broken.requests["addPet"])
    until(lambda: broken.pets() if is_done else "addPet: the client disconnected" in caplog.text)
    assert [pet.id for pet in broken.pets()] == ([1] if is_done else [])
    assert broken.broken == ({"late": 1} if is_done else {})


def test_a_late_request_whose_client_waits_is_answered(broken):
    """A late request whose client still waits is answered normally."""
    broken.reset()
    broken.set_faults("latency=0.05,late=1")
    assert httpx.post(f"{broken.url}/pet", json=REX).status_code == 200
    assert [pet.id for pet in broken.pets()] == [1]
