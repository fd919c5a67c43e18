"""The extras of petsync: packages that only a part of it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from petsync.errors import MissingExtraError

__all__ = ["EXTRAS", "has_extra", "needs_extra"]


_IMAGES = ("PIL",)
_FORMS = ("IPython", "anywidget", "ipywidgets", "traitlets", *_IMAGES)
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "app": ("ipykernel", "jupyter_client", "jupyter_core", "tornado", "voila", *_FORMS),
    "dask": ("distributed",),
    "forms": _FORMS,
    "images": _IMAGES,
    "keyring": ("keyring",),
    "metrics": ("prometheus_client",),
    "notify": ("apprise",),
    "remote": ("fsspec",),
    "sandbox": ("httptools", "python_multipart", "starlette", "uvicorn"),
    "sql": ("sqlalchemy",),
    "tracing": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}
"""The modules of each extra that users choose; tests/cli/test_cli_extras.py compares it with
pyproject.toml.
"""


def has_extra(extra: str) -> bool:
    """Return true if the packages of the extra are installed. Imports none of them."""
    return all(map(_is_there, EXTRAS[extra]))


@contextmanager
def needs_extra(extra: str, what: str, *, instead: str = "") -> Iterator[None]:
    """Before the block, raise MissingExtraError if a package of the extra is missing. `what` names
    the part that needs it, for the user; `instead` is an alternative for the user. Also a decorator
    of functions.
    """
    if not has_extra(extra):
        raise MissingExtraError(
            f"{what} needs the extra {extra}, which is not installed",
            hint=f"Install it: pip install 'petsync[{extra}]'\n{instead}".rstrip(),
        )
    yield


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around the module
        return False
