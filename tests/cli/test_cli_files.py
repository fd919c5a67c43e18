"""Files that petsync names itself: written through no link, and private in the state folder."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pandas as pd
import pytest
import vault
from commands import Shell, shop

import petsync as ps
from petsync._files import open_private
from petsync.errors import SheetError
from petsync.sandbox import Sandbox
from petsync.sheets import read_sheet, write_back
from petsync.sheets.results import build_results
from petsync.widgets.sheet import save_marked

pytestmark = pytest.mark.slow

_MOMENT = dt.datetime(2026, 11, 22, 12, 0, tzinfo=dt.UTC)
_CONFIG = """
[jobs.catalogue]
mode = "push"
sheet = "catalogue.csv"
schedule = "0 4 * * *"
"""


@pytest.fixture
def shell(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the command line in a new folder below the test's."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return shell


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with a file, the target of links; assert that it is unchanged."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious\n", "utf-8")
    yield folder
    assert [each.name for each in folder.iterdir()] == ["precious"]
    assert (folder / "precious").read_text("utf-8") == "precious\n"


def _sheet() -> Path:
    path = Path("catalogue.csv")
    pets = [ps.Pet(id=1, name="Rexi"), *shop()[1:]]
    ps.write_sheet(ps.frame_from_pets(pets), path, base=False)
    return path


def _results() -> pd.DataFrame:
    return pd.DataFrame({"outcome": ["applied"], "message": [""], "assigned_id": [None]}, index=[2])


@pytest.mark.parametrize("name", ["precious", "not there yet"])
def test_results_go_beside_a_link(shell: Shell, box: Sandbox, outside: Path, name: str) -> None:
    """If the name of the results is a link, they are written under the next name; its target is
    unchanged.
    """
    _sheet()
    link = Path("catalogue.results.csv")
    link.symlink_to(outside / name)
    done = shell("apply", "catalogue.csv", "--yes", "--url", box.url)
    assert done.code == 0, done.err
    assert link.is_symlink()
    assert Path("catalogue.results-2.csv").is_file()


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("name", ["precious", "not there yet"])
def test_a_link_after_the_name_was_chosen_is_an_error(outside: Path, name: str) -> None:
    """A link that appears after the name of the results was chosen is an error that names it."""
    sheet = read_sheet(_sheet())
    link = Path("catalogue.results.csv")
    link.symlink_to(outside / name)
    with pytest.raises(
        SheetError, match=r"catalogue\.results\.csv cannot be written: .*symbolic link"
    ):
        build_results(sheet, _results(), link).write(follow=False)


def test_a_base_that_is_a_link_is_not_written(shell: Shell, box: Sandbox, outside: Path) -> None:
    """A base that is a symbolic link is an error, and its target is unchanged."""
    Path("pets.csv.petsync-base").symlink_to(outside / "precious")
    done = shell("export", "pets.csv", "--url", box.url)
    assert done.code == 1
    assert "symbolic link" in done.err


@pytest.mark.usefixtures("shell")
def test_a_base_that_is_a_link_is_not_read(outside: Path) -> None:
    """The target of a link with the name of a base is copied neither into results nor into a
    backup.
    """
    path = _sheet()
    Path("catalogue.csv.petsync-base").symlink_to(outside / "precious")
    sheet = read_sheet(path)
    assert "not a regular file" in sheet.base_refused
    ps.write_results(sheet, _results(), "copy.csv")
    with pytest.raises(SheetError, match="symbolic link"):
        write_back(sheet, _results(), now=_MOMENT)
    written = [each for each in Path().iterdir() if not each.is_symlink()]
    assert {each.name for each in written} >= {"copy.csv", "catalogue.backup-20261122-120000.csv"}
    assert not [each for each in written if "precious" in each.read_text("utf-8")]


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("name", ["precious", "not there yet"])
@pytest.mark.parametrize("ending", ["", ".petsync-base"])
def test_a_backup_goes_beside_a_link(outside: Path, name: str, ending: str) -> None:
    """If the name of a backup or of its base is a link, the backup gets the next name."""
    sheet = read_sheet(_sheet())
    Path(f"catalogue.backup-20261122-120000.csv{ending}").symlink_to(outside / name)
    backup = write_back(sheet, _results(), now=_MOMENT)
    assert backup.name == "catalogue.backup-20261122-120000-2.csv"
    assert backup.is_file()


@pytest.mark.usefixtures("shell")
def test_a_marked_copy_follows_no_link(outside: Path) -> None:
    """A link with the name of a marked copy is treated as an existing file."""
    Path("catalogue.marked.xlsx").symlink_to(outside / "not there yet")
    with pytest.raises(SheetError, match="already exists"):
        save_marked(read_sheet(_sheet()), Path("catalogue.marked.xlsx"))


_LINKS = (
    ".petsync",
    *(f".petsync/{name}" for name in ("journal.db", "reconcile", "sign-in.json", "store.db")),
    *(f".petsync/reconcile/{name}" for name in ("bases", "locks", "history.jsonl", "notify.json")),
    ".petsync/reconcile/locks/catalogue.lock",
    ".petsync/reconcile/reports",
)


@pytest.mark.parametrize("link", _LINKS)
@pytest.mark.parametrize(
    "words",
    [("apply", "catalogue.csv", "--yes"), ("reconcile", "petsync.toml")],
    ids=lambda words: words[0],
)
def test_the_state_folder_has_no_link(
    shell: Shell, box: Sandbox, outside: Path, link: str, words: tuple[str, ...]
) -> None:
    """A state folder that is a link, or contains one, is an error before anything is sent."""
    _sheet()
    Path("petsync.toml").write_text(f'url = "{box.url}"\n{_CONFIG}', "utf-8")
    path = Path(link)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_file = path.suffix in (".db", ".json", ".jsonl", ".lock")
    path.symlink_to(outside / "precious" if is_file else outside)
    done = shell(*words)
    assert done.code in (1, 64), done.out
    assert "symbolic link" in " ".join((done.err + done.out).split())
    assert box.pets()[0].name == "Rex"


@pytest.mark.parametrize(("kind", "cure"), [("link", "the link"), ("pipe", "the file")])
def test_a_job_says_what_to_remove_from_its_state_folder(
    shell: Shell, box: Sandbox, outside: Path, kind: str, cure: str
) -> None:
    """A link or a pipe in a job's state folder is an error whose hint names what to remove."""
    _sheet()
    Path("petsync.toml").write_text(f'url = "{box.url}"\n{_CONFIG}', "utf-8")
    Path(".petsync").mkdir()
    if kind == "link":
        Path(".petsync/odd").symlink_to(outside)
    else:
        os.mkfifo(".petsync/odd")
    done = shell("reconcile")
    assert done.code == 1
    assert "odd in the state folder is" in " ".join(done.err.split())
    assert f"Remove {cure}, or name another folder" in " ".join(done.err.split())


