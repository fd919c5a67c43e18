"""Sheets and snapshots at addresses: on fsspec's memory, on file:// and on a web server."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import PROGRAM, Shell
from fsspec.implementations.memory import MemoryFileSystem
from scenarios import PETS, Scenario, changed, kinds

import petsync as ps
from petsync._files import is_address, is_in_parts, real_path
from petsync.config.load import load
from petsync.errors import ConfigurationError, PetsyncError, PlanError, SettingsError, SheetError
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.settings import checked_address
from petsync.sheets.sidecar import sidecar_path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_parts")]


@pytest.fixture
def box(box: Sandbox) -> Sandbox:
    """Return the store of the other tests, with other pets."""
    box.reset(PETS)
    return box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    with ps.connect(box.url, state=tmp_path / "state") as store:
        yield store


@pytest.fixture
def bucket() -> Iterator[str]:
    """The address of an empty folder in memory."""
    files = fsspec.filesystem("memory")
    yield "memory://shop"
    if files.exists("/shop"):
        files.rm("/shop", recursive=True)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def edit(address: str, names: dict[int, str], new: str = "") -> None:
    """Give pets other names in the Parquet files of a folder, and append a new row to the last."""
    files, path = fsspec.url_to_fs(address)
    for file in sorted(files.glob(f"{path}/*.parquet")):
        with files.open(file) as opened:
            table = pq.read_table(opened)
        rows = [{**row, "name": names.get(row["id"], row["name"])} for row in table.to_pylist()]
        if new and file.endswith("part-00002.parquet"):
            rows.append({**dict.fromkeys(table.column_names), "name": new, "status": "sold"})
        with files.open(file, "wb") as opened:
            pq.write_table(pa.Table.from_pylist(rows, table.schema), opened)


def write(address: str, content: str) -> None:
    with fsspec.open(address, "w", newline="") as file:
        file.write(content)


def upload(folder: Path, address: str) -> None:
    """Copy a local folder to an address."""
    files, path = fsspec.url_to_fs(address)
    files.put(f"{folder}/", f"{path}/", recursive=True)


def words(text: str) -> str:
    """A text without its line breaks."""
    return re.sub(r"\s+", " ", text)


def fingerprint(plan: Plan) -> str:
    """The fingerprint of what a plan contains, without its time and the place of the sheet."""
    return msgspec.structs.replace(plan, created="", source="").fingerprint


def test_an_export_at_an_address_is_a_sheet(
    store: ps.Store, box: Sandbox, bucket: str, executor: Executor
) -> None:
    """An export at an address agrees, its edits are planned with their rows, and after the run the
    folder and a pattern in it agree again: the new pet is not added twice.
    """
    assert store.export_to(f"{bucket}/big/", partitions=3) == len(PETS)
    assert store.plan(f"{bucket}/big", executor=executor).changes == ()
    edit(f"{bucket}/big", {2: "Mia II"}, "Newcomer")
    box.put(changed(PETS, 3, name="elsewhere")[2])
    plan = store.plan(f"{bucket}/big/", executor=executor)
    assert plan.source == f"{bucket}/big"
    assert (
        sorted(each.source.partition(",")[0] for each in plan.changes)[-1] == "part-00002.parquet"
    )
    assert {each.pet_id for each in plan.changes} == {None, 2}  # with the base
    store.apply(plan)
    again = [f"{bucket}/big", f"{bucket}/big/", f"{bucket}/big/*.parquet", f"{bucket}/big/part*"]
    for address in again:
        assert store.plan(address, executor=executor).changes == (), address
    assert store.plan(f"{bucket}/big/part-00002.parquet").adds == ()
    assert [pet.name for pet in box.pets()].count("Newcomer") == 1


def test_an_edited_row_without_an_id_keeps_its_pet(store: ps.Store, bucket: str) -> None:
    """A new row that is edited after its run updates its pet, however the sheet is addressed; in
    another folder, a row with other values is another pet.
    """
    rows = "id,name,status\n,Ada,{0}\n,Ada two,{0}\n,Ada three,sold\n"
    write(f"{bucket}/a/new.csv", rows.format("sold"))
    store.apply(store.plan(f"{bucket}/a"))
    write(f"{bucket}/a/new.csv", rows.format("pending"))
    for address in ("a", "a/*.csv", "a/new.csv"):
        plan = store.plan(f"{bucket}/{address}")
        assert [each.kind for each in plan.changes] == ["update", "update"], address
        assert not plan.conflicts
    write(f"{bucket}/b/new.csv", rows.format("pending"))
    plan = store.plan(f"{bucket}/b")
    assert [each.rule for each in plan.conflicts] == ["added-before", "added-before"]
    assert not plan.changes


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("at", ["memory", "file", "processes"])
def test_the_plan_is_that_of_a_local_folder(
    suffix: str, at: str, store: ps.Store, bucket: str, tmp_path: Path, executor: Executor
) -> None:
    """Files of each kind have the same plan at an address and in a local folder, with threads and
    with processes, which copy the files themselves.
    """
    local = tmp_path / "local"
    local.mkdir()
    rows = [{"id": pet.id, "name": f"{pet.name}!", "status": pet.status} for pet in PETS]
    rows.append({"id": None, "name": "Newcomer", "status": "sold"})
    for number in range(3):
        part, path = pa.Table.from_pylist(rows[number::3]), local / f"{number}{suffix}"
        if suffix == ".parquet":
            pq.write_table(part, path)
        elif suffix == ".csv":
            part.to_pandas().convert_dtypes().to_csv(path, index=False)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in part.to_pylist()))
    address = f"{bucket}/sheet" if at == "memory" else f"file://{tmp_path}/there"
    upload(local, address)
    if at == "processes":
        with ProcessPoolExecutor(1, get_context("spawn")) as processes:
            plan = store.plan(f"{address}/*{suffix}", executor=processes)
    else:
        plan = store.plan(f"{address}/*{suffix}", executor=executor if at == "memory" else None)
    assert fingerprint(plan) == fingerprint(store.plan(local / f"*{suffix}"))
    assert len(plan.changes) == len(PETS) + 1


def test_one_file_is_compared_with_its_base(
    store: ps.Store, box: Sandbox, bucket: str, tmp_path: Path
) -> None:
    """A CSV file at an address has the base beside it, and its rows have the lines of the file; a
    file whose name looks like a pattern is itself.
    """
    ps.write_sheet(store.snapshot(), tmp_path / "pets[1].csv")
    for each in (tmp_path / "pets[1].csv", sidecar_path(tmp_path / "pets[1].csv")):
        write(f"{bucket}/{each.name}", each.read_text().replace("Pet 2,", "Mia II,"))
    write(f"{bucket}/pets1.csv", "id,name\n3,another sheet\n")
    box.put(changed(PETS, 3, name="elsewhere")[2])
    plan = store.plan(f"{bucket}/pets[1].csv")
    assert [(each.pet_id, each.source) for each in plan.changes] == [(2, "line 3, column 2")]


def test_a_snapshot_at_an_address(
    store: ps.Store, box: Sandbox, bucket: str, tmp_path: Path
) -> None:
    """A sheet here or at an address is compared with a snapshot at an address."""
    store.export_to(tmp_path / "big", partitions=3)
    upload(tmp_path / "big", f"{bucket}/big")
    box.put(changed(PETS, 3, name="elsewhere")[2])
    store.snapshot_to(f"{bucket}/now", partitions=3)
    before = box.requests
    for sheet in (tmp_path / "big", f"{bucket}/big"):
        plan = store.plan(sheet, snapshot=f"{bucket}/now/", two_way=True)
        assert [each.pet_id for each in plan.changes] == [3]
    assert "findPetsByStatus" not in box.requests - before
    store.snapshot_to(tmp_path / "here", partitions=3)
    assert store.plan(f"{bucket}/big", snapshot=tmp_path / "here", two_way=True).changes


def test_the_manifest_is_written_last(
    store: ps.Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that is interrupted has a base that cannot be used, so no plan deletes a pet."""
    put = MemoryFileSystem.put_file

    def fail(files: MemoryFileSystem, here: str, there: str, **options: Any) -> None:
        if there.endswith("part-00001.parquet") and ".petsync-base" not in there:
            raise ConnectionResetError("the connection was lost")
        put(files, here, there, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", fail)
    with pytest.raises(
        SheetError, match=f"{bucket}/big cannot be written: the connection was lost"
    ):
        store.export_to(f"{bucket}/big", partitions=3)
    monkeypatch.undo()
    with pytest.raises(PlanError, match=r"memory://shop/big/\.petsync-base/petsync\.json"):
        store.plan(f"{bucket}/big", delete_missing=True)
    with pytest.raises(SheetError, match=f"{bucket}/big is not empty"):
        store.export_to(f"{bucket}/big", partitions=3)


@pytest.mark.parametrize(
    ("address", "problem", "way_out"),
    [
        ("memory://shop/none", "there is no such file or folder", "Check all names"),
        ("memory://shop/none/*.csv", "there is no such file or folder", "Check all names"),
        ("memory://shop/*.parquet", "has no Parquet, CSV or JSON Lines", "Name a folder"),
        ("memory://shop/book.xlsx", "has no Parquet, CSV or JSON Lines", "Name a folder"),
        ("memory://shop/bad.csv", "there is no such file", "Check"),
        ("memorry://shop/big", "fsspec knows no file system memorry://", "Did you mean memory://?"),
        ("zz://shop/big", "fsspec knows no file system zz://", "s3://bucket/pets"),
        ("zip://a.csv::memory://a.zip", "cannot use an address in another one", "s3://"),
        ("dropbox://shop/big", "a package that is not installed", "pip install dropboxdrivefs"),
        ("http://127.0.0.1:9/pets.csv", "Cannot connect to host 127.0.0.1:9", "Check all names"),
    ],
)
def test_errors_name_the_address_and_the_way_out(
    address: str, problem: str, way_out: str, store: ps.Store, bucket: str
) -> None:
    """An address that cannot be read is named with the reason, and with what to do."""
    write(f"{bucket}/readme.txt", "text")
    write(f"{bucket}/book.xlsx", "text")
    with pytest.raises(PetsyncError) as caught:
        store.plan(address)
    assert caught.value.message.startswith(address)
    assert problem in caught.value.message
    assert way_out in caught.value.hint


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.parquet", "no Parquet", "cannot be read"),
        ("a.csv", "id,name\n1,\n2,\0\n" + "x" * 9 + "\0" * 99, "a.csv: the file is not complete"),
        ("a.csv", "name\nRex\n", "has no column of ids"),
        ("a.jsonl", '{"id": 1}\n[]\n', "a.jsonl: line 2 is not a JSON object"),
    ],
)
def test_errors_in_files_name_the_address(
    name: str, data: str, problem: str, store: ps.Store, bucket: str
) -> None:
    """The error of a file names its address, not that of the copy that is read."""
    write(f"{bucket}/big/{name}", data)
    with pytest.raises(SheetError) as caught:
        store.plan(f"{bucket}/big")
    assert f"{bucket}/big" in caught.value.message
    assert problem in caught.value.message
    assert "petsync-" not in str(caught.value)
    assert "copy-0" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("name", ["pets.csv", "*.csv", ""])
