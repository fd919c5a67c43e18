"""Plans as files: used once, refused where a byte was changed, and true to the store of today."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import NO_LIMITS, MemoryTarget, error_at, plan_of, sheet_saying
from test_engine import carry_out
from triples import Triple, row_of, triples

import petsync as ps
from petsync.cli.run import is_sheet_plan
from petsync.errors import PetsyncError, PlanError, StalePlanError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.plan.plan import Plan
from petsync.plan.report import Report
from petsync.sandbox import Sandbox
from petsync.sheets.read import sheet_of as planned_sheet

SHY, OLD = Tag(1, "shy"), Tag(2, "old")
DOGS, CATS = Category(1, "Dogs"), Category(2, "Cats")
REX = Pet(id=1, name="Rex", status="available", category=DOGS, tags=(SHY,), photo_urls=("u",))
TOM = Pet(id=2, name="Tom", status="sold", category=CATS, tags=(OLD, SHY))
# Far beyond what a float can hold exactly, with room for the adds of a run above it.
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
    """A store of three pets."""
    _open_box.reset(PETS)
    return _open_box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """A store connected to it, with a state folder of its own."""
    with ps.connect(box.url, state=tmp_path / "state") as store:
        yield store


def saved(store: ps.Store, folder: Path) -> Path:
    """The file of the plan for the sheet above."""
    path = folder / "plan.json"
    store.plan(SHEET, guard=NO_LIMITS).save(path)
    return path


class TestUsedOnce:
    """A plan is carried out one time."""

    def test_the_second_time_nothing_is_sent(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """Not even a question: it is refused before any request, with exit code 5."""
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
        """That a plan was used is on disk."""
        path = saved(store, tmp_path)
        store.apply(Plan.load(path))
        requests = box.requests
        with ps.connect(box.url, state=tmp_path / "state") as other, pytest.raises(StalePlanError):
            other.apply(Plan.load(path))
        assert box.requests == requests

    def test_a_run_that_could_send_nothing_uses_it_up(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """From the moment at which it begins nobody can be sure of it any more."""
        path = saved(store, tmp_path)
        box.break_with("status=400,only=updatePet")
        store.apply(Plan.load(path))
        box.break_with(None)
        with pytest.raises(StalePlanError):
            store.apply(Plan.load(path))

    def test_without_that_state_nothing_is_done_twice(
        self, store: ps.Store, box: Sandbox, tmp_path: Path
    ) -> None:
        """Elsewhere it runs again, and finds everything done."""
        path = saved(store, tmp_path)
        store.apply(Plan.load(path))
        before = box.pets()
        with ps.connect(box.url, state=tmp_path / "elsewhere") as other:
            report = other.apply(Plan.load(path))
        assert report.counts["applied"] == 0
        assert box.pets() == before

    def test_two_parts_of_one_plan_are_two_plans(self, store: ps.Store, box: Sandbox) -> None:
        """Each is used once, and together they are the whole."""
        plan = store.plan(SHEET, guard=NO_LIMITS)
        parts = [plan.select(actions="update"), plan.select(actions=["add", "delete"])]
        assert [store.apply(part).counts["applied"] for part in parts] == [2, 2]
        for part in parts:
            with pytest.raises(StalePlanError):
                store.apply(part)
        assert store.plan(SHEET, guard=NO_LIMITS).changes == ()


class TestTampering:
    """A file in which anything was changed is refused."""

    def test_every_byte(self) -> None:
        """Whatever byte is put into whatever place, blanks between tokens too."""
        chance = random.Random(4)
        for place, old in enumerate(BODY):
            others = {old ^ 1, old ^ 32, chance.randrange(256), ord(chance.choice('",:0 \n}'))}
            for new in others - {old}:
                self.is_refused(BODY[:place] + bytes([new]) + BODY[place + 1 :])

    @pytest.mark.parametrize("seed", range(3))
    def test_bytes_put_in_and_taken_out(self, seed: int) -> None:
        """Also where the file became longer or shorter."""
        chance = random.Random(seed)
        for _ in range(1000):
            place, length = chance.randrange(len(BODY)), chance.choice([0, 1, 1, 2, 40])
            new = chance.choice([b"", b" ", b"\n", b"0", b'"', b"{}", chance.randbytes(3)])
            changed = BODY[:place] + new + BODY[place + length :]
            if changed != BODY:
                self.is_refused(changed)

    def test_a_part_of_the_file(self) -> None:
        """A copy that was broken off."""
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
            {"notes": ("another",)},
            {"rows": 99},
            {"guard": replace(NO_LIMITS, allow_empty=False)},
        ],
        ids=lambda changed: next(iter(changed)),
    )
    def test_every_part_is_covered_by_the_fingerprint(self, changed: dict[str, Any]) -> None:
        """With the old fingerprint another plan is refused, and what is wrong is said."""
        other = replace(PLAN, **changed)
        assert other.fingerprint != PLAN.fingerprint
        body = other.to_json().replace(other.fingerprint.encode(), PLAN.fingerprint.encode())
        with pytest.raises(PlanError, match="changed after it was made") as caught:
            Plan.from_json(body, "p.json")
        assert "p.json" in str(caught.value)
        assert caught.value.hint

    def test_a_second_plan_in_the_same_file(self) -> None:
        """Whichever of two counts, it is the one of the fingerprint or none."""
        other = replace(PLAN, changes=PLAN.changes[:1])
        both = b'{"plan":%s,%s' % (msgspec.json.encode(other), BODY.lstrip()[1:])
        self.is_refused(both)
        swapped = BODY.rstrip()[:-1] + b',"plan":%s}' % msgspec.json.encode(other)
        with pytest.raises(PlanError):
            Plan.from_json(swapped)

    def is_refused(self, body: bytes) -> None:
        """The file is no plan, or not the one that was made, and the error names it."""
        with pytest.raises(PlanError, match=r"p\.json"):
            Plan.from_json(body, "p.json")

    @pytest.mark.parametrize(
        "body",
        [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"fingerprint": 1, "plan": {}}', b"[" * 10**5],
        ids=["empty", "null", "list", "object", "no text", "wrong types", "deep"],
    )
    def test_what_is_no_plan(self, body: bytes, tmp_path: Path) -> None:
        """A typed error that names the file."""
        path = tmp_path / "plan.json"
        path.write_bytes(body)
        with pytest.raises(PlanError, match=r"plan\.json"):
            Plan.load(path)

    @pytest.mark.parametrize("number", [0, 1, 2, 3, 99])
    def test_another_format(self, number: int) -> None:
        """An older or newer petsync's plan is refused, and its number named."""
        with pytest.raises(PlanError, match=rf"format {number}"):
            Plan.from_json(replace(PLAN, format=number).to_json())

    def test_no_file_and_no_place(self, tmp_path: Path) -> None:
        """A typed error in either direction."""
        with pytest.raises(PlanError, match="missing"):
            Plan.load(tmp_path / "missing.json")
        with pytest.raises(PlanError, match="nowhere"):
            PLAN.save(tmp_path / "nowhere" / "plan.json")
        with pytest.raises(PlanError):
            PLAN.save(tmp_path)


