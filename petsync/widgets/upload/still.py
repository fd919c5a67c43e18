"""An upload form where nobody can press anything: the pet, its pictures, and what was uploaded."""

from __future__ import annotations

from collections.abc import Iterator

from petsync import _show
from petsync.diff.uploaded import Uploaded
from petsync.errors import PetsyncError
from petsync.model import Pet
from petsync.render import markup
from petsync.render.pictures_words import of_pet
from petsync.render.visible import shorten, wrap
from petsync.render.words import count
from petsync.store import Store
from petsync.widgets import form as forms

__all__ = ["html", "pet_now", "text"]

_MOST = 10
_HOW = "In a live notebook this is a form. In plain Python:"


def pet_now(store: Store, pet: Pet | None, pet_id: int | None) -> Pet | PetsyncError | None:
    """The pet, asked for where nobody has and nobody waits for the cell."""
    if pet is not None or pet_id is None or forms.is_live():
        return pet
    try:
        return store.api.get_pet_by_id(pet_id)
    except PetsyncError as error:
        return error


def html(
    title: str, pet: Pet | PetsyncError | None, report: Uploaded | None, pet_id: int | None
) -> str:
    """The form as an HTML fragment."""
    parts = [markup.element("h3", markup.text(title))]
    parts += [markup.element("p", markup.text(line)) for line in _about(pet, pet_id)]
    if isinstance(pet, Pet) and pet.photo_urls:
        items = (markup.element("li", markup.bdi(url)) for url in pet.photo_urls[:_MOST])
        parts.append(markup.element("ul", "".join(items)))
    if report is not None:
        return "\n".join(parts) + _show.as_html(report)
    code = markup.element("code", markup.text(_code(pet, pet_id)))
    return "\n".join([*parts, markup.element("p", f"{markup.text(_HOW)} {code}")])


def text(
    title: str, pet: Pet | PetsyncError | None, report: Uploaded | None, pet_id: int | None
) -> str:
    """The form as plain text of at most 80 columns."""
    lines = [title, *(line for said in _about(pet, pet_id) for line in wrap(said, 80))]
    if isinstance(pet, Pet):
        lines += [f"  {shorten(url, 78)}" for url in pet.photo_urls[:_MOST]]
    if report is not None:
        return "\n".join(lines) + "\n\n" + _show.as_text(report)
    return "\n".join([*lines, _HOW, f"  {_code(pet, pet_id)}"])


def _about(pet: Pet | PetsyncError | None, pet_id: int | None) -> Iterator[str]:
    if isinstance(pet, PetsyncError):
        yield pet.message
        if pet.hint:
            yield pet.hint
    elif pet is None:
        yield "No pet is chosen yet." if pet_id is None else f"The pictures are for pet {pet_id}."
    else:
        total = len(pet.photo_urls)
        more = f"; the first {_MOST}" if total > _MOST else ""
        has = f"{count(total, 'picture')}{more}" if total else "no picture yet"
        whom = markup.capital(of_pet(pet.id, shorten(pet.name or "", 60)))
        yield f"{whom} has {has}."


def _code(pet: Pet | PetsyncError | None, pet_id: int | None) -> str:
    number = pet.id if isinstance(pet, Pet) else 7 if pet_id is None else pet_id
    return f'store.upload(store.pictures_of({number}, ["a.jpg", "b.png"]))'
