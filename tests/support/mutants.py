"""Mutations of spreadsheets: of bytes, of XML parts, of the ZIP container, and of CSV text.

Each takes a seeded `random.Random` and the data, and returns the mutated data; the same seed gives
the same mutant.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

from specimens import unzipped, zipped

Parts = list[tuple[str, bytes]]
Random = random.Random

TAG = re.compile(rb"<[^<>]*>")
ATTRIBUTE = re.compile(rb'\s([\w:]+)="([^"]*)"')
NUMBER = re.compile(rb'(?<=[">])-?[0-9.]+(?=["<])')
REFERENCE = re.compile(rb'(?<=r=")[A-Z]+[0-9]+(?=")|(?<=ref=")[^"]*(?=")')
TARGET = re.compile(rb'(?<=Target=")[^"]*(?=")')
TYPE = re.compile(rb'(?<=[ ]t=")[^"]*(?=")')
FORMAT = re.compile(rb'(?<=formatCode=")[^"]*(?=")|(?<=numFmtId=")[^"]*(?=")')

NUMBERS = [
    b"-1", b"0", b"00", b"1e999", b"-1E+400", b"NaN", b"inf", b"1.5", b"-0.0", b"2958466", b"-60",
    b"4294967295", b"4294967296", b"18446744073709551616", b"9" * 400, b"1e17", b"0x10", b" 7 ",
    b"", b"\xc2\xb2", b"60", b"99999999999", b"2147483648", b"1_0",
]  # fmt: skip
REFERENCES = [
    b"A0", b"A-1", b"1A", b"", b"A", b"7", b"XFD1048576", b"XFE1", b"A1048577", b"ZZZZZZZ9",
    b"A4294967296", b"A99999999999999999999", b"a1", b"$A$1", b"A1:B2", b"A1:XFD1048576", b"AA700",
    b"ZZ60000", b"AB1000000", b"\xc3\x841", b"A1 B2", b"Z1:A1", b"C3", b"B2", b"A1", b"R1C1",
]  # fmt: skip
TARGETS = [
    b"", b"/", b".", b"..", b"../../../etc/passwd", b"/etc/passwd", b"file:///etc/passwd", b"\\a",
    b"https://example.org/x.xml", b"sharedStrings.xml", b"/xl/workbook.xml", b"worksheets/",
    b"_rels/workbook.xml.rels", b"XL/Worksheets/Sheet1.XML", b"a\x7fb", b"%2e%2e/x", b"a" * 5000,
]  # fmt: skip
TYPES = [b"s", b"str", b"n", b"b", b"e", b"d", b"inlineStr", b"x", b""]
FORMATS = [
    b"yyyy", b"[h]:mm:ss", b"[$-409]d", b"\\", b"&quot;", b"General;;;@", b"[", b"0" * 9999, b"e",
    b"14", b"22", b"47", b"165", b"-1", b"99999999999", b"@", b"_", b"*", b"[Red]yy", b"\\\\y",
]  # fmt: skip
SNIPPETS = [
    b"\0", b'"', b"'", b"<", b">", b"&", b"&#0;", b"&#xFFFF;", b"&#x110000;", b"&bomb;", b"]]>",
    b"<![CDATA[x]]>", b"<![CDATA[", b"<!--", b"<!-- - -->", b"<?x y?>", b"<!DOCTYPE a>", b"\xff",
    b"\xed\xa0\x80", b"_x0000_", b"_xD800_", b"_x005F_", b"\xef\xbb\xbf", b"9" * 40, b"\r\n",
    b"<v>", b"</v>", b"</c>", b"</row>", b"<row/>", b"<c/>", b"<is/>", b"<f/>", b"</sheetData>",
    b'<c t="s"><v>1</v></c>', b"<v>0</v>", b"<si/>", b"\xc2\xa0", b"\xe2\x80\xae", b"<f>A1</f>",
]  # fmt: skip


def one_of(rng: Random, pattern: re.Pattern[bytes], data: bytes) -> re.Match[bytes] | None:
    """Return one random match of the pattern, or None."""
    found = list(pattern.finditer(data))
    return rng.choice(found) if found else None


def replaced(data: bytes, match: re.Match[bytes] | None, new: bytes) -> bytes:
    """Return the data with another text at the match."""
    return data if match is None else data[: match.start()] + new + data[match.end() :]


def flip(rng: Random, data: bytes) -> bytes:
    """Flip some bits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng: Random, data: bytes) -> bytes:
    """Remove the end."""
    return data[: rng.randrange(1, len(data) + 1)]