def test_reports_follow_no_link(shell: Shell, box: Sandbox, outside: Path) -> None:
    """A job's report folder that is a link gets no report, and the round reports the link."""
    _sheet()
    text = f'url = "{box.url}"\n{_CONFIG}[report]\nfolder = "reports"\n'
    Path("petsync.toml").write_text(text, "utf-8")
    Path("reports").mkdir()
    Path("reports/catalogue").symlink_to(outside)
    done = shell("reconcile")
    assert "symbolic link" in done.err + done.out


def test_units_follow_no_link(shell: Shell, outside: Path) -> None:
    """`config schedule --into` does not write through a link."""
    _sheet()
    Path("petsync.toml").write_text(f'url = "https://shop.example/v2"\n{_CONFIG}', "utf-8")
    assert shell("config", "schedule", "--for", "systemd", "--into", "units").code == 0
    for unit in Path("units").iterdir():
        unit.unlink()
        unit.symlink_to(outside / "precious")
    done = shell("config", "schedule", "--for", "systemd", "--into", "units")
    assert done.code == 64
    assert "symbolic link" in done.err


def test_a_private_file_is_opened_through_no_link(tmp_path: Path) -> None:
    """The function that opens private files refuses a link."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic link"):
        open_private(link, os.O_RDWR)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Set the umask to 0, so that only petsync restricts access to files."""
    before = os.umask(0)
    yield
    os.umask(before)


