"""docs/journal.md describes the journal's real tables, queries and checksums."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from journals import PETS, begin_run, intended, result, small_plan

import petsync as ps
from petsync.apply.journal import Journal
from petsync.apply.journal.schema import APPLICATION, VERSION, open_empty, row_checksum
from petsync.sandbox import Sandbox

PAGE = (Path(__file__).parents[1] / "docs" / "journal.md").read_text("utf-8")
_QUERY = re.compile(r"^```sql\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def described() -> dict[str, list[str]]:
    """Return the tables and columns that the page describes."""
    tables = {}
    for part in PAGE.partition("## The tables")[2].split("\n### ")[1:]:
        name, _, text = part.partition("\n")
        cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        tables[name] = [column for cell in cells for column in re.findall(r"`(\w+)`", cell)]
    return tables


def test_every_table_and_column_is_described() -> None:
    """The page describes every table and column in order, and no other."""
    with closing(open_empty()) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {
            name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            for (name,) in names
        }
    assert described() == tables
    assert f"`application_id` is {APPLICATION}" in PAGE
    assert f"`user_version` is {VERSION}" in PAGE


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return a journal with a stopped run."""
    journal = Journal.open(tmp_path / ".petsync", create=True)
    plan = small_plan([PETS[0], ps.Pet(id=17, name="Rex", status="sold")])

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        for number, change in enumerate(plan.changes):
            await intended(session, number, change)
        session.record_retry(1, "503")
        session.record_result(result(1, plan.changes[1], message="as planned"))
        await session.close()

    asyncio.run(work())
    return journal


def test_the_queries_answer_what_they_say(journal: Journal) -> None:
    """Each query of the page runs unchanged and finds its row."""
    pet, opened, repeated = _QUERY.findall(PAGE)
    with closing(sqlite3.connect(journal.path)) as connection:
        ((run, kind, fields, _, outcome, message, before, after),) = connection.execute(pet)
        assert (run, kind, fields, outcome, message) == (
            "run",
            "update",
            "name",
            "applied",
            "as planned",
        )
        assert '"name":"Rex"' in before
        assert '"name":"renamed 17"' in after
        assert [row[:4] for row in connection.execute(opened)] == [("run", 0, "update", 1)]
        assert [row[2:4] + row[5:] for row in connection.execute(repeated)] == [(17, 2, "503")]


def test_the_checksums_are_those_of_the_page(journal: Journal) -> None:
    """A row's checksum can be computed from the columns that the page names."""
    columns = described()["change"]
    result = columns.index("ended")
    with closing(sqlite3.connect(journal.path)) as connection:
        for row in connection.execute("SELECT * FROM change WHERE outcome IS NOT NULL"):
            assert row[columns.index("seal")] == row_checksum(row[: columns.index("seal")])
            assert row[-1] == row_checksum((*row[:2], *row[result:-1]))
        for row in connection.execute("SELECT * FROM run"):
            columns = described()["run"]
            place = columns.index("seal")
            assert row[place] == row_checksum(row[:place])
            assert row[-1] == row_checksum((row[0], *row[place + 1 : -1]))


def test_no_secret_is_in_it_at_any_time(tmp_path: Path) -> None:
    """No secret is in the journal's files during a run, after failures or later."""
    seen: list[bytes] = []
    state = tmp_path / "state"

    def look(_: object) -> None:
        # Another process reads: closing the files in this one would drop their locks. The
        # log comes first: its content may move to the file between the two reads.
        names = sorted((str(path) for path in state.iterdir()), reverse=True)
        seen.append(subprocess.run(["cat", *names], capture_output=True, check=False).stdout)

    with Sandbox(pets=PETS) as box:
        token, key = box.token(), box.api_key
        auth = ps.auth.bearer(token, api_key=key)
        retry = ps.RetryPolicy(attempts=2, first=0.001, longest=0.01)
        with ps.connect(box.url, auth=auth, state=state, retry=retry) as store:
            pets = store.find_by_status()
            plan = store.plan(
                pd.DataFrame({"id": pets["id"], "name": [f"{name}!" for name in pets["name"]]}),
                guard=ps.Guard(max_update=ps.Limit(1.0)),
            )
            box.set_faults("503=0.3,seed=3")
            try:
                store.apply(plan, on_progress=look)
            except ps.errors.InterruptedRunError:
                pass
            finally:
                box.set_faults(None)
    look(None)
    assert len(seen) > 4
    # The failed requests decide which pets are sent; the file was read in mid-run.
    sent = re.compile(rb"pet \d!")
    assert any(sent.search(body) for body in seen[:-1])
    assert sent.search(seen[-1])
    secrets = [secret.encode() for secret in (token, key) if secret]
    assert len(secrets) == 2
    assert not [body for body in seen if any(secret in body for secret in secrets)]