def behead(rng: Random, data: bytes) -> bytes:
    """Remove the beginning."""
    return data[rng.randint(1, 60) :]


def cut(rng: Random, data: bytes) -> bytes:
    """Remove a piece."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 2, 7, 40, 900]) :]


def insert(rng: Random, data: bytes) -> bytes:
    """Insert a piece."""
    at = rng.randrange(len(data) + 1)
    piece = rng.choice([rng.choice(SNIPPETS), rng.randbytes(rng.choice([1, 30, 600])), bytes(99)])
    return data[:at] + piece + data[at:]


def swap(rng: Random, data: bytes) -> bytes:
    """Swap two blocks."""
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def double(rng: Random, data: bytes) -> bytes:
    """Repeat a block, once or many times."""
    at, times = rng.randrange(len(data)), rng.choice([1, 1, 2, 50])
    block = data[at : at + rng.choice([1, 9, 80, 700])]
    return data[:at] + block * times + data[at:]


def blank(rng: Random, data: bytes) -> bytes:
    """Overwrite a block with NUL bytes, as after a power failure."""
    at, size = rng.randrange(len(data)), rng.choice([1, 16, 512, 4096])
    return data[:at] + bytes(size) + data[at + size :]


BYTES = [flip, truncate, behead, cut, insert, swap, double, blank]


def drop_attribute(rng: Random, data: bytes) -> bytes:
    """Remove an attribute."""
    return replaced(data, one_of(rng, ATTRIBUTE, data), b"")


def change_attribute(rng: Random, data: bytes) -> bytes:
    """Change the value, and in some cases the name, of an attribute."""
    match = one_of(rng, ATTRIBUTE, data)
    if match is None:
        return data
    value = rng.choice([*NUMBERS, *REFERENCES, *TYPES, b"true", b"veryHidden", b"x" * 9999])
    name = rng.choice([match[1]] * 8 + [b"r", b"t", b"id", b"r:id", b"xmlns", b"hidden", b"x:y"])
    return replaced(data, match, b" " + name + b'="' + value + b'"')


def _swapper(
    pattern: re.Pattern[bytes], values: Sequence[bytes]
) -> Callable[[Random, bytes], bytes]:
    def change(rng: Random, data: bytes) -> bytes:
        for _ in range(rng.choice([1, 1, 3])):
            data = replaced(data, one_of(rng, pattern, data), rng.choice(values))
        return data

    return change


change_number = _swapper(NUMBER, NUMBERS)
change_reference = _swapper(REFERENCE, REFERENCES)
change_target = _swapper(TARGET, TARGETS)
change_type = _swapper(TYPE, TYPES)
change_format = _swapper(FORMAT, FORMATS)


def drop_tag(rng: Random, data: bytes) -> bytes:
    """Remove a tag, so that others do not match."""
    return replaced(data, one_of(rng, TAG, data), b"")


def double_tag(rng: Random, data: bytes) -> bytes:
    """Repeat a tag."""
    match = one_of(rng, TAG, data)
    return data if match is None else replaced(data, match, match[0] * rng.choice([2, 2, 500]))


def drop_element(rng: Random, data: bytes) -> bytes:
    """Remove or repeat everything from a tag to the end of its element."""
    match = one_of(rng, TAG, data)
    if match is None:
        return data
    name = re.match(rb"</?([\w:]*)", match[0])
    closing = b"</" + name[1] + b">" if name else b">"
    end = data.find(closing, match.start())
    end = match.end() if end < 0 else end + len(closing)
    block = data[match.start() : end]
    return data[: match.start()] + block * rng.choice([0, 0, 2, 60]) + data[end:]


def nest(rng: Random, data: bytes) -> bytes:
    """Add deeply nested elements."""
    match = one_of(rng, TAG, data)
    name = rng.choice([b"x", b"c", b"row", b"sheetData", b"is", b"r", b"si", b"v", b"f"])
    depth = rng.choice([2, 100, 20_000])
    nested = b"<" + name + b">", b"</" + name + b">"
    return (
        data
        if match is None
        else replaced(
            data, match, match[0] + nested[0] * depth + nested[1] * rng.choice([depth, depth, 0])
        )
    )


def rename(rng: Random, data: bytes) -> bytes:
    """Rename all elements of a name, or change their prefix."""
    match = one_of(rng, re.compile(rb"(?<=<)[\w:]+"), data)
    if match is None:
        return data
    new = rng.choice([b"x:" + match[0], b"c", b"row", b"v", b"t", b"f", b"worksheet", b"sheet"])
    return re.sub(rb"(</?)" + match[0] + rb"(?=[\s/>])", rb"\1" + new, data)


def requote(rng: Random, data: bytes) -> bytes:
    """Write the XML in another syntax: apostrophes, spaces in tags, expanded empty elements, CDATA,
    comments or another encoding.
    """
    return rng.choice(
        [
            data.replace(b'"', b"'"),
            data.replace(b"/>", b" />"),
            data.replace(b">", b" >"),
            data.replace(b' r="', b'\n\tr = "'),
            re.sub(rb"<([\w:]+)([^<>]*)/>", rb"<\1\2></\1>", data),
            re.sub(rb"([^<>]+)(?=</(?:v|t|x:v|x:t)>)", rb"<![CDATA[\1]]>", data),
            re.sub(rb"([^<>]+)(?=</(?:v|t|x:v|x:t)>)", rb"<!-- x -->\1", data),
            data.decode(errors="replace").encode("utf-16"),
            b"\xef\xbb\xbf" + data,
        ]
    )


XML = [
    drop_attribute, change_attribute, change_attribute, change_number, change_number, drop_tag,
    change_reference, change_reference, change_type, change_target, change_format, double_tag,
    drop_element, nest, rename, requote, insert, flip, truncate, double, swap,
]  # fmt: skip
TELLING = re.compile(r"sheet\d*\.xml|sharedStrings|styles|workbook|rels")


def mutate_part(rng: Random, parts: Parts) -> Parts:
    """Mutate one part's XML, once or several times; the part is one that petsync reads."""
    telling = [at for at, (name, data) in enumerate(parts) if TELLING.search(name) and data]
    at = rng.choice(telling)
    name, data = parts[at]
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = rng.choice(XML)(rng, data) or b" "
    return [*parts[:at], (name, data), *parts[at + 1 :]]


