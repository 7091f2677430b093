"""Focus distances in maker notes, as far as they are documented and lie open.

Read here: Canon (FileInfo, ShotInfo), Nikon (LensData 0101), Sony (FocusPosition2), Olympus and OM System (FocusInfo),
Apple (FocusDistanceRange). Nikon's later LensData is encrypted and Leica's unit differs from model to model: those are
left to exiftool. Tags have exiftool's names and units (with its option -n).
"""

from __future__ import annotations

import math
from typing import Any

from focalsweep.photos.ifd import Block, Entry

SONY_PLAIN = {cube: byte for byte in range(249) for cube in [byte**3 % 249]}  # their cipher: the cube modulo 249
SONY_BODIES = ("ILCE", "ILME", "NEX", "ZV-E")


def maker_note_tags(block: Block, entry: Entry, tags: dict[str, Any]) -> dict[str, Any]:
    """Tags of the maker note at `entry`; `tags` has Make and Model."""
    head = block.bytes(entry.at, 16)
    make = str(tags.get("Make", "")).lower()
    if head.startswith(b"Nikon\0\x02"):
        return _nikon(block, entry)
    if head.startswith(b"Apple iOS\0"):
        return _apple(block, entry)
    if head.startswith((b"OLYMP\0", b"OLYMPUS\0", b"OM SYSTEM\0")):
        return _olympus(block, entry, head)
    if make.startswith("sony"):
        return _sony(block, entry, head, str(tags.get("Model", "")))
    if make.startswith("canon"):
        return canon_tags(block, entry.at, _moved_by(block, entry))
    return {}


def canon_tags(block: Block, offset: int, moved_by: int = 0) -> dict[str, Any]:
    """The focus range of Canon, in metres: words 20 and 21 of FileInfo, 19 and 20 of ShotInfo (older bodies), in cm.

    `moved_by` is how far the note lies from where the camera wrote it: its offsets are of then.
    """
    found: dict[int, Any] = {}
    for entry in block.directory(offset, moved_by):
        if entry.tag in (0x0004, 0x0093) and entry.kind in (3, 8) and entry.tag not in found:
            found[entry.tag] = block.value(entry)
    for tag, first in ((0x0093, 20), (0x0004, 19)):
        words = found.get(tag)
        if isinstance(words, tuple) and len(words) > first + 1:
            upper, lower = (word & 0xFFFF for word in words[first : first + 2])
            if upper:
                return {"FocusDistanceUpper": upper / 100, "FocusDistanceLower": lower / 100}
    return {}


def _moved_by(block: Block, entry: Entry) -> int:
    """Canon's notes end in a TIFF header with the offset that they were written at; editors move them, and it stays."""
    header = b"II*\0" if block.order == "<" else b"MM\0*"
    if block.bytes(entry.at + entry.size - 8, 4) != header:
        return 0
    return entry.at - int(block.numbers("I", entry.at + entry.size - 4)[0])


def _nikon(block: Block, entry: Entry) -> dict[str, Any]:
    """LensData 0101: byte 9 is x in 0.01 m * 10^(x / 40)."""
    note = block.inner(entry.at + 10, entry.size - 10)
    note = block.inner(entry.at + 10, entry.size - 10, ">" if note.bytes(0, 2) == b"MM" else "<")
    for first in note.numbers("I", 4):
        for item in note.directory(first):
            if item.tag == 0x0098 and item.size >= 10:
                data = note.bytes(item.at, 16)
                tags: dict[str, Any] = {"LensDataVersion": data[:4].decode("ascii", "replace")}
                if data[:4] == b"0101" and data[9]:
                    tags["FocusDistance"] = 0.01 * 10 ** (data[9] / 40)
                return tags
    return {}


def _apple(block: Block, entry: Entry) -> dict[str, Any]:
    note = block.inner(entry.at, entry.size, "<" if block.bytes(entry.at + 12, 2) == b"II" else ">")
    for item in note.directory(14):
        if item.tag == 0x000C and item.kind in (5, 10):
            ends = note.value(item)
            return {"FocusDistanceRange": ends} if isinstance(ends, tuple) and len(ends) == 2 else {}
    return {}


def _olympus(block: Block, entry: Entry, head: bytes) -> dict[str, Any]:
    """FocusInfo, FocusDistance: the numerator is in millimetres whatever the denominator; all ones is infinity."""
    if head.startswith(b"OLYMP\0"):
        note, first = block, entry.at + 8
    else:
        first = 16 if head.startswith(b"OM SYSTEM\0") else 12
        order = {b"II": "<", b"MM": ">"}.get(block.bytes(entry.at + first - 4, 2))
        note = block.inner(entry.at, block.size - entry.at, order)
    for item in note.directory(first):
        if item.tag != 0x2050:
            continue
        within = item.at if item.size > 4 else next(iter(note.numbers("I", item.at)), -1)
        for inner in note.directory(within):
            if inner.tag == 0x0305 and inner.kind == 5:
                numerator = next(iter(note.numbers("I", inner.at)), 0)
                return {"FocusDistance": math.inf if numerator == 0xFFFFFFFF else numerator / 1000} if numerator else {}
        return {}
    return {}


def _sony(block: Block, entry: Entry, head: bytes, model: str) -> dict[str, Any]:
    """FocusPosition2: byte 0x2d of the enciphered tag 0x9402 of mirrorless bodies."""
    first = entry.at + 12 if head.startswith((b"SONY DSC", b"SONY CAM")) else entry.at
    for item in block.directory(first):
        if item.tag == 0x9402 and item.size > 0x2D and model.startswith(SONY_BODIES):
            data = block.bytes(item.at, 0x2E)
            if data[0] not in (0x05, 0xFF):
                return {"FocusPosition2": SONY_PLAIN.get(data[0x2D], data[0x2D])}
    return {}
