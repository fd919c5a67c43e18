"""Saved plans: applied once, refused after any change of a byte, and checked against the current
store.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import list_openings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import NO_LIMITS, MemoryTarget, error_at, long_plan, plan_of, sheet_saying
from test_engine import carry_out
from times import times
from triples import Triple, row_of, triples

import petsync as ps
from petsync.cli.run import is_sheet_plan
from petsync.errors import PetsyncError, PlanError, StalePlanError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.plan.change import LongChanges
from petsync.plan.plan import Plan
from petsync.plan.report import Report
from petsync.sandbox import Sandbox
from petsync.sheets.read import sheet_of as planned_sheet

SHY, OLD = Tag(1, "shy"), Tag(2, "old")
DOGS, CATS = Category(1, "Dogs"), Category(2, "Cats")
REX = Pet(id=1, name="Rex", status="available", category=DOGS, tags=(SHY,), photo_urls=("u",))
TOM = Pet(id=2, name="Tom", status="sold", category=CATS, tags=(OLD, SHY))
# Larger than any exact float, with room above for the ids of a run's adds.
FAR_ID = MAX_ID - 9
ADA = Pet(id=FAR_ID, name="Ada", status="sold", extra={"chip": "x"})
PETS = [REX, TOM, ADA]
READING = {"findPetsByStatus", "getPetById"}
SHEET = sheet_saying(
    {"id": 1, "name": "Max", "status": "sold", "category": "Cats", "tags": [Tag(None, "old")]},
    {"id": 2, "action": "delete"},
    {"id": FAR_ID, "name": "Zo\u00eb", "status": "sold"},
    {"name": "New \u2028 one", "status": "sold"},
    {"name": "No status"},
    {"id": 77, "action": "ignore"},
    blocked=(8,),
    problems=(error_at(8),),
)
PLAN = plan_of(PETS, SHEET)
BODY = PLAN.to_json()


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as sandbox:
        yield sandbox


@pytest.fixture
def box(_open_box: Sandbox) -> Sandbox:
    """Return a running sandbox with three pets."""
    _open_box.reset(PETS)
    return _open_box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store that is connected to the sandbox, with its own state folder."""
    with ps.connect(box.url, state=tmp_path / "state") as store:
        yield store


Long = Callable[[Plan], Plan]
"""Saves a plan in Parquet, and loads it."""


@pytest.fixture
def long(tmp_path: Path) -> Long:
    """Return a function that returns a plan with `LongChanges`."""
    return lambda plan: long_plan(plan, tmp_path / "long.parquet")


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_plan_replaces_only_plans(tmp_path: Path, ending: str) -> None:
    """Saving a plan over another file, such as an export, is an error, and the file stays."""
    path = tmp_path / f"pets.{ending}"
    ps.write_sheet(pd.DataFrame({"id": [1], "name": ["Rex"]}), path)
    before = path.read_bytes()
    with pytest.raises(PlanError, match="is not a plan: it would be overwritten"):
        PLAN.save(path)
    assert path.read_bytes() == before
    path.write_bytes(b"")
    for _ in range(2):
        assert PLAN.save(path) == path


def saved(store: ps.Store, folder: Path) -> Path:
    """Save the plan of the sheet above, and return its file."""
    path = folder / "plan.json"
    store.plan(SHEET, guard=NO_LIMITS).save(path)
    return path


