"""The mistakes of the first day: each is a row with its command, its exit code and its message."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import COMMANDS, Shell, options_of, unknown_options
from scripted import ScriptedServer, answer

import petsync as ps
from petsync.cli.options import find_url_of
from petsync.errors import ApiError, SettingsError
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 50
_FILES: dict[str, str | bytes] = {
    "ok.csv": "id,name,status\n1,Rexy,available\n2,Mia,available\n",
    "same.csv": "id,name,status\n2,Mia,available\n3,Mia,pending\n",
    "latin.csv": "id,name,status\n3,Zoë,pending\n".encode("latin-1"),
    "utf16.csv": "id\tname\tstatus\n3\tZoë\tpending\n".encode("utf-16"),
    "empty.csv": "",
    "header.csv": "id,name,status\n",
    "names.csv": "pet,nam,state\n1,Rex,available\n",
    "decimal.csv": "id,name,status\n1.5,Rex,available\n",
    "date.csv": "id,name,status\n2026-11-28,Rex,available\n",
    "status.csv": "id,name,status\n1,Rex,avaliable\n",
    "twice.csv": "id,name,status\n1,A,available\n1,B,available\n",
    "pets.json": '[{"id":1,"name":"Rex"',
    "object.json": '{"id":1,"name":"Rex"}',
    "pets.ods": b"PK\3\4xx",
    "pets.csv.gz": b"\x1f\x8bxx",
    "pets.parquet": b"PAR1xxPAR1",
    "json.csv": '[{"id":1,"name":"Rex"}]',
    "screen.png": _PNG,
    "screen.xlsx": _PNG,
    "old.xls": _OLE,
    "locked.xlsx": _OLE + "EncryptedPackage".encode("utf-16-le") + b"\0" * 600,
    "pets.numbers": b"PK\3\4xx",
    "~$ok.xlsx": b"\5user",
    "torn.xlsx": b"PK\3\4xx",
    "pets.pdf": "%PDF-1.4",
    "page.csv": "<!DOCTYPE html><html></html>",
    "file": "x",
    "job.toml": '[jobs.a]\nmode = "check"\nsheet = "ok.csv"\nurl = "http://127.0.0.1:1/v2"\n',
    "state.toml": 'state = "file"\nurl = "http://127.0.0.1:1/v2"\n'
    '[jobs.a]\nmode = "check"\nsheet = "ok.csv"\n',
    "token.txt": "s3cret",
    "empty.txt": "",
}
_MISTAKES = """
64 | plna ok.csv | Did you mean one of: 'plan'
64 | help plna | No such command 'plna'
64 | plan | Missing argument 'SHEET'
64 | plan ok.csv {url} --ulr x | Did you mean '--url'
64 | resume --yes | Leave it out: `petsync resume` does not ask.
64 | export out.csv -y | Leave it out: `petsync export` does not ask.
64 | login --yes | petsync login --help
64 | plan ok.csv --url | '--url' requires an argument
64 | plan ok.csv | PETSYNC_URL
64 | plan ok.csv extra.csv | unexpected extra argument (extra.csv)
64 | plan ok.csv --url localhost:8080 | Write http:// or https:// before it.
64 | plan ok.csv --url http:/localhost:8080/v2 | of a service It looks like https://shop.example/v2.
64 | plan ok.csv --url shop.example/v2 | Write http:// or https:// before it.
64 | plan ok.csv --url ftp://shop.example/v2 | It looks like https://shop.example/v2.
64 | plan ok.csv --url http://localhost:99999/v2 | A port is a number up to 65535.
64 | plan ok.csv --url http://ann:pw@127.0.0.1/v2 | Remove it and provide a token
1 | plan ok.csv --url http://127.0.0.1:1/v2 | Check the address, and that the service is running.
1 | plan ok.csv --url https://shop.invalid/v2 | Check the address, and that the service is running.
1 | plan ok.csv --url {tls} | is the address http:// instead of https://?
0 | plan ok.csv --url {root} | /v2 (/v2 was missing)
0 | plan ok.csv --url {root}/ | /v2 (/v2 was missing)
1 | plan ok.csv --url {root_of_guarded} | petsync login
1 | plan ok.csv --url {root}/v2/pet | the part before /pet
1 | plan ok.csv --url {root}/v3 | often ends in /v2
1 | plan ok.csv --url http://127.0.0.1:1 | Check the address, and that the service is running.
0 | export out.csv --url {root} | /v2 (/v2 was missing)
0 | whoami --url {root} | /v2 (/v2 was missing)
0 | doctor --url {root} | /v2 (/v2 was missing)
0 | login --url {root} | /v2 (/v2 was missing)
1 | plan missing.csv {url} | missing.csv: there is no such file
1 | check missing.csv | missing.csv: there is no such file
1 | plan {long} {url} | cannot be read: File name too long
1 | check {long} | cannot be read: File name too long
1 | apply {long} {url} | cannot be read: File name too long
1 | rehearse {long} {url} | cannot be read: File name too long
1 | diff ok.csv {long} | cannot be read: File name too long
1 | diff plan.json {long}.parquet | cannot be read: File name too long
1 | upload {long}d {url} | cannot be read: File name too long
1 | upload {long} --column name {url} | cannot be read: File name too long
64 | reconcile {long} | cannot be read: File name too long
64 | reconcile ok.csv | To compare the sheet now: `petsync plan ok.csv`.
64 | config check screen.xlsx | screen.xlsx is a sheet, not a configuration
64 | config check {long} | cannot be read: File name too long
64 | trust {long} | cannot be read: File name too long
1 | plan folder {url} | Name a folder with such files
1 | plan latin.csv {url} | --encoding cp1252
1 | plan utf16.csv {url} | --encoding utf-16
1 | plan empty.csv {url} | empty.csv: the file is empty
4 | plan header.csv {url} | the guard refuses this plan
1 | plan names.csv {url} | --column pet=id --column nam=name --column state=status
3 | check decimal.csv | 1.5
3 | check date.csv | 2026-11-28
3 | check status.csv | avaliable
3 | check twice.csv | and clear the id of a new pet
1 | plan pets.json {url} | pets.json: the file is not valid JSON
1 | plan pets.ods {url} | pets.ods: the OpenDocument sheet is damaged
1 | plan pets.csv.gz {url} | pets.csv.gz: the compressed file is damaged
1 | plan pets.parquet {url} | pets.parquet: the Parquet file cannot be read
1 | plan json.csv {url} | the file is JSON
1 | plan screen.png {url} | the file is a picture
1 | plan screen.xlsx {url} | the file is a picture
1 | plan old.xls {url} | save it as .xlsx
1 | plan locked.xlsx {url} | Save a copy without a password
1 | plan pets.numbers {url} | Export To, Excel
1 | plan ~$ok.xlsx {url} | use ok.xlsx itself
1 | plan torn.xlsx {url} | the end of the workbook is missing
1 | plan pets.pdf {url} | the file is a PDF document
1 | plan page.csv {url} | the file is a web page
1 | plan http://127.0.0.1:1/pets.csv {url} | http://127.0.0.1:1/pets.csv
64 | plan ok.csv {url} --why Bella | 'Bella' is not the id of a pet
64 | plan ok.csv {url} --why "O'Maley" | Is it "O'Malley"?
64 | plan same.csv {url} --why mia | 2 pets are named 'mia': 2, 3. Give the id of one.
64 | plan folder {url} --why Mia | pets in a folder are found by their id
64 | plan parts {url} --sheet Pets | --sheet cannot apply to parts, which is compared in parts
64 | plan parts {url} --correct status:sold=pending | --correct cannot apply to parts
64 | plan parts {url} --memory 5 | --memory 5 is not a size
64 | plan ok.csv {url} --scope rows --delete-missing | --delete-missing cannot apply to --scope rows
64 | plan ok.csv {url} --sentinel 99999999999999999999 | Give the ids of the pets: --sentinel 7.
64 | plan ok.csv {url} -o file/plan.json | file/plan.json cannot be written
64 | plan ok.csv {url} -o ok.csv | the file extension must be one of .json
64 | plan ok.csv {url} --format yaml | 'yaml' is not one of 'text'
1 | apply plan.json --yes --url {other} | Apply it there, or make a plan for this store.
1 | apply object.json --yes {url} | Make a plan with `petsync plan SHEET -o PLAN.json`.
64 | apply plan.json ok.csv {url} | unexpected extra argument (ok.csv)
1 | plan plan.json {url} | `petsync apply plan.json` applies it
64 | runs --pet Bella | 'Bella' is not the id of a pet
64 | runs --pet 2026-11-28 | An id is a whole number
1 | runs nope | there is no run 'nope'
1 | runs last | there is no run 'last'
1 | undo last {url} | there is no run 'last'
1 | undo | no run is recorded here
1 | resume | no run is recorded here
64 | plan ok.csv {url} --correct status:sold=pending --correct status:sold=available | contradict
64 | plan ok.csv {url} --column pet=id --column pet=name | contradict each other
1 | check status.csv --correct status:avaliable=sold --correct Status:avaliable=pending | twice
64 | export | Missing argument 'OUT'
64 | export out.doc {url} | the file extension must be one of .xlsx
1 | export ok.csv {url} | Name another file.
1 | export file/out.csv {url} | is not a folder; name another one
64 | plan ok.csv {url} --token-file missing.txt | Name the file that contains the access token
64 | plan ok.csv {url} --token-file folder | Name the file that contains the access token
64 | plan ok.csv {url} --token-file empty.txt | empty.txt is empty
1 | plan ok.csv --url {guarded} | petsync login
1 | plan ok.csv --url {guarded} --token-file token.txt | unknown or has expired
64 | upload 1 screen.png {url} | unexpected extra argument (screen.png)
64 | plan ok.csv {url} --state file | file is a file, not a folder
64 | check ok.csv --state file | file is a file, not a folder
64 | apply plan.json {url} --yes --state file | file is a file, not a folder
64 | undo {url} --state file | file is a file, not a folder
64 | runs --state file | file is a file, not a folder
64 | resume {url} --state file | file is a file, not a folder
64 | export out.csv {url} --state file | file is a file, not a folder
1 | reconcile job.toml --state file | it is a file, not a folder
1 | reconcile state.toml | it is a file, not a folder
64 | serve --state file | file is a file, not a folder
64 | whoami {url} --state file | file is a file, not a folder
64 | logout {url} --state file | file is a file, not a folder
64 | upload folder {url} --state file | file is a file, not a folder
64 | doctor {url} --state file | file is a file, not a folder
64 | diff ok.csv store: {url} --state file | file is a file, not a folder
64 | rehearse ok.csv {url} --state file | file is a file, not a folder
64 | completion | Choose from: bash, zsh, fish
64 | completion tcsh | 'tcsh' is not one of 'bash'
64 | serve --port 99999 | 0<=x<=65535
64 | init file | Directory 'file' is a file
"""
_PYTHON = re.compile(
    r"\b(?:ps|petsync\.auth)\.\w|\b(?:store|sheet|plan)\.\w+\(|\b[a-z]+_[a-z]+=|in Python"
)
"""What a shell does not understand."""
_ROWS = [line.split(" | ") for line in _MISTAKES.strip().splitlines()]


@pytest.fixture
def folder(shell: Shell, box: Sandbox, tmp_path: Path) -> Path:
    """Return the current folder, with the files of the rows and a plan for `box`."""
    for name, content in _FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "ok.csv").write_text(str(_FILES["ok.csv"]), "utf-8")
    assert shell("plan", "ok.csv", "--url", box.url, "-o", "plan.json").code == 0
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("code", "line", "part"), _ROWS, ids=[row[1] for row in _ROWS])
def test_mistake_is_explained(
    shell: Shell, box: Sandbox, guarded: Sandbox, code: str, line: str, part: str
) -> None:
    """A mistake has its exit code and a message with the way out, of at most 12 lines."""
    places = {
        "url": f"--url {box.url}",
        "root": box.url.removesuffix("/v2"),
        "root_of_guarded": guarded.url.removesuffix("/v2"),
        "tls": box.url.replace("http://", "https://"),
        "guarded": guarded.url,
        "other": guarded.url,
        "long": f"{'a' * 300}.xlsx",
    }
    done = shell(*shlex.split(line.format_map(places)))
    text = " ".join((done.out + done.err).split())
    assert (done.code, part in text) == (int(code), True), text
    assert "Traceback" not in text
    assert not _PYTHON.search(text)
    command = line.split()[0]
    if command in COMMANDS:
        assert unknown_options(done.err, command) <= {*line.split()}
    lines = [each for each in done.err.splitlines() if "Invalid HTTP request" not in each]
    assert len(lines) <= 12


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["check", "diff", "rehearse", "apply", "upload"])
def test_hints_name_options_of_the_command(shell: Shell, box: Sandbox, command: str) -> None:
    """What is wrong with a sheet is explained by options that the command has, or by a command that
    has them.
    """
    more = {"check": [], "diff": ["ok.csv"], "upload": ["--column", "name", "--url", box.url]}
    for name in [*_FILES, "folder", "missing.csv"]:
        done = shell(command, name, *more.get(command, ["--url", box.url]))
        assert unknown_options(f"{done.err}\n{done.out}", command) == set(), name
        assert not _PYTHON.search(done.err + done.out), name


@pytest.mark.usefixtures("folder")
def test_hints_of_a_job_name_its_configuration(shell: Shell, box: Sandbox) -> None:
    """A job explains what is wrong with its sheet by options of petsync.toml, in its log too."""
    for name in _FILES:
        job = f'url = "{box.url}"\n[jobs.pets]\nmode = "two-way"\nsheet = "{name}"\n'
        Path("petsync.toml").write_text(job, "utf-8")
        done = shell("reconcile", "petsync.toml")
        assert unknown_options(f"{done.err}\n{done.out}", "reconcile") == set(), name
        assert "in Python" not in done.err + done.out, name


def test_hints_of_the_library_name_the_argument_in_python() -> None:
    """Beside an option, a hint that Python shows too names what to write in Python."""
    found, options = 0, set().union(*map(options_of, COMMANDS))
    for path in Path(ps.__file__).parent.rglob("*.py"):
        if {"cli", "config", "reconcile", "widgets"}.intersection(path.parts):
            continue
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "hint=" in source and "--" in source else ():
            if isinstance(node, ast.keyword) and node.arg == "hint":
                parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                text = re.sub(r"`petsync [^`]*`", "", "".join(map(str, parts)))
                named = [each for each in options if each in text]
                found += bool(named)
                assert not named or "in Python" in text, f"{path}:{node.value.lineno}"
    assert found > 5


@pytest.mark.usefixtures("folder")
def test_forgotten_version_is_remembered(shell: Shell, box: Sandbox) -> None:
    """Base, saved plan and journal have the address with the /v2 that the user has forgotten."""
    root = ("--url", box.url.removesuffix("/v2"))
    assert shell("export", "all.csv", *root).code == 0
    assert find_url_of(Path("all.csv"))[0] == box.url
    assert shell("plan", "ok.csv", *root, "-o", "new.json").code == 0
    assert find_url_of(Path("new.json"))[0] == box.url
    assert shell("apply", "new.json", *root, "--yes").code == 0
    assert shell("runs", "--json").json["runs"][0]["store"] == box.url


def test_forgotten_version_gets_no_secret(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two requests that look for /v2 only read, and contain no credentials."""
    monkeypatch.setenv("PETSYNC_TOKEN", "s3cret-of-a-test")
    monkeypatch.setenv("PETSYNC_API_KEY", "k3y-of-a-test")
    with ScriptedServer(answer(404)) as server:
        assert shell("whoami", "--url", server.url.removesuffix("/v2")).code == 1
        first, second, third, *_ = server.requests
    for head, path in ((first, "/pet/"), (second, "/v2/pet/")):
        assert head.startswith(f"GET {path}findByStatus?")
        assert "-of-a-test" not in head
    assert third.startswith("GET /pet/")
    assert "s3cret-of-a-test" in third


