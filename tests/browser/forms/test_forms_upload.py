"""Image uploads in the form, in both front ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fronts import View, serious
from PIL import Image
from playwright.sync_api import expect

from petsync.sandbox import Sandbox


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Return three images, and a text file with the name of an image."""
    files = [tmp_path / f"{colour}.png" for colour in ("red", "green", "blue")]
    for file in files:
        Image.new("RGB", (400, 300), file.stem).save(file)
    text = tmp_path / "letter.jpg"
    text.write_text("Dear pet store,")
    return [*files, text]


@pytest.mark.parametrize("front", ["lab", "voila"])
def test_three_pictures_less_one(
    open_in: Callable[..., View], signed_in: str, box: Sandbox, pictures: list[Path], front: str
) -> None:
    """A pet is found by its name. Of three images one is cancelled after the upload has started,
    and a file that is not an image is reported; the pet has the other two and the form shows them.
    """
    before = _photos(box)
    view = open_in(front, signed_in, "form = ps.widgets.upload_images(store)\nform")
    form = view.forms
    form.get_by_label("Pet, by name or id").fill("bella")
    form.get_by_role("button", name="Find").click()
    form.get_by_role("button", name="Choose Bella (1001)", exact=True).click()
    # The pet's photos arrive meanwhile and move the button, so a key presses it, not the mouse.
    with view.page.expect_file_chooser() as chosen:
        form.get_by_role("button", name="Choose files").press("Enter")
    chosen.value.set_files(pictures)
    expect(form.get_by_role("img", name=re.compile("red|blue|green"))).to_have_count(3)
    expect(form).to_contain_text("letter.jpg")
    form.get_by_role("button", name="Options").click()
    form.get_by_label("Additional metadata").fill("taken in the garden")
    assert serious(view) == []

    box.set_faults("latency=0.7")
    form.get_by_role("button", name=re.compile("^Upload")).click()
    form.get_by_role("button", name=re.compile("blue.png")).click()
    expect(form.get_by_role("row", name=re.compile("blue.png"))).to_contain_text("cancelled")
    expect(form.get_by_role("row", name=re.compile("red.png"))).to_contain_text("done")
    expect(form.get_by_role("row", name=re.compile("green.png"))).to_contain_text("done")
    box.set_faults(None)
    added = _photos(box)[len(before) :]
    assert len(added) == 2
    for address in added:
        expect(form.get_by_role("link", name=address).first).to_be_visible()
    assert serious(view) == []


def _photos(box: Sandbox) -> list[str]:
    return next(list(pet.photo_urls) for pet in box.pets() if pet.id == 1001)
