"""What the review form says: in HTML, made of text that is escaped, and in plain sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from petsync.diff.change import Delete
from petsync.diff.guard import CAPACITY_CURE, Refusal
from petsync.diff.history import Past
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.standing import left_in
from petsync.render import markup, words
from petsync.render.digest import Group
from petsync.render.markup import capital, element, prose, text
from petsync.render.plan_top import facts
from petsync.widgets.review.draft import Draft, Tally

__all__ = [
    "PLAN_AGAIN",
    "WAIT",
    "asked",
    "box_label",
    "causes",
    "counted",
    "elsewhere",
    "finish",
    "guard",
    "in_buttons",
    "left_to_do",
    "overview",
    "piece",
    "result",
    "title_of",
]

WAIT = "Nothing was sent from this form. What becomes of the run is shown here when it has ended."
"""The way out where somebody else is at work on the plan."""
PLAN_AGAIN = "Plan again from the sheet to see what is left of it."
"""What is next once an earlier run of the sheet was finished."""
_NAMED = 20
"""So many of the pets that are deleted are named before they are."""
_BY_HAND = "By hand: Stop was pressed, or the form was closed."
_BUTTONS = (
    (r"`petsync resume \S+ --rate 5`", "“Go on”, with a tick at “Go easy on the service”,"),
    (r"`petsync resume [^`]+`", "“Go on”"),
    (r"`petsync undo [^`]+` again", "“Take it back” again"),
    (r"`petsync undo [^`]+`", "“Take it back”"),
    (r" \(`petsync check` names each with its address\)", ""),
    (r", set it as PETSYNC_TOKEN;", ", and sign in with it;"),
    (r" with what the same command says with -v", ""),
    (r" \(--delete-missing would delete (it|them)\)", ""),
    (r" \(--column HEADER=COLUMN\)", ""),
    (r"`petsync check` and sheet.findings list them", "the sheet's own form lists them"),
    (r"--max-(?:add|update|delete) ([\d.e+]+(?: %)?)", r"the limit of \1"),
)
"""What commands are called here."""


def elsewhere(run: Past) -> str:
    """That another form or program is at work on the same plan."""
    return f"This plan is being sent by another form or program just now, as run {run.run_id}"


def finish(past: Past) -> str:
    """What the button says that finishes a run of the same sheet which was stopped."""
    return f"Finish run {past.run_id} ({words.count(left_in(past), 'change')} left)"


def title_of(plan: Plan) -> str:
    """What the form is called."""
    return "Review what takes a run back" if plan.undoes else "Review the plan"


def overview(plan: Plan, unfinished: Past | None = None) -> str:
    """What the plan is of, what it comes to, and what a person should know before anything.
    `unfinished` is the run of the same sheet that the form offers to finish.
    """
    run = "" if unfinished is None else unfinished.run_id
    summary = plan.summary()
    counts = {"add": summary.adds, "update": summary.updates, "delete": summary.deletes}
    parts = [markup.summary(words.plan_summary(plan, counts)), markup.facts(facts(plan))]
    if plan.coverage.failed:
        lines = (prose(words.sentences(*said)) for said in words.unanswered(plan))
        parts.append(markup.alert(words.UNANSWERED, lines))
    if plan.notes:
        notes = (_in_plan(note, run) for note in plan.notes)
        items = "".join(element("li", prose(note)) for note in notes)
        title = f"To look at: {words.count(len(plan.notes), 'note')}"
        few = len(plan.notes) <= _NAMED
        parts.append(markup.folding(title, element("ul", items), open_=few))
    return markup.fragment(parts)


def piece(*parts: str) -> str:
    """A part of the form, in the style that its overview brings along."""
    return element("div", "\n".join(part for part in parts if part), class_="petsync")


def counted(tally: Tally, *, is_ok: bool = True) -> str:
    """How much is sent: `142 of 150 changes will be sent; 8 are left out`."""
    once = "" if is_ok else ", once the guard lets them pass"
    if not tally.left_out:
        if not tally.sent:
            return "There is nothing to send."
        which = "The one change" if tally.sent == 1 else f"All {words.count(tally.sent, 'change')}"
        return f"{which} will be sent{once}."
    all_ = words.count(tally.sent + tally.left_out, "change")
    sent = f"{words.number(tally.sent)} of {all_}" if tally.sent else f"None of {all_}"
    out = words.number(tally.left_out)
    return f"{sent} will be sent{once}; {out} {'is' if tally.left_out == 1 else 'are'} left out."


def guard(draft: Draft) -> str:
    """What the guard says of the draft."""
    refusals = draft.refusals()
    if not refusals:
        said = words.KEPT if draft.tally().sent else ""
        return piece(element("p", text(said), class_="ps-kept")) if said else ""
    if draft.is_ok:
        lines = (prose(f"{_problem(each)}.") for each in refusals)
        title = "Over the guard's limits, and let through by you, for this plan alone"
        return piece(markup.alert(title, lines))
    lines = (prose(_refused(each, let_through=draft.allows(each))) for each in refusals)
    return piece(markup.alert(words.REFUSED, lines, kind="ps-refused"))


def _problem(refusal: Refusal) -> str:
    return in_buttons(capital(refusal.problem))


def _refused(refusal: Refusal, *, let_through: bool) -> str:
    problem = f"{_problem(refusal)}."
    if let_through:
        return f"{problem} You let this pass."
    if refusal.limit == "capacity":
        return f"{problem} {CAPACITY_CURE}"
    if not refusal.override:
        return f"{problem} Nothing lets this pass: find out what became of this pet first."
    return (
        f"{problem} Look at these changes; leave some out, or tick the box below to let them pass."
    )


def box_label(refusal: Refusal, tally: Tally) -> str:
    """What a tick would mean, by the name of the limit."""
    limit = refusal.limit
    if limit == "empty":
        return "Go on although the sheet has no row (allow_empty)"
    if limit == "everything":
        return "Delete every pet of the store (allow_empty)"
    if limit == "shifted":
        return "Take the column as it stands in the sheet (allow_shifted)"
    number = getattr(tally, limit)
    return f"{capital(limit)} {words.count(number, 'pet')} all the same (max_{limit})"


def asked(draft: Draft, plan: Plan) -> str:
    """What is about to be sent, before it is: the last word, in which deletes are named."""
    tally = draft.tally()
    each = (
        f"{words.number(tally.add)} to add, {words.number(tally.update)} to change, "
        f"{words.number(tally.delete)} to delete, in {plan.store}."
    )
    parts = [markup.summary(counted(tally)), element("p", text(each))]
    parts += [element("p", text(line)) for line in _settled(plan)]
    passed = draft.refusals()
    if passed:
        lines = (text(f"{_problem(refusal)}.") for refusal in passed)
        parts.append(markup.alert("You let this pass the guard", lines))
    if plan.deletes:
        parts.append(_deletes(plan.deletes))
    name = f"This is plan {plan.fingerprint[:12]}; just this one is sent, and it can be sent once."
    return piece(*parts, element("p", text(name)))


def _settled(plan: Plan) -> Iterator[str]:
    clashes = [(each.winner, len(each.clashes)) for each in plan.conflicts if each.clashes]
    for winner, what in (("sheet", "the sheet's value is sent"), ("store", "the store's stays")):
        number = sum(count for side, count in clashes if side == winner)
        if number:
            yield f"For {words.count(number, 'field')} in conflict {what}."
    held = sum(not each.clashes for each in plan.conflicts)
    if held or plan.blocked:
        rest = [words.count(held, "conflict")] if held else []
        rest += [words.count(len(plan.blocked), "blocked row")] if plan.blocked else []
        yield f"Nothing is sent for {' and '.join(rest)}."


def _deletes(deletes: Iterable[Delete]) -> str:
    all_ = list(deletes)
    named = [f"{each.pet_id} {words.name_of(each.before)}" for each in all_[:_NAMED]]
    items = "".join(element("li", markup.bdi(name)) for name in named)
    more = len(all_) - len(named)
    rest = element("p", text(f"... and {words.count(more, 'more pet')}")) if more > 0 else ""
    title = element("strong", text(f"{words.count(len(all_), 'pet')} will be deleted"))
    inner = title + element("ul", items) + rest
    return element("div", inner, class_="ps-alert ps-refused", role="note")


def result(report: Report) -> str:
    """How a run ended."""
    parts = [
        markup.summary(in_buttons(words.report_summary(report))),
        markup.facts([("run", report.run_id), *words.report_facts(report)]),
    ]
    if report.stopped:
        why = _BY_HAND if report.stopped == "interrupted" else in_buttons(report.stopped)
        lines = map(text, why.splitlines())
        parts.append(markup.alert(words.STOPPED, lines))
    return piece(*parts)


def causes(groups: Iterable[Group]) -> str:
    """Why results are as they are, what needs a person first, each with its cure."""
    items = [
        element("strong", text(group.title))
        + element("p", prose(in_buttons(words.sentences(group.told.meaning, group.told.cure))))
        for group in groups
        if not group.is_plain
    ]
    if not items:
        return ""
    rows = "".join(element("li", item) for item in items)
    return piece(element("ul", rows))


def left_to_do(report: Report) -> str:
    """What the button says that goes on."""
    left = words.left_to_do(report)
    return f"Go on with the rest ({words.number(left)})" if left else "Go on"


def _in_plan(note: str, run: str) -> str:
    """A plan's note with the form's buttons in place of commands. Only the run that the form offers
    to finish has one.
    """
    for found in set(re.findall(r"`petsync resume [^`]+`", note)):
        if run and found == f"`petsync resume {run}`":
            note = note.replace(found, "“Finish run”")
    return _in_words(note, _BUTTONS[2:])


def in_buttons(said: str) -> str:
    """The sentence with this form's buttons in place of commands."""
    return _in_words(said, _BUTTONS)


def _in_words(said: str, buttons: Iterable[tuple[str, str]]) -> str:
    for command, button in buttons:
        said = re.sub(command, button, said)
    return said
