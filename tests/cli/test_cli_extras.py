"""What works with the base packages alone, and what asks for an extra."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from commands import shop
from packaging.requirements import Requirement

from petsync._extras import EXTRAS
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
CHOSEN: dict[str, list[str]] = PROJECT["optional-dependencies"]
NOT_FOR_USERS = {"all", "bench", "dev", "docs", "notebook", "test"}
MOST_PACKAGES = 40
# Python imports this module at each start, also in processes that petsync starts.
BLOCK = """
import sys

class Block:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""
CALLS = """
import tempfile
import petsync as ps
from petsync import *

def sandbox():
    from petsync.sandbox import Sandbox

def sign_in(store):
    store.sign_in(ps.auth.bearer("token"), keep="keyring")

with ps.connect(URL, state=tempfile.mkdtemp()) as store:
    plan = store.plan(store.find_by_status("available"))
    calls = [
        ps.demo, sandbox, lambda: ps.rehearse(store, plan), lambda: ps.widgets.review,
        lambda: store.pictures("."), lambda: store.plan("s3://shop/pets.csv"),
        lambda: sign_in(store),
    ]
    for call in calls:
        try:
            call()
        except ps.errors.SettingsError as error:
            print(error.message, "|", error.hint.splitlines()[0])
"""


def _requirements(texts: Iterable[str]) -> Iterator[str]:
    """Yield the names of the packages that are required on this machine."""
    for each in map(Requirement, texts):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            yield _normal(each.name)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _base_packages() -> set[str]:
    """Return the packages that `pip install petsync` installs, without petsync."""
    found = set[str]()
    waiting = [*_requirements(PROJECT["dependencies"])]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _requirements(importlib.metadata.requires(name) or ())
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of processes that can import the base packages only."""
    installed = {*_base_packages(), "petsync"}
    blocked = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if installed.isdisjoint(map(_normal, owners))
    }
    assert {module.partition(".")[0] for each in EXTRAS.values() for module in each} <= {
        *blocked,
        "opentelemetry",
    }
    folder = tmp_path_factory.mktemp("base")
    (folder / "sitecustomize.py").write_text(BLOCK.format(blocked=blocked), "utf-8")
    env = {name: text for name, text in os.environ.items() if not name.startswith("PETSYNC_")}
    paths = [str(folder), str(Path(__file__).parents[2])]
    return {**env, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80"}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield a running store."""
    with Sandbox(auth=False, pets=shop()) as running:
        yield running


