"""petsync upload: images are shown, confirmed, sent once and reported file by file."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pexpect
import pytest
from commands import PROGRAM, Shell, finished, process, to
from picturing import image, put

from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder with three images of two pets, and a file that is not an image."""
    folder = put(
        tmp_path / "photos", p1__jpg=image("JPEG"), p1_2__png=image(), p2__gif=image("GIF")
    )
    return put(folder, notes__txt=b"remember the milk")


def test_nothing_is_sent_unasked(shell: Shell, box: Sandbox, photos: Path) -> None:
    """Without --yes and a terminal everything is shown, nothing is sent, and the exit code is 2."""
    done = shell("upload", photos, *to(box))
    assert done.code == 2
    assert box.requests["uploadFile"] == 0
    for text in (
        "+ 1  Rex",
        "1_2.png",
        "JPEG, 8 × 6",
        "; unchanged",
        "notes.txt",
        "--yes uploads",
    ):
        assert text in done.err
    output = shell("upload", photos, *to(box), "--json").json
    assert (output["dry_run"], output["pictures"], output["exit_code"]) == (True, 3, 2)
    assert not Path(".petsync").exists()


def test_a_page_that_cannot_be_written_is_the_exit_code(box: Sandbox, photos: Path) -> None:
    """If the page cannot be written, the exit code of the command and of its JSON is 1."""
    Path("out").mkdir()
    box.set_faults("latency=0.5,only=uploadFile")
    args = ("upload", photos, *to(box), "--yes", "--json", "--report", "out/report.html")
    with process(*args) as running:
        while not box.requests["uploadFile"]:
            time.sleep(0.02)
        Path("out").rmdir()
        out, err = running.communicate(timeout=120)
    assert (running.returncode, json.loads(out)["exit_code"]) == (1, 1)
    assert "report.html" in err
    assert json.loads(out)["counts"]["applied"] == 3


def test_yes_uploads_and_a_second_run_sends_nothing(
    shell: Shell, box: Sandbox, photos: Path
) -> None:
    """--yes uploads each image once; the same command again has nothing to upload."""
    done = shell("upload", photos, *to(box), "--yes", "--json")
    assert done.code == 0
    assert done.json["counts"]["applied"] == 3
    assert [r["outcome"] for r in done.json["results"]] == [*["applied"] * 3, "not sent"]
    assert all(r["urls"] for r in done.json["results"][:3])
    again = shell("upload", photos, *to(box))
    assert again.code == 0
    assert "Nothing to upload: 3 uploaded before" in again.err
    assert box.requests["uploadFile"] == 3


def test_failures_come_first_with_their_cure(shell: Shell, box: Sandbox, photos: Path) -> None:
    """A file that cannot be uploaded is listed first with its fix, and the exit code is 3."""
    put(photos, p2_2__png=image("JPEG"), p404__png=image())
    done = shell("upload", photos, *to(box), "--yes", "--report", "report.html")
    assert done.code == 3
    assert done.out.index("404.png") < done.out.index("notes.txt")
    for text in (
        "Give it a name that ends in .jpg",
        "the store has no pet 404",
        "3 uploaded",
        "2 failed",
    ):
        assert text in " ".join(done.out.split())
    page = Path("report.html").read_text("utf-8")
    assert "404.png" in page
    assert "/images/" in page


def test_of_a_sheet(shell: Shell, box: Sandbox, photos: Path) -> None:
    """One column of a sheet names the image files, another one their metadata."""
    Path("sheet.csv").write_text(
        "id,picture,caption\n1,1.jpg | 1_2.png,in the sun\n2,https://shop.example/2.gif,\n", "utf-8"
    )
    args = ("sheet.csv", "--column", "picture", "--metadata-column", "caption")
    done = shell("upload", *args, "--folder", photos, *to(box), "--yes")
    assert done.code == 3
    assert "metadata: in the sun" in done.err
    assert "line 3, column 2" in done.out
    assert box.requests["uploadFile"] == 2


