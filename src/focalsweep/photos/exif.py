"""The tags of a photo that matter for its optics, in pure Python: file -> {exiftool's tag name: value}.

JPEG, PNG, WebP, HEIC, TIFF and the RAW files built on TIFF (NEF, CR2, ARW, ORF, RW2, DNG, PEF), CR3 and RAF. Values
are those of `exiftool -n`: numbers in the unit of the tag, text otherwise. `ImageWidth` and `ImageHeight` are those of
the picture in the file, not what a tag says of the picture as taken (`ExifImageWidth`).
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from pathlib import Path
from typing import Any, Literal

from focalsweep.photos.ifd import Block, Buffer, Entry, plain_text, ratio, tiff_block
from focalsweep.photos.makernotes import canon_tags, maker_note_tags

Tags = dict[str, Any]
NAMES = {
    0x010F: "Make",
    0x0110: "Model",
    0x829A: "ExposureTime",
    0x829D: "FNumber",
    0x8827: "ISO",
    0x9202: "ApertureValue",  # APEX: the f-number is 2^(value / 2)
    0x9206: "SubjectDistance",
    0x920A: "FocalLength",
    0x920E: "FocalPlaneXResolution",  # TIFF/EP
    0x9210: "FocalPlaneResolutionUnit",
    0xA002: "ExifImageWidth",
    0xA003: "ExifImageHeight",
    0xA20E: "FocalPlaneXResolution",
    0xA210: "FocalPlaneResolutionUnit",
    0xA404: "DigitalZoomRatio",
    0xA405: "FocalLengthIn35mmFormat",
    0xA434: "LensModel",
}
TEXT = {"Make", "Model", "LensModel"}
XMP_NAMES = {name: name for name in NAMES.values()} | {
    "FocalLengthIn35mmFilm": "FocalLengthIn35mmFormat",
    "Lens": "LensModel",
    "ApproximateFocusDistance": "ApproximateFocusDistance",
    "LensFocusDistance": "LensFocusDistance",  # dioptres, as Android has it
}
XMP_VALUE = re.compile(r"<?\b\w{1,30}:(\w{1,40})\s{0,5}(?:=\s{0,5}[\"']|>)([^\"'<>]{1,80})")
XMP_NUMBER = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)(?:/(\d{1,20}))?\s*")
EXIF_POINTER, SUB_IFDS, MAKER_NOTE, XMP_PACKET = 0x8769, 0x014A, 0x927C, 0x02BC
MOST_PARTS = 50_000  # segments, chunks and boxes of a file
MOST_DIRECTORIES = 32
MOST_BLOCKS = 4  # of EXIF and of XMP: more than any camera writes
LONGEST_XMP = 1 << 18


def read_tags(path: Path) -> Tags:
    """The tags of a photo; empty for a file of another kind. A damaged file gives what can still be read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the name")
    if path.stat().st_size < 12:
        return {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return tags_of(data)


def tags_of(data: Buffer) -> Tags:
    """The tags of a photo that is in memory."""
    reader = _Reader(data)
    head = bytes(data[:16])
    if head.startswith(b"\xff\xd8"):
        reader.jpeg(0, len(data))
    elif head.startswith(b"\x89PNG\r\n\x1a\n"):
        reader.png()
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        reader.webp()
    elif head[4:8] == b"ftyp":
        reader.heic()
    elif head.startswith(b"FUJIFILMCCD-RAW") and len(data) >= 92:  # a JPEG with all of the EXIF lies in it
        start, size = struct.unpack_from(">II", data, 84)
        reader.jpeg(start, min(size, len(data) - start))
    else:
        reader.tiff(0, len(data), is_picture=True)
    return reader.tags


class _Reader:
    """Walks one file, within a bound of work, and collects tags; the first value of a tag is kept."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.tags: Tags = {}
        self.parts_left = MOST_PARTS
        self.blocks_left = self.packets_left = MOST_BLOCKS
        self.items: dict[int, bytes] = {}  # of HEIC: what each item is, and where they lie
        self.places: list[tuple[int, int, int]] = []

    def may_go_on(self) -> bool:
        self.parts_left -= 1
        return self.parts_left > 0

    def number(self, at: int, size: int, order: Literal["big", "little"] = "big") -> int:
        return int.from_bytes(self.data[at : at + size], order)

    def set_size(self, width: int, height: int) -> None:
        """Of the pictures in a file (previews, tiles, thumbnails) the largest counts."""
        if (
            width > 0
            and height > 0
            and width * height > self.tags.get("ImageWidth", 0) * self.tags.get("ImageHeight", 0)
        ):
            self.tags["ImageWidth"], self.tags["ImageHeight"] = width, height

    def cut_size(self, width: int, height: int) -> None:
        columns, rows = (self.tags.get(name, 0) - n for name, n in (("ImageWidth", width), ("ImageHeight", height)))
        if 0 <= columns < 64 and 0 <= rows < 64 and width and height:
            self.tags["ImageWidth"], self.tags["ImageHeight"] = width, height

    def add(self, tags: Tags) -> None:
        self.tags |= {name: value for name, value in tags.items() if name not in self.tags}

    def jpeg(self, start: int, size: int) -> None:
        at, end = start + 2, start + size
        while at + 4 <= end and self.data[at] == 0xFF and self.may_go_on():
            marker, length, body = self.data[at + 1], self.number(at + 2, 2), at + 4
            if marker == 0xFF:  # a fill byte
                at += 1
                continue
            if marker == 0xDA or length < 2:
                return
            head = bytes(self.data[body : body + 29])
            if marker == 0xE1 and head.startswith(b"Exif\0"):
                self.tiff(body + 6, min(length - 8, end - body - 6))
            elif marker == 0xE1 and head == b"http://ns.adobe.com/xap/1.0/\0":
                self.xmp(body + 29, min(length - 31, end - body - 29))
            elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and len(head) >= 5:
                height, width = struct.unpack_from(">HH", head, 1)
                self.set_size(width, height)
            at += 2 + length

    def png(self) -> None:
        at = 8
        while at + 8 <= len(self.data) and self.may_go_on():
            length, kind, body = self.number(at, 4), bytes(self.data[at + 4 : at + 8]), at + 8
            if kind == b"IHDR":
                self.set_size(self.number(body, 4), self.number(body + 4, 4))
            elif kind == b"eXIf":
                self.tiff(body, length)
            elif kind == b"iTXt" and bytes(self.data[body : body + 22]) == b"XML:com.adobe.xmp\0\0\0\0\0":
                self.xmp(body + 22, length - 22)
            at = body + length + 4

    def webp(self) -> None:
        at = 12
        while at + 8 <= len(self.data) and self.may_go_on():
            kind, length, body = bytes(self.data[at : at + 4]), self.number(at + 4, 4, "little"), at + 8
            head = bytes(self.data[body : body + 10]).ljust(10, b"\0")
            if kind == b"EXIF":
                skip = 6 if head.startswith(b"Exif\0") else 0
                self.tiff(body + skip, length - skip)
            elif kind == b"XMP ":
                self.xmp(body, length)
            elif kind == b"VP8X":
                self.set_size(1 + self.number(body + 4, 3, "little"), 1 + self.number(body + 7, 3, "little"))
            elif kind == b"VP8 " and head[3:6] == b"\x9d\x01\x2a":
                width, height = struct.unpack_from("<HH", head, 6)
                self.set_size(width & 0x3FFF, height & 0x3FFF)
            elif kind == b"VP8L":
                bits = self.number(body + 1, 4, "little")
                self.set_size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
            at = body + length + length % 2

    def heic(self) -> None:
        """HEIC keeps EXIF in an item of `meta`; CR3 keeps TIFF blocks in boxes: IFD0, EXIF, maker note."""
        self.boxes(0, len(self.data), depth=0)
        for item, at, size in self.places:
            if self.items.get(item) == b"Exif":
                skip = 4 + self.number(at, 4)
                self.tiff(at + skip, size - skip)

    def boxes(self, at: int, end: int, depth: int) -> None:
        """The boxes of the ISO base media format, and those within them."""
        while at + 8 <= end and self.may_go_on():
            size, kind, body = self.number(at, 4), bytes(self.data[at + 4 : at + 8]), at + 8
            if size == 1:
                size, body = self.number(at + 8, 8), at + 16
            at = end if size == 0 else min(at + size, end)
            if at < body:
                return
            version = self.number(body, 1)
            if kind in (b"moov", b"uuid", b"meta", b"iprp", b"ipco", b"iinf") and depth < 6:
                skip = {b"uuid": 16, b"meta": 4, b"iinf": 8 if version else 6}.get(kind, 0)
                self.boxes(body + skip, at, depth + 1)
            elif kind == b"infe" and version in (2, 3):
                name = body + (10 if version == 3 else 8)
                self.items[self.number(body + 4, name - body - 6)] = bytes(self.data[name : name + 4])
            elif kind == b"iloc":
                self.item_places(body, at)
            elif kind == b"ispe":
                self.set_size(self.number(body + 4, 4), self.number(body + 8, 4))
            elif kind == b"clap":  # what is left of a picture that was filled up to whole blocks
                self.cut_size(*(self.number(body + i, 4) // max(self.number(body + i + 4, 4), 1) for i in (0, 8)))
            elif kind in (b"CMT1", b"CMT2"):
                self.tiff(body, at - body)
            elif kind == b"CMT3" and (found := tiff_block(self.data, body, at - body)):
                self.add(canon_tags(*found))

    def item_places(self, at: int, end: int) -> None:
        """Item, offset in the file and length: the first extent of every item that lies in the file itself."""

        def take(size: int) -> int:
            nonlocal at
            at += size
            return self.number(at - size, size)

        version = take(4) >> 24
        sizes = take(2)
        index = sizes & 15 if version else 0
        for _ in range(take(4 if version == 2 else 2)):
            item = take(4 if version == 2 else 2)
            method = take(2) & 15 if version else 0
            take(2)
            base = take(sizes >> 4 & 15)
            for number in range(take(2)):
                if at >= end or not self.may_go_on():
                    return
                take(index)
                offset, length = take(sizes >> 12), take(sizes >> 8 & 15)
                if number == 0 and method == 0:
                    self.places.append((item, base + offset, length))
            if at >= end or not self.may_go_on():
                return

    def tiff(self, start: int, size: int, is_picture: bool = False) -> None:
        """Every directory of a TIFF block; `is_picture` where the block is the picture and not a part of one."""
        self.blocks_left -= 1
        found = tiff_block(self.data, start, size) if self.blocks_left >= 0 else None
        if not found:
            return
        block, first = found
        queue, seen, maker_note = [first], {0}, None
        while queue and len(seen) <= MOST_DIRECTORIES:
            offset = queue.pop(0)
            if offset in seen:
                continue
            seen.add(offset)
            sides: dict[int, int] = {}
            for entry in block.directory(offset):
                if entry.tag in NAMES:
                    self.keep(NAMES[entry.tag], block, entry)
                elif entry.tag in (EXIF_POINTER, SUB_IFDS) and entry.kind in (4, 13) and entry.count <= 16:
                    pointers = block.value(entry)
                    queue += pointers if isinstance(pointers, tuple) else [pointers]
                elif entry.tag == MAKER_NOTE:
                    maker_note = maker_note or entry
                elif entry.tag == XMP_PACKET:
                    self.xmp(block.start + entry.at, entry.size)
                elif is_picture and entry.tag <= 0x101 and entry.kind in (3, 4) and entry.count == 1:
                    sides[entry.tag] = block.value(entry)
            if is_picture:
                queue.append(block.following(offset))
                if {4, 5, 6, 7} <= sides.keys() and 0x100 not in sides:  # RW2: the borders of the picture on the sensor
                    sides = {0x100: sides[7] - sides[5], 0x101: sides[6] - sides[4]}
                self.set_size(sides.get(0x100, 0), sides.get(0x101, 0))
        if maker_note:
            self.add(maker_note_tags(block, maker_note, self.tags))

    def keep(self, name: str, block: Block, entry: Entry) -> None:
        """A value of the right kind: text, or one number (the first of several)."""
        if name in self.tags or entry.size > 1024:
            return
        value = block.value(entry)
        value = value[0] if isinstance(value, tuple) else value
        if isinstance(value, str if name in TEXT else int | float) and value != "":
            self.tags[name] = value

    def xmp(self, start: int, size: int) -> None:
        """Values of an XMP packet, as attributes or elements, where the file has no such tag yet."""
        self.packets_left -= 1
        if self.packets_left < 0 or size <= 0:
            return
        packet = bytes(self.data[start : start + min(size, LONGEST_XMP)]).decode("utf-8", "replace")
        for key, text in XMP_VALUE.findall(packet):
            name = XMP_NAMES.get(key, "")
            if name in TEXT:
                self.add({name: plain_text(text.encode())})
            elif name and (number := XMP_NUMBER.fullmatch(text)):
                value = ratio(float(number[1]), float(number[2] or 1))
                self.add({} if math.isnan(value) else {name: value})
