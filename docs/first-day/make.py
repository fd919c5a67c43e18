"""Draw the pictures of docs/first-day, the first days of three people: `python
docs/first-day/make.py [staff] [analyst] [operator]`.

The script drives petsync as a person does: its page and JupyterLab in Chromium, and its commands in
a terminal of 80 columns. openpyxl edits the workbook, in place of Excel. The picture of the
workbook needs LibreOffice (`soffice`) and `pip install pypdfium2`; the rest needs what the tests
need.
tests/browser/forms/test_forms_first_day.py takes the same steps without pictures.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import openpyxl
import pexpect
from openpyxl.worksheet.header_footer import HeaderFooter
from PIL import Image, ImageOps
from playwright.sync_api import Browser, Locator, Page, expect
from rich.console import Console
from rich.text import Text

_HERE = Path(__file__).parent
_TESTS = _HERE.parents[1] / "tests"
_OURS = [_TESTS / "support", _TESTS / "browser", _TESTS / "browser" / "forms"]
sys.path[:0] = [str(folder) for folder in _OURS]

from chromium import open_chromium  # noqa: E402
from fronts import PATIENCE, Lab  # noqa: E402
from jupyters import House  # noqa: E402
from outside import Outside  # noqa: E402

import petsync as ps  # noqa: E402
from petsync.report.text import terminal_svg  # noqa: E402
from petsync.sandbox import Sandbox  # noqa: E402

__all__ = ["Day", "analyst", "home", "operator", "staff", "staff_again"]

_PORT = 8123
_WIDTH, _TALLEST = 1280, 800
_LITTER = ("Ada", "Ben", "Cleo", "Dot", "Emil", "Fips", "Gus", "Hela", "Ivo", "Juno", "Kim", "Lux")


class Day:
    """The steps of a person, and their pictures in `folder`; without it, nothing is drawn. A step
    is a click, a field that is filled, a command or a cell.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.steps: list[str] = []
        self._folder = folder
        self._moments: dict[str, int] = {}

    def click(self, target: Locator) -> None:
        """Click on an element."""
        self.steps.append("click")
        target.click()

    def fill(self, target: Locator, text: str) -> None:
        """Type a text into a field."""
        self.steps.append("fill")
        target.fill(text)

    def show_page(self, page: Page, name: str) -> None:
        """Draw what a page shows, from its top, in few colours."""
        if self._folder is None:
            return
        bars = page.locator(".petsync-form").get_by_role("progressbar").locator("visible=true")
        expect(bars).to_have_count(0)
        texts = page.evaluate(_TEXTS)
        page.evaluate(_SET_TEXTS, {text: self.mask(text) for text in texts})
        page.mouse.move(0, 0)
        clip = {"x": 0, "y": 0, "width": _WIDTH, "height": min(page.evaluate(_BOTTOM), _TALLEST)}
        page.screenshot(path=self._folder / f"{name}.png", animations="disabled", clip=clip)
        _reduce(self._folder / f"{name}.png")

    def show_sheet(self, workbook: Path, rows: Sequence[int], name: str) -> None:
        """Draw these rows of a workbook's first sheet, as LibreOffice prints them."""
        if self._folder is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            drawn = _print_sheet(workbook, rows, Path(folder))
            shutil.copy(drawn, self._folder / f"{name}.png")
        _reduce(self._folder / f"{name}.png")

    def show_terminal(self, text: str, name: str, title: str) -> None:
        """Draw what a terminal of 80 columns shows."""
        if self._folder is None:
            return

        def show(console: Console) -> None:
            for line in self.mask(text).splitlines():
                console.print(Text.from_ansi(line), overflow="fold")

        (self._folder / f"{name}.svg").write_text(terminal_svg(show, title=title), "utf-8")

    def mask(self, text: str) -> str:
        """Return the text with constant times, ids of runs, and ports."""
        text = _STAMP.sub(self._mask_stamp, text)
        for pattern, constant in _MASKS:
            text = pattern.sub(constant, text)
        return text

    def _mask_stamp(self, found: re.Match[str]) -> str:
        # A round has microseconds, a run has a code; both may begin in the same second.
        number = self._moments.setdefault(
            found[1] + (found[2] or found[3] or ""), len(self._moments)
        )
        micro, code = "-000000" if found[2] else "", f"-4b{number:02}" if found[3] else ""
        return f"20261120-0930{number:02}{micro}{code}"