def test_a_diff_of_addresses_is_that_of_the_files(bucket: str, tmp_path: Path, name: str) -> None:
    """Files and folders at addresses have the same differences as on this machine, with each other
    and with a file, under the name of the address; files with the same bytes are equal.
    """
    old, new = "id,name\n1,Rex\n2,Mia\n", "id,name\n1,Max\n3,Leo\n"
    for folder, text in (("old", old), ("new", new)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pets.csv").write_text(text, "utf-8")
        write(f"{bucket}/{folder}/pets.csv", text)
    here = [str(tmp_path / folder / name) for folder in ("old", "new")]
    there = [f"{bucket}/{folder}/{name}".rstrip("/") for folder in ("old", "new")]
    expected = ps.diff(*here)
    for sides in (there, [there[0], here[1]], [here[0], there[1]]):
        found = ps.diff(*sides)
        assert found.rows == expected.rows
        assert "copy-" not in repr(found)
    assert ps.diff(there[0], there[1], base=there[0]).counts == {"b": 3}
    assert not ps.diff(there[0], there[0])


def test_a_diff_names_an_address_that_cannot_be_read(bucket: str) -> None:
    """An address without a file, and an address with a password, are errors that name it."""
    with pytest.raises(SheetError, match=f"^{bucket}/none.csv: there is no such file"):
        ps.diff(f"{bucket}/none.csv", f"{bucket}/none.csv")
    write(f"{bucket}/bad.csv", "a,b\n1,2\n")
    with pytest.raises(SheetError, match=f"^{bucket}/bad.csv"):
        ps.diff(f"{bucket}/bad.csv", f"{bucket}/bad.csv")
    with pytest.raises(SettingsError, match="has a user or a password"):
        ps.diff("ftp://me:secret@shop/pets.csv", f"{bucket}/bad.csv")


def test_a_file_without_permission(
    store: ps.Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or a folder that may not be read or written says so, and names the credentials."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("Access Denied")

    write(f"{bucket}/pets.csv", "id,name\n1,Rex\n")
    for method, call in {
        "info": lambda: store.plan(f"{bucket}/pets.csv"),
        "get_file": lambda: store.plan(f"{bucket}/*.csv"),
        "ls": lambda: store.plan(f"{bucket}/*.csv"),
        "put_file": lambda: store.snapshot_to(f"{bucket}/now", partitions=1),
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, method, refuse)
            with pytest.raises(SheetError, match=r"you do not have permission \(Access") as caught:
                call()
        assert caught.value.message.startswith(bucket)
        assert "credentials: memory://" in caught.value.hint


def test_a_file_that_changes_while_it_is_copied(
    store: ps.Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that another program writes meanwhile is an error; the next plan reads the new one."""
    write(f"{bucket}/pets.csv", "id,name\n1,Rex\n")
    get = MemoryFileSystem.get_file

    def get_slowly(files: MemoryFileSystem, there: str, here: str, **options: Any) -> None:
        get(files, there, here, **options)
        write(f"{bucket}/pets.csv", "id,name\n1,Tom\n")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", get_slowly)
        with pytest.raises(SheetError, match=r"shop/pets\.csv: the file changed while it was read"):
            store.plan(f"{bucket}/pets.csv")
    (change,) = store.plan(f"{bucket}/pets.csv").changes
    assert change.after is not None
    assert change.after.name == "Tom"


def test_the_extra_is_named(store: ps.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec, the error names the address and the command that installs it."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for call in (store.plan, store.export_to):
        with pytest.raises(SettingsError, match=r"s3://shop/big needs the extra remote") as caught:
            call("s3://shop/big")
        assert "pip install 'petsync[remote]'" in caught.value.hint


def test_a_local_sheet_loads_neither_fsspec_nor_dask(box: Sandbox, tmp_path: Path) -> None:
    """A plan of a file, and a plan of a folder, import neither fsspec nor Dask."""
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/a.csv").write_text("id,name\n1,Rex\n")
    code = (
        "import sys, petsync as ps\n"
        f"with ps.connect({box.url!r}, state='state') as store:\n"
        "    for sheet in ('pets/a.csv', 'pets'): assert store.plan(sheet).changes\n"
        "print({'fsspec', 'dask', 'distributed'} & sys.modules.keys())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n", done.stderr


SECRET = "hunter2/XyZ"
SECRET_ADDRESSES = [
    f"s3://AKIA1:{SECRET}@shop/big",
    f"s3://1:2{SECRET}@shop/big/*.parquet",
    f"https://user:{SECRET}@shop.example/pets.csv",
    f"https://{SECRET.replace('/', '')}@shop.example/pets.csv",
    f"https://shop.example/pets.csv?X-Amz-Signature={SECRET}",
    f"https://shop.example/*.parquet?sv=1&sig={SECRET}#x",
    f"HTTPS://shop.example/pets.csv?{SECRET}",
    f"abfs://pets@shop.example/pets.csv?sig={SECRET}",
    f"sftp://user:{SECRET}@shop.example/pets.csv",
]


@pytest.mark.parametrize("address", SECRET_ADDRESSES)
def test_no_secret_of_an_address_is_shown(
    address: str,
    store: ps.Store,
    tmp_path: Path,
    shell: Shell,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An address with a secret is refused everywhere, before a request, and never shown."""
    caplog.set_level(0)
    (tmp_path / "big").mkdir()
    calls: list[Callable[[], object]] = [
        lambda: store.plan(address),
        lambda: store.why(address, 1),
        lambda: store.plan(tmp_path / "big", snapshot=address),
        lambda: store.export_to(address),
        lambda: store.snapshot_to(address),
        lambda: store.read(address),
        lambda: store.pictures(address.replace(".csv", "")),
        lambda: ps.read_sheet(address),
        lambda: ps.write_sheet(ps.frame_from_pets(PETS), address),
    ]
    for call in calls:
        with pytest.raises(SettingsError) as caught:
            call()
        shown = f"{caught.value!r} {caught.value} {caplog.text}"
        assert SECRET[:7] not in shown
        assert "***" in shown
    toml = tmp_path / "petsync.toml"
    table = f"[jobs.new]\nmode = 'push'\nsheet = '{address}'\n"
    toml.write_text(f"url = '{store.url}'\n{table}")
    for command in ("plan", "apply", "check", "rehearse", "export", "upload"):
        done = shell(command, address, "--url", store.url, "-v")
        assert done.code == 64
        assert SECRET[:7] not in done.out + done.err
    for arguments in (("reconcile", str(toml)), ("config", "check", str(toml))):
        done = shell(*arguments, "-v")
        assert done.code == 64
        assert "user, password and query" in words(done.err)
        assert SECRET[:7] not in done.out + done.err


def test_what_an_address_is() -> None:
    """Windows paths and names with a colon are no addresses; an address is its own real path."""
    for path in ("C:\\x", "C://x", "a:b", "big/*.parquet", Path("s3://b/x"), "s3:/b", "1s://b"):
        assert not is_address(path), path
    for address in ("s3://b/x", "gs://b", "abfs://pets@shop/x", "file:///x", "s3a://b/x y.csv"):
        assert is_address(address), address
        assert is_in_parts(address)
        assert checked_address(f"{address}/") == real_path(f"{address}/") == address
    assert checked_address("S3://Bucket/part-?.csv") == "s3://Bucket/part-?.csv"


# On the command line and in jobs.


def test_the_command_line_takes_addresses(box: Sandbox, shell: Shell, tmp_path: Path) -> None:
    """export, plan, rehearse and apply take addresses; check and upload say that they do not, and
    a plan of an address is applied after it was saved.
    """
    address, url = f"file://{tmp_path}/big", ("--url", box.url)
    done = shell("export", address, "--format", "parquet", *url)
    assert f"in the folder {address}" in words(done.err)
    again = shell("export", address, "--format", "parquet", *url)
    assert f"{address} is not empty" in words(again.err)
    edit(address, {2: "Mia II"}, "Newcomer")
    assert shell("plan", f"{address}/", "-o", "plan.json", "--exit-code", *url).code == 2
    saved = shell("plan", f"{address}/*.parquet", "-o", "plan.html", "--why", "2", *url)
    assert saved.code == 64
    assert "Mia II" in shell("plan", f"{address}/*.parquet", "--why", "2", *url).out
    assert "2 applied" in shell("rehearse", address, *url).out
    assert shell("apply", "plan.json", "--yes", *url).code == 0
    assert shell("apply", f"{address}/*.parquet", "--yes", *url).code == 0
    assert shell("plan", address, "--exit-code", *url).code == 0
    for command in ("check", "upload"):
        done = shell(command, address, *url)
        assert done.code == 64
        assert f"{address} is an address" in words(done.err)
    assert shell("rehearse", "plan.json", *url).code == 5  # it was applied
    assert "only --format parquet" in words(shell("export", address, *url).err)


def test_a_stopped_run_of_an_address_is_named(box: Sandbox, shell: Shell, tmp_path: Path) -> None:
    """A second apply of the same address names the stopped run, and adds no row twice."""
    address = f"file://{tmp_path}/new"
    (tmp_path / "new").mkdir()
    (tmp_path / "new/a.csv").write_text("id,name,status\n,One,sold\n,Two,sold\n")
    box.set_faults("503=1,only=addPet")
    to_box = ("--url", box.url, "--yes", "--concurrency", "1")
    assert shell("apply", address, *to_box, "--max-failures", "0").code == 7
    box.set_faults(None)
    done = shell("apply", f"{address}/", *to_box, "--settle", "0.2")
    assert "was stopped with 2 of 2 changes left" in words(done.err)
    shell("resume", "--url", box.url, "--settle", "0.2")
    shell("apply", f"{address}/*.csv", *to_box)
    assert sorted(pet.name for pet in box.pets() if pet.name in ("One", "Two")) == ["One", "Two"]


def test_results_are_not_written_to_an_address(
    store: ps.Store, box: Sandbox, shell: Shell, bucket: str, tmp_path: Path
) -> None:
    """Copies and results of a sheet at an address are refused, with its address."""
    write(f"{bucket}/new.csv", "id,name,status\n,Ada,sold\n")
    _, sheet = store.read_with_snapshot(f"{bucket}/new.csv")
    report = store.apply(store.plan(f"{bucket}/new.csv"))
    for call in (
        lambda: ps.write_back(sheet, report),
        lambda: ps.write_results(sheet, report, tmp_path / "results.csv"),
        lambda: ps.write_corrected(sheet, tmp_path / "corrected.csv"),
    ):
        with pytest.raises(SheetError, match=r"^memory://shop/new\.csv is an address"):
            call()
    write(f"file://{tmp_path}/new.csv", "id,name,status\n,Ben,sold\n")
    given = ("--url", box.url, "--yes", "--write-ids")
    done = shell("apply", f"file://{tmp_path}/new.csv", *given)
    assert done.code == 1
    assert "is an address" in words(done.err)
    assert "Ben" not in {pet.name for pet in box.pets()}


def test_a_job_with_an_address(box: Sandbox, bucket: str, tmp_path: Path) -> None:
    """A push job sends the edits and the new rows of an address and is in sync afterwards; check
    reports what differs.
    """
    with ps.connect(box.url) as store:
        store.export_to(f"{bucket}/big", partitions=3)
    scenario = Scenario(box, tmp_path, {"sheet": f"{bucket}/big/*.parquet"})
    assert scenario.run().round.status == "in-sync"
    edit(f"{bucket}/big", {2: "Mia II"}, "Newcomer")
    report = scenario.run(mode="check", sheet=f"{bucket}/big/")
    assert (report.round.status, report.round.exit_code) == ("drift", 2)
    assert ("drift", 2) in kinds(report)
    report = scenario.run()
    assert (report.round.status, report.round.applied) == ("done", 2)
    assert report.round.source == f"{bucket}/big/*.parquet"
    assert (scenario.run().round.status, scenario.run(sheet=f"{bucket}/big").round.status) == (
        "in-sync",
        "in-sync",
    )
    assert [pet.name for pet in box.pets()].count("Newcomer") == 1
    missing = scenario.run(sheet=f"{bucket}/none")
    assert (missing.round.status, missing.round.applied) == ("error", 0)
    assert f"{bucket}/none: there is no such file or folder" in missing.round.problem


def test_an_address_needs_a_confirmed_file(box: Sandbox, bucket: str, tmp_path: Path) -> None:
    """A stranger's petsync.toml with an address, which may be read with the user's credentials, is
    refused; a file that the user names is used. Other paths are on this machine.
    """
    toml = tmp_path / "petsync.toml"
    text = f'url = "{box.url}"\n[jobs.new]\nmode = "push"\nsheet = "{bucket}/*.csv"\n'
    toml.write_text(text)
    with pytest.raises(ConfigurationError, match=r"uses memory://shop/\*\.csv, and is not confirm"):
        load(toml, {}, is_named=False)
    write(f"{bucket}/new.csv", "id,name\n1,Rex\n")
    ps.reconcile.run(toml, environ={})
    assert {pet.id: pet.name for pet in box.pets()}[1] == "Rex"
    toml.write_text(text.replace("sheet", "folder"))
    with pytest.raises(ConfigurationError, match="must be a path on this machine"):
        ps.reconcile.run(toml, environ={})
    toml.write_text(text.replace("push", "two-way"))
    with pytest.raises(ConfigurationError, match="never writes to several files"):
        ps.reconcile.run(toml, environ={})


# On a web server.


class _Pages(SimpleHTTPRequestHandler):
    """Serves a folder; /moved.csv redirects to an address with a secret, which is forbidden, and
    /slow.csv takes a minute.
    """

    asked = threading.Event()

    def do_GET(self) -> None:
        if self.path != "/slow.csv":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", "1200")
        self.end_headers()
        with suppress(OSError):
            for _ in range(1200):
                self.wfile.write(b"x")
                self.asked.set()
                time.sleep(0.05)

    def send_head(self) -> Any:
        if "sig=" in self.path:
            self.send_error(403)
            return None
        if self.path == "/moved.csv":
            self.send_response(302)
            self.send_header("Location", f"/real.csv?sig={SECRET}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server: its address, and the folder that it serves."""
    folder = tmp_path / "pages"
    folder.mkdir()
    handler = functools.partial(_Pages, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


def test_a_new_file_is_seen_at_once(
    store: ps.Store, pages: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that remembers its folders does not hide a file from a later plan."""
    monkeypatch.setitem(fsspec.config.conf, "http", {"use_listings_cache": True})
    address, folder = pages
    for number in (1, 2):
        (folder / f"{number}.csv").write_text(f"id,name\n{number},Rex {number}\n")
        assert len(store.plan(f"{address}/*.csv").changes) == number


def test_an_interrupt_ends_a_copy(box: Sandbox, pages: tuple[str, Path], tmp_path: Path) -> None:
    """Ctrl-C does not wait until a large file is copied, and leaves no copy behind."""
    address, folder = pages
    (folder / "slow.csv").write_text("x" * 1200)
    (tmp_path / "temporary").mkdir()
    running = subprocess.Popen(
        [*PROGRAM, "plan", f"{address}/slow.csv", "--url", box.url],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert _Pages.asked.wait(60)
    running.send_signal(signal.SIGINT)
    _, shown = running.communicate(timeout=30)
    assert "interrupted" in shown
    assert not [*(tmp_path / "temporary").iterdir()]


def test_sheets_on_a_web_server(store: ps.Store, pages: tuple[str, Path]) -> None:
    """A file, a pattern and a folder of a web server are sheets; it is not written to, and no
    secret of an address to which it redirects is shown.
    """
    address, folder = pages
    for number in (1, 2):
        (folder / f"{number}.csv").write_text(f"id,name\n{number},Rex {number}\n")
    assert [each.pet_id for each in store.plan(f"{address}/1.csv").changes] == [1]
    for sheet in (f"{address}/*.csv", address):
        assert [each.pet_id for each in store.plan(sheet).changes] == [1, 2]
    with pytest.raises(SettingsError, match="does not write to a web server"):
        store.export_to(address)
    with pytest.raises(SheetError, match=r"moved\.csv: there is no such file") as caught:
        store.plan(f"{address}/moved.csv")
    assert SECRET[:7] not in str(caught.value)
