"""The format of a saved plan: it matches its page and its schema, and no other format is read."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from render_samples import CLASHING, HOSTILE, SILENT, UPDATE, hostile_plan, replace, small_plan

from petsync.errors import PlanError
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Coverage
from petsync.plan.lineage import Slot
from petsync.plan.plan import PLAN_FORMAT, Plan
from petsync.table.base import SourceRow

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "plan-format.md").read_text("utf-8")
SCHEMA: dict[str, Any] = json.loads((DOCS / "plan.schema.json").read_text("utf-8"))
FULL = Pet(
    id=2**63 - 1,
    name="Ada",
    category=Category(1, "Dogs", {"x": 1}),
    tags=(Tag(None, "shy"), Tag(2, "calm", {"y": None})),
    photo_urls=("/1", "/2"),
    extra={"chip": [1, 2]},
)


def full_plan() -> Plan:
    """Return a plan with every type and field."""
    return replace(
        small_plan(),
        changes=(*small_plan().changes, replace(UPDATE, before=FULL)),
        conflicts=(*small_plan().conflicts, CLASHING),
        coverage=Coverage(("available",), (SILENT,)),
        files=("a.csv", "b.csv"),
        labels={3: "id 7"},
        undoes="20261120-093100-4f2a",
        recognised={3: 7},
        slots={
            3: Slot(
                above=2,
                row_pet=FULL,
                run="20261120-093100-4f2a",
                on="2026-11-20",
                fixed_in="fixed.xlsx",
            )
        },
        warnings=("line 1, column 3: a header",),
        moved_ids=(2, 3),
        source_rows={3: SourceRow(source="pets.xlsx", row=7, row_pet=FULL, may_be=(7, ("r", 3)))},
        namesakes=(7, 9),
        selected_ids=(7,),
        older=(5,),
        sentinels=(FULL,),
    )


def test_the_schema_is_up_to_date() -> None:
    """plan.schema.json is what docs/make.py writes from the types."""
    make = runpy.run_path(str(DOCS / "make.py"))
    made = make["plan_schema"]()
    assert (DOCS / "plan.schema.json").read_text("utf-8") == made, "run: python docs/make.py"
    assert SCHEMA["$defs"]["Plan"]["properties"]["format"] == {"const": PLAN_FORMAT}


@pytest.mark.parametrize("plan", [full_plan(), *map(hostile_plan, HOSTILE)])
def test_a_plan_is_as_the_schema_says(plan: Plan) -> None:
    """A saved plan validates against the schema, with any names in it."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(plan.to_json()))


def _spoilt(path: list[Any], value: object) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(full_plan().to_json())
    place: Any = saved
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return saved


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["plan", "format"], 4),
        (["plan", "rows"], "many"),
        (["plan", "more"], 1),
        (["plan", "changes", 0, "kind"], "replace"),
        (["plan", "changes", 0, "after", "colour"], "red"),
        (["plan", "conflicts", 0, "winner"], "me"),
        (["fingerprint"], "abc"),
    ],
)
def test_the_schema_refuses(path: list[Any], value: object) -> None:
    """A value of the wrong type, an unknown field or an unknown word is refused by the schema."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(_spoilt(path, value), SCHEMA)


def test_the_page_names_every_field() -> None:
    """plan-format.md has a table for each type, with exactly its fields."""
    tables = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
    for name, type_ in SCHEMA["$defs"].items():
        result = re.findall(r"^\| `([^`]+)` \|", tables[name], re.MULTILINE)
        assert set(result) == set(type_["properties"]), name


def test_the_file_has_the_order_of_the_page() -> None:
    """The fields of a plan are in the file in the order of the page."""
    table = PAGE.partition("\n## Plan\n")[2].partition("\n## ")[0]
    result = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert list(json.loads(full_plan().to_json())["plan"]) == result


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_anybody_can_compute_the_fingerprint(name: str) -> None:
    """The page's recipe gives the fingerprint of any plan, with the standard library alone."""
    saved = json.loads(hostile_plan(name).to_json())
    body = json.dumps(saved["plan"], separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(body.encode()).hexdigest() == saved["fingerprint"]


def test_the_pages_code_runs() -> None:
    """The Python on the page runs unchanged."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    exec(code, {})


@pytest.mark.parametrize(
    ("number", "age"),
    [(1, "an older"), (4, "an older"), (5, "an older"), (7, "a newer"), (99, "a newer")],
)
def test_another_format_is_refused(number: int, age: str) -> None:
    """A plan of an older or newer petsync is refused by its format number, with any other
    content.
    """
    of_its_own = {"format": number, "verdict": {"refusals": ["as text"]}, "changes": {}}
    body = msgspec.json.encode({"fingerprint": "", "plan": of_its_own})
    with pytest.raises(PlanError, match=rf"has format {number}, of {age} petsync") as caught:
        Plan.from_json(body, "plan.json")
    assert "again" in caught.value.hint


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"plan": {}}', b'{"plan": {"format": "3"}}'])
def test_what_is_no_plan_is_reported_to_be_none(body: bytes) -> None:
    """A file that is not a plan is refused by its name."""
    with pytest.raises(PlanError, match=r"plan\.json is not a plan of petsync"):
        Plan.from_json(body, "plan.json")
