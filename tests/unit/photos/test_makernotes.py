"""Maker notes written from their documented layouts; the Canon one has the bytes of a real EOS 60D's directory."""

import math
import struct
from collections.abc import Callable

import pytest

from focalsweep.photos.exif import tags_of
from tests.unit.photos.exif_bytes import (
    LONG,
    RATIONAL,
    SHORT,
    SIGNED_RATIONAL,
    UNDEFINED,
    Directory,
    directory,
    jpeg,
    photo,
    tiff,
)

FILE_INFO_60D = (54, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 65535, 65535, 85, 0, 1, 1, 66, 61, 0, 0, 0, 0, 65535)


def with_note(
    make: str, note: bytes | Callable[[int], bytes], model: str = "Model", order: str = "<"
) -> dict[str, object]:
    tags = tags_of(jpeg(photo(make, model, order, note)))
    assert tags["FocalLength"] == 50.0  # the rest of the photo is read whatever the note holds
    return {name: value for name, value in tags.items() if name.startswith(("Focus", "LensData"))}


# Canon


def canon(entries: Directory, order: str = "<") -> dict[str, object]:
    return with_note("Canon", lambda at: directory(entries, at, order), order=order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_canon_file_info(order: str) -> None:
    assert canon({0x93: (SHORT, FILE_INFO_60D)}, order) == {"FocusDistanceUpper": 0.66, "FocusDistanceLower": 0.61}


def test_canon_shot_info_of_older_bodies() -> None:
    shot_info = [0] * 19 + [520, 410] + [0] * 13
    assert canon({0x04: (SHORT, shot_info)}) == {"FocusDistanceUpper": 5.2, "FocusDistanceLower": 4.1}
    newer = {0x04: (SHORT, shot_info), 0x93: (SHORT, FILE_INFO_60D)}
    assert canon(newer)["FocusDistanceUpper"] == 0.66


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("moved_by", [0, -146, 4])
def test_canon_note_that_an_editor_moved(order: str, moved_by: int) -> None:
    """Its offsets count from where the camera wrote it, which its last eight bytes tell; a 60D's, saved by Pillow."""

    def note(at: int) -> bytes:
        written_at = at - moved_by
        foot = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", written_at)
        return directory({0x93: (SHORT, FILE_INFO_60D)}, written_at, order) + foot

    tags = with_note("Canon", note, order=order)
    assert tags == {"FocusDistanceUpper": 0.66, "FocusDistanceLower": 0.61}


def test_canon_lens_that_reports_nothing() -> None:
    assert canon({0x93: (SHORT, (*FILE_INFO_60D[:20], 0, 0, 0))}) == {}
    assert canon({0x93: (SHORT, FILE_INFO_60D[:21])}) == {}
    assert canon({0x93: (SHORT, 7)}) == {}


def test_canon_infinity_is_kept_as_it_stands() -> None:
    assert canon({0x93: (SHORT, (*FILE_INFO_60D[:20], 65535, 1117))})["FocusDistanceUpper"] == 655.35


# Nikon


def nikon(lens_data: bytes, order: str = ">") -> dict[str, object]:
    return with_note("NIKON CORPORATION", b"Nikon\0\2\x10\0\0" + tiff({0x98: (UNDEFINED, lens_data)}, order))


@pytest.mark.parametrize("order", ["<", ">"])
def test_nikon_lens_data_of_a_d70(order: str) -> None:
    data = bytes.fromhex("30313031163d060071686068423c602a3c6e3c166d1c6a00000000000007 02".replace(" ", ""))
    tags = nikon(data, order)  # byte 9 is 0x68 = 104
    assert tags["FocusDistance"] == pytest.approx(0.01 * 10 ** (104 / 40))
    assert tags["FocusDistance"] == pytest.approx(3.98, abs=0.005)


def test_nikon_encrypted_lens_data_is_left_alone() -> None:
    assert nikon(b"0204" + bytes(range(40))) == {"LensDataVersion": "0204"}
    assert nikon(b"0101" + bytes(40)) == {"LensDataVersion": "0101"}


# Sony


def sony(byte: int, first: int = 0x01, model: str = "ILCE-7M3", head: bytes = b"SONY DSC \0\0\0") -> dict[str, object]:
    block = bytes([first]) + bytes(0x2C) + bytes([byte]) + bytes(20)
    return with_note("SONY", lambda at: head + directory({0x9402: (UNDEFINED, block)}, at + len(head), "<"), model)


def test_sony_focus_position_is_deciphered() -> None:
    for plain in (1, 34, 128, 248):
        assert sony(plain**3 % 249) == {"FocusPosition2": plain}
    assert sony(0xD3) == {"FocusPosition2": 0x22}  # a published pair
    assert sony(255) == {"FocusPosition2": 255}  # the cipher leaves 249 to 255
    assert sony(0xD3, head=b"") == {"FocusPosition2": 0x22}  # RAW files have no head


def test_sony_bodies_with_another_layout() -> None:
    assert sony(0xD3, model="SLT-A77V") == {}
    assert sony(0xD3, first=0x05) == {}


# Olympus


def olympus(distance: tuple[int, int], head: bytes, order: str = "<", embedded: bool = False) -> dict[str, object]:
    inner = {0x0305: (RATIONAL, distance)}

    def note(at: int) -> bytes:
        base = at if head.startswith(b"OLYMP\0") else 0  # the first kind counts from the TIFF header
        entry = (UNDEFINED, lambda here: directory(inner, here, order)) if embedded else (LONG, inner)
        return head + directory({0x2050: entry}, base + len(head), order)

    return with_note("OLYMPUS CORPORATION", note, order=order)


HEADS = [
    (b"OLYMP\0\1\0", "<"),
    (b"OLYMPUS\0II\3\0", "<"),
    (b"OLYMPUS\0MM\3\0", ">"),
    (b"OM SYSTEM\0\0\0II\4\0", "<"),
]


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(("head", "order"), HEADS)
def test_olympus_counts_millimetres_in_the_numerator(head: bytes, order: str, embedded: bool) -> None:
    assert olympus((1230, 1), head, order, embedded) == {"FocusDistance": 1.23}
    assert olympus((1230, 10), head, order, embedded) == {"FocusDistance": 1.23}
    assert olympus((0xFFFFFFFF, 1), head, order, embedded) == {"FocusDistance": math.inf}
    assert olympus((0, 1), head, order, embedded) == {}


# Apple


def test_apple_range() -> None:
    head = b"Apple iOS\0\0\1MM"
    note = head + directory({0x0C: (SIGNED_RATIONAL, (38, 100, 99, 100))}, len(head), ">")
    assert with_note("Apple", note) == {"FocusDistanceRange": (0.38, 0.99)}
    unknown = head + directory({0x0C: (SIGNED_RATIONAL, (0, 0, 99, 100))}, len(head), ">")
    assert with_note("Apple", unknown) == {}


# All


def test_note_of_another_maker_is_not_read() -> None:
    assert with_note("Maker", lambda at: directory({0x93: (SHORT, FILE_INFO_60D)}, at, "<")) == {}


@pytest.mark.parametrize("make", ["Canon", "NIKON", "SONY", "OLYMPUS", "Apple"])
def test_empty_and_odd_notes(make: str) -> None:
    for note in (
        b"\0",
        b"Nikon\0\2",
        b"Apple iOS\0",
        b"OLYMPUS\0II",
        b"OM SYSTEM\0",
        b"OLYMP\0",
        struct.pack("<H", 65535),
    ):
        assert with_note(make, note.ljust(5, b"\0")) == {}