def drop_part(rng: Random, parts: Parts) -> Parts:
    """Remove a part."""
    at = rng.randrange(len(parts))
    return parts[:at] + parts[at + 1 :]


def empty_part(rng: Random, parts: Parts) -> Parts:
    """Empty a part, or replace its content."""
    at = rng.randrange(len(parts))
    data = rng.choice([b"", b" ", b"{}", rng.randbytes(90), b"<x/>", rng.choice(parts)[1]])
    return [*parts[:at], (parts[at][0], data), *parts[at + 1 :]]


def rename_part(rng: Random, parts: Parts) -> Parts:
    """Rename a part."""
    at = rng.randrange(len(parts))
    name, data = parts[at]
    names = ["/" + name, name.upper(), name.replace("/", "\\"), "../" + name, "x", name + "/", " "]
    return [*parts[:at], (rng.choice(names), data), *parts[at + 1 :]]


def double_part(rng: Random, parts: Parts) -> Parts:
    """Add a second part of the same name with the same or other content."""
    name, data = rng.choice(parts)
    other = (name, rng.choice([b"", data, rng.choice(XML)(rng, data or b"<x/>")]))
    return [other, *parts] if rng.random() < 0.5 else [*parts, other]


def same_names(rng: Random, parts: Parts) -> Parts:
    """Give all worksheets the same name, or repeat them."""
    name, parts_by = rng.choice([b"", b"Pets", b"a" * 999, b"'!'"]), dict(parts)
    for part in [part for part in parts_by if part.endswith("workbook.xml")]:
        data = re.sub(rb'(<sheet [^>]*name=")[^"]*', rb"\1" + name, parts_by[part])
        data = re.sub(rb"(<sheet [^>]*/>)", rb"\1" * rng.choice([1, 2, 300]), data)
        parts_by[part] = data
    return list(parts_by.items())


PACKAGE = [drop_part, empty_part, rename_part, double_part, same_names]


def mutate_claim(rng: Random, data: bytes) -> bytes:
    """Set one attribute of the workbook to a wrong value; each kind of attribute is equally
    likely.
    """
    parts = dict(unzipped(data))
    claims: dict[tuple[str, bytes, bytes], list[re.Match[bytes]]] = {}
    for part in filter(TELLING.search, parts):
        for tag in TAG.finditer(parts[part]):
            name = tag[0].split()[0]
            for claim in ATTRIBUTE.finditer(parts[part], tag.start(), tag.end()):
                claims.setdefault((part, name, claim[1]), []).append(claim)
    (part, _, name), places = rng.choice(list(claims.items()))
    value = rng.choice([*NUMBERS, *REFERENCES, *TYPES, *TARGETS, *FORMATS])
    new = b" " + name + b'="' + value + b'"'
    return zipped({**parts, part: replaced(parts[part], rng.choice(places), new)})


