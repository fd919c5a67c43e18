"""Shows `Store.plan = make_synchronous(AsyncStore.plan)` as a method in the reference."""

from __future__ import annotations

import re
from copy import copy
from typing import Any

import griffe

__all__ = ["Blocking"]

_SYNCHRONOUS = re.compile(r"make_synchronous\((\w+)\.(\w+)\)")


class Blocking(griffe.Extension):
    """Replaces each attribute that is made from an asynchronous method by a method."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace these attributes in all classes of the package."""
        for module in _modules(pkg):
            for kind in list(module.classes.values()):
                if not kind.is_alias:
                    _show(kind, module)


def _modules(module: griffe.Module) -> Any:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from _modules(inner)


def _show(kind: griffe.Class, module: griffe.Module) -> None:
    for name, attribute in list(kind.attributes.items()):
        made = None if attribute.is_alias else _SYNCHRONOUS.fullmatch(str(attribute.value))
        if made is not None:
            found = module[made[1]].all_members[made[2]]
            method = copy(found.final_target if found.is_alias else found)
            method.labels = method.labels - {"async"}
            method.parent = kind
            kind.members[name] = method
