"""What a notice says: its templates, and what never comes into it."""

from __future__ import annotations

import base64
import html
import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from receiver import Receiver, configured, conflict, told

from petsync.reconcile.config.model import EVENTS, Event, Job, Notify
from petsync.reconcile.config.templates import DEFAULTS, NAMES, fill, mistakes_in
from petsync.reconcile.notify import Notifier, plain
from petsync.redact import Redactor
from petsync.settings import Secret
from petsync.table.cells import visible

DOCS = Path(__file__).parents[1] / "docs" / "notifications.md"
HOSTILE = (
    "<script>alert(1)</script>",
    "[click](http://evil.example)",
    "**bold** __bold__ *x* _x_ ~~x~~",
    "`code` ```\nfence",
    "# heading",
    "> quotation",
    "- item",
    "1. <b>x</b>",
    "<!channel> <@U123> @everyone",
    "||spoiler||",
    "A\x1b[31m\x07\r\n\x00B",
    "a\u202egnp.exe\u200b",
    "![](http://evil.example/x.png)",
)


class Desk:
    """A notifier whose notices are kept instead of being sent."""

    def __init__(self, folder: Path, *jobs: Job, **notify: object) -> None:
        self.said: list[tuple[str, str, str]] = []
        urls = (Secret("json://hooks.example/never"),)
        given = Notify(urls=urls, **{"on": EVENTS[:4], **notify})  # type: ignore[arg-type]
        self.config = configured(folder, *jobs, notify=given)

    def tell(self, *rounds: object, secrets: tuple[Secret, ...] = ()) -> list[tuple[str, str]]:
        """The titles and bodies that these rounds give."""
        from dataclasses import replace

        def keep(_: Secret, event: Event, title: str, body: str, __: float) -> str:
            self.said.append((event, title, body))
            return ""

        config = replace(self.config, secrets=secrets)
        assert Notifier(config, deliver=keep).notify(rounds, datetime.now(UTC)) == ()  # type: ignore[arg-type]
        return [(title, body) for _, title, body in self.said]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_no_markup(name: str, tmp_path: Path) -> None:
    """Read as Markdown or HTML, a notice about it has no emphasis, link, heading or tag, and no
    character in it steers or hides.
    """
    desk = Desk(tmp_path)
    ((title, body),) = desk.tell(told("conflicts", conflict(1, name=name, problem=name)))
    assert all(char.isprintable() for char in title + body.replace("\n", ""))
    shown = [line for line in body.splitlines() if "pet 1" in line]
    (line,) = shown
    page = MarkdownIt("commonmark", {"linkify": False}).enable("strikethrough").render(line[2:])
    assert page.count("<") == 2, page
    assert not {*"<>*`|"} & {*line}
    assert "@everyone" not in line
    assert "://" not in line


@given(st.text(max_size=60))
def test_any_text_is_plain(text: str) -> None:
    """One line in which nothing hides or steers, without what chat programs take for markup; and
    plain text stays so.
    """
    shown = plain(text)
    assert visible(shown) == shown
    assert not {*"<>*`|"} & {*shown}
    assert "](" not in shown
    assert plain(shown) == shown


def test_what_petsync_says_can_be_copied(tmp_path: Path) -> None:
    """An address of the configuration's services, and a table of petsync.toml, stand as they are;
    another host that begins so does not.
    """
    said = "http://shop.example:8000/v2/pet: write [service] statuses (http://shop.example:80001/)"
    body = Desk(tmp_path).tell(told("error", problem=said, store="http://shop.example:8000/v2"))[0][
        1
    ]
    assert said.replace("http://shop.example:80001", "http: //shop.example:80001") in body


def test_the_numbers_are_of_all_the_sheets(tmp_path: Path) -> None:
    """Where the same is told of several files of a folder, their conflicts are added up."""
    files = (told("conflicts", conflict(n), job="inbox", part=f"{n}.csv") for n in (1, 2))
    ((_, body),) = Desk(tmp_path).tell(*files)
    assert "conflicts: 2," in body


def test_names_that_are_harmless_stay_as_they_are() -> None:
    """Words with underscores, addresses of mail, accents and emoji are not rewritten."""
    for text in ("photo_urls", "a@b.example", "Müsli & Co. #1", "Zoë 🐕", "it's 3 - 4 (ok)"):
        assert plain(text) == text


SECRETS = ("c11ent&S3cret/+=\"<pässword>'", "ap1~k3y/9?Xq&Wv+=<zT>", "KnOwN7Zq")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_in_a_notice(secret: str, tmp_path: Path) -> None:
    """Not in the title, nor in the body, in whatever form a problem, a name or a file has it."""
    basic = base64.b64encode(f"client:{secret}".encode()).decode()
    forms = (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        json.dumps(secret),
        repr(secret),
        basic,
        base64.urlsafe_b64encode(secret.encode()).decode(),
        base64.b64encode(b"x" + secret.encode()).decode(),
    )
    desk = Desk(tmp_path, templates={"failure": ("$problem", f"$open $hint {secret}")})
    for n, form in enumerate(forms):
        failed = conflict(1, name=form, problem=f"{n}: {form}", address=form)
        round_ = told("failed-rows", failed, problem=f"{'x' * 288}{form}", hint=form, job=f"j{n}")
        desk.tell(round_, secrets=(Secret(secret),))
    text = json.dumps([desk.said, (tmp_path / "state/reconcile/notify.json").read_text()])
    for form in (*forms, secret[:8], json.dumps(secret)[1:-1]):
        inner = form.strip("'\"")[4:-4] if form in forms[7:] else form
        assert inner not in text, inner
        assert plain(inner) not in text, inner
    assert "***" in text


