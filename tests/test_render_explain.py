"""Explanations and a plan's numbers, as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from render_samples import CLASHING, HOSTILE, UPDATE, plan_with, replace, small_plan
from rich.cells import cell_len

import petsync.report  # noqa: F401 - what is tested: values show themselves once it is imported
from petsync.plan.explain import Explanation, Explanations, Reason
from petsync.report.html import document_html
from petsync.report.text import plain_text
from petsync.report.views.explain import explanations_view

TEXT = """\
~ Pet 17, Bella (Pets!B18): it will be changed.
  The row differs from the store. [updated]

               before     sheet  store  then
  name         Bella      Bela   Bella  Bela
               The sheet changed it, the store did not. [edited]
  status       available  -      sold   sold
               The cell is blank, so an existing value stays. [blank]
  tags         (empty)    lazy   -      -
               The pet is new. [new]"""

SUMMARY = """\
petsync plan, in numbers
  to add                1
  to change             1  name 1, status 1, tags 1, photo_urls 1
  to delete             2
  conflicts             1
  needs fixing          1  errors in the sheet
  in agreement        870
  older                 0
  deleted in store      0
  ignored               3
  left out              0
  rows                878  of the sheet
  pets              1,200  in the store

The guard refuses this plan: nothing will be sent."""


def explanations_text(explanations: Iterable[Explanation], *, width: int = 80) -> str:
    """Return the explanations as text."""
    return plain_text(explanations_view(explanations), width=width)


def reason(column: str, *values: str | None, rule: str = "edited", sentence: str = "So.") -> Reason:
    """Return the reason of a field, with its values in base, sheet, store and result."""
    base, sheet, store, after = values
    return Reason(
        column=column,
        base=base,
        sheet=sheet,
        store=store,
        after=after,
        rule=rule,
        sentence=sentence,
    )


def explanation(*fields: Reason, **more: object) -> Explanation:
    """Return an explanation of the pet Bella."""
    values = {
        "pet_id": 17,
        "name": "Bella",
        "decision": "update",
        "row": 18,
        "source": "Pets!B18",
        "rule": "updated",
        "sentence": "The row differs from the store.",
    }
    return Explanation(**{**values, **more}, fields=fields)


BELLA = explanation(
    reason(
        "name",
        "Bella",
        "Bela",
        "Bella",
        "Bela",
        sentence="The sheet changed it, the store did not.",
    ),
    reason(
        "status",
        "available",
        None,
        "sold",
        "sold",
        rule="blank",
        sentence="The cell is blank, so an existing value stays.",
    ),
    reason("tags", "", "lazy", None, None, rule="new", sentence="The pet is new."),
)


def test_an_explanation_as_text() -> None:
    """The text and the repr of an explanation have exactly this form: the decision, then each
    field.
    """
    assert explanations_text([BELLA]) == TEXT
    assert repr(BELLA) == TEXT


def test_explanations_stand_below_each_other() -> None:
    """Explanations of several pets are shown in the requested order."""
    nobody = explanation(
        pet_id=4711, name="", decision="absent", row=None, source="", sentence="No."
    )
    text = explanations_text([BELLA, nobody])
    assert text == f"{TEXT}\n\n* Pet 4711: there is no such pet.\n  No. [updated]"


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        ("add", "+ Pet 17, Bella (Pets!B18): it will be added."),
        ("delete", "- Pet 17, Bella (Pets!B18): it will be deleted."),
        ("conflict", "! Pet 17, Bella (Pets!B18): it is in conflict."),
        ("blocked", "x Pet 17, Bella (Pets!B18): nothing is sent, because its row needs fixing."),
        ("ignored", "* Pet 17, Bella (Pets!B18): nothing is sent, because its row is ignored."),
        ("unchanged", "* Pet 17, Bella (Pets!B18): nothing changes."),
    ],
)
def test_every_decision_is_a_sentence(decision: str, sentence: str) -> None:
    """Every decision is a sentence with the sign that a plan uses for it."""
    assert explanations_text([explanation(decision=decision)]).splitlines()[0] == sentence


def test_a_new_pet_has_no_id() -> None:
    """A row without an id is explained as a new pet."""
    text = explanations_text([explanation(pet_id=None, decision="add")])
    assert text.startswith("+ A new pet, Bella (Pets!B18): it will be added.")


def test_long_values_show_where_they_differ() -> None:
    """Long values that begin alike are cut so that their different part is shown."""
    alike = "A very long name indeed, " * 30
    text = explanations_text([explanation(reason("name", *(alike + end for end in "WXYZ")))])
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    assert all(end in text for end in "WXYZ")


def test_the_items_of_a_list_stand_on_lines_of_their_own() -> None:
    """Lists that fit are shown side by side, wider ones below each other, and no short item is
    cut.
    """
    address = "https://images.petshop.example/pets/17/"
    one, two = f"{address}1.jpg", f"{address}2.jpg"
    far = address + "a-folder/of-folders/" * 3
    result = explanation(
        reason("tags", "1:shy; 2:calm", "1:shy", "1:shy; 2:calm", "1:shy"),
        reason("photo_urls", f"{one}\n{two}", f"{two}\n{one}", None, f"{far}1.jpg\n{far}2.jpg"),
    )
    lines = explanations_text([result]).splitlines()
    assert lines[3:6] == [
        "               before  sheet  store   then",
        "  tags         1:shy   1:shy  1:shy   1:shy",
        "               2:calm         2:calm",
    ]
    at = lines.index(f"  photo_urls   before  {one}")
    assert lines[at + 1 : at + 5] == [
        f"                       {two}",
        f"               sheet   {two}",
        f"                       {one}",
        "               store   -",
    ]
    whole = "".join(line.strip() for line in lines[at + 5 : -1])
    assert whole == f"then    {far}1.jpg{far}2.jpg"


def test_an_agreed_list_is_whole() -> None:
    """Addresses on which all sides agree are shown below each other, uncut."""
    photos = [f"https://images.petshop.example/pets/17/{n}.jpg" for n in range(3)]
    lines = explanations_text([explanation(reason("photo_urls", *["\n".join(photos)] * 4))])
    for photo in photos:
        assert f"  {photo}\n" in lines


def test_of_a_very_long_list_the_differing_part_is_shown() -> None:
    """In a list of hundreds of items, those that all sides have are left out, and the missing one
    is shown.
    """
    tags = [f"tag{n:03}" for n in range(300)]
    fewer = "; ".join(tag for tag in tags if tag != "tag250")
    every = "; ".join(tags)
    text = explanations_text([explanation(reason("tags", every, fewer, every, fewer))])
    assert "tag250" in text
    assert "tag251" not in text
    assert "and 299 that all sides have" in text


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("width", [60, 80])
def test_no_name_breaks_out_of_an_explanation(name: str, width: int) -> None:
    """With any names, lines fit, have no control character, and HTML is escaped."""
    fields = tuple(
        reason(column, name, name + "2", None, "", rule=name, sentence=name)
        for column in ("name", "tags", "photo_urls")
    )
    result = explanation(*fields, name=name, source=name, rule=name, sentence=name)
    text = explanations_text([result], width=width)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert text.replace("\n", "").replace("\u200d", "").isprintable()
    html = document_html(explanations_view([result]))
    inner = html.partition("</style>")[2]
    assert set(re.findall(r"<(\w+)", inner)) <= {
        "div",
        "details",
        "summary",
        "p",
        "bdi",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "strong",
        "span",
    }
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", inner))


def test_an_explanation_as_html() -> None:
    """An explanation in HTML has the decision as a sentence and a row for each field, with the new
    value in bold.
    """
    html = BELLA._repr_html_()
    assert "Pet 17, Bella (Pets!B18): it will be changed." in html
    for title in ("Field", "Before", "Sheet", "Store", "Then", "Why"):
        assert f">{title}</th>" in html
    assert "<strong><bdi>Bela</bdi></strong>" in html
    assert "<strong><bdi>sold" not in html
    assert "[blank]" in html


def test_a_summary_as_text() -> None:
    """The text and the repr of a summary have exactly this form, with aligned numbers."""
    summary = small_plan().summary()
    assert str(summary) == SUMMARY
    assert repr(summary) == SUMMARY


def test_a_summary_says_who_won_and_what_is_left_out() -> None:
    """Conflicts that the sheet wins are counted separately, and a part of a plan shows what it
    leaves out.
    """
    won = replace(CLASHING, winner="sheet")
    plan = plan_with(UPDATE, conflicts=(CLASHING, won, won), left_out=12)
    text = str(plan.summary())
    assert re.search(r"conflicts +3  2 that the sheet wins\n", text)
    assert re.search(r"left out +12  by a selection\n", text)
    assert text.endswith("Guard: the plan is within every limit.")


def test_rows_that_the_store_left_behind_are_no_agreement() -> None:
    """Older rows, and rows whose pets are no longer in the store, are not counted as in agreement,
    neither in the summary nor in the plan's sentence.
    """
    plan = plan_with(
        UPDATE, base="2026-11-19T08:00:00Z", unchanged=870, older=(3, 4), deleted_in_store=(5,)
    )
    text = str(plan.summary())
    assert re.search(r"in agreement +867\n  older +2  not edited", text)
    assert re.search(r"\n  deleted in store +1  not edited", text)
    shown = repr(plan).replace("\n", " ")
    assert "867 in agreement, 2 older than the store, 1 no longer in the store" in shown


def test_explanations_show_themselves() -> None:
    """Explanations show themselves alike in a notebook and on a terminal."""
    assert repr(Explanations((BELLA, BELLA))) == f"{TEXT}\n\n{TEXT}"
    assert Explanations((BELLA, BELLA))._repr_html_().count("<table") == 2


def test_a_summary_as_html() -> None:
    """A summary in HTML has the numbers of the text in a table."""
    html = small_plan().summary()._repr_html_()
    assert "name 1, status 1, tags 1, photo_urls 1" in html
    assert "1,200" in html
    assert "The guard refuses this plan" in html
