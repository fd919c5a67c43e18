"""The text of notices: their templates, and what they never contain."""

from __future__ import annotations

import base64
import html
import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from receiver import Receiver, build_report, configured, conflict

from petsync.config.model import EVENTS, Event, Job, Notify
from petsync.config.templates import DEFAULTS, NAMES, fill, mistakes_in
from petsync.reconcile.notify import Notifier, as_plain_line
from petsync.redact import Redactor
from petsync.settings import Secret
from petsync.table.cells import make_visible

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
    """A notifier that keeps its notices instead of sending them."""

    def __init__(self, folder: Path, *jobs: Job, **notify: object) -> None:
        self.notices: list[tuple[str, str, str]] = []
        urls = (Secret("json://hooks.example/never"),)
        given = Notify(urls=urls, **{"on": EVENTS[:4], **notify})  # type: ignore[arg-type]
        self.config = configured(folder, *jobs, notify=given)

    def tell(self, *rounds: object, secrets: tuple[Secret, ...] = ()) -> list[tuple[str, str]]:
        """Return the titles and bodies of the notices of these rounds."""
        from dataclasses import replace

        def keep(_: Secret, event: Event, title: str, body: str, __: float) -> str:
            self.notices.append((event, title, body))
            return ""

        config = replace(self.config, secrets=secrets)
        assert Notifier(config, deliver=keep).notify(rounds, datetime.now(UTC)) == ()  # type: ignore[arg-type]
        return [(title, body) for _, title, body in self.notices]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_no_markup(name: str, tmp_path: Path) -> None:
    """A hostile name in a notice gives no emphasis, link, heading or tag as Markdown or HTML, and
    no control or invisible character.
    """
    desk = Desk(tmp_path)
    ((title, body),) = desk.tell(build_report("conflicts", conflict(1, name=name, problem=name)))
    assert all(char.isprintable() for char in title + body.replace("\n", ""))
    shown = [line for line in body.splitlines() if "pet 1" in line]
    (line,) = shown
    page = MarkdownIt("commonmark", {"linkify": False}).enable("strikethrough").render(line[2:])
    assert page.count("<") == 2, page
    assert not {*"<>*`|"} & {*line}
    assert "@everyone" not in line
    assert "://" not in line


@given(st.text(max_size=60))
@example("_@everyone")
def test_any_text_is_plain(text: str) -> None:
    """Any text becomes one line without control characters, invisible characters or chat markup,
    and plain text stays unchanged.
    """
    shown = as_plain_line(text)
    assert make_visible(shown) == shown
    assert not {*"<>*`|"} & {*shown}
    assert "](" not in shown
    assert as_plain_line(shown) == shown


def test_what_petsync_says_can_be_copied(tmp_path: Path) -> None:
    """An address of the configured services and a table name of petsync.toml stay unchanged;
    another host that begins with the same text does not.
    """
    message = (
        "http://shop.example:8000/v2/pet: write [service] statuses (http://shop.example:80001/)"
    )
    body = Desk(tmp_path).tell(
        build_report("error", problem=message, store="http://shop.example:8000/v2")
    )[0][1]
    assert message.replace("http://shop.example:80001", "http: //shop.example:80001") in body


def test_the_numbers_are_of_all_the_sheets(tmp_path: Path) -> None:
    """A notice for several files of a folder shows the sum of their conflicts."""
    files = (build_report("conflicts", conflict(n), job="inbox", part=f"{n}.csv") for n in (1, 2))
    ((_, body),) = Desk(tmp_path).tell(*files)
    assert "conflicts: 2," in body


def test_names_that_are_harmless_stay_as_they_are() -> None:
    """Words with underscores, e-mail addresses, accents and emoji stay unchanged."""
    for text in ("photo_urls", "a@b.example", "Müsli & Co. #1", "Zoë 🐕", "it's 3 - 4 (ok)"):
        assert as_plain_line(text) == text


SECRETS = ("c11ent&S3cret/+=\"<pässword>'", "ap1~k3y/9?Xq&Wv+=<zT>", "KnOwN7Zq")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_in_a_notice(secret: str, tmp_path: Path) -> None:
    """No title and no body contains a secret, in any encoding that a problem, a name or a file may
    use.
    """
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
        round_ = build_report(
            "failed-rows", failed, problem=f"{'x' * 288}{form}", hint=form, job=f"j{n}"
        )
        desk.tell(round_, secrets=(Secret(secret),))
    text = json.dumps([desk.notices, (tmp_path / "state/reconcile/notify.json").read_text()])
    for form in (*forms, secret[:8], json.dumps(secret)[1:-1]):
        inner = form.strip("'\"")[4:-4] if form in forms[7:] else form
        assert inner not in text, inner
        assert as_plain_line(inner) not in text, inner
    assert "***" in text


def test_short_values_are_replaced_as_words_only() -> None:
    """A secret of one or two letters, such as a region, is replaced only where it is a whole
    word.
    """
    redact = Redactor((Secret("eu"), Secret(""), Secret(" ")))
    assert redact("the museum of region eu") == "the museum of region ***"
    assert repr(redact) == "Redactor(***)"


