"""A worksheet's comments: petsync's own added or taken away, everybody else's kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from petsync.sheets.ooxml.markup import MarkupError
from petsync.sheets.ooxml.outline import Element, Splices, outline, start_tag, whole, xml_text

__all__ = ["AUTHOR", "Comments", "new_comments"]

AUTHOR = "petsync"
_THREADED = "tc="
_FONT = (
    '<{0}rPr><{0}sz val="9"/><{0}color indexed="81"/><{0}rFont val="Tahoma"/>'
    '<{0}family val="2"/></{0}rPr>'
)
# One finding as it stands in a comment: the problem in one line, the cure and the code in the next.
_OURS = re.compile(r"(?:\A|(?<=\n))petsync: [^\n]+(?:\n[^\n]+)?? \([a-z0-9-]+\)(?:\n+|\Z)")
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


def new_comments(namespace: str) -> bytes:
    """The part of a worksheet that has no comments yet."""
    return f'<comments xmlns="{namespace}"><authors/><commentList/></comments>'.encode()


class Comments:
    """The comments of one worksheet; all that petsync wrote earlier is taken out of them.

    `gone` are the addresses of the comments that were petsync's alone, `others` those of the
    comments that stay, `removed` what was taken out of these, `threaded` the addresses of
    conversations, to which nothing can be added. Raises MarkupError where the part is none.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._root = outline(data)
        self._splices = Splices()
        self._authors = self._section("authors")
        self._list = self._section("commentList")
        self._texts: dict[str, Element] = {}
        self._added = ""
        self.gone: set[str] = set()
        self.removed: dict[str, str] = {}
        self.threaded: set[str] = set()
        self._names = [each.text for each in self._authors.all("author")]
        for comment in self._list.all("comment"):
            self._take(comment)

    @property
    def others(self) -> frozenset[str]:
        """The addresses of the comments that stay."""
        return frozenset(self._texts)

    @property
    def had_ours(self) -> bool:
        """Whether petsync wrote in them earlier."""
        return bool(self.gone or self.removed)

    def add(self, address: str, text: str) -> None:
        """Say something about a cell; behind what a person says there already."""
        prefix = self._root.prefix
        font = _FONT.format(prefix)
        there = self._texts.get(address)
        if there is None:
            run = f"<{prefix}r>{font}{self._t(text)}</{prefix}r>"
            tag = start_tag(f"{prefix}comment", {"ref": address, "authorId": str(self._author())})
            self._added += f"{tag}<{prefix}text>{run}</{prefix}text></{prefix}comment>"
            return
        run = f"<{prefix}r>{font}{self._t(chr(10) * 2 + text)}</{prefix}r>"
        for plain in there.all("t"):
            self._splices.insert(plain.start, f"<{prefix}r>")
            self._splices.insert(plain.end, f"</{prefix}r>")
        behind = next((each for each in there.children if _is_phonetic(each)), None)
        if behind is None:
            self._splices.append(there, run)
        else:
            self._splices.insert(behind.start, run)

    def bytes(self) -> bytes:
        """The part as it is now."""
        prefix = self._root.prefix
        new = self._names[len(list(self._authors.all("author"))) :]
        if new:
            names = (f"<{prefix}author>{xml_text(name)}</{prefix}author>" for name in new)
            self._splices.append(self._authors, "".join(names))
        if self._added:
            self._splices.append(self._list, self._added)
        return self._splices.applied(self._data)

    def _section(self, name: str) -> Element:
        found = self._root.one(name)
        if found is None:
            raise MarkupError(f"it has no {name}")
        return found

    def _take(self, comment: Element) -> None:
        address, text = comment.get("ref").upper().replace("$", ""), comment.one("text")
        number = whole(comment.get("authorId"))
        author = dict(enumerate(self._names)).get(-1 if number is None else number, "")
        if author.startswith(_THREADED):
            self.threaded.add(address)
        elif text is not None and any(_OURS.search(each.text) for _, each in _runs(text)):
            self._clean(comment, text, address)
        elif text is not None:
            self._texts[address] = text

    def _clean(self, comment: Element, text: Element, address: str) -> None:
        rest = [(run, piece, _OURS.sub("", piece.text)) for run, piece in _runs(text)]
        if not any(left.strip() for _, _, left in rest):
            self._splices.replace(comment.start, comment.end, "")
            self.gone.add(address)
            return
        self._texts[address] = text
        said = (match[0] for _, piece, _ in rest for match in _OURS.finditer(piece.text))
        self.removed[address] = "".join(said)
        is_last = True
        for run, piece, left in reversed(rest):
            # The blank lines above petsync's words go with them.
            kept = left.rstrip("\n") if is_last else left
            is_last &= not kept
            if run is not piece and piece.text and not kept:
                self._splices.replace(run.start, run.end, "")
            elif kept != piece.text:
                self._splices.replace(piece.inside, piece.close, _content(kept))

    def _author(self) -> int:
        if AUTHOR not in self._names:
            self._names.append(AUTHOR)
        return self._names.index(AUTHOR)

    def _t(self, text: str) -> str:
        prefix = self._root.prefix
        return f'<{prefix}t xml:space="preserve">{_content(text)}</{prefix}t>'


def _runs(text: Element) -> Iterator[tuple[Element, Element]]:
    """Each run with its text; a text without a run is its own."""
    for child in text.children:
        if child.local == "t":
            yield child, child
        elif child.local == "r":
            yield from ((child, piece) for piece in child.all("t"))


def _content(text: str) -> str:
    return xml_text(_UNFIT.sub("\ufffd", text))


def _is_phonetic(element: Element) -> bool:
    return element.local in ("rPh", "phoneticPr")
