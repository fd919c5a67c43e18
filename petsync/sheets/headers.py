"""Headers: which row they stand in, and which of the table's columns they mean."""

from __future__ import annotations

import difflib
import itertools
import re
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from petsync.errors import SheetError
from petsync.sheets.validate.text import repair_misread
from petsync.table.cells import BLANKS, trim
from petsync.table.columns import COLUMNS

__all__ = [
    "ACTION",
    "OURS",
    "RESULTS",
    "HeaderNotFoundError",
    "Headers",
    "Mapper",
    "check_mapping",
    "loose",
    "own_results",
    "present_headers",
]


ACTION = "action"
RESULTS = ("outcome", "message", "assigned_id", "row")
"""The columns that a result sheet has beyond the user's own."""
OURS = "petsync "
"""What stands before their names where the user has a column of such a name."""

_OURS = (*COLUMNS, ACTION)
_LOOSE = re.compile(f"[{re.escape(BLANKS)}_-]+")
_SEARCHED = 20
_NEAR = 0.75
_JUDGED, _LONGEST, _LISTED = 200, 40, 12
"""So many headers are compared with ours, no longer than so many characters; so many are named."""
_NUMBERS = {2: "two", 3: "three"}
_USUAL = {
    name: column
    for column, names in {
        "id": "petid petnumber petno petnr animalid productid itemid recordid identifier ident "
        "identifiant identificador identificativo kennung number no n° num nr nummer numero "
        "# sku code itemno itemnumber artikelnummer artikelnr tierid tiernr tiernummer idnr idno "
        "lfdnr laufendenummer номер ид код 编号 番号",
        "name": "petname animalname pet tiername tier rufname nom nomanimal nombre nome naam namn "
        "nimi nazwa имя 名前 名称",
        "status": "petstatus state statut stato estado etat zustand tila availability "
        "verfugbarkeit verfuegbarkeit disponibilite disponibilidad статус 状态 状態",
        "category": "categoryname categorie categories categoria categorias kategorie kategori "
        "kategoria species animaltype pettype tierart espece especie specie rubrik категория 分类",
        "category_id": "categorynumber categoryno categorynr kategorieid kategorienr "
        "kategorienummer categorieid categoriaid idcategoria idcategorie",
        "tags": "labels label tagnames tagslist keywords schlagworter schlagwoerter schlagworte "
        "stichworter stichworte merkmale etiketten etiquettes etiquetas etichette motscles "
        "теги метки 标签 タグ",
        "photo_urls": "photo photos image images imageurl imageurls imagelinks photolinks picture "
        "pictures pictureurl pictureurls foto fotos fotourl fotourls bild bilder bildurl bildurls "
        "bildadresse bildadressen imagen imagenes immagine immagini фото 照片 写真",
        ACTION: "aktion accion azione acao действие 操作",
    }.items()
    for name in names.split()
}
"""What people call our columns, without accents; suggested like near misses, and never taken for
granted."""
_MARKS = ("ï»¿", "п»ї", "∩╗┐", "Ôªø", "ÿþ", "þÿ")
"""The byte order mark at the beginning of a file as other encodings read it."""


