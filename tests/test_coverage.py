"""Snapshots and their coverage: failed queries, and pets that are listed twice or move."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Answer, ScriptedServer, answer
from shop import NO_LIMITS
from strategies import pets as any_pets
from strategies import texts, xml_texts
from times import times

import petsync as ps
from petsync.plan.change import Coverage, FailedLookup
from petsync.protocol.json import encode_pet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

STATUSES = ("available", "pending", "sold")
SHOP = [
    ps.Pet(id=n, name=f"pet {n}", status=STATUSES[n % 3], tags=(ps.Tag(n, "t"),))
    for n in range(1, 31)
]
SOLD = {pet.id for pet in SHOP if pet.status == "sold"}
ONCE = ps.RetryPolicy(attempts=1)


@pytest.fixture(scope="module", params=["standard", "live"])
def open_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a sandbox per profile: one accepts several statuses in a query, the other does not."""
    with Sandbox(profile=request.param, auth=False) as box:
        yield box


@pytest.fixture
def box(open_box: Sandbox) -> Sandbox:
    """Return the sandbox with thirty pets, ten of each status, and no faults."""
    open_box.set_faults(None)
    open_box.reset(SHOP)
    return open_box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store for the sandbox that tries each request once."""
    with connected(box, state=tmp_path / "state") as store:
        yield store


def connected(box: Sandbox, **more: object) -> ps.Store:
    """Return a store for the sandbox that tries once, unless `retry` differs."""
    given = {"retry": ONCE, **more}
    return ps.connect(box.url, profile=box.profile, environ={}, **given)  # type: ignore[arg-type]


@contextmanager
def scripted(*script: Answer) -> Iterator[tuple[ScriptedServer, ps.Store]]:
    """Yield a server with these answers, and a store for it."""
    with (
        ScriptedServer(*script) as server,
        ps.connect(server.url, environ={}, retry=ONCE) as store,
    ):
        yield server, store


def listed(*pets: ps.Pet) -> bytes:
    """Return an answer that is a list of these pets."""
    body = b"[" + b",".join(map(one, pets)) + b"]"
    return answer(200, body, content_type="application/json")


def one(pet: ps.Pet) -> bytes:
    """Return the pet as JSON."""
    return json.dumps(
        {"id": pet.id, "name": pet.name, "status": pet.status, "photoUrls": []}
    ).encode()


def ids(frame: pd.DataFrame) -> list[int]:
    """Return the ids of a table."""
    return [int(number) for number in frame["id"]]


@pytest.mark.parametrize("fault", ["503=1", "html=1", "torn=1", "drop_before=1"])
def test_a_failed_query_narrows_the_coverage(box: Sandbox, store: ps.Store, fault: str) -> None:
    """If a query fails, the other pets are listed, and the missing status is shown with
    the reason.
    """
    box.set_faults(f"{fault},status=sold")
    snapshot = store.snapshot()
    assert ids(snapshot.frame) == [pet.id for pet in SHOP if pet.status != "sold"]
    assert snapshot.coverage.statuses == ("available", "pending")
    (failed,) = snapshot.coverage.failed
    assert failed.query == "sold"
    assert failed.problem.startswith("findPetsByStatus: ")
    assert "sold" not in snapshot.coverage
    for shown in (repr(snapshot), snapshot._repr_html_()):
        message = f"The pets of the status sold are missing: {failed.problem}."
        assert message in html.unescape(" ".join(shown.split()))


def test_pets_are_never_some_of_them(box: Sandbox, store: ps.Store) -> None:
    """pets() raises an error that names the failed query, instead of returning the other pets."""
    box.set_faults("503=1,status=sold")
    with pytest.raises(ps.errors.SheetError, match="the status sold would be missing: "):
        store.pets()


def test_a_whole_snapshot_says_nothing_of_failures(store: ps.Store) -> None:
    """A complete snapshot shows no failed queries and no pets read again."""
    snapshot = store.snapshot()
    assert (snapshot.coverage, snapshot.reread) == (Coverage(STATUSES), ())
    assert "missing" not in repr(snapshot)
    assert "again" not in repr(snapshot)


def test_the_ordinary_case_costs_no_more_requests(box: Sandbox, store: ps.Store) -> None:
    """A snapshot takes one query for all statuses, or one for each if the service accepts no more
    at once.
    """
    store.snapshot()
    assert box.requests == {"findPetsByStatus": 1 if box.profile == "standard" else 3}


def test_a_failure_that_passes_narrows_nothing(box: Sandbox, tmp_path: Path) -> None:
    """A failure that ends within the retries does not narrow the coverage."""
    box.set_faults("503=1,first=2")
    with connected(box, retry=ps.RetryPolicy(first=0.01), state=tmp_path) as store:
        assert store.snapshot().coverage == Coverage(STATUSES)


def test_a_query_for_all_that_fails_is_asked_in_parts(store: ps.Store, box: Sandbox) -> None:
    """If the query for all statuses fails, each status is queried separately."""
    box.set_faults("503=1,first=1")
    snapshot = store.snapshot()
    if box.profile == "standard":
        assert ps.pets_from_frame(snapshot.frame) == SHOP
        assert snapshot.coverage == Coverage(STATUSES)
        assert box.requests == {"findPetsByStatus": 4}
    else:
        assert snapshot.coverage.statuses == ("pending", "sold")


def test_an_unknown_status_is_a_failed_query(box: Sandbox, store: ps.Store) -> None:
    """A status that the service refuses is a failed query; the others are listed."""
    snapshot = store.snapshot(statuses=["sold", "reserved"])
    assert set(ids(snapshot.frame)) == SOLD
    known = ("sold", "reserved") if box.profile == "live" else ("sold",)
    assert snapshot.coverage.statuses == known
    assert [each.query for each in snapshot.coverage.failed] == [
        status for status in ("reserved",) if status not in known
    ]


@pytest.mark.parametrize("statuses", [(), ("sold",), ("sold", "sold")])
def test_nothing_answered_is_an_error(
    box: Sandbox, store: ps.Store, statuses: tuple[str, ...]
) -> None:
    """If no query is answered, the first error is raised."""
    box.set_faults("503=1")
    with pytest.raises(ps.errors.ServiceError, match="findPetsByStatus: 503"):
        store.snapshot(statuses=statuses)


def test_a_status_is_asked_once(store: ps.Store) -> None:
    """A repeated status is covered once, and a single status may be a plain text."""
    assert store.snapshot(statuses=["sold", "sold"]).coverage.statuses == ("sold",)
    assert set(ids(store.snapshot(statuses="sold").frame)) == SOLD


def test_values_that_cannot_be_asked_for_are_refused_unsent(box: Sandbox, store: ps.Store) -> None:
    """A status that is not text is refused before any request."""
    with pytest.raises(ps.errors.InvalidInputError):
        store.snapshot(statuses=["sold", 7])  # type: ignore[list-item]
    assert not box.requests


@pytest.mark.parametrize("scopes", ["write:pets", None])
def test_a_refused_token_is_an_error_at_once(scopes: str | None) -> None:
    """A missing token, or one that may not read, stops the snapshot at the first query."""
    with Sandbox(pets=SHOP) as box:
        auth = ps.auth.none() if scopes is None else ps.auth.bearer(box.token(scopes))
        with connected(box, auth=auth) as store, pytest.raises(ps.errors.AuthError):
            store.snapshot()
        assert box.requests == {"findPetsByStatus": 1}


@pytest.mark.parametrize("profile", ["standard", "live"])
def test_a_refused_token_between_two_queries_is_an_error(profile: str) -> None:
    """A refused token stops the snapshot, even if an earlier query was answered or failed for
    another reason.
    """
    script = [listed(SHOP[2]) if profile == "live" else answer(500), answer(401)]
    with ScriptedServer(*script) as server:
        connected = ps.connect(server.url, profile=profile, environ={}, retry=ONCE)
        with connected as store, pytest.raises(ps.errors.AuthError):
            store.snapshot()
        assert len(server.requests) == 2


def test_a_service_that_wants_patience_is_not_asked_more(box: Sandbox, store: ps.Store) -> None:
    """After a 429, the statuses are not queried separately, because that would send
    more requests.
    """
    box.set_faults("429=1,retry_after=0,first=1")
    with pytest.raises(ps.errors.RateLimitedError):
        store.snapshot()
    assert box.requests == {"findPetsByStatus": 1}


def test_a_service_out_of_reach_is_an_error() -> None:
    """Without a connection there is no snapshot."""
    with ScriptedServer(b"") as server:
        url = server.url
    with (
        ps.connect(url, environ={}, retry=ONCE) as store,
        pytest.raises(ps.errors.TransportError) as caught,
    ):
        store.snapshot()
    assert not caught.value.may_have_happened


def test_equal_copies_are_one_pet(box: Sandbox, store: ps.Store) -> None:
    """A pet that is listed twice with the same values is one row, without another request."""
    box.set_faults("twice=1")
    snapshot = store.snapshot()
    assert ps.pets_from_frame(snapshot.frame) == SHOP
    assert snapshot.reread == ()
    assert "getPetById" not in box.requests


def test_copies_that_differ_are_read_again(box: Sandbox, store: ps.Store) -> None:
    """Only pets listed in different versions are read again, and getPetById decides."""
    box.set_faults("stale=0.3,twice=0.3,seed=2")
    snapshot = store.snapshot()
    assert ps.pets_from_frame(snapshot.frame) == SHOP
    assert 2 < len(snapshot.reread) < 20
    assert list(snapshot.reread) == sorted(snapshot.reread)
    assert box.requests["getPetById"] == len(snapshot.reread)
    assert f"{len(snapshot.reread)} pets by id, because the lists had" in repr(snapshot)


def test_a_pet_that_is_gone_when_it_is_read_again_is_not_there(
    box: Sandbox, store: ps.Store
) -> None:
    """A pet listed in different versions that getPetById does not find is not in the snapshot."""
    box.set_faults("stale=1,status=sold,moves=2:+5:available")
    snapshot = store.snapshot()
    assert 2 not in ids(snapshot.frame)
    assert 2 in snapshot.reread
    assert ps.pets_from_frame(snapshot.frame) == box.pets()


def test_a_pet_that_nobody_can_read_again_is_an_error() -> None:
    """If a pet listed in different versions cannot be read again, the snapshot fails: petsync does
    not guess.
    """
    rex = ps.Pet(id=7, name="Rex", status="sold")
    other = msgspec.structs.replace(rex, name="Max")
    page = answer(200, b"<html>", content_type="text/html")
    with (
        scripted(listed(rex, other), page) as (_, store),
        pytest.raises(
            ps.errors.ResponseError, match="pet 7 was listed in copies that differ"
        ) as caught,
    ):
        store.snapshot()
    assert caught.value.pet_id == 7
    assert caught.value.hint


@settings(max_examples=times(25))
@given(any_pets(pet_ids=st.just(7)), any_pets(pet_ids=st.just(7)), st.data())
def test_any_difference_between_copies_counts(
    first: ps.Pet, second: ps.Pet, data: st.DataObject
) -> None:
    """Copies that differ in any field, unknown ones included, are read again; equal
    copies are not.
    """
    name = data.draw(st.sampled_from([None, *first.__struct_fields__]))
    if name is not None:
        first, second = second, msgspec.structs.replace(second, **{name: getattr(first, name)})
    else:
        second = first
    sent = [encode_pet(pet) for pet in (first, second)]
    body = b"[" + b",".join(sent) + b"]"
    script = [answer(200, each, content_type="application/json") for each in (body, sent[1])]
    with scripted(*script) as (server, store):
        snapshot = store.snapshot()
        assert snapshot.reread == (() if first == second else (7,))
        assert len(server.requests) == 1 + len(snapshot.reread)
    assert ps.pets_from_frame(snapshot.frame) == ps.pets_from_frame(ps.frame_from_pets([second]))


def test_the_plain_loaders_give_one_row_a_pet(box: Sandbox, store: ps.Store) -> None:
    """find_by_status and find_by_tags keep the last copy of a pet and send no further request."""
    box.set_faults("stale=1,twice=0")
    for frame in (store.find_by_status(), store.find_by_tags("t")):
        assert sorted(ids(frame)) == [pet.id for pet in SHOP]
        assert all(name.endswith(" (as it was)") for name in frame["name"])
    assert "getPetById" not in box.requests


def test_the_plain_loaders_fail_with_their_query(box: Sandbox, store: ps.Store) -> None:
    """A failed query is an error in the plain loaders, because a DataFrame has no coverage."""
    box.set_faults("html=1,status=sold")
    with pytest.raises(ps.errors.ResponseError):
        store.find_by_status("available", "sold")


def test_pets_that_move_between_two_queries() -> None:
    """A pet listed in two statuses is read again and is there once; a pet missed by both is looked
    up if a row names it, so that it is not added again.
    """
    with Sandbox(profile="live", auth=False, pets=SHOP) as box, connected(box) as store:
        box.set_faults("moves=3:sold+2:available")
        snapshot = store.snapshot()
        there = {pet.id: pet for pet in ps.pets_from_frame(snapshot.frame)}
        assert snapshot.reread == (3,)
        assert there[3].status == "sold"
        assert set(there) == {pet.id for pet in SHOP} - {2}
        plan = store.plan(pd.DataFrame([{"id": 2, "name": "moved"}]), snapshot=snapshot)
    (change,) = plan.changes
    assert (change.kind, change.pet_id, change.fields) == ("update", 2, ("name",))


def test_a_pet_that_nobody_asked_for_is_outside_the_coverage(tmp_path: Path) -> None:
    """A listed pet whose status was not queried is outside the coverage, and is never deleted as
    missing.
    """
    asked = ps.Pet(id=1, name="Rex", status="available")
    unasked = ps.Pet(id=2, name="Tom", status="Sold")
    blank = ps.Pet(id=3, name="Ada")
    with scripted(listed(blank, unasked, asked)) as (server, store):
        snapshot = store.snapshot(statuses=["available"])
        assert ids(snapshot.frame) == [1, 2, 3]
        statuses = snapshot.frame["status"]
        assert [status in snapshot.coverage for status in statuses] == [True, False, False]
        sheet = pd.DataFrame([{"id": 9, "name": "New", "action": "ignore"}])
        plan = store.plan(sheet, delete_missing=True, guard=NO_LIMITS, snapshot=snapshot)
        assert [delete.pet_id for delete in plan.deletes] == [1]
        assert len(server.requests) == 1


@pytest.mark.parametrize("is_exported", [False, True])
def test_no_pet_of_a_status_that_failed_is_deleted(
    box: Sandbox, store: ps.Store, tmp_path: Path, is_exported: bool
) -> None:
    """A pet of a status whose query failed is never deleted as missing, and the plan names that
    status.
    """
    path = tmp_path / "pets.csv"
    kept = store.snapshot()
    ps.write_sheet(kept.frame.head(1), path, base=kept if is_exported else False)
    box.set_faults("html=1,status=sold")
    plan = store.plan(path, delete_missing=True, guard=NO_LIMITS)
    there = {pet.id for pet in SHOP if pet.status != "sold"}
    assert {delete.pet_id for delete in plan.deletes} == there - {1}
    assert plan.coverage.statuses == ("available", "pending")
    assert [each.query for each in plan.coverage.failed] == ["sold"]
    assert "sold" in repr(plan)


def test_a_name_that_only_pets_of_a_failed_status_may_have_is_not_sent_without_its_number(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """A category or tag name without an id that only pets of a failed status may have is a conflict
    until the service answers; other rows are planned.
    """
    first = min(SOLD)
    birds, shy = ps.Category(9, "Birds"), ps.Tag(77, "shy")
    box.put(ps.Pet(id=first, name="Tweety", status="sold", category=birds, tags=(shy,)))
    path = tmp_path / "pets.csv"
    path.write_text(
        "id,name,category,category_id,tags\n3,,Birds,,\n6,,,,shy\n9,Max,,,\n12,,Birds,9,\n", "utf-8"
    )
    box.set_faults("html=1,status=sold")
    plan = store.plan(path, guard=NO_LIMITS)
    assert [(each.pet_id, each.is_unanswered) for each in plan.conflicts] == [(3, True), (6, True)]
    assert "its pets of status sold" in plan.conflicts[0].problem
    assert [each.pet_id for each in plan.updates] == [9, 12]
    assert plan.updates[1].after.category == birds
    box.set_faults(None)
    plan = store.plan(path, guard=NO_LIMITS)
    assert [each.after.category for each in plan.updates if each.pet_id in (3, 12)] == [birds] * 2
    assert [each.after.tags for each in plan.updates if each.pet_id == 6] == [(shy,)]


def test_rows_about_pets_that_were_not_listed_are_looked_up(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """Rows of pets that a failed query left out are looked up and update their pets:
    none is added.
    """
    path = tmp_path / "pets.csv"
    ps.write_sheet(store.snapshot().frame.assign(name="renamed"), path)
    box.set_faults("html=1,status=sold")
    before = box.requests["getPetById"]
    plan = store.plan(path, guard=NO_LIMITS)
    assert not plan.adds
    assert {update.pet_id for update in plan.updates} == {pet.id for pet in SHOP}
    assert box.requests["getPetById"] - before == len(SOLD)


def test_a_narrowed_snapshot_is_not_exported(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """An incomplete snapshot is not exported, because missing rows may become deletes, unless the
    statuses are named or the table is exported without its snapshot.
    """
    box.set_faults("html=1,status=sold")
    snapshot = store.snapshot()
    path = tmp_path / "pets.csv"
    for wrong in ({}, {"base": False}):
        with pytest.raises(
            ps.errors.SheetError, match="the status sold would be missing"
        ) as caught:
            ps.write_sheet(snapshot, path, **wrong)
        assert "available, pending" in caught.value.hint
    with pytest.raises(ps.errors.SheetError):
        ps.write_sheet(snapshot.frame, path, base=snapshot)
    assert not path.exists()
    ps.write_sheet(store.snapshot(statuses=snapshot.coverage.statuses), path)
    base = ps.read_sheet(path).base
    assert base is not None
    assert base.statuses == ("available", "pending")


@given(texts, st.sampled_from([" ", "\t", "\xa0", ""]))
def test_a_status_is_covered_however_it_is_written(status: str, around: str) -> None:
    """Coverage compares statuses trimmed, without case, and in any normal form."""
    coverage = Coverage((status,), (FailedLookup("other", "why"),))
    for form in ("NFC", "NFD"):
        assert around + unicodedata.normalize(form, status) + around in coverage
    assert f"{around}{status}{around}x" not in coverage
    for nothing in (None, float("nan"), pd.NA, 7):
        assert nothing not in coverage


def test_case_is_no_difference() -> None:
    """Coverage ignores the case of a status."""
    assert "SOLD " in Coverage(("sold",))
    assert "sold" in Coverage(("Sold",))
    assert "other" not in Coverage(("sold",), (FailedLookup("other", "why"),))


@settings(max_examples=times(25))
@given(
    st.lists(any_pets(xml_texts), max_size=12, unique_by=lambda pet: pet.id),
    st.sampled_from([(0, 0), (0.5, 0.5), (0.3, 0.3), (0, 1), (1, 0)]),
    st.integers(0, 99),
    st.sets(st.sampled_from(STATUSES), max_size=2),
)
def test_a_snapshot_is_what_was_listed_each_pet_once(
    open_box: Sandbox,
    pets: list[ps.Pet],
    shares: tuple[float, float],
    seed: int,
    broken: set[str],
) -> None:
    """For any store and repeated or outdated list entries, a snapshot has each pet of an answered
    status once, as getPetById returns it.
    """
    open_box.set_faults(None)
    open_box.reset(pets)
    there = [pet for pet in open_box.pets() if pet.status in STATUSES]
    wanted = [pet for pet in there if pet.status not in broken]
    with connected(open_box) as store:
        open_box.set_faults(f"twice={shares[0]},stale={shares[1]},seed={seed}")
        snapshot = store.snapshot()
        assert ps.pets_from_frame(snapshot.frame) == there
        if broken:
            open_box.set_faults(f"html=1,status={'+'.join(broken)}")
            snapshot = store.snapshot()
            assert ps.pets_from_frame(snapshot.frame) == wanted
        assert set(snapshot.coverage.statuses) == set(STATUSES) - broken
        assert {each.query for each in snapshot.coverage.failed} == broken
