"""Findings gathered by rule, and within a rule those that are said in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from petsync.render.places import Place, listed, place_of
from petsync.render.visible import shorten, visible
from petsync.render.words import count, number
from petsync.table.findings import FIELDS, Findings
from petsync.table.sheet import Finding

__all__ = ["Group", "Same", "gathered", "problems", "totals"]

_VALUE = 60


@dataclass(slots=True)
class Same:
    """Findings with the same value, problem and suggestion: where they are, and these texts.

    What is said elsewhere is "": the value if the problem quotes it, and a problem or suggestion
    that the whole group has.
    """

    value: str
    problem: str
    suggestion: str
    places: list[Place] = field(default_factory=list)

    @property
    def where(self) -> str:
        """`Pets!C2:C241 (240 cells)`."""
        return listed(self.places)

    @property
    def shown(self) -> str:
        """The value as text that can be seen, in quotes; "" where there is none to show."""
        return f'"{shorten(visible(self.value), _VALUE)}"' if self.value else ""


@dataclass(slots=True)
class Group:
    """The findings of one rule: `problem` and `suggestion` are those that all of them have."""

    severity: str
    rule: str
    total: int = 0
    problem: str = ""
    suggestion: str = ""
    same: list[Same] = field(default_factory=list)

    @property
    def title(self) -> str:
        """`14 errors: unknown-status`."""
        return f"{count(self.total, self.severity)}: {visible(self.rule)}"

    def more(self, shown: int) -> str:
        """What is not among the first `shown`; "" where that is all."""
        rest = self.same[shown:]
        cells = sum(len(each.places) for each in rest)
        return f"... and {number(cells)} more" if rest else ""


def problems(findings: Findings) -> Iterable[Finding]:
    """A table's rows as findings."""
    columns = (findings[name].tolist() for name in FIELDS)
    for values in zip(*columns, strict=True):
        yield Finding(**dict(zip(FIELDS, values, strict=True)))


def gathered(findings: Iterable[Finding]) -> list[Group]:
    """The groups, the most frequent first, and of as many the errors first."""
    groups: dict[tuple[str, str], dict[tuple[str, str, str], Same]] = {}
    for finding in findings:
        said = (finding.value, finding.problem, finding.suggestion)
        group = groups.setdefault((finding.severity, finding.rule), {})
        group.setdefault(said, Same(*said)).places.append(place_of(finding))
    done = [_group(*key, list(group.values())) for key, group in groups.items()]
    return sorted(done, key=lambda each: (-each.total, each.severity, each.rule))


def totals(findings: Sequence[Finding]) -> str:
    """How many errors and warnings there are, and in how many rows."""
    errors = sum(each.severity == "error" for each in findings)
    rows = len({each.row for each in findings})
    return (
        f"{count(errors, 'error')} and {count(len(findings) - errors, 'warning')} in "
        f"{count(rows, 'row')}."
    )


def _group(severity: str, rule: str, same: list[Same]) -> Group:
    """The group, with what all of it has in common said once."""
    problem, *other_problems = {each.problem for each in same}
    suggestion, *other_suggestions = {each.suggestion for each in same}
    group = Group(severity, rule, sum(len(each.places) for each in same))
    for each in same:
        each.value = "" if each.value in each.problem else each.value
        each.problem = each.problem if other_problems else ""
        each.suggestion = each.suggestion if other_suggestions else ""
    group.problem = "" if other_problems else problem
    group.suggestion = "" if other_suggestions else suggestion
    group.same = sorted(same, key=lambda each: -len(each.places))
    return group