def _run(env: dict[str, str], folder: Path, *words: object, code: int = 0) -> str:
    """Return what `python WORDS` prints, which must end with the exit code."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_base_is_small() -> None:
    """`pip install petsync` installs at most 40 packages, with petsync; pandas 2 also has pytz."""
    packages = _base_packages() - ({"pytz"} if pd.__version__.startswith("2.") else set())
    assert len(packages) + 1 <= MOST_PACKAGES, sorted(packages)


def test_each_extra_is_what_pyproject_says() -> None:
    """EXTRAS has each extra for users, with the modules of each of its packages, and `all` has all
    of them.
    """
    owners = importlib.metadata.packages_distributions()
    owners["opentelemetry.sdk"] = ["opentelemetry-sdk"]
    owners["opentelemetry.exporter.otlp.proto.http"] = ["opentelemetry-exporter-otlp-proto-http"]
    assert EXTRAS.keys() == CHOSEN.keys() - NOT_FOR_USERS

    def packages(extra: str) -> set[str]:
        found = set[str]()
        for each in map(Requirement, CHOSEN[extra]):
            if each.name == "petsync":
                found = found.union(*map(packages, each.extras))
            elif each.name != "uvloop":  # not on each system
                found.add(_normal(each.name))
        return found

    for extra, modules in EXTRAS.items():
        assert {_normal(name) for module in modules for name in owners[module]} == packages(extra)
    (everything,) = map(Requirement, CHOSEN["all"])
    assert everything.extras == {*EXTRAS, "notebook"}


def test_the_start_loads_no_extra(tmp_path: Path) -> None:
    """Neither `import petsync`, nor help, nor the plan of a sheet imports a package of an extra,
    even if it is installed.
    """
    optional = {module for each in EXTRAS.values() for module in each} - {"tornado"}  # tenacity's
    (tmp_path / "pets.csv").write_text("id,name,status\n1,Rex,available\n", "utf-8")
    code = (
        "import sys, petsync.cli\n"
        "try:\n"
        "    petsync.cli.main(sys.argv[1:])\n"
        "finally:\n"
        f"    print('loaded', sorted({optional!r} & sys.modules.keys()))\n"
    )
    with Sandbox(auth=False, pets=shop()) as box:
        plan = ("plan", "pets.csv", "--url", box.url, "--state", "state")
        for words in (["--help"], plan):
            output = _run({**os.environ}, tmp_path, "-c", code, *words)
            assert "loaded []" in output, output


def test_the_main_work_needs_no_extra(base: dict[str, str], box: Sandbox, tmp_path: Path) -> None:
    """With the base packages alone, petsync exports, checks, plans, applies, undoes and reconciles,
    and writes its pages and workbooks.
    """
    env = {**base, "PETSYNC_URL": box.url}

    def petsync(*words: object) -> str:
        return _run(env, tmp_path, "-m", "petsync", *words)

    assert "Commands" in petsync("--help")
    petsync("doctor")
    petsync("export", "pets.csv")
    petsync("export", "pets.xlsx")
    sheet = tmp_path / "pets.csv"
    sheet.write_text(sheet.read_text("utf-8").replace("Rex", "Rexi"), "utf-8")
    petsync("check", "pets.xlsx")
    petsync("plan", "pets.csv", "-o", "plan.json")
    petsync("plan", "pets.csv", "-o", "plan.html")
    petsync("apply", "plan.json", "--yes", "--report", "report.html")
    assert box.pets()[0].name == "Rexi"
    petsync("undo", "--yes")
    assert box.pets()[0].name == "Rex"
    (tmp_path / "petsync.toml").write_text(
        f'url = "{box.url}"\n[jobs.pets]\nmode = "push"\nsheet = "pets.csv"\n', "utf-8"
    )
    petsync("reconcile", "petsync.toml")
    assert "pets" in petsync("runs")


def test_a_configuration_names_its_extras(
    base: dict[str, str], box: Sandbox, tmp_path: Path
) -> None:
    """`petsync config check` warns about each missing extra that the file uses."""
    (tmp_path / "petsync.toml").write_text(
        f'url = "{box.url}"\n[jobs.pets]\nmode = "check"\nquery = "SELECT 1 AS id"\n'
        'database = "sqlite:///pets.db"\n[notify]\nurls = ["${PETSYNC_NOTIFY}"]\n'
        '[metrics]\ntextfile = "petsync.prom"\n[tracing]\nenabled = true\n',
        "utf-8",
    )
    env = {**base, "PETSYNC_NOTIFY": "json://127.0.0.1:9/x"}
    output = _run(env, tmp_path, "-m", "petsync", "config", "check")
    named = re.findall(r"warning: the extra (\w+) is not installed: pip install", output)
    assert named == ["notify", "metrics", "tracing", "sql"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("app", ("app", "--no-browser")),
        ("images", ("upload", ".")),
        ("keyring", ("login", "--token")),
        ("sandbox", ("demo",)),
        ("sandbox", ("rehearse", "pets.csv")),
        ("sandbox", ("serve", "--port", "0")),
    ],
)
def test_a_command_names_its_extra(
    base: dict[str, str], box: Sandbox, tmp_path: Path, extra: str, words: tuple[str, ...]
) -> None:
    """A command that needs an extra ends before it does anything, with the command that installs
    the extra, as text and as JSON.
    """
    (tmp_path / "pets.csv").write_text("id,name\n1,Rex\n", "utf-8")
    env = {**base, "PETSYNC_URL": box.url} if words[0] != "demo" else base
    before = box.requests
    output = _run(env, tmp_path, "-m", "petsync", *words, code=64)
    message = f"`petsync {words[0]}` needs the extra {extra}, which is not installed"
    hint = f"Install it: pip install 'petsync[{extra}]'"
    assert output.splitlines()[:2] == [f"error: {message}", hint]
    assert ("PETSYNC_TOKEN" in output) is (extra == "keyring")
    error = json.loads(_run(env, tmp_path, "-m", "petsync", *words, "--json", code=64))["error"]
    assert (error["message"], error["hint"].splitlines()[0]) == (message, hint)
    assert [path.name for path in tmp_path.iterdir()] == ["pets.csv"]
    assert box.requests == before


def test_a_call_names_its_extra(base: dict[str, str], box: Sandbox, tmp_path: Path) -> None:
    """In Python, `from petsync import *` needs no extra, and each call that does names it."""
    output = _run(base, tmp_path, "-c", f"URL = {box.url!r}\n{CALLS}")
    assert output.splitlines() == [
        f"{what} needs the extra {extra}, which is not installed | "
        f"Install it: pip install 'petsync[{extra}]'"
        for what, extra in [
            ("ps.demo()", "sandbox"),
            ("petsync.sandbox", "sandbox"),
            ("ps.rehearse", "sandbox"),
            ("ps.widgets.review", "forms"),
            ("the check of pictures", "images"),
            ("s3://shop/pets.csv", "remote"),
            ("a stored sign-in", "keyring"),
        ]
    ]


def test_doctor_lists_the_extras(base: dict[str, str], box: Sandbox, tmp_path: Path) -> None:
    """`petsync doctor` lists the extras that are installed and those that are not."""
    words = ("-m", "petsync", "doctor", "--url", box.url)
    assert json.loads(_run(base, tmp_path, *words, "--json"))["extras"] == dict.fromkeys(
        sorted(EXTRAS), False
    )
    here = json.loads(_run({**os.environ}, tmp_path, *words, "--json"))
    assert here["extras"] == dict.fromkeys(sorted(EXTRAS), True)
    assert "pip install 'petsync[EXTRA]'" in " ".join(_run(base, tmp_path, *words).split())
