"""The documentation: complete, up to date, and correct where a test can check it."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import json
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from crash.running import Nursery

from petsync import errors
from petsync.cli.entry import cli
from petsync.config.load import load
from petsync.profile import ServiceProfile
from petsync.settings import Settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:^|&& |`)petsync ([a-z]+)([^`\n|#]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<=\s)--?[a-z][a-z-]*")
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_MACHINE_PATH = re.compile(r"(?:/home/|/root/|/Users/|/tmp/|/work/|[A-Z]:\\\\Users)")


def _page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def _rows(name: str) -> set[str]:
    """Return the code with which the rows of the tables begin."""
    return set(_ROW.findall(_page(name)))


def test_every_field_of_a_profile_is_explained() -> None:
    """profiles.md has a row for each field of ServiceProfile, and for no other."""
    fields = {field.name for field in dataclasses.fields(ServiceProfile)}
    table = _page("profiles.md").partition("## Every field")[2].partition("\n## ")[0]
    assert set(_ROW.findall(table)) == fields


def test_profiles_are_as_their_page_says() -> None:
    """The values of `standard` and `live` in profiles.md are those of the profiles."""
    from petsync.profile import LIVE, STANDARD

    table = _page("profiles.md").partition("## Every field")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    profiles = {
        row[0].strip("`"): (_literal(row[2]), _literal(row[3], same=_literal(row[2])))
        for row in rows
    }
    for name, values in profiles.items():
        ours = tuple(_plain(getattr(profile, name)) for profile in (STANDARD, LIVE))
        assert values == ours, name


def _literal(cell: str, *, same: object = None) -> object:
    """Return the TOML value at the start of a cell; `the same` means the previous cell's value."""
    found = re.match(r"`([^`]*)`", cell)
    if found is None:
        assert cell == "the same"
        return same
    return json.loads(found[1])


def _plain(value: object) -> object:
    """Return the value as petsync.toml spells it: TOML has no null, so 0 means no limit."""
    if value is None:
        return 0
    return list(value) if isinstance(value, tuple) else value


def _requirements(*, extras: bool) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    yield from map(_name, project["dependencies"])
    if extras:
        for texts in project["optional-dependencies"].values():
            yield from map(_name, texts)