_STAMP = re.compile(r"\b(\d{8}-\d{6})(-\d{6})?(-[0-9a-f]{4})?\b")
_MASKS = [
    (re.compile(pattern), constant)
    for pattern, constant in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-11-20T09:30:00.000Z"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "2026-11-20 09:30:00 UTC"),
        (r"\b\d\.\d s\b", "0.4 s"),
        (r"\b\d+ ms each", "8 ms each"),
        (r"(state|code_challenge)=[\w-]{43}", r"\1=..."),
        (r"127\.0\.0\.1%3A\d+", "127.0.0.1%3A43210"),
        (r"\bplan [0-9a-f]{12}\b", "plan 4b1d0c2e77aa"),
        (r"\bnext \d{4}-\d\d-\d\d", "next 2026-11-21"),
        (re.escape(str(Path(sys.executable).parent)), "/opt/petsync/bin"),
        (rf"{re.escape(tempfile.gettempdir())}/[a-z0-9_]{{8}}\b", "/srv/petstore"),
    )
]
_NODES = """
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
"""
_TEXTS = f"() => {{ {_NODES} return nodes.map((node) => node.data); }}"
_SET_TEXTS = f"""(texts) => {{ {_NODES}
  for (const node of nodes)
    if ((texts[node.data] ?? node.data) !== node.data) node.data = texts[node.data];
}}"""
_BOTTOM = """() => {
  const shown = [...document.querySelectorAll(".petsync-form *, .jp-Cell")];
  return 24 + Math.max(...shown.map((each) => each.getBoundingClientRect().bottom));
}"""


def _print_sheet(workbook: Path, rows: Sequence[int], folder: Path) -> Path:
    """Return a picture of these rows, with the letters and numbers of columns and rows."""
    from pypdfium2 import PdfDocument  # Only the pictures need it.

    book = openpyxl.load_workbook(workbook)
    sheet = book["Pets"]
    for row in range(1, sheet.max_row + 1):
        sheet.row_dimensions[row].hidden = row not in rows
    sheet.print_options.headings = True
    sheet.HeaderFooter = HeaderFooter()
    book.save(folder / "rows.xlsx")
    program = ["soffice", f"-env:UserInstallation={(folder / 'office').as_uri()}", "--headless"]
    command = [*program, "--convert-to", "pdf", "--outdir", folder, folder / "rows.xlsx"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
    page = PdfDocument(folder / "rows.pdf")[0].render(scale=1.45).to_pil().convert("RGB")
    inner = ImageOps.invert(page.convert("L")).getbbox()
    assert inner is not None
    picture = folder / "rows.png"
    ImageOps.expand(page.crop(inner), border=12, fill="white").save(picture)
    return picture


def _reduce(picture: Path) -> None:
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)


@contextmanager
def home(folder: Path, outside: str) -> Iterator[House]:
    """Yield servers whose home folder and keyring are in `folder`."""
    house = House(folder / "house", outside)
    house.folder.mkdir()
    house.environment |= {
        "HOME": str(folder / "home"),
        "PYTHONPATH": f"{_HERE.parents[1]}:{_TESTS / 'support'}",
        "PYTHON_KEYRING_BACKEND": "vault.Vault",
        "PETSYNC_TEST_VAULT": str(folder / "vault.json"),
    }
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "LC_ALL", "TZ"):
        house.environment.pop(name, None)
    try:
        yield house
    finally:
        house.close()


# Shop staff: the page of `petsync app`, and a workbook.


_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+")


