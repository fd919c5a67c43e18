"""Jupyter servers for the browser tests: JupyterLab and Voilà on loopback, with a token and a
kernel for each version of ipykernel that petsync supports.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from ports import free_port

IPYKERNELS = ("6.31", "7.3", "7.4")
_PATIENCE = 120.0
_FRESH = ("JUPYTER", "JPY_", "PETSYNC_", "VOILA_", "PYTEST_", "IPYTHON", "DBUS_")


@dataclass(slots=True)
class Server:
    """A running server: its address, token, notebooks, log and process."""

    url: str
    token: str
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the server, which ends its kernels."""
        for ending, patience in ((signal.SIGTERM, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            with suppress(ProcessLookupError):
                self.process.send_signal(ending)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                return


@dataclass(slots=True)
class House:
    """The folder, environment and kernels that the servers share."""

    folder: Path
    outside: str
    environment: dict[str, str] = field(init=False)
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = {key: text for key, text in os.environ.items() if not key.startswith(_FRESH)}
        kept = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        places = {key: str(self.folder / name) for key, name in kept.items()}
        # Requests to other hosts go to a proxy that records them.
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.outside)
        self.environment = {
            **{key: text for key, text in own.items() if not key.lower().endswith("_proxy")},
            **places,
            **proxies,
            "NO_PROXY": "127.0.0.1,localhost",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "JUPYTER_PLATFORM_DIRS": "1",
        }

    def close(self) -> None:
        """End all servers."""
        while self.servers:
            self.servers.pop().stop()

    def add_kernel(self, wanted: str) -> str:
        """Add a kernel that runs this version of ipykernel, and return its name. All other packages
        are shared.
        """
        name = f"ipykernel-{wanted}"
        place = self.folder / "data" / "kernels" / name
        place.mkdir(parents=True)
        environment = {"PYTHONPATH": str(self._ipykernel(wanted))} if _is_other(wanted) else {}
        spec = {
            "argv": [
                sys.executable,
                "-Xfrozen_modules=off",
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
            ],
            "display_name": name,
            "language": "python",
            "env": environment,
        }
        (place / "kernel.json").write_text(json.dumps(spec))
        return name

    def _ipykernel(self, wanted: str) -> Path:
        target = self.folder / name_of(wanted)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        subprocess.run(
            [*command, str(target), f"ipykernel=={wanted}.*"], check=True, capture_output=True
        )
        return target

    def lab(self, folder: Path) -> Server:
        """Start a JupyterLab for the notebooks in a folder; tests can run its commands."""
        options = [
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.extension_manager=readonly",
            f"--ServerApp.root_dir={folder}",
            "--ServerApp.port_retries=0",
            "--ServerApp.terminals_enabled=False",
        ]
        self._set("apputils-extension/notification", fetchNews="false")
        # Every cell stays on the page, where tests look for it.
        self._set("notebook-extension/tracker", windowingMode="none")
        token = secrets.token_urlsafe(16)
        command = ["jupyterlab", f"--IdentityProvider.token={token}", *_root(), *options]
        return self.serve(command, folder, token, "/api/status")

    def _set(self, plugin: str, **values: str) -> None:
        file = self.folder / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def voila(self, folder: Path) -> Server:
        """Start a Voilà for the notebooks in a folder, in either theme. Its template is that of
        `petsync app`, without the fonts that Voilà loads for its page.
        """
        place = self.folder / "data" / "voila" / "templates" / "quiet"
        place.mkdir(parents=True)
        for file in files("petsync.widgets").joinpath("assets", "templates").iterdir():
            (place / file.name).write_text(file.read_text("utf-8"))
        (place / "conf.json").write_text('{"base_template": "lab"}')
        options = [
            "--template=quiet",
            # This extension is for Jupyter Notebook; in Voilà it reports that it cannot start.
            "--VoilaConfiguration.extension_denylist=@jupyter-notebook/lab-extension",
            "--VoilaConfiguration.allow_theme_override=YES",
            "--show_tracebacks=True",
            "--Voila.ip=127.0.0.1",
        ]
        token = secrets.token_urlsafe(16)
        command = ["voila", str(folder), f"--token={token}", *options]
        return self.serve(command, folder, token, "/")

    def run(self, command: Sequence[str], folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
        """Run a module in a folder; return its process and the file with its output."""
        folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{command[0]}-{len(list(self.folder.iterdir()))}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self.environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        return process, log

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a program as Ctrl-C does, and wait for it."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)

    def serve(self, command: Sequence[str], folder: Path, token: str, answers: str) -> Server:
        """Start a server and wait until it answers."""
        port = free_port()
        common = [f"--port={port}", "--no-browser", "--KernelManager.transport=ipc"]
        process, log = self.run([*command, *common], folder)
        server = Server(f"http://127.0.0.1:{port}", token, folder, log, process)
        self.servers.append(server)
        _wait_until_it_answers(server, f"{server.url}{answers}?token={token}")
        return server


def name_of(wanted: str) -> str:
    """Return the name of the kernel of this version."""
    return f"ipykernel-{wanted}"


def write_notebook(file: Path, kernel: str, cells: Sequence[str]) -> Path:
    """Write a notebook of these code cells, not run yet, and return its file."""
    code = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": text,
            "outputs": [],
            "execution_count": None,
        }
        for number, text in enumerate(cells)
    ]
    kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
    metadata = {"kernelspec": kernelspec, "language_info": {"name": "python"}}
    notebook = {"cells": code, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(notebook), encoding="utf-8")
    return file


def asked_of(url: str, token: str) -> bytes:
    """Return the server's answer at this address."""
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return bytes(answer.read())


def settings_of(given: Mapping[str, object]) -> str:
    """Return code that assigns these values to their names."""
    return "\n".join(f"{name} = {value!r}" for name, value in given.items())


def _is_other(wanted: str) -> bool:
    return not version("ipykernel").startswith(f"{wanted}.")


def _root() -> list[str]:
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def _wait_until_it_answers(server: Server, url: str) -> None:
    until = time.monotonic() + _PATIENCE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < until and server.process.poll() is None:
        with suppress(OSError), opener.open(url, timeout=10):
            return
        time.sleep(0.1)
    server.stop()
    raise AssertionError(f"{server.url} did not answer:\n{server.log.read_text('utf-8')[-3000:]}")