def mutate_package(rng: Random, data: bytes) -> bytes:
    """Mutate some parts of the workbook, in a valid container."""
    parts = unzipped(data)
    parts = mutate_part(rng, parts) if rng.random() < 0.8 else rng.choice(PACKAGE)(rng, parts)
    return zipped(parts)


_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
# Offset and size of the fields in each header.
_FIELDS = {
    _LOCAL: [(4, 2), (6, 2), (8, 2), (10, 4), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    _CENTRAL: [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4)],
    _END: [(4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
}
_VALUES = [0, 1, 8, 9, 12, 14, 93, 95, 99, 1000, 0xFFFE, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 28]


def mutate_header(rng: Random, data: bytes) -> bytes:
    """Set fields of the ZIP headers to wrong values: flags, method, sizes, offsets, counts."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2])):
        mark = rng.choice([_LOCAL, _CENTRAL, _CENTRAL, _END])
        starts = [match.start() for match in re.finditer(re.escape(mark), data)]
        at, size = rng.choice(_FIELDS[mark])
        place = slice(rng.choice(starts) + at, None)
        value = rng.choice([*_VALUES, rng.getrandbits(32)]) & ((1 << 8 * size) - 1)
        struct.pack_into("<H" if size == 2 else "<I", changed, place.start, value)
    return bytes(changed)


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Mutate the bytes, once or several times."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = rng.choice(BYTES)(rng, data) or b"\0"
    return data


def mutate_container(rng: Random, data: bytes) -> bytes:
    """Mutate the file's bytes, in half of the cases in the ZIP headers."""
    return (mutate_header if rng.random() < 0.5 else mutate_bytes)(rng, data)


_NOISE = [
    b'"', b'""', b'"""', b"'", b",", b";", b"\t", b"|", b"\n", b"\r", b"\r\n", b"\n\r", b"\0",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xe4", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x1a",
    b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"\\", b'\\"', b"=1", b"#",
    b"sep=;\n", b' "', b'" ', b'","', b'"\n"', b"id,name\n", b"\x1b[2J", b"\xe2\x80\xae", b"NaN",
]  # fmt: skip


def noise(rng: Random, data: bytes) -> bytes:
    """Insert special characters at random places."""
    for _ in range(rng.choice([1, 2, 5, 30])):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(_NOISE) * rng.choice([1, 1, 1, 2, 40]) + data[at:]
    return data


def long_line(rng: Random, data: bytes) -> bytes:
    """Insert a very long line: one cell, many cells, many quotes."""
    piece = rng.choice(
        [b"x", b",", b";", b'"', b'"",', b'""', b"\t", b"'", b"\0", b" ", b"[clear]"]
    )
    at = rng.randrange(len(data) + 1)
    return data[:at] + piece * rng.choice([100, 40_000, 400_000]) + data[at:]


def encode(rng: Random, data: bytes) -> bytes:
    """Encode the text in another encoding."""
    name = rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "utf-7", "cp037"])
    return data.decode(errors="replace").encode(name, errors="replace")


def line_breaks(rng: Random, data: bytes) -> bytes:
    """Replace the line breaks by other kinds, or mix them."""
    breaks = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r\n", b"\0\n"]
    chosen = rng.sample(breaks, rng.choice([1, 3]))
    return b"".join(line + rng.choice(chosen) for line in data.splitlines())


def delimiters(rng: Random, data: bytes) -> bytes:
    """Replace a delimiter or quote by another, everywhere."""
    old, new = rng.choice(b',;\t"'), rng.choice(b',;\t"|:\x00\n ')
    return data.replace(bytes([old]), bytes([new]))


def header(rng: Random, data: bytes) -> bytes:
    """Repeat, remove or replace the header."""
    first, _, rest = data.partition(b"\n")
    first = rng.choice([first, first + b"," + first, b"", b"id", b"id,id", first * 300, b'"id'])
    return rng.choice([b"\n", b"\r\n", b""]).join([first, rest])


CSV = [noise, noise, noise, long_line, encode, line_breaks, delimiters, header]


def mutate_text(rng: Random, data: bytes) -> bytes:
    """Mutate the text or the bytes of the CSV file."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        data = rng.choice([*CSV, *BYTES])(rng, data) or b"\n"
    return data