def staff(browser: Browser, house: House, box: Sandbox, day: Day) -> None:
    """Export a workbook, edit it, apply the changes, and use the same workbook the next day."""
    workbook = house.folder / "Downloads" / "catalogue.xlsx"
    with _app(browser, house, day) as page:
        day.show_page(page, "staff-1-store")
        address = page.get_by_role("region", name="Choose the store").get_by_label("Address")
        day.fill(address, box.url)
        address.press("Enter")
        _sign_in(page, day)
        sheet = page.get_by_role("region", name="Open a sheet")
        day.click(sheet.get_by_role("button", name="Export a workbook"))
        link = sheet.get_by_role("link", name="Download catalogue.xlsx")
        expect(link).to_be_visible()
        day.show_page(page, "staff-3-export")
        with page.expect_download() as download:
            day.click(link)
        download.value.save_as(workbook)
        last = _edit_as_staff(workbook, day)
        day.show_sheet(workbook, (*range(1, 8), *range(last - 13, last + 1)), "staff-4-edit")
        _compare(page, workbook, day)
        review = page.get_by_role("region", name="Review the plan")
        expect(review).to_contain_text("All 15 changes will be sent.")
        day.show_page(page, "staff-5-review")
        day.click(review.get_by_role("button", name="Apply..."))
        expect(review.get_by_role("heading").first).to_be_focused()
        day.click(review.get_by_role("button", name="Send 15 changes"))
        results = page.get_by_role("link", name="Download catalogue.results.xlsx").first
        expect(results).to_be_visible()
        day.show_page(page, "staff-6-report")
        with page.expect_download() as download:
            day.click(results)
        download.value.save_as(workbook.with_name("catalogue.results.xlsx"))


def staff_again(browser: Browser, house: House, day: Day) -> None:
    """Open the workbooks of the first day again, the downloaded one and the one with the results:
    nothing is added a second time.
    """
    with _app(browser, house, day) as page:
        review = page.get_by_role("region", name="Review the plan")
        _compare(page, house.folder / "Downloads" / "catalogue.results.xlsx", day)
        expect(review).to_contain_text("In sync: all 1,252 rows agree with the store.")
        day.show_page(page, "staff-7-again")
        page.get_by_role("button", name="Open a sheet").click()
        _compare(page, house.folder / "Downloads" / "catalogue.xlsx", Day())
        expect(review).to_contain_text("catalogue.xlsx (1,252 rows)")
        expect(review).to_contain_text("There is nothing to send.")
        day.show_page(page, "staff-8-again")


@contextmanager
def _app(browser: Browser, house: House, day: Day) -> Iterator[Page]:
    """Yield the page of `petsync app`, in a new tab."""
    day.steps.append("petsync app")
    process, log = house.run(["petsync.cli", "app", "--no-browser"], house.folder / "desk")
    try:
        until = time.monotonic() + PATIENCE / 1000
        while not (found := _LINK.search(log.read_text("utf-8"))):
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < until, log.read_text("utf-8")
            time.sleep(0.1)
        with browser.new_context(viewport={"width": _WIDTH, "height": _TALLEST}) as context:
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.goto(found.group())
            expect(page.get_by_role("heading", level=1)).to_have_text("petsync", timeout=PATIENCE)
            yield page
    finally:
        house.end(process)


def _sign_in(page: Page, day: Day) -> None:
    """Sign in on the store's own page, and stay signed in."""
    form = page.get_by_role("region", name="Sign in")
    day.click(form.get_by_label("Keep me signed in"))
    day.show_page(page, "staff-2-sign-in")
    _allow(page, form, day)


def _allow(page: Page, form: Locator, day: Day) -> None:
    day.click(form.get_by_role("button", name="Begin"))
    with page.expect_popup() as opened:
        day.click(form.get_by_role("link", name="Open the sign-in page"))
    day.click(opened.value.get_by_role("button", name="Allow"))


def _compare(page: Page, workbook: Path, day: Day) -> None:
    sheet = page.get_by_role("region", name="Open a sheet")
    with page.expect_file_chooser() as chooser:
        day.click(sheet.get_by_role("button", name="Choose a file…"))
    chooser.value.set_files(workbook)
    expect(sheet).to_contain_text(f"{workbook.name}, tab Pets")
    day.click(sheet.get_by_role("button", name="Compare with the store"))


