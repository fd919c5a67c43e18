"""Headers: find their row, and match them with petsync's columns."""

from __future__ import annotations

import difflib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from petsync._display import quote
from petsync.errors import SheetError
from petsync.sheets.validate.text import repair_misread
from petsync.table.cells import BLANKS, normal_status, trim
from petsync.table.columns import COLUMNS
from petsync.table.options import STATUSES

__all__ = [
    "ACTION",
    "RESULTS",
    "RESULT_PREFIX",
    "HeaderNotFoundError",
    "Headers",
    "Mapper",
    "check_mapping",
    "fold_header",
    "mapping_hint",
    "own_results",
    "present_headers",
]


ACTION = "action"
RESULTS = ("outcome", "message", "assigned_id", "row")
"""The columns that a result sheet has in addition to the user's."""
RESULT_PREFIX = "petsync "
"""The prefix of the result columns if columns of the user have some of their names."""

_ALL_COLUMNS = (*COLUMNS, ACTION)
_IGNORED_CHARACTERS = re.compile(f"[{re.escape(BLANKS)}_-]+")
_SEARCHED_ROWS = 20
_SIMILARITY = 0.75
_MAX_COMPARED, _MAX_LENGTH, _MAX_LISTED = 200, 40, 12
"""The maximum number of headers to compare, the maximum length of a header to compare or show, and
the maximum number of headers to list.
"""
_ID = re.compile(r"[0-9]{1,19}")
_URL = re.compile(r"https?://", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]")
_NUMBER_WORDS = {2: "two", 3: "three"}
_COMMON_NAMES = {
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
"""Common names of petsync's columns, without accents: for suggestions only."""
_MISREAD_MARKS = ("ï»¿", "п»ї", "∩╗┐", "Ôªø", "ÿþ", "þÿ")
"""The byte order mark as it looks when it is decoded with a wrong encoding."""


class HeaderNotFoundError(SheetError):
    """A mapping names headers that the sheet does not have: `missing`."""

    def __init__(self, message: str, *, hint: str, missing: Sequence[str]) -> None:
        super().__init__(message, hint=hint)
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The columns of a file: positions of petsync's columns by name, and of the others by
    header.
    """

    columns: Mapping[str, int]
    others: Mapping[str, int]
    near: Mapping[int, str]
    """The column that is suggested for a header, by the header's position. The file may also have
    this column under its usual name, except `id`.
    """


@dataclass(frozen=True, slots=True)
class Mapper:
    """Matches headers without regard to case, spaces, underscores and hyphens.

    `mapping` has the column of each known header; the keys are results of `fold_header`.
    """

    source: str
    mapping: Mapping[str, str]

    @classmethod
    def of(cls, source: str, mapping: Mapping[str, str] | None) -> Mapper:
        """Return a mapper for one file. Raises SheetError if `mapping` names an unknown column."""
        columns = {fold_header(column): column for column in _ALL_COLUMNS}
        mapping_table = dict(columns)
        for header, column in (mapping or {}).items():
            if fold_header(column) not in columns:
                raise SheetError(
                    f"the mapping of {header!r} names {column!r}, which is not a column of petsync",
                    hint=f"The columns are: {', '.join(_ALL_COLUMNS)}.",
                )
            mapping_table[fold_header(header)] = columns[fold_header(column)]
        return cls(source, mapping_table)

    def score(self, cells: Iterable[str]) -> int:
        """Return the number of petsync's columns that these cells name."""
        return len(
            {self.mapping[key] for cell in cells if (key := fold_header(cell)) in self.mapping}
        )

    def is_id(self, cell: str) -> bool:
        """Return true if the cell is a header of the id column."""
        return self.mapping.get(fold_header(cell)) == "id"

    def header_row(self, rows: Sequence[Sequence[str]]) -> int | None:
        """Return the position of the header among the first rows: the row that names the most
        columns. None if no row names a column.
        """
        scores = [self.score(row) for row in rows[:_SEARCHED_ROWS]]
        best = max(scores, default=0)
        return scores.index(best) if best else None

    def match(self, header: Sequence[str], places: Sequence[str]) -> Headers:
        """Return the column of each header. Raises SheetError if two headers name one column."""
        found_positions: dict[str, list[int]] = {}
        others: dict[str, list[int]] = {}
        for position, text in enumerate(header):
            name = self.mapping.get(fold_header(text))
            if name is not None:
                found_positions.setdefault(name, []).append(position)
            elif trim(text):
                others.setdefault(trim(text), []).append(position)
        if any(len(positions) > 1 for positions in found_positions.values()):
            raise self._duplicates_error(found_positions, header, places)
        column_positions = {name: position for name, (position,) in found_positions.items()}
        numbered_others = dict(_number_repeated(others))
        return Headers(
            columns=column_positions,
            others=numbered_others,
            near=self._find_near(column_positions, numbered_others),
        )

    def unusable_error(
        self,
        rows: Sequence[Sequence[str]],
        where: str = "",
        *,
        numbers: Sequence[int] | None = None,
    ) -> SheetError:
        """Return the error for a sheet without any known header. It shows the row with the most
        similar headers, else the first one with content, and proposes a mapping. `where` is the
        worksheet, as a clause. `numbers` are the numbers of the rows in the sheet; None for a
        DataFrame.
        """
        first_rows = [[trim(text) for text in row][:_MAX_COMPARED] for row in rows[:_SEARCHED_ROWS]]
        known_counts = [sum(map(bool, map(self.nearest_column, row))) for row in first_rows]
        searched = first_rows if numbers is not None else first_rows[:1]
        shown_row = max(
            (n for n, row in enumerate(searched) if any(row)),
            key=lambda n: (known_counts[n], -n),
            default=None,
        )
        if shown_row is None:
            seen = (
                "its first rows are empty" if numbers is not None else "its columns have no names"
            )
            mapping: dict[str, str] = {}
        else:
            header = first_rows[shown_row]
            mapping = self._propose_mapping(header, first_rows[shown_row + 1 :])
            shown = [repr(text[:_MAX_LENGTH]) for text in header if text][:_MAX_LISTED]
            unit = "row" if where else "line"
            place = "its columns are" if numbers is None else f"{unit} {numbers[shown_row]} has"
            seen = f"{place} {', '.join(shown)}"
        return SheetError(
            f"{self.source}{where}: no column has a header that petsync recognises; {seen}",
            hint=_suggest_mapping(mapping),
        )

    def _propose_mapping(
        self, header: Sequence[str], below: Sequence[Sequence[str]]
    ) -> dict[str, str]:
        """Return the column that each header probably means: by its words, else by the texts in
        the rows `below`. No column is proposed twice.
        """
        folded = Counter(map(fold_header, header))
        texts = {
            text: [row[at] for row in below if at < len(row) and row[at]]
            for at, text in enumerate(header)
            if text and folded[fold_header(text)] == 1
        }
        by_column: dict[str, str] = {}
        for text, values in texts.items():
            column = self.nearest_column(text)
            are_ids = all(map(_ID.fullmatch, values))
            # A header such as "pet" may stand above ids.
            fits = are_ids if column == "id" else not (column == "name" and values and are_ids)
            if column and fits:
                by_column.setdefault(column, text)
        for text, values in texts.items():
            if values and text not in by_column.values():
                is_first = text == next(iter(texts))
                by_column.setdefault(_column_of_values(values, is_first=is_first), text)
        by_column.pop("", None)
        if by_column and "name" not in by_column:
            open_texts = [
                text
                for text, values in texts.items()
                if text not in by_column.values() and _are_names(values)
            ]
            if len(open_texts) == 1:
                by_column["name"] = open_texts[0]
        column_of = {text: column for column, text in by_column.items()}
        return {text: column_of[text] for text in texts if text in column_of}

    def _find_near(self, columns: Mapping[str, int], others: Mapping[str, int]) -> dict[int, str]:
        headers = itertools.islice(others.items(), _MAX_COMPARED)
        near = {
            position: self.nearest_column(text)
            for text, position in headers
            if text.removeprefix(RESULT_PREFIX) not in RESULTS
        }
        # If the sheet has ids, a column such as `No.` or `SKU` has other numbers: it is not
        # suggested as `id`.
        return {
            position: name
            for position, name in near.items()
            if name and (name != "id" or "id" not in columns)
        }

    def nearest_column(self, text: str) -> str:
        """Return the column that a header means or may mean; "" if there is none."""
        return self.misspelled_column(text) or _COMMON_NAMES.get(_normalize_header(text), "")

    def misspelled_column(self, text: str) -> str:
        """Return the column whose name the header misspells; "" if there is none."""
        plain = _normalize_header(text)
        if plain in _COMMON_NAMES or len(plain) > _MAX_LENGTH:
            return ""
        match = difflib.get_close_matches(plain, self.mapping, n=1, cutoff=_SIMILARITY)
        return self.mapping[match[0]] if match else ""

    def find_misspelled(self, text: str, present: Container[str]) -> str:
        """Return the column whose name the header misspells; "" if there is none. A header such as
        `old_status`, which extends the name of a column that is `present`, is not a misspelling.
        """
        near = self.misspelled_column(text)
        words = re.split(r"[\W_]+", text.casefold())
        return "" if near in present and f"_{near}_" in f"_{'_'.join(words)}_" else near

    def _duplicates_error(
        self,
        found_positions: Mapping[str, Sequence[int]],
        header: Sequence[str],
        places: Sequence[str],
    ) -> SheetError:
        problems = [
            f"{_NUMBER_WORDS.get(len(positions), len(positions))} columns mean {name}: "
            f"{_list_columns(positions, header, places)}"
            for name, positions in found_positions.items()
            if len(positions) > 1
        ]
        return SheetError(
            f"{self.source}: {'; '.join(problems)}",
            hint="Keep one of them, and delete the others or give them other headers.",
        )


@lru_cache(maxsize=1024)
def fold_header(text: str) -> str:
    """Return the header in Unicode form NFC without spaces, underscores and hyphens, and with its
    case folded.
    """
    return _IGNORED_CHARACTERS.sub("", unicodedata.normalize("NFC", text)).casefold()


def check_mapping(source: str, mapping: Mapping[str, str], header: Sequence[str]) -> None:
    """Raise HeaderNotFoundError if the mapping names a header that the sheet does not have."""
    present = present_headers(mapping, header)
    missing = [header_name for header_name in mapping if header_name not in present]
    if missing:
        headers = [repr(trim(text)[:_MAX_LENGTH]) for text in header if trim(text)]
        more = ", …" if len(headers) > _MAX_LISTED else ""
        raise HeaderNotFoundError(
            f"{source}: no column has the header {', '.join(map(repr, missing))}",
            hint=f"The headers are {', '.join(headers[:_MAX_LISTED])}{more}.",
            missing=missing,
        )


def present_headers(mapping: Mapping[str, str], header: Sequence[str]) -> dict[str, str]:
    """Return the part of the mapping whose headers the sheet has."""
    present = {fold_header(text) for text in header}
    return {name: column for name, column in mapping.items() if fold_header(name) in present}


def own_results(headers: Collection[str]) -> frozenset[str]:
    """Return the headers of the result columns that petsync wrote. All of them must be present,
    either with or without the prefix, because a single one may be a column of the user.
    """
    spellings = (RESULTS, tuple(f"{RESULT_PREFIX}{name}" for name in RESULTS))
    return frozenset(
        name for names in spellings if all(each in headers for each in names) for name in names
    )


def mapping_hint(header: str, column: str) -> str:
    """Return how to map the header: the option of a command, and the argument in Python."""
    option = quote(f"{header}={column}")
    return f"(--column {option}, in Python mapping={{{header!r}: {column!r}}})"


def _suggest_mapping(mapping: Mapping[str, str]) -> str:
    columns = ", ".join(_ALL_COLUMNS)
    if not mapping:
        return f"The columns are {columns}; map your headers to these, or rename them."
    pairs = (quote(f"{header}={column}") for header, column in mapping.items())
    options = " ".join(f"--column {pair}" for pair in pairs)
    return (
        "If these guesses are right, add them to the command, or pass them in Python:"
        f"\n{options}\nmapping={mapping!r}\n"
        f"Otherwise map each header to one of {columns}, or rename it."
    )


def _column_of_values(texts: Sequence[str], *, is_first: bool) -> str:
    """Return the column whose values these texts clearly are; "" if there is none. Only the first
    column can be `id`, because prices and ages are numbers too.
    """
    if all(normal_status(text) in STATUSES for text in texts):
        return "status"
    if all(_URL.match(text) for text in texts):
        return "photo_urls"
    is_id = is_first and len(set(texts)) == len(texts) and all(map(_ID.fullmatch, texts))
    return "id" if is_id else ""


def _are_names(texts: Sequence[str]) -> bool:
    """Return true if these texts may be names: different, short, and neither numbers nor URLs."""
    return (
        bool(texts)
        and len(set(texts)) == len(texts)
        and all(
            len(text) <= _MAX_LENGTH and _WORDS.search(text) and not _URL.match(text)
            for text in texts
        )
    )


def _normalize_header(text: str) -> str:
    """Return a header as a lookup key: with a wrong encoding repaired, without accents, and without
    `.`, `:`, `*` and `#` at its ends.
    """
    for mark in _MISREAD_MARKS:
        text = text.removeprefix(mark)
    letters = unicodedata.normalize("NFKD", fold_header(repair_misread(text) or text))
    text_without_accents = "".join(
        char for char in letters if not unicodedata.combining(char)
    ).casefold()
    return (
        text_without_accents if text_without_accents == "#" else text_without_accents.strip(".:*#")
    )


def _list_columns(positions: Sequence[int], header: Sequence[str], places: Sequence[str]) -> str:
    shown = [
        f"{trim(header[position])!r} in column {places[position]}"
        for position in positions[:_MAX_LISTED]
    ]
    if len(positions) > _MAX_LISTED:
        return ", ".join([*shown, "..."])
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _number_repeated(others: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Yield each header with its position; a repeated one gets a number, `Note (2)`."""
    taken = set(others)
    for name, (first, *repeated) in others.items():
        yield name, first
        number = 2
        for position in repeated:
            while f"{name} ({number})" in taken:
                number += 1
            taken.add(f"{name} ({number})")
            yield f"{name} ({number})", position
