"""Every example works as it stands: of the help, README, the pages, and the workbook's guide."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import click
import consenting
import pytest
import vault
from commands import PROGRAM, Shell, finished, process, shop
from crash.forked import Forked
from openpyxl import load_workbook
from sheetmaking import workbook_of

from petsync import Pet, sample_data
from petsync.cli.entry import cli
from petsync.protocol.json import encode_pets
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    *sorted(
        f"docs/{path.relative_to(ROOT / 'docs')}"
        for path in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md"))
    ),
]
_FENCE = re.compile(r"^```(?:sh|shell|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ADDRESS = re.compile(r"https?://(?:\w+\.example|127\.0\.0\.1:\d+)/v2")
_DONE = {0, 2, 3, 5}
"""The exit codes of a command that works: done, pending changes, rows to fix, conflicts."""
_PATHS = {"/srv/petsync/": "nightly/", "/tmp/": "", "~/": ""}
_WAITING = Path(".petsync/reconcile/waiting/catalogue.json")


def _groups() -> Iterator[tuple[str, str]]:
    """Yield each command's path and the epilog of its help, with that of petsync itself."""
    yield "", cli.epilog or ""
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command.epilog or ""
        for inner, each in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", each.epilog or ""


def _lines(text: str) -> list[str]:
    """Return the lines with a command of petsync, or with variables for it."""
    stripped = (line.strip().removeprefix("$ ") for line in text.splitlines())
    return [line for line in stripped if line.startswith(("petsync ", "export PETSYNC_URL="))]


HELP = {name: _lines(text) for name, text in _groups()}
ON_PAGES = {
    page: lines
    for page in PAGES
    if page != "docs/cli.md"
    and (lines := _lines("".join(_FENCE.findall((ROOT / page).read_text("utf-8")))))
}