def _extra(name: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"][name])


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower()


def test_every_dependency_has_its_line() -> None:
    """dependencies.md has a row for each requirement in pyproject.toml, and for no other."""
    result = {_name(text) for text in _rows("dependencies.md")}
    assert result == set(_requirements(extras=True)) | {"petsync"}


def test_what_petsync_runs_with_is_true() -> None:
    """dependencies.md names the lowest and the tested pandas, and each Python in pyproject.toml."""
    text = (DOCS / "dependencies.md").read_text("utf-8")
    python, pandas = re.findall(r"^- \*\*(?:Python|pandas)\*\*: (.+?)(?=^- )", text, re.M | re.S)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (lowest,) = (each for each in project["dependencies"] if each.startswith("pandas>="))
    assert pandas.startswith(f"{lowest.removeprefix('pandas>=')} or later")
    tested = re.search(r"^pandas==(\d+\.\d+)", (ROOT / ".ci/constraints.txt").read_text(), re.M)
    assert tested is not None
    assert f"the tests run with {tested[1]}." in pandas
    listed = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert re.findall(r"3\.\d+", python) == listed


def test_every_dependency_has_a_tested_version() -> None:
    """.ci/constraints.txt has a version of each requirement in pyproject.toml."""
    lines = (ROOT / ".ci/constraints.txt").read_text("utf-8").splitlines()
    constrained = {_name(line).replace("_", "-") for line in lines}
    assert set(_requirements(extras=True)) - {"petsync"} <= constrained


def test_everything_imported_is_a_dependency() -> None:
    """Every import of the package is a base dependency, or one of the extras that its part
    needs.
    """
    base = {_name(text).replace("-", "_") for text in _requirements(extras=False)}
    extras = {
        "images": ("images",),
        "keyring.py": ("keyring",),
        "progress.py": ("forms",),  # in a notebook, which has IPython
        "reconcile": ("metrics", "notify", "sql", "tracing"),
        "sandbox": ("sandbox",),
        "testing.py": ("sandbox", "test"),
        "webapp.py": ("app",),
        "widgets": ("forms",),
    }
    modules = importlib.metadata.packages_distributions()
    for path in (ROOT / "petsync").rglob("*.py"):
        allowed = [name for part in path.parts for name in extras.get(part, ())]
        declared = base | {_name(t).replace("-", "_") for name in allowed for t in _extra(name)}
        for module in _imported(path) - sys.stdlib_module_names - {"petsync"}:
            owners = {_name(owner).replace("-", "_") for owner in modules[module]}
            assert owners & declared, f"{path}: {module}"


def _imported(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


_ACTORS = (
    "A folder from a stranger",
    "Other users of the machine",
    "A hostile service",
    "A hostile proxy, or anybody on the network",
    "A hostile workbook, plan or image",
)


@pytest.mark.parametrize("actor", _ACTORS)
def test_every_security_promise_names_its_tests(actor: str) -> None:
    """Each promise of security.md against an actor names tests, and each of these tests exists."""
    section = _page("security.md").partition(f"### {actor}\n")[2].partition("\n##")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, f"no test is named: {row}"
        for file, name in named:
            assert name in _tests_in(ROOT / file), f"{file} has no {name}"


def _tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_findings_page_is_up_to_date() -> None:
    """findings.md is the output of docs/make.py."""
    make = runpy.run_path(str(DOCS / "make.py"))
    assert _page("findings.md") == make["findings_page"](), "run: python docs/make.py"


def test_every_setting_is_in_the_table() -> None:
    """python.md names every setting, or the variable of a secret setting."""
    page = _page("python.md")
    for field in dataclasses.fields(Settings):
        is_secret = field.name in ("token", "api_key")
        variable = f"`PETSYNC_{field.name.upper()}`"
        assert (variable if is_secret else f"`{field.name}`") in page or f"[{field.name}]" in page


def test_every_error_is_in_the_table() -> None:
    """python.md lists every error with its exit code and its builtin base class."""
    lines = _page("python.md").splitlines()
    cells = ([cell.strip(" `") for cell in line.split("|")] for line in lines)
    rows = {row[1]: row[2:4] for row in cells if len(row) == 6}
    for name in set(errors.__all__) - {"PetsyncError"}:
        error = getattr(errors, name)
        assert rows[name] == [_natural(error), str(error.exit_code)], name


def test_the_fast_lane_leaves_out_what_is_marked(pytestconfig: pytest.Config) -> None:
    """CONTRIBUTING.md names each marker of petsync's tests, and the modules that begin
    first exist.
    """
    own = {line.partition(":")[0] for line in pytestconfig.getini("markers") if ": " in line}
    names = {"slow", "browser", "office"}
    lane = " and ".join(f"not {name}" for name in ("slow", "browser", "office"))
    assert names <= own
    assert f'pytest -n 2 -m "{lane}"' in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    modules = {path.stem: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    order = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert {*order.QUICK, *order.LONGEST} <= {*modules, "ipynb"}
    assert all(any(f"pytest.mark.{name}" in text for text in modules.values()) for name in names)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for language, code in _FENCE.findall(text):
        if language in ("sh", "shell"):
            yield from _COMMAND.findall(code)
    for code in re.findall(r"`petsync [^`\n]+`", _FENCE.sub("", text)):
        yield from _COMMAND.findall(code)


def _natural(error: type[Exception]) -> str:
    """Return the builtin base class of an error; "" if it is only Exception."""
    builtins = [kind.__name__ for kind in error.__mro__ if kind.__module__ == "builtins"]
    return "" if builtins[0] == "Exception" else builtins[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_have_their_options(page: Path) -> None:
    """Each option of a petsync command on a page exists."""
    for name, rest in _commands(page.read_text("utf-8")):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        if isinstance(command, click.Group) and rest.split():
            command = command.commands[rest.split()[0]]
        known = {text for option in command.params for text in option.opts}
        known |= {text for option in command.params for text in option.secondary_opts}
        assert set(_OPTION.findall(rest)) <= known | {"--help"}, f"petsync {name}{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link on a page leads to an existing file, and its fragment to a heading there."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    for link in _LINK.findall(text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        place, _, fragment = link.partition("#")
        target = page.parent / place if place else page
        assert target.exists(), link
        assert not fragment or fragment in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_says_nothing_of_a_machine(page: Path) -> None:
    """No page has a path of the machine on which it was written."""
    assert not re.search(r"/home/\w|/root/|/work/|/Users/\w", page.read_text("utf-8"))


def test_configurations_are_valid(tmp_path: Path) -> None:
    """Each configuration with jobs on a page is valid if its environment variables are set."""
    shown = [
        code
        for page in PAGES
        for language, code in _FENCE.findall(page.read_text("utf-8"))
        if language == "toml" and "[jobs." in code
    ]
    assert shown
    for code in shown:
        file = tmp_path / "petsync.toml"
        file.write_text(code, encoding="utf-8")
        environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", code), "json://localhost/")
        assert load(file, environ).jobs


_STORE = "import petsync as ps\nstore = ps.demo()\n"
_BOX = "from petsync.sandbox import Sandbox\nfrom petsync import Pet\n"
_REX, _MIA = ("Pet(id=1, name='Rex', status='sold')", "Pet(id=2, name='Mia', status='sold')")
_PRELUDES = {
    "coming-from-httpx.md": "import certifi, shutil\ntoken, log_response = 't0ken', print\n"
    "shutil.copy(certifi.where(), 'company.pem')\n",
    "images.md": _STORE,
    "scale.md": f"{_STORE}store.export_to('new', base=False)\n",
    "sheets.md": f"{_STORE}ps.write_sheet(store.snapshot(), 'catalogue.xlsx')\n",
    "how-to/move-stores.md": f"{_BOX}old_box = Sandbox(auth=False, pets=[{_REX}, {_MIA}]).start()\n"
    f"new_box = Sandbox(auth=False, pets=[{_REX}]).start()\n",
    "reconcile.md": f"{_BOX}from pathlib import Path\nbox = Sandbox(auth=False).start()\n"
    "Path('pets.csv').write_text('id,name\\n')\nPath('petsync.toml').write_text(\n"
    '    f\'url = "{box.url}"\\n[jobs.catalogue]\\nmode = "check"\\nsheet = "pets.csv"\')\n',
}
"""What the blocks of a page expect: a store, files, or services at addresses."""
_INSTEAD = {
    '"https://old.example/v2"': "old_box.url",
    '"https://new.example/v2"': "new_box.url",
    "s3://shop": "memory://shop",
    "new/*.csv": "new/*.parquet",
}
_BY_HAND = "pending.wait()"
"""A block that waits for a person in a browser."""
_PYTHON = [page for page in PAGES if re.search(r"^```py", page.read_text("utf-8"), re.MULTILINE)]


@pytest.mark.parametrize("page", _PYTHON, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run(page: Path, tmp_path: Path, nursery: Nursery) -> None:
    """The Python blocks of a page run in order as one script, with warnings as errors."""
    name = page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name
    blocks = [
        code
        for language, code in _FENCE.findall(page.read_text("utf-8"))
        if language in ("python", "py") and _BY_HAND not in code
    ]
    text = "\n".join([_PRELUDES.get(name, ""), *blocks])
    for shown, here in _INSTEAD.items():
        text = text.replace(shown, here)
    script = tmp_path / "blocks.py"
    script.write_text(text, encoding="utf-8")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = nursery(script.name, folder=tmp_path, call="crash.nursery:run_script", env=state)
    assert done.wait(300) == 0, done.output()


def _cells(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text("utf-8"))["cells"]
    return cells


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebook_shows_its_outputs(notebook: Path) -> None:
    """A notebook was run from top to bottom, without an error, a warning or a machine's path."""
    code = [cell for cell in _cells(notebook) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert not _MACHINE_PATH.search(json.dumps(outputs, ensure_ascii=False))
    shown = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/plain", "text/html"} <= shown


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebook_links_lead_somewhere(notebook: Path) -> None:
    """A relative link in a notebook's text leads to an existing file."""
    text = "".join("".join(c["source"]) for c in _cells(notebook) if c["cell_type"] == "markdown")
    links = [link for link in _LINK.findall(text) if not link.startswith("http")]
    assert links
    assert not [link for link in links if not (notebook.parent / link).exists()]
