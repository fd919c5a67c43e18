"""The JSON Schema of petsync.toml, for editors and for whoever makes such files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from petsync.reconcile.config.checks import ENVIRONMENT_TOO, NEEDS, SOURCES
from petsync.reconcile.config.kinds import VARIABLE, Kind
from petsync.reconcile.config.option import Option, Table
from petsync.reconcile.config.options import TABLES, options_of

__all__ = ["schema", "schema_text", "toml_value"]


def schema() -> dict[str, Any]:
    """The schema, draft 2020-12. What it cannot see (names of the environment, two jobs together,
    a service's statuses) `petsync config check` does.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "petsync.toml",
        "description": "Made from petsync's table of options; docs/config.md explains it.",
        **_table(TABLES[""]),
    }


def schema_text() -> str:
    """The same as a file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def toml_value(text: str) -> Any:
    """The value that a piece of TOML is, None where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return None


def _table(table: Table) -> dict[str, Any]:
    options = options_of(table.name).values()
    inner = [each for each in TABLES.values() if each.name and each.within == table.name]
    properties = {option.name: _option(option) for option in options}
    properties |= {each.name: _named(each) for each in inner}
    made: dict[str, Any] = {
        "description": table.meaning,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required := [option.name for option in options if option.is_required]:
        made["required"] = required
    return made | (_rules() if table.name == "jobs" else {})


def _named(table: Table) -> dict[str, Any]:
    """The schema of the table; of a named one, that of what holds all of them."""
    if table.names is None:
        return _table(table)
    return {
        "type": "object",
        "propertyNames": dict(table.names.schema),
        "additionalProperties": _table(table),
    }


def _option(option: Option) -> dict[str, Any]:
    if option.entry is not None:
        made = {"type": "object", **option.entry.schema}
    else:
        assert option.kind is not None
        made = _filled(option.kind)
    default, example = toml_value(option.default), toml_value(option.example)
    return {
        "description": option.meaning,
        **made,
        **({"default": default} if default is not None else {}),
        "examples": [example],
    }


def _filled(kind: Kind) -> dict[str, Any]:
    """The kind's schema, beside which a name of the environment may stand."""
    made = dict(kind.schema)
    if made.get("type") == "array":
        of = made["items"]
        return made | {"items": _or_variable(of) if kind.hides != "whole" else of}
    return _or_variable(made) if kind.hides != "whole" else made


def _or_variable(made: Mapping[str, Any]) -> dict[str, Any]:
    takes_text = "enum" in made or "anyOf" in made or "pattern" in made
    return {"anyOf": [made, {"type": "string", "pattern": VARIABLE}]} if takes_text else {**made}


def _rules() -> dict[str, Any]:
    """What goes together in a job, as far as a schema can say it."""
    only_two_way = {"properties": {"mode": {"not": {"enum": ["push", "pull", "check"]}}}}
    needed = {key: names for key, names in NEEDS.items() if key not in ENVIRONMENT_TOO}
    return {
        "oneOf": [{"required": [key]} for key in SOURCES],
        "dependentSchemas": {key: _any_of(names) for key, names in needed.items()}
        | {"on_conflict": only_two_way},
        "if": {"properties": {"mode": {"enum": ["pull", "two-way"]}}, "required": ["mode"]},
        "then": {"not": _any_of(("query", "query_file"))},
    }


def _any_of(names: Iterable[str]) -> dict[str, Any]:
    return {"anyOf": [{"required": [name]} for name in names]}