class Folder:
    """A folder with the files and runs that the examples name, and a store for each address."""

    def __init__(self, shell: Shell, box: Sandbox, other: Sandbox, guarded: Sandbox) -> None:
        self.shell, self.box, self.other, self.guarded = shell, box, other, guarded
        to = ("--url", box.url)
        self._apply("done.csv", "id,name\n4711,Max\n4712,Mo\n", *to)
        box.set_faults("portal=1,only=updatePetWithForm")
        self._apply("left.csv", "id,name\n1,Rex 2\n2,Mia 2\n", *to, "--max-failures", "0")
        box.set_faults(None)
        self.left, self.run = (r["run_id"] for r in shell("runs", "--json").json["runs"])
        Path("arrivals.csv").write_text("name,status\nAda,sold\nBo,pending\n", "utf-8")
        rows = [["Tiername", "Zustand", "tags"], ["Ada", "sold", "calm"], ["Bo", "pending", None]]
        workbook_of(rows).save("arrivals.xlsx")
        rows = [["id", "Tiername", "Bild-Adressen"], ["1", "Rex 3", None]]
        workbook_of(rows).save("katalog.xlsx")
        Path("photos").mkdir()
        shutil.copy(sample_data() / "images" / "1001-bella.png", "photos/1.png")
        shutil.copy(sample_data() / "images" / "1002-zoe.jpg", "photos/2-front.jpg")
        shutil.copy(sample_data() / "images" / "1002-zoe.jpg", "front.jpg")
        Path("pets.json").write_bytes(encode_pets(shop()))
        Path("new.csv").write_text("id,name\n1,Rex\n", "utf-8")
        Path("pets").mkdir()
        shutil.copy("new.csv", "pets/new.csv")
        Path("petsync.env").write_text("SHOP=1\n", "utf-8")
        Path("petsync.env").chmod(0o600)
        self.export(*to)
        self.write_job(Path("nightly/petsync.toml"))

    def _apply(self, name: str, text: str, *options: str) -> None:
        Path(name).write_text(text, "utf-8")
        assert self.shell("apply", name, "--yes", *options).code in (0, 3, 7)

    def export(self, *to: str, header: str = "name") -> None:
        """Write catalogue.xlsx, edited and with columns for pictures, plan.json, and copies."""
        assert self.shell("export", "catalogue.xlsx", "--force", *to).code == 0
        book = load_workbook("catalogue.xlsx")
        sheet = book.worksheets[0]
        sheet["B1"] = header
        sheet["C2"] = "pending"
        for column, texts in ((9, ("image", "front.jpg")), (10, ("caption", "In the sun"))):
            for row, text in enumerate(texts, start=1):
                sheet.cell(row, column, text)
        book.save("catalogue.xlsx")
        for name in ("old.xlsx", "mine.xlsx", "hers.xlsx", "export.xlsx"):
            shutil.copy("catalogue.xlsx", name)
        if header == "name":
            assert self.shell("plan", "catalogue.xlsx", *to, "-o", "plan.json").code == 0
            for name in ("plan-monday.json", "plan-tuesday.json"):
                shutil.copy("plan.json", name)

    def write_job(self, file: Path, schedule: str = 'schedule = "0 2 * * *"') -> None:
        """Write a petsync.toml with the job of the pages."""
        job = f'[jobs.catalogue]\nmode = "two-way"\nsheet = "catalogue.xlsx"\n{schedule}\n'
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'url = "{self.box.url}"\n{job}', "utf-8")
        if file.parent.name:
            shutil.copy("catalogue.xlsx", file.parent / "catalogue.xlsx")

    def run_line(self, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run the command as it stands: only addresses, the id of a run, and places outside of the
        folder are replaced, and questions are answered with yes.
        """
        is_login = line.startswith("petsync login")
        url = self.guarded.url if is_login else self.box.url
        line = _ADDRESS.sub(lambda found: self._url(found[0], url), line)
        if line.startswith("export "):
            monkeypatch.setenv("PETSYNC_URL", line.split()[1].partition("=")[2])
            return
        for place, here in _PATHS.items():
            line = line.replace(place, here)
        left = line.startswith("petsync resume")
        line = re.sub(r"\b20261121-0930\b|\bRUN\b", self.left if left else self.run, line)
        words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
        if words[-1] == "&":
            return  # The store of this test answers instead.
        self._prepare(words)
        if words[0] in ("serve", "app") or "--every" in words:
            self._run_lasting(words)
        else:
            self._run_short(words)

    def _url(self, address: str, usual: str) -> str:
        return self.other.url if "new.example" in address else usual

    def _prepare(self, words: list[str]) -> None:
        """Provide what the single example needs: a header, a mistake, a job, or changes to make."""
        if "Tiername=name" in words and "catalogue.xlsx" in words:
            self.export("--url", self.box.url, header="Tiername")
        if "--correct" in words:
            book = load_workbook("catalogue.xlsx")
            book.worksheets[0]["C4"] = "reserved"
            book.save("catalogue.xlsx")
        if words[0] in ("reconcile", "config", "trust") and not Path("petsync.toml").exists():
            # A job with a schedule waits until it is due.
            is_lasting = "--every" in words
            self.write_job(Path("petsync.toml"), *([""] if is_lasting else []))
        if words[0] == "export":
            Path(words[1]).unlink(missing_ok=True)
        if "--job" in words and words[0] == "runs":
            self.write_job(Path("petsync.toml"))
            assert self.shell("reconcile").code in _DONE
        if str(_WAITING) in words:
            _WAITING.parent.mkdir(parents=True)
            shutil.copy("plan.json", _WAITING)
        if words[0] == "whoami":
            token = self.box.token()
            assert self.shell("login", "--token", stdin=f"{token}\n").code == 0
        if words[0] == "init":
            Path("petsync.toml").unlink(missing_ok=True)
            shutil.rmtree("nightly", ignore_errors=True)
        if "--into" in words:
            Path(words[words.index("--into") + 1]).mkdir(parents=True, exist_ok=True)

    def _run_short(self, words: list[str]) -> None:
        given = ""
        if words[0] in ("apply", "undo", "upload", "trust") and "--withdraw" not in words:
            words += [] if {"--yes", "-o"} & {*words} else ["--yes"]
        if words[0] == "login":
            box = self.guarded
            given = box.token() if "--token" in words else box.client_secret
            words = [box.client_id if each == "nightly" else each for each in words]
            words += [] if "--url" in words else ["--url", box.url]
        if "--no-browser" in words:
            self._paste(words)
            return
        in_browser = words[0] == "login" and not {"--token", "--client-credentials"} & {*words}
        done = finished(*words) if in_browser else self.shell(*words, stdin=f"{given}\n")
        assert done.code in _DONE, f"{shlex.join(words)}\n{done.out}{done.err}"
        assert "Traceback" not in done.err
        if words == ["init"]:
            self.write_job(Path("petsync.toml"))  # The pages ask to edit the new file.

    def _paste(self, words: list[str]) -> None:
        with process(*words, stdin=subprocess.PIPE) as running:
            assert running.stdin is not None
            while not (found := re.search(r"http://\S+/oauth/authorize\S+", _read(running))):
                pass
            running.stdin.write(f"{consenting.sent_back(found[0])}\n")
            running.stdin.close()
            assert running.wait(300) == 0

    def _run_lasting(self, words: list[str]) -> None:
        """Run the command until it is ready, and stop it. Its port is a free one."""
        if "--port" in words:
            words[words.index("--port") + 1] = "0"
        elif words[0] != "reconcile":
            words += ["--port", "0"]
        if words[0] == "serve":
            words += (
                [] if "--db" in words else ["--db", f"{len(words)}-{words[-2]}.db".replace("/", "")]
            )
        asked = self.box.requests.total()
        with subprocess.Popen(
            [*PROGRAM, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as running:
            if words[0] == "reconcile":
                while self.box.requests.total() == asked:
                    assert running.poll() is None
                    time.sleep(0.02)
            else:
                while "Ctrl-C ends" not in _read(running):
                    pass
            running.send_signal(signal.SIGINT)
            _, shown = running.communicate(timeout=300)
        assert running.returncode in (0, 7, 130), shown


def _read(running: subprocess.Popen[str] | Forked) -> str:
    """Return the next line of standard error; fail at its end."""
    assert running.stderr is not None
    line = str(running.stderr.readline())
    assert line, "the command ended"
    return line


@pytest.fixture(scope="module")
def _boxes() -> Iterator[tuple[Sandbox, Sandbox, Sandbox]]:
    with Sandbox(auth=False) as box, Sandbox(auth=False) as other, Sandbox() as guarded:
        yield box, other, guarded


class Kept:
    """The folder as it is made for the first example. For all others it is copied to the same
    place, with the user's notes on its journal, because making it takes longer than most examples.
    """

    def __init__(self, home: Path) -> None:
        self._place, self._copy, self._notes = home / "shop", home / "copy", home / "notes"
        self._made: Folder | None = None
        self._pets: list[Pet] = []

    def open(self, monkeypatch: pytest.MonkeyPatch, shell: Shell, *boxes: Sandbox) -> Folder:
        """Put the folder in its place, go there, and return it."""
        notes = Path(os.environ["XDG_STATE_HOME"])
        shutil.rmtree(self._place, ignore_errors=True)
        if self._made is None:
            self._place.mkdir()
            monkeypatch.chdir(self._place)
            self._made = Folder(shell, *boxes)
            self._pets = boxes[0].pets()
            shutil.copytree(self._place, self._copy)
            shutil.copytree(notes, self._notes)
        else:
            shutil.copytree(self._copy, self._place)
            shutil.copytree(self._notes, notes)
            monkeypatch.chdir(self._place)
            boxes[0].reset(self._pets)
        return copy(self._made)


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def folder(
    shell: Shell,
    _boxes: tuple[Sandbox, Sandbox, Sandbox],
    _kept: Kept,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Folder:
    """Return the folder. Its keyring is a file, and its browser agrees to sign in."""
    vault.use(monkeypatch, tmp_path)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {Path(consenting.__file__)} %s")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    more = [Pet(id=n, name=f"Pet {n}", status="sold") for n in range(4700, 4750)]
    for each in _boxes:
        each.set_faults(None)
        each.reset([*shop(), *more])
    return _kept.open(monkeypatch, shell, *_boxes)


@pytest.mark.parametrize(
    ("name", "line"),
    [(name, line) for name, lines in HELP.items() for line in lines],
    ids=lambda text: text.replace("/", "_"),
)
def test_examples_of_the_help(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, line: str
) -> None:
    """Each example in the help of a command works, with the address of the store in PETSYNC_URL."""
    assert line.startswith(f"petsync {name}")
    monkeypatch.setenv("PETSYNC_URL", folder.box.url)
    if line == "petsync demo" or name == "demo":
        monkeypatch.delenv("PETSYNC_URL")
    folder.run_line(line, monkeypatch)


def test_each_command_has_an_example() -> None:
    """The help of each command, and of petsync itself, has an example."""
    assert [name for name, lines in HELP.items() if not lines] == []


def test_the_examples_of_petsync_in_their_order(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps in `petsync --help` work one after the other, with the address in the first one
    only.
    """
    folder.box = folder.guarded
    for line in HELP[""]:
        folder.run_line(line, monkeypatch)


@pytest.mark.parametrize("page", ON_PAGES)
def test_commands_of_a_page(folder: Folder, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """The commands in the shell blocks of a page work in their order."""
    monkeypatch.setenv("PETSYNC_URL", folder.box.url)
    for line in ON_PAGES[page]:
        folder.run_line(line, monkeypatch)


@pytest.mark.parametrize("name", ["catalogue.xlsx", "my pets.xlsx"])
def test_commands_of_the_guide(folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The commands in the guide of an exported workbook work in the folder of the file, without an
    address.
    """
    assert folder.shell("export", name, "--url", folder.box.url, "--force").code == 0
    cells = [cell.value for row in load_workbook(name).worksheets[1] for cell in row]
    found = [re.match(r"petsync (?:\w+) (?:\"[^\"]+\"|\S+)", str(text)) for text in cells]
    lines = [each[0] for each in found if each]
    assert [line.split()[1] for line in lines] == ["plan", "apply"]
    for line in lines:
        folder.run_line(line, monkeypatch)
