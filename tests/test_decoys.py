"""An untrusted folder runs no code: no module and no configuration file in it is executed."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient

import petsync
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

_PROGRAM = Path(sys.executable).with_name("petsync")
_CONFIGURATION = (
    *("jupyter_config.py", "jupyter_server_config.py", "jupyter_voila_config.py"),
    *("voila_config.py", "voila.py", "ipython_config.py", "ipython_kernel_config.py"),
    *("jupyter_application_config.py", "startup.py", "conftest.py"),
)
_READY_S = 120


@cache
def _imported() -> set[str]:
    """Return the top-level modules that petsync's source imports."""
    names = set()
    for file in Path(petsync.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - {"__future__"}


@cache
def _decoys() -> set[str]:
    """Return a file name for each module of Python, petsync and its dependencies, and for each
    configuration file.
    """
    modules = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *_imported()}
    modules |= {"sitecustomize", "usercustomize"}
    return {*(f"{name}.py" for name in modules if "/" not in name), *_CONFIGURATION}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with all decoys; a decoy that runs writes its name to the file `ran` in the
    parent folder.
    """
    folder = tmp_path / "from a stranger"
    folder.mkdir()
    decoy = tmp_path / "decoy"
    decoy.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__ + chr(10))\n", "utf-8")
    for name in _decoys():
        (folder / name).hardlink_to(decoy)
    (folder / ".env").write_text("PETSYNC_URL=https://stranger.example\n", "utf-8")
    return folder


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's environment without module path variables; temporary files
    go elsewhere.
    """
    temporary = folder.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONSAFEPATH") and not name.startswith("PETSYNC_")
    }
    return {**kept, "TMPDIR": str(temporary)}


def _ran(folder: Path) -> list[str]:
    marks = folder.parent / "ran"
    return marks.read_text().splitlines() if marks.exists() else []


def test_a_decoy_runs_where_it_is_found(folder: Path) -> None:
    """The decoys work: `python -c` imports from the folder in which it is started."""
    subprocess.run(
        [sys.executable, "-c", "import keyring"],
        check=False,
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
    )
    assert str(folder / "keyring.py") in _ran(folder)


@contextmanager
def _page(folder: Path, *args: str) -> Iterator[str]:
    """Yield the link of `petsync app`, started in the folder."""
    options = ("app", "--no-browser", "--json", "--state", str(folder.parent / "state"), *args)
    with subprocess.Popen(
        [str(_PROGRAM), *options],
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            lines = iter(running.stdout.readline, "")
            text = ""
            for line in lines:
                text += line
                if line == "}\n":
                    break
            yield json.loads(text)["url"]
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(60)


def _answer(client: BlockingKernelClient, code: str) -> Any:
    """Return the value of the expression in the kernel."""
    shown: dict[str, Any] = client.execute(
        "", user_expressions={"it": code}, reply=True, timeout=_READY_S
    )
    answer: Mapping[str, Any] = shown["content"]["user_expressions"]["it"]
    assert answer["status"] == "ok", answer
    return ast.literal_eval(answer["data"]["text/plain"])


def _find_connection(link: str) -> str:
    """Return the connection file of the page's kernel, a process that this one started."""
    port = str(urlsplit(link).port)
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.environ().get("VOILA_APP_PORT") == port:
                return next(each for each in child.cmdline() if each.endswith(".json"))
    raise AssertionError("the page has no kernel")


def test_the_page_imports_nothing_from_its_folder(folder: Path) -> None:
    """`petsync app` in a folder of decoys runs none of them: the folder is on the module path of
    neither the server nor the kernel, also after the kernel changes to it.
    """
    with Sandbox(auth=False) as box, _page(folder, "--url", box.url) as link:
        answer = httpx.get(link, timeout=_READY_S, follow_redirects=True)
        assert "application/vnd.jupyter.widget-view+json" in answer.text
        assert _ran(folder) == []
        client = BlockingKernelClient(connection_file=_find_connection(link))
        client.load_connection_file()
        client.start_channels()
        try:
            assert _answer(client, "__import__('os').getcwd()") == str(folder)
            path = _answer(client, "__import__('sys').path")
            assert not [each for each in path if Path(each).resolve() == folder.resolve()], path
            assert "" not in path
            for name in sorted(_imported()):
                where = _answer(client, f"getattr(__import__({name!r}), '__file__', '') or ''")
                assert not where.startswith(str(folder)), name
            # Processes that the kernel starts inherit this.
            child = "__import__('subprocess').check_output([__import__('sys').executable, '-c',"
            child += " 'import sys; print(sys.path)'], text=True)"
            assert "''" not in _answer(client, child)
        finally:
            client.stop_channels()
    assert _ran(folder) == []


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("whoami", "--url", "https://127.0.0.1:9"),
        ("check", "sheet.csv"),
        ("config", "check"),
    ],
    ids=lambda words: words[0],
)
def test_commands_import_nothing_from_their_folder(folder: Path, words: tuple[str, ...]) -> None:
    """A command that is started in a folder of decoys runs none of them."""
    (folder / "sheet.csv").write_text("id,name,status\n1,Rex,available\n", "utf-8")
    (folder / "petsync.toml").write_text(
        'url = "https://127.0.0.1:9"\n[jobs.it]\nmode = "check"\nsheet = "sheet.csv"\n', "utf-8"
    )
    done = subprocess.run(
        [str(_PROGRAM), *words, "--state", str(folder.parent / "state")],
        check=False,
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=_READY_S,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert _ran(folder) == []


@pytest.mark.parametrize("module", ["petsync", "petsync.cli"])
def test_python_m_imports_no_dependency_from_its_folder(folder: Path, module: str) -> None:
    """`python -m petsync` removes the folder from the module path before it imports a
    dependency.
    """
    for file in folder.glob("*.py"):
        # petsync cannot protect the modules that Python needs to find and start petsync.
        if file.stem in sys.stdlib_module_names or file.stem == "petsync":
            file.unlink()
    subprocess.run(
        [sys.executable, "-m", module, "check", "sheet.csv"],
        check=False,
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        timeout=_READY_S,
    )
    assert _ran(folder) == []
