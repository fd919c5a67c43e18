"""The public names of the package."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import petsync as ps
from petsync.report import _VIEWS

_SOURCE = ast.parse(Path(ps.__file__).read_text("utf-8"))
_HEAVY = (
    "pandas",
    "openpyxl",
    "starlette",
    "uvicorn",
    "httpx",
    "aiohttp",
    "rich",
    "ipywidgets",
    "pydantic",
)


def _typed_names() -> list[str]:
    guard = next(node for node in _SOURCE.body if isinstance(node, ast.If))
    imports = [node for node in guard.body if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names]


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """Each name in __all__ resolves to the object of that name."""
    value = getattr(ps, name)
    if hasattr(value, "__name__"):
        assert value.__name__.rpartition(".")[2] == name


def test_typed_and_public_names_are_the_same() -> None:
    """A type checker sees exactly the names in __all__, each once, and the version."""
    assert sorted(_typed_names()) == sorted([*ps.__all__, "__version__"])
    assert len(set(ps.__all__)) == len(ps.__all__)


@pytest.mark.parametrize("module", [ps, ps.auth, ps.errors, ps.reconcile, ps.types, ps.widgets])
def test_completion_offers_public_names_alone(module: ModuleType) -> None:
    """Completion of a module offers exactly its public names, without imported helpers."""
    listed = [name for name in dir(module) if not name.startswith("_")]
    assert listed == sorted(module.__all__)
    assert all(hasattr(module, name) for name in listed)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["Store.", ""])
def test_methods_of_a_store_show_their_signature(store: str) -> None:
    """The signature of a store's bound method has no parameter `self`."""
    shown = _python(
        "import inspect, petsync as ps\n"
        "with ps.demo() as store:\n"
        f"    method = {'ps.Store' if store else 'store'}.find_by_status\n"
        "    print(*inspect.signature(method).parameters)"
    )
    assert shown.split() == (["self", "statuses"] if store else ["statuses"])


@pytest.mark.parametrize("kind", [ps.Store, ps.types.AsyncStore])
def test_each_method_of_a_store_shows_its_keywords_and_its_help(kind: type) -> None:
    """A store's methods have a help text and a signature in which each keyword has its name."""
    methods = [n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))]
    assert {"plan", "apply", "upload", "begin_sign_in", "read"} <= {*methods}
    for name in methods:
        method = getattr(kind, name)
        kinds = {each.kind for each in inspect.signature(method).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name
        assert method.__doc__, name
        assert method.__name__ == name


def test_names_are_listed_before_they_are_used() -> None:
    """Completion offers every public name in a new interpreter."""
    listed = _python("import petsync; print(*dir(petsync))").split()
    assert set(ps.__all__) <= set(listed)


def test_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name raises the AttributeError of any module."""
    with pytest.raises(AttributeError, match="'petsync' has no attribute 'conect'"):
        ps.conect  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "statement",
    ["import petsync", "from petsync.errors import PetsyncError; from petsync import Pet"],
)
def test_import_is_cheap(statement: str) -> None:
    """The import of the package or its errors loads no pandas, server or client."""
    loaded = _python(f"{statement}\nimport sys\nprint(*sys.modules)").split()
    assert not [name for name in _HEAVY if name in loaded]


@pytest.mark.slow
def test_the_options_of_pandas_stay_the_users() -> None:
    """No part of petsync changes an option of pandas when it is imported."""
    code = (
        "import pandas, pkgutil, importlib, petsync\n"
        "read = lambda: pandas.describe_option('', _print_desc=False)\n"
        "before = read()\n"
        "assert 'copy_on_write' in before\n"
        "for each in pkgutil.walk_packages(petsync.__path__, 'petsync.'):\n"
        "    if not each.name.endswith('__main__'):\n"
        "        importlib.import_module(each.name)\n"
        "assert read() == before\n"
    )
    _python(code)


def test_a_comparison_of_files_imports_nothing_of_a_store() -> None:
    """Who compares two CSV files does not wait for clients, event loops, plans and runs."""
    code = (
        "import petsync, sys; petsync.diff; import petsync.report.views.diff; print(*sys.modules)"
    )
    loaded = {*_python(code).split()}
    names = (
        "plan.compare plan.merge plan.report protocol.operations client _sync sheets.xlsx.survey"
    )
    assert not loaded & {"asyncio", "openpyxl", *(f"petsync.{name}" for name in names.split())}


def test_a_store_imports_nothing_of_the_doctor() -> None:
    """Who opens a store does not wait for the examination of services."""
    loaded = _python("import petsync, sys; petsync.connect; print(*sys.modules)").split()
    assert "petsync.client.session" in loaded
    assert "petsync.client.probe" not in loaded


@pytest.mark.parametrize("name", _VIEWS)
def test_views_are_those_of_types(name: str) -> None:
    """Each view has the name of a type, which shows itself by it."""
    module, _, kind = name.rpartition(".")
    value = getattr(import_module(module), kind)
    assert {"__repr__", "__str__"} & value.__dict__.keys()
    assert callable(_VIEWS[name].load())


@pytest.mark.slow
def test_values_show_themselves_without_a_store() -> None:
    """A value that is made without connect() has its own text form, not Python's default."""
    shown = _python(
        "import petsync as ps, pandas as pd\n"
        "f = pd.DataFrame({'name': ['Rex']})\n"
        "print(ps.types.Plan(created='2026-11-20T00:00:00+00:00', store='x', profile='standard',"
        " source='a.csv'))"
    )
    assert shown.strip()
    assert "Plan(" not in shown