class TestFile:
    """What lies on the disk."""

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_its_owner_alone_reads_it(self, umask: int, tmp_path: Path) -> None:
        """Mode 0600 whatever the process's mask, and in the place of a file that all could read."""
        path = tmp_path / "plan.json"
        path.write_text("open to all")
        path.chmod(0o644)
        before = os.umask(umask)
        try:
            assert PLAN.save(path) == path
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [*tmp_path.iterdir()] == [path]

    def test_it_gives_the_plan_back(self, tmp_path: Path) -> None:
        """To the last bit of an id and every odd character; by a path or its text."""
        path = tmp_path / "plan.json"
        for place in (path, str(path)):
            PLAN.save(place)
            read = Plan.load(place)
            assert read == PLAN
            assert read.fingerprint == PLAN.fingerprint
            assert path.read_bytes() == BODY

    def test_plans_are_equal_that_say_the_same(self) -> None:
        """Equality is by value, and a plan that differs in one thing is another."""
        assert plan_of(PETS, SHEET) == PLAN
        assert plan_of([REX, TOM], SHEET) != PLAN
        assert replace(PLAN, created="2026-11-21T00:00:00+00:00") != PLAN
        assert PLAN.select() == PLAN
        assert PLAN != "a plan"


def drifting() -> tuple[list[Pet], Any, dict[int, Pet | None]]:
    """A store of 300 pets; a sheet of 330 changes of it; and what 30 of these pets became after
    the plan, None for gone.
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
    """30 of 330 changes are about pets that others changed since the plan: these stay as they
    are, one by one, and are conflicts; all else is done.
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
    """A part of a plan is a plan."""

    update = PLAN.updates[0]

    def test_by_id(self) -> None:
        """Those pets' changes, in the plan's order; an id that is in none picks nothing."""
        assert PLAN.select(ids=[1]).changes == (self.update,)
        assert PLAN.select(ids={2, FAR_ID}).changes == tuple(
            change for change in PLAN.changes if change.pet_id in (2, FAR_ID)
        )
        assert PLAN.select(ids=[12345]).changes == ()
        assert PLAN.select(ids=[]).changes == ()

    def test_by_action(self) -> None:
        """One or several."""
        assert PLAN.select(actions="add").changes == PLAN.adds
        assert PLAN.select(actions=["delete", "update"]).changes == (*PLAN.updates, *PLAN.deletes)

    def test_by_field(self) -> None:
        """An update keeps these fields alone; adds and deletes are no change of a field."""
        (part,) = PLAN.select(fields=["name", "tags"]).changes[:1]
        assert part.fields == ("name", "tags")
        assert part.before == REX
        assert part.after == replace(REX, name="Max", tags=self.update.after.tags)
        assert {change.kind for change in PLAN.select(fields="name").changes} == {"update"}
        assert PLAN.select(fields="photo_urls").changes == ()

    @pytest.mark.parametrize("field", ["category", "category_id"])
    def test_a_category_stays_whole(self, field: str) -> None:
        """Half of one would be another category."""
        (part,) = PLAN.select(fields=field).changes
        assert part.fields == ("category", "category_id")
        assert part.after == replace(REX, category=CATS)
        assert PLAN.select(query=f"column == '{field}'").changes == (part,)

    def test_by_query(self) -> None:
        """On the rows of to_frame()."""
        assert PLAN.select(query="kind == 'delete'").changes == PLAN.deletes
        assert PLAN.select(query=f"id == {FAR_ID}").changes == PLAN.select(ids=[FAR_ID]).changes
        (part,) = PLAN.select(query="column == 'status' and after == 'sold' and id == 1").changes
        assert part.after == replace(REX, status="sold")
        assert PLAN.select(query="name.str.contains('New')").changes == PLAN.adds
        assert PLAN.select(query="id.isna()").changes == PLAN.adds
        assert PLAN.select(query="kind == 'nothing'").changes == ()

    def test_all_that_is_asked_must_hold(self) -> None:
        """Filters narrow each other."""
        part = PLAN.select(ids=[1, 2], actions="update", fields=["name", "status"])
        assert [change.fields for change in part.changes] == [("name", "status")]
        again = part.select(query="column == 'name'")
        assert [change.fields for change in again.changes] == [("name",)]
        assert PLAN.select(ids=[2], actions="update").changes == ()

    @pytest.mark.parametrize(
        "query",
        ["", " ", "nonsense", "id ==", "id + 1", "name", "1", "True", "price > 3", "@os", "x = 1",
         "kind = 'add'", "id > 'a'", "import os", "'", "kind == 'add'\nkind == 'update'"],
    )  # fmt: skip
    def test_a_query_that_cannot_be_answered(self, query: str) -> None:
        """A typed error that says which names there are; never another plan."""
        with pytest.raises(PlanError) as caught:
            PLAN.select(query=query)
        assert "column" in caught.value.hint

    @pytest.mark.parametrize(
        "wrong",
        [{"actions": "remove"}, {"actions": [""]}, {"fields": "nam"}, {"fields": ["name", "id"]}],
        ids=str,
    )
    def test_what_cannot_be_selected_by(self, wrong: dict[str, Any]) -> None:
        """A typed error that names what can."""
        with pytest.raises(PlanError) as caught:
            PLAN.select(**wrong)
        assert "name" in caught.value.hint or "update" in caught.value.hint

    @pytest.mark.parametrize(
        "wrong", [{"ids": 1.5}, {"ids": "1"}, {"query": 1}, {"actions": 1}], ids=str
    )
    def test_arguments_of_another_type(self, wrong: dict[str, Any]) -> None:
        """They pick nothing by chance: a typed error."""
        with pytest.raises(PetsyncError):
            PLAN.select(**wrong)

    def test_what_is_left_out_is_counted(self) -> None:
        """A part is not in sync, and says of how many rows it has taken the changes out."""
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
        """The sheet was to win, and now the store's value stays: a person has to know."""
        line = row_of(REX) | {"name": "Max", "status": "sold"}
        now = replace(REX, name="Bello")
        triple = Triple(base={1: REX}, lines={2: line}, listed={1: now}, on_conflict="sheet")
        plan = triple.plan()
        assert plan.open_conflicts == ()
        assert plan.select(fields="name").open_conflicts == ()
        assert [each.pet_id for each in plan.select(fields="status").open_conflicts] == [1]
        assert [each.pet_id for each in plan.select(ids=[]).open_conflicts] == [1]