def _open_to_others(folder: Path) -> list[str]:
    """Return the folder and each path below it that other users may read, write or enter."""
    every = [folder, *folder.rglob("*")]
    return [f"{p.lstat().st_mode:o} {p}" for p in every if p.lstat().st_mode & 0o077]


def _within_reach(folder: Path) -> Iterator[str]:
    """Yield each path that other users may read, write or enter, and that they can reach."""
    for path in folder.iterdir():
        if path.lstat().st_mode & 0o077:
            yield f"{path.lstat().st_mode:o} {path}"
            if path.is_dir():
                yield from _within_reach(path)


@pytest.mark.usefixtures("no_umask")
def test_what_is_private_at_umask_000(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With umask 000, each file in the state folder and each saved plan is private, whichever
    command wrote it.
    """
    vault.use(monkeypatch, tmp_path)
    _sheet()
    state = Path(".petsync")
    with Sandbox(pets=shop()) as box:
        where = ("--url", box.url)
        signed_in = shell("login", "--token", *where, stdin=f"{box.token()}\n")
        assert signed_in.code == 0, signed_in.err
        assert _open_to_others(state) == []
        for words in (
            ("export", "pets.xlsx"),
            ("export", "pets.csv"),
            ("plan", "catalogue.csv", "-o", "plan.json"),
            ("rehearse", "catalogue.csv"),
            ("apply", "plan.json", "--yes"),
            ("runs",),
            ("doctor",),
        ):
            done = shell(*words, *where)
            assert done.code == 0, (words, done.err)
        text = f'url = "{box.url}"\n{_CONFIG}'
        Path("petsync.toml").write_text(f"{text}[metrics]\ntextfile = 'm.prom'\n", "utf-8")
        for name in ("Rexina", "Rexana"):
            pets = [ps.Pet(id=1, name=name), *shop()[1:]]
            ps.write_sheet(ps.frame_from_pets(pets), "catalogue.csv", base=False)
            done = shell("reconcile", "petsync.toml")
            assert done.code == 0, done.out + done.err
        Path("petsync.toml").write_text(text + "[jobs.catalogue.guard]\nmax_update = 0\n", "utf-8")
        ps.write_sheet(ps.frame_from_pets(shop()), "catalogue.csv", base=False)
        assert shell("reconcile", "petsync.toml").code == 4
        assert shell("logout", *where).code == 0
    made = {each.name for each in state.rglob("*")}
    assert made >= {"journal.db", "sign-in.json", "sign-in.lock", "history.jsonl", "waiting"}
    assert made >= {"bases", "locks", "latest.json", "reports"}
    assert _open_to_others(state) == []
    assert Path("plan.json").stat().st_mode & 0o777 == 0o600
    left = [each for each in Path().iterdir() if each.name.endswith(".tmp")]
    assert left == []


def _modes(*names: str) -> dict[str, str]:
    return {name: f"{Path(name).stat().st_mode & 0o777:o}" for name in names}


@pytest.mark.usefixtures("no_umask")
def test_what_a_person_asks_for_at_umask_000(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With umask 000, other users may read the files that commands write, but never write them. A
    file made from a sheet is not more readable than the sheet.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.setenv("PETSYNC_STATE", ".petsync")
    before = set(Path().iterdir())
    sheet = _sheet()
    sheet.chmod(0o600)
    result = ("plan.html", "plan.xlsx", "plan.md", "plan.txt")
    with Sandbox(pets=shop(), auth=False) as box:
        Path("petsync.toml").write_text(
            f'url = "{box.url}"\n{_CONFIG}[metrics]\ntextfile = "metrics/m.prom"\n'
            '[log]\nfile = "logs/petsync.log"\n[report]\nfolder = "reports"\n',
            "utf-8",
        )
        Path("petsync.toml").chmod(0o600)
        assert shell("trust", "--yes").code == 0
        for words in (
            ("export", "pets.xlsx"),
            ("export", "pets.csv"),
            ("export", "pets.json"),
            ("export", "pets.parquet"),
            ("check", "catalogue.csv", "--annotate", "marked.xlsx"),
            ("plan", "catalogue.csv", *(word for name in result for word in ("-o", name))),
            ("rehearse", "catalogue.csv", "--report", "rehearsal.html"),
            ("apply", "catalogue.csv", "--yes", "--report", "report.html"),
            ("runs", "--html", "runs.html"),
            ("init", "deep/new"),
            ("config", "schedule", "--for", "systemd", "--into", "deep/units"),
            ("reconcile", "petsync.toml"),
        ):
            done = shell(*words)
            assert done.code == 0, (words, done.out + done.err)
    made = [path for each in set(Path().iterdir()) - before for path in (each, *each.rglob("*"))]
    assert [f"{p.stat().st_mode:o} {p}" for p in made if p.stat().st_mode & 0o022] == []
    private = _modes(
        "marked.xlsx", *result, "rehearsal.html", "report.html", "catalogue.results.csv"
    )
    assert set(private.values()) == {"600"}, private
    usual = _modes("pets.xlsx", "pets.csv", "pets.csv.petsync-base", "pets.json", "runs.html")
    assert set(usual.values()) == {"644"}, usual
    assert Path("metrics/m.prom").is_file()
    assert Path("logs/petsync.log").is_file()


@pytest.mark.usefixtures("no_umask", "shell")
def test_a_copy_that_is_there_is_not_left_open() -> None:
    """A copy of a private sheet that replaces a file gets the sheet's mode, not the file's."""
    sheet = _sheet()
    sheet.chmod(0o640)
    for name in ("copy.csv", "marked.xlsx"):
        Path(name).write_bytes(b"")
        Path(name).chmod(0o666)
    read = read_sheet(sheet)
    ps.write_results(read, _results(), "copy.csv")
    ps.annotate_sheet(read, "marked.xlsx")
    assert set(_modes("copy.csv", "marked.xlsx").values()) == {"640"}


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Yield a folder whose path is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--no-auth", "--json"),
        ("serve", "--no-auth", "--json", "--db", "mine.db"),
        ("app", "--json", "--url", "https://shop.example/v2"),
    ],
    ids=["serve", "serve --db", "app"],
)
def test_a_server_at_umask_000(shell: Shell, short_folder: Path, words: tuple[str, ...]) -> None:
    """The pets that `serve` stores, and all temporary files of `app`, are private."""
    del shell
    folders = {name: short_folder / name for name in ("HOME", "TMPDIR", "JUPYTER_RUNTIME_DIR")}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    environ = {name: str(folder) for name, folder in folders.items()}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "petsync", *words],
        env={**os.environ, **environ, "BROWSER": "true"},
        stdout=subprocess.PIPE,
        text=True,
        umask=0,
    ) as running:
        try:
            assert running.stdout is not None
            text = ""
            for line in iter(running.stdout.readline, ""):
                text += line
                if line == "}\n":
                    break
            if words[0] == "app":
                assert httpx.get(json.loads(text)["url"], timeout=120).status_code == 200
                assert [*folders["TMPDIR"].rglob("kernel-*.json")]
                assert [*folders["JUPYTER_RUNTIME_DIR"].glob("petsync-*.html")]
            else:
                kept = [*Path().rglob("*.db*")]
                assert {each.suffix for each in kept} >= {".db", ".db-wal"}
                assert [each for each in kept if each.stat().st_mode & 0o077] == []
            places = [*folders.values(), Path()]
            assert [each for place in places for each in _within_reach(place)] == []
        finally:
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 0