class TestUsedOnce:
    """A plan is applied only once."""

    def test_the_second_time_nothing_is_sent(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """A plan that was applied is refused before any request, with exit code 5."""
        path = saved(store, tmp_path)
        report = store.apply(Plan.load(path))
        assert report.counts["applied"] == 4
        before, requests = box.pets(), box.requests
        with pytest.raises(StalePlanError, match=report.run_id) as caught:
            store.apply(Plan.load(path))
        assert caught.value.exit_code == 5
        assert (box.pets(), box.requests) == (before, requests)

    def test_another_process_with_the_same_state_knows_it(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """The state folder records that a plan was applied, so another process refuses the plan
        too.
        """
        path = saved(store, tmp_path)
        store.apply(Plan.load(path))
        requests = box.requests
        with ps.connect(box.url, state=tmp_path / "state") as other, pytest.raises(StalePlanError):
            other.apply(Plan.load(path))
        assert box.requests == requests

    def test_a_run_that_could_send_nothing_uses_it_up(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """A plan counts as used from the start of its run, because the effect of its requests is
        uncertain.
        """
        path = saved(store, tmp_path)
        box.set_faults("status=400,only=updatePet")
        store.apply(Plan.load(path))
        box.set_faults(None)
        with pytest.raises(StalePlanError):
            store.apply(Plan.load(path))

    def test_without_that_state_nothing_is_done_twice(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """With another state folder the plan runs again and finds every change already made."""
        path = saved(store, tmp_path)
        store.apply(Plan.load(path))
        before = box.pets()
        with ps.connect(box.url, state=tmp_path / "elsewhere") as other:
            report = other.apply(Plan.load(path))
        assert report.counts["applied"] == 0
        assert box.pets() == before

    def test_two_parts_of_one_plan_are_two_plans(self, store: ps.Store, box: Sandbox) -> None:
        """Each of two parts of a plan is applied once, and together they make all its changes."""
        plan = store.plan(SHEET, guard=NO_LIMITS)
        parts = [plan.select(actions="update"), plan.select(actions=["add", "delete"])]
        assert [store.apply(part).counts["applied"] for part in parts] == [2, 2]
        for part in parts:
            with pytest.raises(StalePlanError):
                store.apply(part)
        assert store.plan(SHEET, guard=NO_LIMITS).changes == ()


class TestTampering:
    """A plan file with any change is refused."""

    def test_every_byte(self) -> None:
        """A plan file with one byte changed at any place is refused, also between tokens."""
        chance = random.Random(4)
        for place, old in enumerate(BODY):
            others = {old ^ 1, old ^ 32, chance.randrange(256), ord(chance.choice('",:0 \n}'))}
            for new in others - {old}:
                self.is_refused(BODY[:place] + bytes([new]) + BODY[place + 1 :])

    @pytest.mark.parametrize("seed", range(times(3)))
    def test_bytes_put_in_and_taken_out(self, seed: int) -> None:
        """A plan file with bytes inserted, removed or replaced is refused."""
        chance = random.Random(seed)
        for _ in range(1000):
            place, length = chance.randrange(len(BODY)), chance.choice([0, 1, 1, 2, 40])
            new = chance.choice([b"", b" ", b"\n", b"0", b'"', b"{}", chance.randbytes(3)])
            changed = BODY[:place] + new + BODY[place + length :]
            if changed != BODY:
                self.is_refused(changed)

    @pytest.mark.slow
    def test_every_byte_of_parquet(self, tmp_path: Path) -> None:
        """A plan in Parquet with one byte changed is refused, or is still the same plan: no program
        needs each byte of the format.
        """
        path = tmp_path / "plan.parquet"
        long_plan(PLAN, path)
        body, refused = path.read_bytes(), 0
        for place in range(0, len(body), 7):
            path.write_bytes(body[:place] + bytes([body[place] ^ 0x41]) + body[place + 1 :])
            try:
                assert Plan.load(path) == PLAN
            except PlanError:
                refused += 1
        assert refused > len(body) / 28
        path.write_bytes(body[: len(body) // 2])
        with pytest.raises(PlanError, match=r"plan\.parquet"):
            Plan.load(path)

    def test_another_plan_in_parquet(self, tmp_path: Path) -> None:
        """A plan in Parquet whose rows or values were replaced is refused, and so is a table."""
        path = tmp_path / "plan.parquet"
        PLAN.save(path)
        table, name = pq.read_table(path), r"plan\.parquet"
        text = pa.array([each.replace("Max", "Moritz") for each in table["json"].to_pylist()])
        for other in (
            table.slice(1),
            table.set_column(6, "json", text.cast(pa.large_string())),
            table.drop_columns(["name"]),
            table.replace_schema_metadata(None),
        ):
            with pq.ParquetWriter(path, other.schema) as writer:
                for start in range(len(other)):
                    writer.write_table(other.slice(start, 1))
            with pytest.raises(PlanError, match=name):
                Plan.load(path)

    def test_a_part_of_the_file(self) -> None:
        """A truncated plan file is refused."""
        for length in range(0, len(BODY.rstrip()), 7):
            with pytest.raises(PlanError):
                Plan.from_json(BODY[:length])

    @pytest.mark.parametrize(
        "changed",
        [
            {"store": "http://127.0.0.1:2/v2"},
            {"changes": PLAN.changes[:1]},
            {"changes": tuple(reversed(PLAN.changes))},
            {"conflicts": ()},
            {"blocked": ()},
            {"created": "2026-11-21T00:00:00+00:00"},
            {"raw_notes": ("another",)},
            {"rows": 99},
            {"guard": replace(NO_LIMITS, allow_empty=False)},
        ],
        ids=lambda changed: next(iter(changed)),
    )
    def test_every_part_is_covered_by_the_fingerprint(self, changed: dict[str, Any]) -> None:
        """A changed plan that has the old fingerprint is refused, and the error names the file and
        the reason.
        """
        other = replace(PLAN, **changed)
        assert other.fingerprint != PLAN.fingerprint
        body = other.to_json().replace(other.fingerprint.encode(), PLAN.fingerprint.encode())
        with pytest.raises(PlanError, match="changed after it was made") as caught:
            Plan.from_json(body, "p.json")
        assert "p.json" in str(caught.value)
        assert caught.value.hint

    def test_a_second_plan_in_the_same_file(self) -> None:
        """A file with two plans yields the plan of the fingerprint or an error, whichever of the
        two is read.
        """
        other = replace(PLAN, changes=PLAN.changes[:1])
        both = b'{"plan":%s,%s' % (msgspec.json.encode(other), BODY.lstrip()[1:])
        self.is_refused(both)
        swapped = BODY.rstrip()[:-1] + b',"plan":%s}' % msgspec.json.encode(other)
        with pytest.raises(PlanError):
            Plan.from_json(swapped)

    def is_refused(self, body: bytes) -> None:
        """Require a PlanError that names the file."""
        with pytest.raises(PlanError, match=r"p\.json"):
            Plan.from_json(body, "p.json")

    @pytest.mark.parametrize(
        "body",
        [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"fingerprint": 1, "plan": {}}', b"[" * 10**5],
        ids=["empty", "null", "list", "object", "no text", "wrong types", "deep"],
    )
    def test_what_is_no_plan(self, body: bytes, tmp_path: Path) -> None:
        """A file that holds no plan raises a PlanError that names the file."""
        path = tmp_path / "plan.json"
        path.write_bytes(body)
        with pytest.raises(PlanError, match=r"plan\.json"):
            Plan.load(path)

    @pytest.mark.parametrize("number", [0, 1, 2, 3, 99])
    def test_another_format(self, number: int) -> None:
        """A plan of an older or newer petsync is refused, and the error names its format."""
        with pytest.raises(PlanError, match=rf"format {number}"):
            Plan.from_json(replace(PLAN, format=number).to_json())

    def test_no_file_and_no_place(self, tmp_path: Path) -> None:
        """Loading a missing file or saving to an impossible path raises a PlanError."""
        with pytest.raises(PlanError, match="missing"):
            Plan.load(tmp_path / "missing.json")
        with pytest.raises(PlanError, match="nowhere"):
            PLAN.save(tmp_path / "nowhere" / "plan.json")
        with pytest.raises(PlanError):
            PLAN.save(tmp_path)

    def test_a_file_that_changes_sends_nothing_else(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """If the file of a loaded plan gets another content, the plan is refused, and nothing is
        sent; after the run has begun, the plan's own changes are sent.
        """
        pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 41)]
        box.reset(pets)
        sheet = sheet_saying(*({"id": n, "name": f"new {n}"} for n in range(1, 41)))
        path = tmp_path / "plan.parquet"
        loaded = long_plan(store.plan(sheet, guard=NO_LIMITS), path)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(PlanError):
            store.apply(loaded)
        assert box.pets() == pets
        assert not store.aio.history.runs()
        path.write_bytes(content)
        report = store.apply(
            Plan.load(path), on_progress=lambda _: path.write_bytes(b"PAR1") and None, concurrency=1
        )
        assert report.counts["applied"] == 40
        assert [pet.name for pet in box.pets()] == [f"new {n}" for n in range(1, 41)]


class TestFile:
    """A plan file on disk: its mode and its contents."""

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_its_owner_alone_reads_it(self, umask: int, tmp_path: Path) -> None:
        """A saved plan has mode 0600 with any umask, even where it replaces a plan that everybody
        can read.
        """
        path = tmp_path / "plan.json"
        path.write_bytes(BODY)
        path.chmod(0o644)
        before = os.umask(umask)
        try:
            assert PLAN.save(path) == path
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [*tmp_path.iterdir()] == [path]

    def test_it_gives_the_plan_back(self, tmp_path: Path) -> None:
        """A loaded plan equals the saved plan, with large ids and unusual characters, by path or by
        text.
        """
        path = tmp_path / "plan.json"
        for place in (path, str(path)):
            PLAN.save(place)
            read = Plan.load(place)
            assert read == PLAN
            assert read.fingerprint == PLAN.fingerprint
            assert path.read_bytes() == BODY

    @pytest.mark.parametrize("suffix", [".parquet", ".PARQUET"])
    def test_parquet_gives_the_plan_back(self, suffix: str, long: Long, tmp_path: Path) -> None:
        """A plan in Parquet equals the saved plan, has its fingerprint and its JSON, and can be
        saved again; only its owner can read the file.
        """
        path, again = tmp_path / f"plan{suffix}", tmp_path / "again.parquet"
        assert PLAN.save(path) == path
        read = Plan.load(path)
        assert isinstance(read.changes, LongChanges)
        assert (read, long(PLAN)) == (PLAN, PLAN)
        assert {PLAN, read} == {PLAN}
        assert (read.fingerprint, hash(read)) == (PLAN.fingerprint, hash(PLAN))
        assert (read.to_json(), repr(read), read.summary()) == (BODY, repr(PLAN), PLAN.summary())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()  # The open file stays readable.
        read.save(again)
        assert Plan.load(again) == PLAN
        part = read.select(actions="update")
        assert part == PLAN.select(actions="update")
        assert replace(read, created="2026-11-21T00:00:00+00:00").fingerprint != PLAN.fingerprint

    def test_parquet_has_a_row_for_each_change(self, tmp_path: Path) -> None:
        """Other programs find the kind, the pet and the row of each change, conflict and blocked
        row, and all of it as JSON.
        """
        PLAN.save(tmp_path / "plan.parquet")
        table = pq.read_table(tmp_path / "plan.parquet")
        kinds = [*(c.kind for c in PLAN.changes), *["conflict"] * len(PLAN.conflicts), "blocked"]
        assert table["kind"].to_pylist() == kinds
        rows = (*PLAN.changes, *PLAN.conflicts, *PLAN.blocked)
        assert table["id"].to_pylist() == [each.pet_id for each in rows]
        assert table["row"].to_pylist() == [each.row for each in rows]
        first = msgspec.json.decode(table["json"][0].as_py())
        assert (first["kind"], first["after"]["name"]) == ("add", table["name"][0].as_py())

    def test_changes_are_read_by_their_position(self, long: Long) -> None:
        """Changes of a long plan have positions, slices and an order, as those of any plan."""
        changes, expected = long(PLAN).changes, PLAN.changes
        size = len(expected)
        assert len(changes) == size > 3
        assert [changes[n] for n in range(-size, size)] == [*expected, *expected]
        assert changes[1:3] == expected[1:3]
        assert (changes[::-1], changes[5:]) == (expected[::-1], expected[5:])
        assert [*changes] == [*expected]
        assert changes != expected[1:]
        assert changes != "changes"
        for place in (size, -size - 1):
            with pytest.raises(IndexError):
                changes[place]

    def test_plans_are_equal_that_say_the_same(self) -> None:
        """Plans are compared by value, and a plan that differs in one field is not equal."""
        assert plan_of(PETS, SHEET) == PLAN
        assert plan_of([REX, TOM], SHEET) != PLAN
        assert replace(PLAN, created="2026-11-21T00:00:00+00:00") != PLAN
        assert PLAN.select() == PLAN
        assert PLAN != "a plan"


def drifting() -> tuple[list[Pet], Any, dict[int, Pet | None]]:
    """Return a store of 300 pets, a sheet with 330 changes, and the 30 pets that changed after the
    plan, with None for a deleted pet.
    """
    pets = [
        Pet(id=n, name=f"p{n}", status="sold", tags=(SHY,), photo_urls=(f"u{n}",), extra={"n": n})
        for n in range(1, 301)
    ]
    rows: list[dict[str, Any]] = [{"id": n, "name": f"new {n}"} for n in range(1, 101)]
    rows += [{"id": n, "tags": [OLD], "status": "pending"} for n in range(101, 201)]
    rows += [{"id": n, "action": "delete"} for n in range(201, 301)]
    rows += [{"id": n, "name": "added", "status": "sold"} for n in range(501, 531)]
    drift: dict[int, Pet | None] = {}
    drift |= {n: replace(pets[n - 1], name="theirs") for n in range(3, 100, 11)}
    drift |= {n: replace(pets[n - 1], tags=(SHY, Tag(9, "t"))) for n in range(105, 200, 19)}
    drift |= {n: replace(pets[n - 1], photo_urls=()) for n in range(205, 300, 12)}
    drift |= {4: None, 5: None, 104: None}
    drift |= {n: Pet(id=n, name="theirs", status="sold") for n in range(501, 531, 7)}
    return pets, sheet_saying(*rows), drift


def test_what_drifted_is_set_aside_and_the_rest_is_applied(tmp_path: Path) -> None:
    """Of 330 changes, the 30 whose pets changed after the plan are conflicts and send nothing; all
    others are applied.
    """
    pets, sheet, drift = drifting()
    assert len(drift) == 30
    plan = Plan.from_json(plan_of(pets, sheet).to_json())
    assert len(plan.changes) == 330
    target = MemoryTarget(pets)
    for n, pet in drift.items():
        target.pets.pop(n, None) if pet is None else target.pets.update({n: pet})
    moved = {n: replace(pets[n - 1], photo_urls=("new",)) for n in (1, 2, 110)}
    target.pets.update(moved)
    report = carry_out(plan, target, tmp_path)
    quarantined = {r.pet_id for r in report.results if r.outcome == "conflict"}
    assert quarantined == set(drift)
    assert {name: n for name, n in report.counts.items() if n} == {"applied": 300, "conflict": 30}
    assert report.exit_code == 5
    wanted = {pet.id: pet for pet in pets} | moved
    for change in plan.changes:
        if change.pet_id in drift:
            continue
        if change.after is None:
            del wanted[change.pet_id]
        else:
            now = wanted.get(change.pet_id, change.after)
            new = {"name": change.after.name, "status": change.after.status}
            wanted[change.pet_id] = replace(now, tags=change.after.tags, **new)
    wanted |= {n: pet for n, pet in drift.items() if pet is not None}
    assert target.pets == {n: p for n, p in wanted.items() if n not in drift or drift[n or 0]}
    for result in report.results:
        assert (result.outcome == "conflict") == bool(result.message)


class TestSelect:
    """`Plan.select` returns a part of a plan as a plan."""

    update = PLAN.updates[0]

    def test_by_id(self) -> None:
        """Ids select these pets' changes in the plan's order; an unknown id selects nothing."""
        assert PLAN.select(ids=[1]).changes == (self.update,)
        assert PLAN.select(ids={2, FAR_ID}).changes == tuple(
            change for change in PLAN.changes if change.pet_id in (2, FAR_ID)
        )
        assert PLAN.select(ids=[12345]).changes == ()
        assert PLAN.select(ids=[]).changes == ()

    def test_by_action(self) -> None:
        """Changes are selected by one action or by several."""
        assert PLAN.select(actions="add").changes == PLAN.adds
        assert PLAN.select(actions=["delete", "update"]).changes == (*PLAN.updates, *PLAN.deletes)

    def test_by_field(self) -> None:
        """A selected update changes only the named fields; adds and deletes are never selected by
        field.
        """
        (part,) = PLAN.select(fields=["name", "tags"]).changes[:1]
        assert part.fields == ("name", "tags")
        assert part.before == REX
        assert part.after == replace(REX, name="Max", tags=self.update.after.tags)
        assert {change.kind for change in PLAN.select(fields="name").changes} == {"update"}
        assert PLAN.select(fields="photo_urls").changes == ()

    @pytest.mark.parametrize("field", ["category", "category_id"])
    def test_a_category_stays_whole(self, field: str) -> None:
        """A category is selected whole by its name or its id, because half of it is a different
        category.
        """
        (part,) = PLAN.select(fields=field).changes
        assert part.fields == ("category", "category_id")
        assert part.after == replace(REX, category=CATS)
        assert PLAN.select(query=f"column == '{field}'").changes == (part,)

    def test_by_query(self) -> None:
        """A query selects by the rows of to_frame()."""
        assert PLAN.select(query="kind == 'delete'").changes == PLAN.deletes
        assert PLAN.select(query=f"id == {FAR_ID}").changes == PLAN.select(ids=[FAR_ID]).changes
        (part,) = PLAN.select(query="column == 'status' and after == 'sold' and id == 1").changes
        assert part.after == replace(REX, status="sold")
        assert PLAN.select(query="name.str.contains('New')").changes == PLAN.adds
        assert PLAN.select(query="id.isna()").changes == PLAN.adds
        for query in ("name.str.lower().str.startswith('new')", "not id.notna()", "~(id.notna())"):
            assert PLAN.select(query=query).changes == PLAN.adds, query
        few = PLAN.select(query="(id in [1, 2]) & column.isin(['name']) | kind == 'nothing'")
        assert few.changes == PLAN.select(ids=[1, 2], fields="name").changes
        assert PLAN.select(query="kind == 'nothing'").changes == ()

    @pytest.mark.parametrize(
        ("query", "ids"),
        [("name.str.contains('x')", [1, 4]), ("not name.str.contains('x')", [2, 3]),
         ("name.str.startswith('Rex') | name.isna()", [1, 3, 4]),
         ("~name.str.endswith('x')", [2, 3, 4]),
         ("name.str.match('T|R')", [1, 2, 4]), ("name.str.match(pat='o|R')", [1, 4]),
         ("name.str.fullmatch('Rex|Tom')", [1, 2]), ("name.str.fullmatch('x|Re', False)", []),
         ("name.str.fullmatch('(?i)rex')", [1]), ("name.str.match('(?i)T|r')", [1, 2, 4]),
         ("name.str.contains('x', na=True)", [1, 3, 4]), ("name.str.startswith('T', True)", [2, 3]),
         ("name.str.contains('X', False, 0, True)", [1, 3, 4]), ("name != 'Tom'", [1, 3, 4])],
    )  # fmt: skip
    def test_a_query_reads_texts_the_same_with_each_pandas(
        self, query: str, ids: list[int]
    ) -> None:
        """A pet without a name matches no text, and alternatives match as a whole."""
        pets = [Pet(id=n, name=name) for n, name in enumerate(("Rex", "Tom", None, "Rexy"), 1)]
        plan = plan_of(pets, sheet_saying(*({"id": pet.id, "status": "sold"} for pet in pets)))
        assert [each.pet_id for each in plan.select(query=query).changes] == ids

    def test_all_that_is_asked_must_hold(self) -> None:
        """Several filters must all match."""
        part = PLAN.select(ids=[1, 2], actions="update", fields=["name", "status"])
        assert [change.fields for change in part.changes] == [("name", "status")]
        again = part.select(query="column == 'name'")
        assert [change.fields for change in again.changes] == [("name",)]
        assert PLAN.select(ids=[2], actions="update").changes == ()

    @pytest.mark.parametrize(
        "query",
        ["", " ", "nonsense", "id ==", "id + 1", "name", "1", "True", "price > 3", "@os", "x = 1",
         "kind = 'add'", "id > 'a'", "import os", "'", "kind == 'add'\nkind == 'update'", 3],
    )  # fmt: skip
    def test_a_query_that_cannot_be_answered(self, query: str) -> None:
        """An invalid query raises a PlanError whose hint names the columns."""
        with pytest.raises(PlanError) as caught:
            PLAN.select(query=query)
        assert "column" in caught.value.hint

    @pytest.mark.parametrize(
        "query",
        ["@pd.io.common.os.getpid() > 0 or id > 0", "kind == kind or @pd.DataFrame", "place >= 0",
         "index >= 0", "id > 0 and name.to_csv('{}') != 1", "name.to_pickle('{}') or id > 0",
         "kind.apply('to_csv', path_or_buf='{}') != 1 or id > 0", "abs(id) > 0", "id.values > 0",
         "`id` > 0", "name == name.str._orig", "name == f'{{id}}'", "(lambda: id)() > 0",
         "[each for each in id] == 1", "name[0] == name", "2 ** 2 ** id > 0"],
    )  # fmt: skip
    def test_a_query_reaches_nothing_but_the_columns(self, query: str, tmp_path: Path) -> None:
        """A query neither reads names of petsync nor calls a function that has an effect."""
        with pytest.raises(PlanError, match="cannot be evaluated"):
            PLAN.select(query=query.format(tmp_path / "written"))
        assert not [*tmp_path.iterdir()]

    @pytest.mark.parametrize(
        "wrong",
        [{"actions": "remove"}, {"actions": [""]}, {"fields": "nam"}, {"fields": ["name", "id"]}],
        ids=str,
    )
    def test_what_cannot_be_selected_by(self, wrong: dict[str, Any]) -> None:
        """An unknown action or field raises a PlanError whose hint names the valid values."""
        with pytest.raises(PlanError) as caught:
            PLAN.select(**wrong)
        assert "name" in caught.value.hint or "update" in caught.value.hint

    @pytest.mark.parametrize(
        "wrong",
        [{"ids": 1.5}, {"ids": "1"}, {"query": 1}, {"actions": 1}, {"numbers": "a"},
         {"numbers": ["a"]}, {"numbers": 1.5}, {"numbers": [True]}],
        ids=str,
    )  # fmt: skip
    def test_arguments_of_another_type(self, wrong: dict[str, Any]) -> None:
        """A filter of a wrong type raises a PetsyncError and never selects by chance."""
        with pytest.raises(PetsyncError):
            PLAN.select(**wrong)

    def test_what_no_change_has_is_noted(self) -> None:
        """A selected id or position that the plan does not have is named in a note; the end of a
        range is not.
        """
        assert PLAN.select(numbers=0).changes == PLAN.changes[:1]
        assert PLAN.select(numbers=iter([0, 99])).notes[-1].endswith("in the plan: 99.")
        assert PLAN.select(ids=99).notes[-1].endswith("in the plan: 99.")
        assert PLAN.select(numbers=range(99)).notes == PLAN.notes

    def test_what_is_left_out_is_counted(self) -> None:
        """A part of a plan is not in sync and counts the rows whose changes it leaves out."""
        part = PLAN.select(actions="add")
        assert part.left_out == len(PLAN.changes) - 1
        assert part.summary().left_out == 3
        assert not part.in_sync
        assert part.select(ids=[]).left_out == 4
        nothing = PLAN.select(ids=[])
        assert not replace(nothing, conflicts=(), blocked=()).in_sync
        assert (part.conflicts, part.blocked) == (PLAN.conflicts, PLAN.blocked)
        assert part.fingerprint != PLAN.fingerprint
        assert Plan.from_json(part.to_json()) == part

    def test_a_clash_whose_field_is_left_out_is_open_again(self) -> None:
        """A conflict that the sheet wins is open again where its field is left out, because the
        store's value is kept.
        """
        line = row_of(REX) | {"name": "Max", "status": "sold"}
        now = replace(REX, name="Bello")
        triple = Triple(base={1: REX}, lines={2: line}, listed={1: now}, on_conflict="sheet")
        plan = triple.plan()
        assert plan.open_conflicts == ()
        assert plan.select(fields="name").open_conflicts == ()
        assert [each.pet_id for each in plan.select(fields="status").open_conflicts] == [1]
        assert [each.pet_id for each in plan.select(ids=[]).open_conflicts] == [1]


def test_a_summary_counts_what_the_plan_holds() -> None:
    """A summary counts changes by kind, changed fields, and rows without a change."""
    summary = PLAN.summary()
    assert (summary.adds, summary.updates, summary.deletes) == (1, 2, 1)
    assert summary.fields == {
        "name": 2, "status": 1, "category": 1, "category_id": 1, "tags": 1
    }  # fmt: skip
    assert (summary.conflicts, summary.open_conflicts) == (1, 1)
    assert (summary.blocked, summary.ignored, summary.unchanged) == (1, 1, 0)
    assert (summary.rows, summary.pets, summary.ok, summary.left_out) == (7, 3, True, 0)
    assert sum(PLAN.select(fields="name").summary().fields.values()) == 2


@settings(max_examples=times(25), suppress_health_check=[HealthCheck.too_slow])
@given(triples(), st.data())
def test_every_row_of_a_part_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, triple: Triple, data: st.DataObject
) -> None:
    """Each row and each missing pet has exactly one outcome, also where the part leaves it out."""
    plan = triple.plan()
    without_row = sum(each.row is None for each in (*plan.changes, *plan.conflicts))
    ids = st.sets(st.sampled_from([1, 2, 3, 4, 8, 9]))
    part = data.draw(
        st.one_of(
            st.just(plan),
            ids.map(lambda chosen: plan.select(ids=chosen)),
            st.sampled_from(["add", "update", "delete"]).map(lambda a: plan.select(actions=a)),
            st.sampled_from(["name", "category", "tags"]).map(lambda f: plan.select(fields=f)),
            st.just("column != 'status'").map(lambda q: plan.select(query=q)),
        )
    )
    target = MemoryTarget([*triple.listed.values(), *triple.elsewhere.values()])
    report: Report = carry_out(part, target, tmp_path_factory.mktemp("state"))
    assert sum(report.counts.values()) == plan.rows + without_row
    applied = sum(result.outcome == "applied" for result in report.results)
    # An add is a conflict if a pet that the plan does not list has its name, too.
    names = {pet.name for pet in triple.elsewhere.values()}
    unsure = sum(change.kind == "add" and change.after.name in names for change in part.changes)
    assert len(part.changes) - unsure <= applied <= len(part.changes)


def test_a_pipe_or_a_device_is_read_for_no_plan(tmp_path: Path) -> None:
    """A pipe or a device is never read, as a plan or as the sheet of a plan, because the read might
    not end.
    """
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for source in (pipe, Path("/dev/zero")):
        with pytest.raises(PlanError, match="not a regular file"):
            ps.load_plan(source)
        named = replace(PLAN, source=str(source), source_digest="0" * 64)
        assert planned_sheet(named) is None
        assert not is_sheet_plan(source)


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
def test_a_plan_deletes_no_pet_that_its_sheet_names_again(tmp_path: Path, name: str) -> None:
    """A plan deletes pets because no row named them. If the sheet names one of them again before
    the plan is applied, nothing is sent, and the error names the pet; another edit of the sheet
    does not matter.
    """
    pets = [Pet(id=n, name=f"Pet {n}", status="sold") for n in range(1, 9)]
    sheet, saved = tmp_path / name, tmp_path / "plan.json"
    with (
        Sandbox(pets=pets, auth=False) as box,
        ps.connect(box.url, auth=ps.auth.none(), state=tmp_path / "state") as store,
    ):
        ps.write_sheet(ps.frame_from_pets(pets[:6]), sheet, base=False)
        store.plan(sheet, delete_missing=True, max_delete=2).save(saved)
        ps.write_sheet(ps.frame_from_pets(pets[:7]), sheet, base=False)
        plan = ps.load_plan(saved)

        def check() -> None:
            with pytest.raises(StalePlanError):
                store.check(plan)

        assert list_openings(check, tmp_path) == [name]
        with pytest.raises(StalePlanError, match=r"deletes pet 7 \(Pet 7\), which has a row again"):
            store.apply(plan, progress=False)
        assert box.pets() == pets
        ps.write_sheet(ps.frame_from_pets(pets[:5]), sheet, base=False)
        store.apply(plan, progress=False)
        assert box.pets() == pets[:6]