def _edit_as_staff(workbook: Path, day: Day) -> int:
    """Rename a pet, sell two, add a litter of twelve, and return the last row."""
    day.steps.append("edit the workbook")
    book = openpyxl.load_workbook(workbook)
    sheet = book["Pets"]
    columns = {str(cell.value): cell.column for cell in sheet[1]}
    sheet.cell(4, columns["name"]).value = "Flopsy the Great"
    for row in (5, 6):
        sheet.cell(row, columns["status"]).value = "sold"
    last = max(cell.row for cell in sheet["A"] if cell.value)
    for row, name in enumerate(_LITTER, last + 1):
        for title, text in (("name", name), ("status", "available"), ("category", "Rabbits")):
            sheet.cell(row, columns[title]).value = text
    book.save(workbook)
    return last + len(_LITTER)


# An analyst: JupyterLab and pandas.


CELLS = {
    "connect": """\
import petsync as ps
store = ps.connect("{url}")
ps.widgets.login(store)""",
    "pets": """\
pets = store.pets()
pets["status"].value_counts()""",
    "plan": """\
free = (pets["category"] == "Rabbits") & (pets["status"] == "pending")
pets.loc[free, "status"] = "available"
plan = store.plan(pets)
plan""",
    "apply": """\
report = store.apply(plan)
report""",
    "undo": """\
undo = store.undo(report.run_id)
undo""",
    "undone": "store.apply(undo)",
}
"""The cells of the notebook, by the name of their picture."""


def analyst(lab: Lab, box: Sandbox, day: Day) -> None:
    """Read the pets into a DataFrame, change some, apply the plan and undo the run."""
    view = lab.open("first-day", [""])
    view.page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    for number, (name, code) in enumerate(CELLS.items(), 1):
        _run_cell(view.page, code.format(url=box.url), number, day)
        if number == 1:
            _allow(view.page, view.forms, day)
            expect(view.forms).to_contain_text("You are signed in")
        cell = view.root.locator(".jp-CodeCell").nth(number - 1)
        cell.evaluate("(cell) => cell.scrollIntoView({block: 'start'})")
        day.show_page(view.page, f"analyst-{number}-{name}")
    view.page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    lab.close(view)


def _run_cell(page: Page, code: str, number: int, day: Day) -> None:
    """Type a cell, and run it."""
    day.steps.append("cell")
    panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    panel.locator(".jp-CodeCell .cm-content").last.click()
    page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")
    prompt = panel.locator(".jp-CodeCell .jp-InputPrompt").nth(number - 1)
    expect(prompt).to_have_text(f"[{number}]:")


# An operator: a shell.