class HeaderNotFoundError(SheetError):
    """A mapping names headers, `missing`, that the sheet does not have."""

    def __init__(self, message: str, *, hint: str, missing: Sequence[str]) -> None:
        super().__init__(message, hint=hint)
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Which column of the file is which: positions by our names, and the others by their own.

    `near` holds, for a header that is nearly one of ours, its position and our name, also where
    that column is there too.
    """

    ours: Mapping[str, int]
    others: Mapping[str, int]
    near: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Mapper:
    """Matches headers without regard to case, spaces, underscores and hyphens.

    `mapping` gives our column for each header that is known, in its loose spelling.
    """

    source: str
    mapping: Mapping[str, str]

    @classmethod
    def of(cls, source: str, mapping: Mapping[str, str] | None) -> Mapper:
        """A mapper for one file. Raises SheetError where `mapping` names no column of ours."""
        known = {loose(ours): ours for ours in _OURS}
        table = dict(known)
        for theirs, ours in (mapping or {}).items():
            if loose(ours) not in known:
                raise SheetError(
                    f"the mapping of {theirs!r} names {ours!r}, which is no column of petsync",
                    hint=f"The columns are: {', '.join(_OURS)}.",
                )
            table[loose(theirs)] = known[loose(ours)]
        return cls(source, table)

    def score(self, cells: Iterable[str]) -> int:
        """How many of our columns these cells name."""
        return len({self.mapping[key] for cell in cells if (key := loose(cell)) in self.mapping})

    def is_id(self, cell: str) -> bool:
        """Whether the cell is a header of the ids."""
        return self.mapping.get(loose(cell)) == "id"

    def header_row(self, rows: Sequence[Sequence[str]]) -> int | None:
        """Where the header is among the first rows: the one that names most of our columns."""
        scores = [self.score(row) for row in rows[:_SEARCHED]]
        best = max(scores, default=0)
        return scores.index(best) if best else None

    def match(self, header: Sequence[str], places: Sequence[str]) -> Headers:
        """The meaning of each header. Raises SheetError where two mean the same."""
        ours: dict[str, list[int]] = {}
        others: dict[str, list[int]] = {}
        for position, text in enumerate(header):
            name = self.mapping.get(loose(text))
            if name is not None:
                ours.setdefault(name, []).append(position)
            elif trim(text):
                others.setdefault(trim(text), []).append(position)
        if any(len(positions) > 1 for positions in ours.values()):
            raise self._twice(ours, header, places)
        once = {name: position for name, (position,) in ours.items()}
        kept = dict(_number_repeated(others))
        return Headers(ours=once, others=kept, near=self._near(once, kept))

    def unusable(self, rows: Sequence[Sequence[str]], where: str = "") -> SheetError:
        """The error for a sheet without any header of ours: what was found, what may be meant.

        What was found is the row with most headers that are nearly ours, else the first one.
        """
        filled = [[trim(text) for text in row if trim(text)][:_JUDGED] for row in rows[:_SEARCHED]]
        meant = [[(text, near) for text in row if (near := self.nearest(text))] for row in filled]
        most = max(range(len(rows[:_SEARCHED])), key=lambda n: (len(meant[n]), -n), default=None)
        first = next((n for n, row in enumerate(filled) if row), None)
        at = most if most is not None and meant[most] else first
        listed = (
            ", ".join(repr(text[:40]) for text in filled[at][:_LISTED]) if at is not None else ""
        )
        hints = [f"{text!r} may mean {near}" for text, near in meant[at]] if at is not None else []
        hints.append(f"The columns are {', '.join(_OURS)}; map others to these, or rename them")
        row = "the first row" if at == first else f"row {(at or 0) + 1} of it"
        return SheetError(
            f"{self.source}{where}: no column has a header that petsync knows; {row} holds "
            f"{listed or 'nothing'}",
            hint=". ".join(hints) + ".",
        )

    def _near(self, ours: Mapping[str, int], others: Mapping[str, int]) -> dict[int, str]:
        judged = itertools.islice(others.items(), _JUDGED)
        near = {
            at: self.nearest(text) for text, at in judged if text.removeprefix(OURS) not in RESULTS
        }
        # Other numbers beside the ids, such as `No.` and `SKU`, change no pet.
        return {
            at: name for at, name in near.items() if name and (name != "id" or "id" not in ours)
        }

    def nearest(self, text: str) -> str:
        """Which of our columns a header means or may mean, "" if none."""
        return self.similar(text) or _USUAL.get(_plain(text), "")

    def similar(self, text: str) -> str:
        """Which of our columns a header is a misspelling of, "" if none."""
        plain = _plain(text)
        if plain in _USUAL or len(plain) > _LONGEST:
            return ""
        match = difflib.get_close_matches(plain, self.mapping, n=1, cutoff=_NEAR)
        return self.mapping[match[0]] if match else ""

    def misspelt(self, text: str, there: Container[str]) -> str:
        """Which of our columns a header is a misspelling of, "" if none. One that names a column
        which is `there` and says more, such as `old_status`, is none.
        """
        near = self.similar(text)
        words = re.split(r"[\W_]+", text.casefold())
        return "" if near in there and f"_{near}_" in f"_{'_'.join(words)}_" else near

    def _twice(
        self, ours: Mapping[str, Sequence[int]], header: Sequence[str], places: Sequence[str]
    ) -> SheetError:
        """All columns of ours that several headers mean, with where these are."""
        several = [
            f"{_NUMBERS.get(len(positions), len(positions))} columns mean {name}: "
            f"{_list_columns(positions, header, places)}"
            for name, positions in ours.items()
            if len(positions) > 1
        ]
        return SheetError(
            f"{self.source}: {'; '.join(several)}",
            hint="Keep one of them, and delete the others or give them other headers.",
        )


def loose(text: str) -> str:
    """A header as it is compared: without regard to case, spaces, underscores and hyphens."""
    return _LOOSE.sub("", text).casefold()


def check_mapping(source: str, mapping: Mapping[str, str], header: Sequence[str]) -> None:
    """Raise HeaderNotFoundError where the mapping names a header that the sheet does not have."""
    there = present_headers(mapping, header)
    missing = [theirs for theirs in mapping if theirs not in there]
    if missing:
        shown = [repr(trim(text)[:_LONGEST]) for text in header if trim(text)]
        more = ", …" if len(shown) > _LISTED else ""
        raise HeaderNotFoundError(
            f"{source}: no column has the header {', '.join(map(repr, missing))}",
            hint=f"The headers are {', '.join(shown[:_LISTED])}{more}.",
            missing=missing,
        )


def present_headers(mapping: Mapping[str, str], header: Sequence[str]) -> dict[str, str]:
    """The mapping of the headers that are there."""
    there = {loose(text) for text in header}
    return {theirs: ours for theirs, ours in mapping.items() if loose(theirs) in there}


def own_results(headers: Collection[str]) -> frozenset[str]:
    """Those of the headers that petsync wrote beside results: all of one spelling are there. A
    single one may be anybody's.
    """
    spellings = (RESULTS, tuple(f"{OURS}{name}" for name in RESULTS))
    return frozenset(
        name for names in spellings if all(each in headers for each in names) for name in names
    )


def _plain(text: str) -> str:
    """A header as it is looked up: as it was before a wrong encoding, without accents and dots."""
    for mark in _MARKS:
        text = text.removeprefix(mark)
    letters = unicodedata.normalize("NFKD", loose(repair_misread(text) or text))
    bare = "".join(char for char in letters if not unicodedata.combining(char)).casefold()
    return bare if bare == "#" else bare.strip(".:*#")


def _list_columns(positions: Sequence[int], header: Sequence[str], places: Sequence[str]) -> str:
    shown = [f"{trim(header[at])!r} in column {places[at]}" for at in positions[:_LISTED]]
    if len(positions) > _LISTED:
        return ", ".join([*shown, "..."])
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _number_repeated(others: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Each header once: one that is there again gets a number, `Note (2)`."""
    taken = set(others)
    for name, (first, *again) in others.items():
        yield name, first
        number = 2
        for position in again:
            while f"{name} ({number})" in taken:
                number += 1
            taken.add(f"{name} ({number})")
            yield f"{name} ({number})", position