def test_the_command_that_releases_a_plan_is_exact(tmp_path: Path) -> None:
    """The command that releases a plan can be copied into a shell in any folder; it names the store
    and the state folder.
    """
    url, file = "https://shop.example/v2", str(tmp_path / "my plans/catalogue-1a2b.json")
    job = Job(name="catalogue", mode="push", url=url, profile="live", allow_http=("box",))
    desk = Desk(tmp_path, job)
    problem = "12 deletes are more than 10 % of 40 pets (max_delete)"
    ((_, body),) = desk.tell(build_report("waiting", waiting=file, problem=problem))
    command = next(line for line in body.splitlines() if line.startswith("    petsync"))
    assert shlex.split(command) == [
        *("petsync", "apply", file),
        *("--state", str(tmp_path / "state"), "--url", url),
        *("--profile", "live", "--allow-http", "box"),
    ]
    assert problem in body


def test_a_template_of_ones_own_is_used(tmp_path: Path) -> None:
    """A template of the user is filled with the documented names; a line whose names are all empty
    is left out, and $$ is a $.
    """
    mine = {"failure": ("$job: $status", "Dear all,\n$hint\n$problem costs 5 $$\n$exit_code")}
    desk = Desk(tmp_path, templates=mine)
    ((title, body),) = desk.tell(build_report("error", problem="an outage", exit_code=1))
    assert title == "catalogue: error"
    assert body == "Dear all,\nan outage costs 5 $\n1"


def test_an_unknown_name_in_a_template_is_a_mistake() -> None:
    """An unknown name in a template is reported with the most similar known name, or with all
    names; a single dollar sign is an error too.
    """
    assert mistakes_in("$job has $conflicts, for $$5") == ()
    assert mistakes_in("$jobs failed") == (
        "$jobs is not a name that a notice can use; did you mean $job?",
    )
    (every,) = mistakes_in("${zzzzzz}")
    assert all(f"${name}" in every for name in NAMES)
    (dollar,) = mistakes_in("it costs $ 5")
    assert "$$" in dollar


def test_the_given_templates_use_known_names_only() -> None:
    """The default templates use known names only; each event has one with a title that is never
    empty.
    """
    assert {*DEFAULTS} == {*EVENTS}
    for title, body in DEFAULTS.values():
        assert (mistakes_in(title), mistakes_in(body)) == ((), ())
        assert fill(title, dict.fromkeys(NAMES, "x"))


def test_every_name_and_every_given_text_is_documented() -> None:
    """docs/notifications.md has the table of names and the default text of each event."""
    text = DOCS.read_text("utf-8")
    for name, meaning in NAMES.items():
        assert f"| `${name}` | {meaning} |" in text
    for event, (title, body) in DEFAULTS.items():
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        assert f"`{event}`\n\n    {title}\n\n{indented}" in text


def test_a_long_notice_is_cut(tmp_path: Path) -> None:
    """A notice lists at most twelve differences and counts the rest, and the text of a user's
    template is cut too.
    """
    desk = Desk(tmp_path, templates={"failure": ("$job " + "x" * 500, "$problem " + "y" * 9000)})
    many = [conflict(n, problem="p" * 5000) for n in range(40)]
    ((_, body),) = desk.tell(build_report("conflicts", *many))
    assert body.count("\n- ") == 13 or body.endswith("(cut)")
    assert len(body) <= 3500
    desk.tell(build_report("error", job="other", problem="why"))
    _, title, body = desk.notices[-1]
    assert (len(title), len(body)) == (160, 3500)
    assert body.endswith("(cut)")


def test_new_differences_are_listed_first(tmp_path: Path) -> None:
    """A new difference is listed before those of earlier notices."""
    desk = Desk(tmp_path)
    old = [conflict(n) for n in range(20)]
    desk.tell(build_report("conflicts", *old))
    desk.tell(build_report("conflicts", *old, conflict(77)))
    lines = [line for line in desk.notices[-1][2].splitlines() if line.startswith("- ")]
    assert "pet 77" in lines[0]
    assert lines[-1] == "- and 9 more, which the report lists"


def test_a_receiver_gets_title_body_and_kind(tmp_path: Path) -> None:
    """The receiver gets title, body and apprise's type: failure, warning for conflicts, success for
    a recovery.
    """
    with Receiver() as receiver:
        config = configured(tmp_path, notify=Notify(urls=(receiver.url,), on=EVENTS[:4]))
        for round_ in (
            build_report("error"),
            build_report("conflicts", conflict(1)),
            build_report("in-sync"),
        ):
            assert Notifier(config).notify([round_], datetime.now(UTC)) == ()
    assert [each["type"] for each in receiver.got] == ["failure", "warning", "success"]
    assert receiver.titles == [
        "petsync: catalogue failed (error)",
        "petsync: catalogue has differences for you to resolve",
        "petsync: catalogue has recovered",
    ]
    assert "pet 1 Pet 1, status: both sides changed it" in receiver.got[1]["message"]