@pytest.mark.parametrize("body", [None, b"<html></html>"])
def test_forgotten_version_in_python(body: bytes | None) -> None:
    """The error of a store without /v2 names the address to try."""
    with ScriptedServer(answer(404) if body is None else answer(200, body)) as server:
        url = server.url.removesuffix("/v2")
        with ps.connect(url) as store, pytest.raises(ApiError) as caught:
            store.find_by_status("available")
    assert f"try {server.url}." in caught.value.hint


@pytest.mark.parametrize(
    ("args", "same"),
    [
        (["help"], ["--help"]),
        (["help", "plan"], ["plan", "--help"]),
        (["-h"], ["--help"]),
        (["plan", "-h"], ["plan", "--help"]),
        (["config", "check", "-h"], ["help", "config", "check"]),
    ],
)
def test_ways_to_the_help(shell: Shell, args: list[str], same: list[str]) -> None:
    """`help`, `help COMMAND` and -h print the same help as --help."""
    done = shell(*args)
    assert done.code == 0
    assert done == shell(*same)


@pytest.mark.parametrize("word", ["Bearer ", "bearer  "])
def test_token_with_its_scheme(
    shell: Shell, guarded: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """The word Bearer before a token is not part of the token, and no API key has it."""
    token = f"{word}{guarded.token()}"
    file = tmp_path / "token.txt"
    file.write_text(token)
    assert shell("whoami", "--url", guarded.url, "--token-file", file).code == 0
    monkeypatch.setenv("PETSYNC_TOKEN", token)
    assert shell("whoami", "--url", guarded.url).code == 0
    with pytest.raises(SettingsError, match="the API key contains a character"):
        ps.auth.api_key(f"{word}key")


def test_token_from_a_pipe(guarded: Sandbox) -> None:
    """--token-file takes the pipe that a shell makes of `<(command)`, and reads it once."""
    program = f'"{sys.executable}" -m petsync.cli whoami --url {guarded.url} --token-file '
    command = ["bash", "-c", f"{program} <(printf %s {guarded.token()})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_store_without_sign_in(shell: Shell, box: Sandbox) -> None:
    """A store that anybody may read says so to a user who is not signed in."""
    done = shell("whoami", "--url", box.url)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("This store asks for no sign-in.")


def test_steps_that_are_taken_twice(shell: Shell, folder: Path, box: Sandbox) -> None:
    """A plan that is applied twice and a run that is undone twice change nothing more."""
    url = ("--url", box.url)
    assert shell("apply", "plan.json", "--yes", *url).code == 0
    again = shell("apply", "plan.json", "--yes", *url)
    assert (again.code, len(again.err.splitlines()) <= 12) == (5, True), again.err
    run = shell("runs", "--json", *url).json["runs"][0]["run_id"]
    assert shell("undo", run, "--yes", *url).code == 0
    before = box.pets()
    undone = shell("undo", run, "--yes", *url)
    assert (undone.code, len(undone.err.splitlines()) <= 12) == (0, True), undone
    assert box.pets() == before
