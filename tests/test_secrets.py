"""Secrets never appear in petsync's output: notebooks with debug logs and verbose tracebacks,
journals, plans, reports and command output.
"""

from __future__ import annotations

import base64
import html
import json
import os
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import nbformat
import pytest
from crash.running import Nursery
from nbconvert.preprocessors import ExecutePreprocessor

from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

# Each is unique in the output and changes when it is escaped for a URL, HTML or JSON.
MARK = "KnOwN7Zq"
CLIENT_SECRET = "c11ent&S3cret/+=\"<pässword>'"
API_KEY = "ap1~k3y/9?Xq&Wv+=<zT>"
PETS = [
    Pet(
        id=n,
        name=f"Pet {n}",
        status="available",
        category=Category(1, "Dogs"),
        tags=(Tag(1, "shy"),),
        photo_urls=(f"https://images.petshop.example/{n}.jpg",),
    )
    for n in range(1, 13)
]

_NOTEBOOK = """
%xmode Verbose
import logging, os, sys
from pathlib import Path
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
for name in ("httpx", "httpcore", "aiohttp", "oauthlib", "keyring", "petsync", "asyncio"):
    logging.getLogger(name).setLevel(logging.DEBUG)
import petsync as ps
url, given = os.environ["SHOP"], os.environ
#
store = ps.connect(url, auth=ps.auth.bearer(os.environ["T"], api_key=os.environ["K"]))
store
#
ps.auth.bearer(os.environ["T"], api_key=os.environ["K"])
#
store.who()
#
sheet = store.snapshot().frame.assign(status="sold").head(3)
plan = store.plan(sheet, guard=ps.Guard(max_update=ps.Limit(1.0)))
ps.save_plan(plan, "plan.json")
report = store.apply(plan)
for name, value in {"plan": plan, "report": report}.items():
    Path(f"{name}.html").write_text(value._repr_html_())
    Path(f"{name}.txt").write_text(f"{value} {value!r}")
report.to_frame().to_excel("report.xlsx")
report
#
store.api.get_pet_by_id(1)
#
store.undo(report.run_id)
#
for form in (ps.widgets.login(store), ps.widgets.review(plan, store), ps.widgets.app(store)):
    display(form)
#
store.api.get_pet_by_id(999)  # fails
#
secret = ps.auth.client_credentials("sandbox", os.environ["S"], api_key=os.environ["K"])
store.sign_in(secret)
#
store.who()
#
store.plan(sheet)
#
store.sign_in(ps.auth.client_credentials("sandbox", os.environ["S"] + "x"))  # fails
#
store.sign_in(ps.auth.bearer(os.environ["T"] + "\\x00"))  # fails
#
store.sign_in(ps.auth.bearer(os.environ["OLD"]))  # fails
#
store.sign_in(os.environ["T"])  # fails
#
store.sign_in(username="me", password=os.environ["S"])  # fails
#
store.api.delete_pet(999, api_key=os.environ["K"])  # fails
#
ps.connect(url, auth=os.environ["T"])  # fails
#
store.sign_in(ps.auth.implicit(url + "#state=x&access_token=" + os.environ["T"]))  # fails
#
pending = store.begin_sign_in(listen=False)
pending
#
pending.paste("http://127.0.0.1/petsync?state=no&code=" + os.environ["T"])  # fails
#
broken = ps.connect(url, auth=ps.auth.bearer(os.environ["OLD"], api_key=os.environ["K"]))
broken.snapshot()  # fails
#
both = ps.auth.bearer(os.environ["T"], api_key=os.environ["K"])
away = ps.connect("http://127.0.0.1:9/v2", auth=both, retry=ps.RetryPolicy(attempts=1))
away.snapshot()  # fails
#
ps.connect(url, environ={**os.environ, "PETSYNC_TOKEN": os.environ["T"] + "\\x00"})  # fails
#
os.environ["PETSYNC_TOKEN"] = os.environ["T"]
ps.connect(url, profile="nonsense")  # fails
#
ps.connect(url, timeout=-1)  # fails
#
ps.connect()  # fails
#
store.sign_out()
"""
CELLS = _NOTEBOOK.split("#\n")


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """Yield a sandbox whose tokens and codes all contain MARK."""
    made = secrets.token_urlsafe
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size=32: MARK + made(size))
    with Sandbox(
        pets=PETS, client_id="sandbox", client_secret=CLIENT_SECRET, api_key=API_KEY
    ) as sandbox:
        yield sandbox