def test_a_summary_counts_what_the_plan_holds() -> None:
    """Changes by kind, changed fields, and the rows that are none."""
    summary = PLAN.summary()
    assert (summary.adds, summary.updates, summary.deletes) == (1, 2, 1)
    assert summary.fields == {
        "name": 2, "status": 1, "category": 1, "category_id": 1, "tags": 1
    }  # fmt: skip
    assert (summary.conflicts, summary.open_conflicts) == (1, 1)
    assert (summary.blocked, summary.ignored, summary.unchanged) == (1, 1, 0)
    assert (summary.rows, summary.pets, summary.ok, summary.left_out) == (7, 3, True, 0)
    assert sum(PLAN.select(fields="name").summary().fields.values()) == 2


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(triples(), st.data())
def test_every_row_of_a_part_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, triple: Triple, data: st.DataObject
) -> None:
    """Each row and each missing pet has one outcome, also those that a part leaves out."""
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
    assert applied == len(part.changes)


def test_a_pipe_or_a_device_is_read_for_no_plan(tmp_path: Path) -> None:
    """Neither as the plan itself, nor as the sheet that a plan names: reading it might not end."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for source in (pipe, Path("/dev/zero")):
        with pytest.raises(PlanError, match="no ordinary file"):
            ps.load_plan(source)
        named = replace(PLAN, source=str(source), source_digest="0" * 64)
        assert planned_sheet(named) is None
        assert not is_sheet_plan(source)
