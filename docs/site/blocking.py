"""Shows methods that are made from others as methods in the reference, with all their keywords.

Such methods are `Store.plan = make_synchronous(AsyncStore.plan)` and
`AsyncStore.plan = delegate("_comparer", SheetComparer.plan)`. The keywords of `**options:
Unpack[PlanKeywords]` are shown as in the signature and the docstring that the function has when
petsync runs.
"""

from __future__ import annotations

import inspect
import re
from copy import copy
from importlib import import_module
from typing import Any

import griffe

__all__ = ["Blocking"]

_MADE = re.compile(r"(make_synchronous|delegate)\((?:['\"]\w+['\"], )?(\w+)\.(\w+)(?:, \w+)?\)")


class Blocking(griffe.Extension):
    """Replaces each attribute that is made from a method by a method."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace these attributes in all classes of the package, and show all keywords."""
        modules = list(_modules(pkg))
        kinds = [(each, m) for m in modules for each in m.classes.values() if not each.is_alias]
        for module in modules:
            for function in module.functions.values():
                if not function.is_alias:
                    _show_keywords(function)
        for kind, _module in kinds:
            for method in kind.functions.values():
                if not method.is_alias:
                    _show_keywords(method)
        for kind, module in kinds:
            for name, attribute in list(kind.attributes.items()):
                made = None if attribute.is_alias else _method(attribute, module)
                if made is not None:
                    made.name, made.parent = name, kind
                    kind.members[name] = made


def _modules(module: griffe.Module) -> Any:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from _modules(inner)


def _method(attribute: griffe.Attribute, module: griffe.Module) -> griffe.Function | None:
    """Return a copy of the method from which an attribute is made, None if it is made from none."""
    made = _MADE.fullmatch(str(attribute.value))
    if made is None:
        return None
    member = module[made[2]].all_members[made[3]]
    found = member.final_target if member.is_alias else member
    method = _method(found, found.module) if found.is_attribute else copy(found)
    if method is not None and made[1] == "make_synchronous":
        method.labels = method.labels - {"async"}
    return method


def _show_keywords(function: griffe.Function) -> None:
    """Replace `**options: Unpack[…]` by its keywords, and show their documentation."""
    packed = [each for each in function.parameters if str(each.annotation).startswith("Unpack[")]
    if not packed:
        return
    value: Any = import_module(function.module.path)
    for name in function.path.removeprefix(f"{function.module.path}.").split("."):
        value = getattr(value, name)
    for each in packed:
        del function.parameters[each.name]
    known = {each.name for each in function.parameters}
    for name, parameter in inspect.signature(value).parameters.items():
        if name not in known:
            function.parameters.add(
                griffe.Parameter(
                    name,
                    annotation=parameter.annotation,
                    kind=griffe.ParameterKind.keyword_only,
                    default=repr(parameter.default),
                )
            )
    function.docstring = griffe.Docstring(value.__doc__, parent=function)