@pytest.fixture
def environment(box: Sandbox, tmp_path: Path) -> dict[str, str]:
    """Return the environment variables of the notebook and the commands."""
    fresh = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PETSYNC_", "JPY_", "DBUS_"))
    }
    return {
        **fresh,
        "SHOP": box.url,
        "T": box.token(),
        "OLD": box.token(expires_in=-1),
        "K": API_KEY,
        "S": CLIENT_SECRET,
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }


def forms_of(secret: str) -> set[str]:
    """Return a secret in every written form: plain, escaped, and in base64 at any offset."""
    result = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
    result |= {html.escape(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for before in ("", ":", "::"):
        raw = base64.b64encode((before + secret).encode()).decode()
        inner = raw[4 if before else 0 : len(raw) // 4 * 4 - 4]
        result |= {inner, inner.replace("+", "-").replace("/", "_")}
    return result


def leaks(text: str) -> list[str]:
    """Return each secret that the text contains, with the surrounding text."""
    wanted = forms_of(MARK) | forms_of(CLIENT_SECRET) | forms_of(API_KEY)
    wanted |= {CLIENT_SECRET[:12], API_KEY[:9]}
    found = [(form, text.find(form)) for form in wanted]
    return [f"{form!r} in {text[max(at - 120, 0) : at + 60]!r}" for form, at in found if at >= 0]


def leaks_in(folder: Path) -> list[str]:
    """Return the files in a folder that contain a secret, with the place; workbooks are searched
    too.
    """
    found = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found += [f"{file.name}: {leak}" for text in _texts(file) for leak in leaks(text)]
    return found


def _texts(file: Path) -> Iterator[str]:
    yield file.read_bytes().decode("utf-8", "replace")
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as book:
            for name in book.namelist():
                yield book.read(name).decode("utf-8", "replace")


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    """The scan finds each written form of a secret in files and workbooks, and no other text."""
    for secret in (MARK + "abc", CLIENT_SECRET, API_KEY):
        basic = base64.b64encode(f"sandbox:{secret}".encode()).decode()
        for text in (secret, quote_plus(secret), html.escape(secret), json.dumps(secret), basic):
            assert leaks(f"said: {text}!"), text
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/sheet.xml", f"<c>{quote(API_KEY)}</c>")
    assert leaks_in(tmp_path)
    assert not leaks("the token of client sandbox is *** and its key ***")


def test_a_notebook_keeps_no_secret(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saved notebook contains no secret, with all logs at DEBUG and verbose tracebacks of failed
    sign-ins; nor do its plan, report, workbook and journal.
    """
    monkeypatch.setattr(os, "environ", {**os.environ, **environment})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python",
        "language": "python",
    }
    runner = ExecutePreprocessor(timeout=120, allow_errors=True, kernel_name="python3")
    runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    text = nbformat.writes(notebook)
    (tmp_path / "saved.ipynb").write_text(text, encoding="utf-8")
    failed = [
        n
        for n, cell in enumerate(notebook.cells)
        if any(output.output_type == "error" for output in cell.outputs)
    ]
    assert failed == [n for n, cell in enumerate(CELLS) if cell.endswith("# fails\n")], text
    assert "DEBUG:" in text
    assert "httpx" in text
    assert (tmp_path / "plan.json").exists()
    assert (tmp_path / "report.xlsx").exists()
    assert any((tmp_path / ".petsync").rglob("*"))
    assert leaks_in(tmp_path) == []


def test_commands_tell_no_secret(
    environment: dict[str, str], tmp_path: Path, nursery: Nursery
) -> None:
    """No command prints or writes a secret, with -vv or --json, whether it succeeds or the service
    refuses it.
    """
    report = []
    for name in ("T", "OLD"):
        given = {
            **environment,
            "PETSYNC_URL": environment["SHOP"],
            "PETSYNC_TOKEN": environment[name],
            "PETSYNC_API_KEY": API_KEY,
        }
        for command in (
            "whoami --json -vv",
            "export pets.xlsx -vv",
            "apply pets.xlsx --yes -vv",
            "login --token -vv",
            "login --client-credentials -vv",
        ):
            typed = f"{CLIENT_SECRET}\n{CLIENT_SECRET}\n"
            words = command.split()
            done = nursery(*words, folder=tmp_path, env=given, stdin=typed)
            code, out = done.wait(120), done.out.read_text("utf-8")
            err = done.err.read_text("utf-8")
            assert "Usage:" not in err, f"{command}: {err}"
            report.append(f"{name} {command} → {code}\n{out}\n{err}")
            # The file with the typed input is written by the test, not by the command.
            done.out.with_suffix(".in").unlink()
    assert any("→ 0" in text for text in report)
    assert any("Traceback" in text for text in report)
    assert leaks("\n".join(report)) == []
    assert leaks_in(tmp_path) == []