def test_the_encoding_of_a_sheet(shell: Shell, box: Sandbox, photos: Path) -> None:
    """--encoding decodes the sheet that names the image files."""
    Path("sheet.csv").write_text("id,picture,caption\n1,1.jpg,žluťoučký kůň\n", "cp1250")
    args = ("sheet.csv", "--column", "picture", "--metadata-column", "caption")
    done = shell("upload", *args, "--encoding", "cp1250", "--folder", photos, *to(box))
    assert "metadata: žluťoučký kůň" in done.err


@pytest.mark.parametrize(
    "args",
    [
        ("sheet.csv",),
        ("photos", "--column", "x"),
        ("photos", "--folder", "photos"),
        ("photos", "--sheet", "Pets"),
        ("sheet.csv", "--column", "x", "--recursive"),
        ("sheet.csv", "--column", "x", "--pattern", "{id}"),
        ("photos", "--pattern", "{pet}"),
        ("photos", "--max-bytes", "many"),
        ("photos", "--max-bytes", "0"),
        ("photos", "--max-side", "0"),
        ("photos", "--report", "report.pdf"),
        ("photos", "--rate", "0"),
    ],
)
def test_options_that_cannot_be(
    shell: Shell, box: Sandbox, photos: Path, args: tuple[str, ...]
) -> None:
    """Options that contradict each other or are invalid are refused before any request."""
    Path("sheet.csv").write_text("id,picture\n1,1.jpg\n", "utf-8")
    box.requests.clear()
    done = shell("upload", *args, *to(box), "--yes")
    assert (done.code, done.out) == (64, "")
    assert box.requests["uploadFile"] == 0


@pytest.mark.parametrize(("text", "code"), [("500", 2), ("100", 3), ("1K", 2), ("2MiB", 2)])
def test_sizes(shell: Shell, box: Sandbox, tmp_path: Path, text: str, code: int) -> None:
    """--max-bytes accepts bytes, K and MiB."""
    folder = put(tmp_path / "one", p1__png=image(size=(100, 100)))
    assert 100 < (folder / "1.png").stat().st_size < 500
    done = shell("upload", folder, *to(box), "--max-bytes", text)
    assert ("not uploaded" in done.err) == (code == 3)


def test_folder_that_is_not_there(shell: Shell, box: Sandbox) -> None:
    """A missing folder is an error that names it."""
    done = shell("upload", "nowhere", *to(box))
    assert done.code == 1
    assert "nowhere" in done.err


def test_names_cannot_steer_the_terminal(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """Control characters in a file name are shown by name."""
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "1\x1b[31m\u202e.png").write_bytes(image())
    done = shell("upload", folder, *to(box))
    assert "\x1b" not in done.err
    assert "[ESC]" in done.err


def test_ctrl_c_finishes_the_upload_under_way(box: Sandbox, photos: Path, tmp_path: Path) -> None:
    """Ctrl-C completes the upload in progress and exits with 7; the same command then uploads the
    rest.
    """
    box.set_faults("latency=0.6,only=uploadFile")
    before = box.requests["uploadFile"]
    args = ("upload", photos, *to(box), "--yes", "--concurrency", 1)
    with process(*args, cwd=tmp_path) as running:
        while box.requests["uploadFile"] == before:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 7, err
    assert "2 not sent" in out or "3 not sent" in out
    assert "Traceback" not in err
    box.set_faults(None)
    rest = finished(*args, "--settle", "0", cwd=tmp_path)
    assert rest.code == 0
    photos_of = {pet.id: pet.photo_urls for pet in box.pets()}
    assert (len(photos_of[1]), len(photos_of[2])) == (4, 2)


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_a_person_is_asked(
    box: Sandbox, photos: Path, tmp_path: Path, answer: str, code: int
) -> None:
    """In a terminal everything is shown before the confirmation, and only a yes uploads."""
    before = box.requests["uploadFile"]
    args = [*PROGRAM[1:], "upload", str(photos), *to(box)]
    child = pexpect.spawn(sys.executable, args, cwd=str(tmp_path), timeout=120, encoding="utf-8")
    child.expect("Upload these 3 pictures to ")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert box.requests["uploadFile"] - before == (3 if code == 0 else 0)