def test_short_values_are_replaced_as_words_only() -> None:
    """A value of a letter or two, as of a region, does not eat up all text."""
    redact = Redactor((Secret("eu"), Secret(""), Secret(" ")))
    assert redact("the museum of region eu") == "the museum of region ***"
    assert repr(redact) == "Redactor(***)"


def test_the_command_that_releases_a_plan_is_exact(tmp_path: Path) -> None:
    """It can be copied into a shell, from whatever folder, with store and state folder."""
    url, file = "https://shop.example/v2", str(tmp_path / "my plans/catalogue-1a2b.json")
    job = Job(name="catalogue", mode="push", url=url, profile="live", allow_http=("box",))
    desk = Desk(tmp_path, job)
    problem = "12 deletes are more than 10 % of 40 pets (max_delete)"
    ((_, body),) = desk.tell(told("waiting", waiting=file, problem=problem))
    command = next(line for line in body.splitlines() if line.startswith("    petsync"))
    assert shlex.split(command) == [
        *("petsync", "apply", file),
        *("--state", str(tmp_path / "state"), "--url", url),
        *("--profile", "live", "--allow-http", "box"),
    ]
    assert problem in body


def test_a_template_of_ones_own_is_used(tmp_path: Path) -> None:
    """With the documented names; a line whose names are all empty is left out, and $$ is a $."""
    mine = {"failure": ("$job: $status", "Dear all,\n$hint\n$problem costs 5 $$\n$exit_code")}
    desk = Desk(tmp_path, templates=mine)
    ((title, body),) = desk.tell(told("error", problem="an outage", exit_code=1))
    assert title == "catalogue: error"
    assert body == "Dear all,\nan outage costs 5 $\n1"


def test_an_unknown_name_in_a_template_is_a_mistake() -> None:
    """Told with the likeliest known one, or with all; a lone dollar is a mistake too."""
    assert mistakes_in("$job has $conflicts, for $$5") == ()
    assert mistakes_in("$jobs failed") == (
        "$jobs is no name that a notice knows; did you mean $job?",
    )
    (every,) = mistakes_in("${zzzzzz}")
    assert all(f"${name}" in every for name in NAMES)
    (dollar,) = mistakes_in("it costs $ 5")
    assert "$$" in dollar


def test_the_given_templates_use_known_names_only() -> None:
    """And there is one for each event, whose title is never empty."""
    assert {*DEFAULTS} == {*EVENTS}
    for title, body in DEFAULTS.values():
        assert (mistakes_in(title), mistakes_in(body)) == ((), ())
        assert fill(title, dict.fromkeys(NAMES, "x"))


def test_every_name_and_every_given_text_is_documented() -> None:
    """docs/notifications.md has the table of names, and the words of each event."""
    text = DOCS.read_text("utf-8")
    for name, meaning in NAMES.items():
        assert f"| `${name}` | {meaning} |" in text
    for event, (title, body) in DEFAULTS.items():
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        assert f"`{event}`\n\n    {title}\n\n{indented}" in text


def test_a_long_notice_is_cut(tmp_path: Path) -> None:
    """Twelve differences are listed, and the rest is counted; a text of one's own is cut too."""
    desk = Desk(tmp_path, templates={"failure": ("$job " + "x" * 500, "$problem " + "y" * 9000)})
    many = [conflict(n, problem="p" * 5000) for n in range(40)]
    ((_, body),) = desk.tell(told("conflicts", *many))
    assert body.count("\n- ") == 13 or body.endswith("(cut)")
    assert len(body) <= 3500
    desk.tell(told("error", job="other", problem="why"))
    _, title, body = desk.said[-1]
    assert (len(title), len(body)) == (160, 3500)
    assert body.endswith("(cut)")


def test_new_differences_are_listed_first(tmp_path: Path) -> None:
    """Of twenty conflicts, the one that people have not heard of yet is on top."""
    desk = Desk(tmp_path)
    old = [conflict(n) for n in range(20)]
    desk.tell(told("conflicts", *old))
    desk.tell(told("conflicts", *old, conflict(77)))
    lines = [line for line in desk.said[-1][2].splitlines() if line.startswith("- ")]
    assert "pet 77" in lines[0]
    assert lines[-1] == "- and 9 more, which the report lists"


def test_a_receiver_gets_title_body_and_kind(tmp_path: Path) -> None:
    """As apprise's JSON: a failure is a failure, a conflict a warning, a recovery a success."""
    with Receiver() as receiver:
        config = configured(tmp_path, notify=Notify(urls=(receiver.url,), on=EVENTS[:4]))
        for round_ in (told("error"), told("conflicts", conflict(1)), told("in-sync")):
            assert Notifier(config).notify([round_], datetime.now(UTC)) == ()
    assert [each["type"] for each in receiver.got] == ["failure", "warning", "success"]
    assert receiver.titles == [
        "petsync: catalogue failed (error)",
        "petsync: catalogue has differences for you to decide",
        "petsync: catalogue has recovered",
    ]
    assert "pet 1 Pet 1, status: both sides changed it" in receiver.got[1]["message"]