class Shell:
    """A shell in a terminal of 80 columns. `shown` is what it shows since it was read."""

    def __init__(self, house: House, folder: Path, day: Day) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._day, self._answer = day, ""
        self._lines: list[str] = []
        environment = {
            **house.environment,
            "BROWSER": f"{sys.executable} -m consenting %s",
            "PATH": f"{Path(sys.executable).parent}:{house.environment['PATH']}",
            "PS1": _PROMPT.format("$?"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        self._shell = pexpect.spawn(
            "/bin/bash",
            ["--norc", "--noediting"],
            env=environment,
            cwd=str(folder),
            dimensions=(50, 80),
            timeout=PATIENCE / 1000,
            encoding="utf-8",
            echo=False,
        )
        self._shell.expect(_PROMPT.format("0"))

    def __call__(self, command: str, *, exit_code: int = 0, answer: str = "") -> str:
        """Run a command; return its output. Raises AssertionError for another exit code."""
        self._day.steps.append(command.split(" -")[0])
        self._shell.sendline(command)
        text = ""
        if answer:
            self._shell.expect_exact("[y/N]: ")
            self._day.steps.append("answer")
            text = f"{self._shell.before}{self._shell.after}{answer}\n"
            self._shell.sendline(answer)
        self._shell.expect(_PROMPT.format(r"(\d+)"))
        text += str(self._shell.before)
        assert self._shell.match.group(1) == str(exit_code), text
        text = _SPINNER.sub("", text.replace("\r\n", "\n"))
        self._lines.append(f"$ {command}\n{text}")
        return text

    def take(self) -> str:
        """Return what the terminal shows, and clear it."""
        shown = "".join(self._lines)
        self._lines.clear()
        return shown

    def close(self) -> None:
        """End the shell."""
        self._shell.sendeof()
        self._shell.expect(pexpect.EOF)
        self._shell.close()


_PROMPT = "\x1e{}\x1e"
_SPINNER = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r?\x1b\[1A\x1b\[2K", re.DOTALL)


def operator(house: House, box: Sandbox, day: Day) -> None:
    """Set up a nightly job, decide a conflict, and undo a run."""
    folder = house.folder.parent / "shop"
    shell = Shell(house, folder, day)
    shell(f"export PETSYNC_URL={box.url}")
    shell("petsync doctor", exit_code=1)
    shell("petsync login")
    day.show_terminal(shell.take(), "operator-1-login", "petsync login")
    shell("petsync export catalogue.xlsx")
    shell("petsync init")
    shell("sed -i 's/^#schedule/schedule/' petsync.toml")
    shell("petsync config check")
    day.show_terminal(shell.take(), "operator-2-configure", "petsync config check")
    _set_cells(folder / "catalogue.xlsx", {"C2": "sold", "B1242": "Momo", "C1242": "available"})
    shell("petsync reconcile petsync.toml --dry-run", exit_code=2)
    day.show_terminal(shell.take(), "operator-3-dry-run", "petsync reconcile --dry-run")
    shell("petsync reconcile petsync.toml")
    day.show_terminal(shell.take(), "operator-4-reconcile", "petsync reconcile")
    pet = next(pet for pet in box.pets() if pet.id == 1003)
    box.put(msgspec.structs.replace(pet, name="Flopsy the Great"))
    _set_cells(folder / "catalogue.xlsx", {"B4": "Little Flopsy"})
    shell("petsync reconcile petsync.toml", exit_code=5)
    day.show_terminal(shell.take(), "operator-5-conflict", "petsync reconcile")
    _set_cells(folder / "catalogue.xlsx", {"B4": "Flopsy the Great"})
    day.steps.append("decide the conflict in the workbook")
    shell("petsync reconcile petsync.toml")
    shell("petsync config schedule --for cron")
    day.show_terminal(shell.take(), "operator-6-schedule", "petsync config schedule")
    shell("petsync runs")
    day.show_terminal(shell.take(), "operator-7-runs", "petsync runs")
    shell("petsync undo", answer="y")
    day.show_terminal(shell.take(), "operator-8-undo", "petsync undo")
    shell.close()


def _set_cells(workbook: Path, cells: Mapping[str, str]) -> None:
    book = openpyxl.load_workbook(workbook)
    for address, text in cells.items():
        book["Pets"][address].value = text
    book.save(workbook)


# The pictures.


def main(people: Sequence[str]) -> None:
    """Draw the pictures of these people; of all if none is named."""
    for person in people or ("staff", "analyst", "operator"):
        # The temporary folder has a name of constant length: paths wrap in the same way.
        folder = Path(tempfile.mkdtemp(prefix=""))
        try:
            _draw(person, folder)
        finally:
            shutil.rmtree(folder)


def _draw(person: str, folder: Path) -> None:
    day = Day(_HERE)
    expect.set_options(timeout=PATIENCE)
    with (
        Outside() as outside,
        home(folder, outside.url) as house,
        Sandbox(port=_PORT, seed=ps.sample_data() / "store.json") as box,
        open_chromium() as browser,
    ):
        if person == "operator":
            operator(house, box, day)
        elif person == "analyst":
            house.add_kernel("7.4")
            context = browser.new_context(viewport={"width": _WIDTH, "height": _TALLEST})
            analyst(Lab(house.lab(folder / "notebooks"), context.new_page()), box, day)
        else:
            staff(browser, house, box, day)
            staff_again(browser, house, day)


if __name__ == "__main__":
    main(sys.argv[1:])
