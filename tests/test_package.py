"""The package as users get it: wheel and sdist, and petsync without its repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import petsync
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
_RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
_COPY = """
import shutil, sys
from petsync import sample_data

shutil.copytree(sample_data() / "reconcile", sys.argv[1])
"""


def _run(*command: object, cwd: Path, code: int = 0, **variables: str) -> str:
    """Return what the command prints; it runs without the variables that lead to the repository,
    and must end with this exit code.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = [str(word) for word in command]
    done = subprocess.run(program, cwd=cwd, env=env | variables, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    _run(sys.executable, "-m", "build", "-q", "--no-isolation", "-o", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """Return the wheel that was built from the sdist."""
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts folder of an environment with the wheel and the packages that it needs.

    A path file adds the packages of the test environment. Path files in that folder are not read,
    so the petsync that is installed from the repository is not found.
    """
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, with_pip=False, symlinks=True)
    scripts = folder / "bin"
    python = scripts / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    _run(*pip, "--no-index", "--disable-pip-version-check", wheel, cwd=folder)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return scripts


def test_changelog_and_package_tell_one_version(built: Path) -> None:
    """The newest version of the changelog is the version of petsync and of the built files."""
    releases = _RELEASE.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert releases[0][0] == petsync.__version__
    assert sorted(path.name for path in built.iterdir()) == [
        f"petsync-{petsync.__version__}-py3-none-any.whl",
        f"petsync-{petsync.__version__}.tar.gz",
    ]


def test_changelog_is_in_order() -> None:
    """Each version of the changelog has a date, and versions and dates are in descending order; no
    other second-level heading exists.
    """
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = _RELEASE.findall(text)
    keys = [(date, tuple(map(int, version.split(".")))) for version, date in releases]
    assert keys == sorted(keys, reverse=True)
    assert len(re.findall(r"^## (?!\[Unreleased\]$)", text, re.MULTILINE)) == len(releases)
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_version_stands_in_one_place() -> None:
    """pyproject.toml takes the version from the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "petsync/_version.py"


def test_wheel_has_all_files_of_the_package(wheel: Path) -> None:
    """The wheel has all files of the package, with assets, templates and the type marker, and no
    test.
    """
    there = {name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "petsync").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "petsync/py.typed" in package
    assert package == {name for name in there if "/_sample_data/" not in name}


def test_wheel_has_the_sample_data(wheel: Path) -> None:
    """The wheel has all sample files except the scripts that make them."""
    mark = "petsync/_sample_data/"
    there = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(mark)}
    sample = (path for path in (ROOT / "sample_data").rglob("[!.]*") if path.is_file())
    kept = {path for path in sample if path.suffix not in (".py", ".pyc")}
    names = {mark + path.relative_to(ROOT / "sample_data").as_posix() for path in kept}
    assert there == names


def test_sdist_builds_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    """The wheel that is built from the repository is identical to the one from the sdist."""
    program = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", tmp_path]
    _run(*program, ROOT, cwd=tmp_path)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()
    expected = {"README.md", "CHANGELOG.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md", ".ci/run"}
    assert {name.partition("/")[2] for name in names} >= expected


def _git(*words: str, cwd: Path) -> str:
    author = ("-c", "user.name=petsync", "-c", "user.email=petsync@shop.example")
    return _run("git", *author, *words, cwd=cwd)


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the files of this one, in one commit without a change."""
    folder = tmp_path_factory.mktemp("cloned") / "petsync"
    ignored = (
        "*.egg-info",
        "build",
        "dist",
        "__pycache__",
        ".*_cache",
        ".venv",
        ".git",
        ".petsync",
    )
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*ignored))
    _git("init", "-q", cwd=folder)
    _git("add", "-A", cwd=folder)
    _git("commit", "-q", "-m", "petsync: release", cwd=folder)
    return folder


def test_a_release_is_reproducible(cloned: Path, built: Path) -> None:
    """`build-release` builds a tag twice with the same bytes, and writes the hash of each file. The
    SBOM gets the version of petsync.
    """
    script = cloned / "docs" / "deploy" / "ci" / "build-release"
    sbom = cloned / "build" / "release" / "petsync.cdx.json"
    sbom.parent.mkdir(parents=True)
    component = {"type": "application", "name": "petsync"}
    sbom.write_text(json.dumps({"metadata": {"component": component}}), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    _run(script, f"v{petsync.__version__}", "--no-isolation", cwd=cloned, PATH=path)
    described = json.loads(sbom.read_bytes())["metadata"]["component"]
    assert described == {**component, "version": petsync.__version__}
    sums = (sbom.parent / "SHA256SUMS").read_text("utf-8")
    named = {line.split()[1] for line in sums.splitlines()}
    expected = {f"dist/{file.name}" for file in built.iterdir()}
    assert named == {"build/release/petsync.cdx.json", *expected}
    _run("sha256sum", "-c", "--quiet", "build/release/SHA256SUMS", cwd=cloned)


def test_a_release_is_of_a_clean_tag(cloned: Path) -> None:
    """`build-release` refuses a tag with another version, and a clone with changes."""
    script = cloned / "docs" / "deploy" / "ci" / "build-release"
    _run(script, "v99.0.0", cwd=cloned, code=1)
    more = cloned / "notes.txt"
    more.write_text("not in the commit\n", encoding="utf-8")
    _run(script, f"v{petsync.__version__}", cwd=cloned, code=1)
    more.unlink()


def test_demo_runs_without_the_repository(alone: Path, tmp_path: Path) -> None:
    """With the wheel alone, `petsync demo` runs with the sample data of the wheel."""
    where = _run(alone / "python", "-c", "import petsync; print(petsync.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(alone.parent)
    assert _run(alone / "petsync", "--version", cwd=tmp_path) == f"petsync {petsync.__version__}\n"
    _run(alone / "petsync", "demo", "--keep", tmp_path / "kept", cwd=tmp_path)
    assert list((tmp_path / "kept").iterdir())


def test_a_reconciliation_runs_without_the_repository(alone: Path, tmp_path: Path) -> None:
    """With the wheel alone, the jobs of the sample run and leave reports, and a second run of the
    job that merges both sides finds them in sync.
    """
    folder = tmp_path / "nightly"
    _run(alone / "python", "-c", _COPY, folder, cwd=tmp_path)
    with Sandbox(seed=ROOT / "sample_data" / "store.json", auth=False) as box:
        result = _run(alone / "petsync", "reconcile", cwd=folder, code=2, PETSYNC_URL=box.url)
        second = (alone / "petsync", "reconcile", "--job", "tanks")
        assert "In sync" in _run(*second, cwd=folder, PETSYNC_URL=box.url)
    assert {"tanks", "labels"} <= set(result.split())
    reports = {path.parent.name for path in (folder / "reports").rglob("*.html")}
    assert reports == {"tanks", "arrivals", "labels"}
