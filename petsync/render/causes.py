"""Why a result is what it is, in words: for each cause a title, what it means, and the cure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from petsync.diff.report import Cause, Outcome
from petsync.render.visible import visible

__all__ = ["CAUSES", "KNOWN", "NOTHING", "QUIET", "Told", "told"]


class Told(NamedTuple):
    """A cause in words. `title` goes on from an outcome ("3 failed: ..."); in `cure` stands RUN for
    the run's id.
    """

    title: str
    meaning: str
    cure: str


_RESUME = "`petsync resume RUN`"
NOTHING = "Nothing is to be done."
"""The cure where none is needed."""
_EACH = "Each row says why."

CAUSES: Mapping[Cause, Told] = {
    "": Told(
        "as planned",
        "The service took the change as it was sent.",
        NOTHING,
    ),
    "confirmed": Told(
        "confirmed afterwards",
        "No answer came, or the run was cut off; the store itself then showed that the change "
        "was made.",
        NOTHING,
    ),
    "another-id": Told(
        "under another id",
        "The pet is in the store, but the service gave it an id of its own.",
        "Write the new id into the sheet, as --write-ids does; the next plan holds the row else.",
    ),
    "already-so": Told(
        "the store was so already",
        "Somebody, or an earlier run, had made the same change, or the store has a pet already "
        "that says just what a new one was to.",
        NOTHING,
    ),
    "already-gone": Told(
        "the pet was gone already",
        "Somebody, or an earlier run, had deleted it.",
        NOTHING,
    ),
    "not-begun": Told(
        "not begun",
        "The run ended before it was their turn; nothing was sent for them.",
        f"{_RESUME} does them.",
    ),
    "held-back": Told(
        "held back",
        "Deletes come last, and none is sent where too much failed before them.",
        f"See to what failed; {_RESUME} then does the deletes too.",
    ),
    "changed-since": Told(
        "changed in the store since the plan",
        "Somebody changed the pet after the plan was made. What they wrote stays, and nothing "
        "was sent.",
        "Plan again: the new plan shows both values.",
    ),
    "gone": Told(
        "gone from the store",
        "Somebody deleted the pet after the plan was made.",
        "Take the row out of the sheet, or clear its id to add the pet anew; then plan again.",
    ),
    "came-meanwhile": Told(
        "came into the store meanwhile",
        "The store has a pet with this id, or one more that says just the same, than when the plan "
        "was made.",
        "Plan again: the row is then compared with that pet.",
    ),
    "superseded": Told(
        "left to a later run",
        "A later run of the same sheet has begun, so this one adds no more of its rows.",
        "Resume the later run if it was stopped; else plan again from the sheet.",
    ),
    "undone": Told(
        "not sent, as the run was undone",
        "The run was taken back before they were made; nothing of it is sent any more.",
        "Plan again from the sheet to make them after all.",
    ),
    "from-plan": Told(
        "open since the plan",
        "Sheet and store disagree in a way that a person has to settle. Nothing was sent.",
        "Do what each row says, and plan again.",
    ),
    "not-looked-up": Told(
        "could not be looked up",
        "The service did not answer whether it has the pet. Nothing was sent.",
        "Plan again once the service answers.",
    ),
    "refused": Told(
        "refused by the service",
        "The service does not take what was sent; sent again, it ends the same way.",
        "Correct the row as the message says, and plan again.",
    ),
    "no-permission": Told(
        "without permission",
        "The token is wrong, has expired, or may not do this.",
        f"Get a token that may, set it as PETSYNC_TOKEN; {_RESUME} then goes on.",
    ),
    "too-many": Told(
        "too many requests",
        "The service went on refusing, for longer than a run waits, because too much was asked "
        "of it.",
        "`petsync resume RUN --rate 5` goes on more slowly.",
    ),
    "service-error": Told(
        "an error in the service",
        "The service answered that something in it went wrong. What can be sent twice without "
        "harm was tried again.",
        f"When the service is well again, {_RESUME} tries them once more.",
    ),
    "no-answer": Told(
        "no answer",
        "The connection was lost, or the answer took too long.",
        f"{_RESUME} asks the store what became of them, and sends what is not there.",
    ),
    "bad-answer": Told(
        "an answer that cannot be read",
        "What came back is no answer of such a service: half of one, or some other server's page.",
        f"Check the URL, and any proxy on the way; {_RESUME} then asks the store and goes on.",
    ),
    "not-as-sent": Told(
        "not as it was sent",
        "The service took the change, but read back the pet is otherwise.",
        "Compare the pet with its row; a new plan shows what differs.",
    ),
    "unverified": Told(
        "not read back",
        "The service took the change, but the pet could not be read back.",
        f"{_RESUME} reads it back again.",
    ),
    "same-id": Told(
        "not stored: the service gave its id twice",
        "The service gave the same id to another pet too, which is in its place.",
        f"{_RESUME} adds the pet again.",
    ),
    "overwrote": Told(
        "replaced another pet",
        "The service gave a new pet the id of a pet that was there, which is gone now.",
        "`petsync undo RUN` puts that pet back. Give the row an id of its own, and plan again.",
    ),
    "unsafe-id": Told(
        "not sent: it would replace another pet",
        "The service would give a new pet the id of a pet that is there. Nothing was sent.",
        "Give the rows ids of their own, and plan again.",
    ),
    "blocked": Told(
        "blocked by errors in the sheet",
        "A cell of the row cannot be read as it stands. Nothing was sent.",
        "Mend the cell (`petsync check` names each with its address), and plan again.",
    ),
    "cut-off": Told(
        "cut off",
        "The run ended while the request was on its way.",
        f"{_RESUME} asks the store what became of them, and does the rest.",
    ),
    "unexpected": Told(
        "unexpected",
        "Something happened that petsync does not know of. That is a fault in petsync.",
        f"{_RESUME} tries once more. Please report it with what the same command says with -v.",
    ),
}
KNOWN = frozenset[Cause]({"blocked", "from-plan", "not-looked-up"})
"""Causes that the plan showed before anything was sent."""
QUIET = frozenset[Cause]({"already-so", "already-gone", "not-begun", "held-back"})
"""Causes of which nobody wants to read row by row."""
_EITHER = frozenset[Cause]({"service-error", "no-answer", "bad-answer"})
"""Causes that leave it open whether the change was made: the outcome tells."""
_END: Mapping[Outcome, str] = {
    "applied": "",
    "skipped": "",
    "conflict": "",
    "failed": "The store shows that nothing came of it.",
    "unknown": "Whether the change was made is not known.",
}
_UNKNOWN_CAUSE: Mapping[Outcome, Told] = {
    "failed": Told("no cause on record", _EACH, "Plan again to see what is still to be done."),
    "unknown": Told(
        "whether it happened is not known",
        "No answer came, and the store did not settle whether it happened.",
        f"{_RESUME} asks the store what became of them.",
    ),
    "conflict": Told("a person has to decide", _EACH, "Plan again to see both sides."),
    "skipped": Told("nothing was sent for them", _EACH, "Plan again to see what is left."),
}


_OF_SHEETS = frozenset[Cause](
    (
        "changed-since",
        "gone",
        "came-meanwhile",
        "superseded",
        "undone",
        "not-looked-up",
        "refused",
        "not-as-sent",
        "another-id",
        "overwrote",
        "unsafe-id",
        "blocked",
    )
)
"""Causes whose cure is in the sheet, or in another plan made from it."""
_UNDO_AGAIN = "`petsync undo UNDONE` again shows what is left."
_KEPT = "The pet was changed since that run, or cannot be given back what it was. Nothing was sent."


def told(outcome: Outcome, cause: Cause, run_id: str, undoes: str = "") -> Told:
    """What is said of results with this outcome and cause in a run's report; without a run's id no
    cure, as nothing can be done any more. `undoes` is the run that an undo took back.
    """
    words = _UNKNOWN_CAUSE[outcome] if not cause and outcome != "applied" else CAUSES[cause]
    meaning = f"{words.meaning} {_END[outcome]}" if cause in _EITHER else words.meaning
    cure = words.cure
    if undoes and cause == "from-plan":
        meaning, cure = _KEPT, f"Do what each row says; {_UNDO_AGAIN}"
    elif undoes and (cause in _OF_SHEETS or (not cause and outcome in _BY_PLAN)):
        cure = _UNDO_AGAIN
    cure = cure.replace("RUN", visible(run_id)).replace("UNDONE", visible(undoes))
    return Told(words.title, meaning.strip(), cure if run_id else "")


_BY_PLAN: frozenset[Outcome] = frozenset(("failed", "conflict", "skipped"))
