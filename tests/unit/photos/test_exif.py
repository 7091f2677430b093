"""Tags of photos: every container, both byte orders, and files that lie about themselves."""

import struct
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from focalsweep.photos.exif import read_tags, tags_of
from focalsweep.photos.metadata import settings_of
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.exif_bytes import (
    ASCII,
    DISTANCE,
    EXIF,
    FOCAL_LENGTH,
    LONG,
    MAKE,
    RATIONAL,
    SHORT,
    SUB_IFDS,
    UNDEFINED,
    directory,
    jpeg,
    photo,
    save_with_pillow,
    tiff,
)

EXPECTED = {"Make": "Maker", "Model": "Model", "FocalLength": 50.0, "FNumber": 2.8, "ExposureTime": 0.01, "ISO": 200}


def box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def heic(block: bytes, exif_first: bool = False) -> bytes:
    """The boxes of a HEIC file by ISO 23008-12, with no pictures in it."""
    entry = struct.pack(">BBHHH4s", 2, 0, 0, 7, 0, b"Exif") + b"\0"
    names = box(b"iinf", bytes(4), struct.pack(">H", 1), box(b"infe", entry))
    sizes = box(
        b"iprp", box(b"ipco", *(box(b"ispe", bytes(4), struct.pack(">II", *s)) for s in ((512, 512), (40, 30))))
    )

    def places(at: int) -> bytes:
        item = struct.pack(">HHHHII", 7, 0, 0, 1, at, len(block) + 10)
        return box(b"iloc", struct.pack(">BxxxBBH", 1, 0x44, 0, 1), item)

    def whole(at: int) -> bytes:
        inner = (places(at), names) if exif_first else (names, places(at))
        return box(b"ftyp", b"heic\0\0\0\0") + box(b"meta", bytes(4), *inner, sizes) + box(b"mdat", b"")[:8]

    at = len(whole(0))
    return whole(at) + struct.pack(">I", 6) + b"Exif\0\0" + block


# What is read


@pytest.mark.parametrize("order", ["<", ">"])
def test_jpeg_in_both_byte_orders(order: str) -> None:
    assert tags_of(jpeg(photo(order=order))) == EXPECTED | {"ImageWidth": 6000, "ImageHeight": 4000}


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_files_that_pillow_wrote(tmp_path: Path, suffix: str) -> None:
    tags = read_tags(save_with_pillow(tmp_path / f"a{suffix}", photo(order=">")))
    assert tags == EXPECTED | {"ImageWidth": 24, "ImageHeight": 16}


@pytest.mark.parametrize("lossless", [False, True])
def test_webp_without_exif_has_its_size(tmp_path: Path, lossless: bool) -> None:
    Image.new("RGB", (23, 17)).save(tmp_path / "a.webp", lossless=lossless)
    assert read_tags(tmp_path / "a.webp") == {"ImageWidth": 23, "ImageHeight": 17}


def test_exif_that_pillow_composed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Canon", "Canon EOS 60D"
    exif[0x8769] = {0x920A: 38.0, 0x829D: 2.8, 0x9206: 0.5, 0xA405: 61}
    Image.new("RGB", (12, 8)).save(tmp_path / "a.jpg", exif=exif)
    tags = read_tags(tmp_path / "a.jpg")
    assert (tags["Make"], tags["FocalLength"], tags["FNumber"]) == ("Canon", 38.0, 2.8)
    assert (tags["SubjectDistance"], tags["FocalLengthIn35mmFormat"]) == (0.5, 61)
    assert (tags["ImageWidth"], tags["ImageHeight"]) == (12, 8)


def test_tiff_that_pillow_wrote(tmp_path: Path) -> None:
    Image.new("RGB", (12, 8)).save(tmp_path / "a.tif", tiffinfo={0x010F: "Canon", 0x920A: 38.0})
    assert read_tags(tmp_path / "a.tif") == {"Make": "Canon", "FocalLength": 38.0, "ImageWidth": 12, "ImageHeight": 8}


def test_heic_that_libheif_wrote(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    file = pillow_heif.from_pillow(Image.new("RGB", (64, 48)))
    file.save(tmp_path / "a.heic", exif=b"Exif\0\0" + photo(), quality=10)
    assert read_tags(tmp_path / "a.heic") == EXPECTED | {"ImageWidth": 64, "ImageHeight": 48}


@pytest.mark.parametrize("exif_first", [False, True])
def test_heic_keeps_exif_in_an_item(exif_first: bool) -> None:
    assert tags_of(heic(photo(), exif_first)) == EXPECTED | {"ImageWidth": 512, "ImageHeight": 512}


def test_cr3_keeps_directories_in_boxes() -> None:
    words = [0] * 20 + [250, 240]
    parts = (
        box(b"CMT1", tiff({MAKE: (ASCII, "Canon")})),
        box(b"CMT2", tiff({FOCAL_LENGTH: (RATIONAL, (35, 1))})),
        box(b"CMT3", tiff({0x93: (SHORT, words)})),
    )
    tags = tags_of(box(b"ftyp", b"crx \0\0\0\1") + box(b"moov", box(b"uuid", bytes(16), *parts)))
    assert tags == {"Make": "Canon", "FocalLength": 35.0, "FocusDistanceUpper": 2.5, "FocusDistanceLower": 2.4}


def test_raf_holds_a_jpeg() -> None:
    inner = jpeg(photo())
    data = b"FUJIFILMCCD-RAW ".ljust(84, b"0") + struct.pack(">II", 100, len(inner)) + bytes(8) + inner
    assert tags_of(data) == EXPECTED | {"ImageWidth": 6000, "ImageHeight": 4000}


@pytest.mark.parametrize("magic", [0x2A, 0x4F52, 0x5352])
def test_raw_has_the_size_of_its_largest_picture(magic: int) -> None:
    raw = {0x100: (LONG, 6048), 0x101: (LONG, 4024)}
    main = {0x100: (LONG, 160), 0x101: (SHORT, 120), SUB_IFDS: (LONG, raw), MAKE: (ASCII, "NIKON")}
    assert tags_of(tiff(main, magic=magic)) == {"Make": "NIKON", "ImageWidth": 6048, "ImageHeight": 4024}


def test_rw2_has_borders() -> None:
    borders = {4: (SHORT, 10), 5: (SHORT, 20), 6: (SHORT, 3010), 7: (SHORT, 4020)}
    assert tags_of(tiff(borders, magic=0x55)) == {"ImageWidth": 4000, "ImageHeight": 3000}


@pytest.mark.parametrize(
    "text",
    ['<a exif:FocalLength="381/10"/>', "<exif:FocalLength>381/10</exif:FocalLength>", "<a exif:FocalLength='38.1'/>"],
)
def test_xmp_fills_what_exif_has_not(tmp_path: Path, text: str) -> None:
    packet = f'<x:xmpmeta>{text}<b aux:ApproximateFocusDistance="54/10" tiff:Model="M&#xA;x"/></x:xmpmeta>'.encode()
    segment = b"http://ns.adobe.com/xap/1.0/\0" + packet
    before = b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment
    tags = tags_of(jpeg(tiff({MAKE: (ASCII, "Maker")}), before=before))
    assert (tags["FocalLength"], tags["ApproximateFocusDistance"], tags["Make"]) == (38.1, 5.4, "Maker")
    png = tmp_path / "a.png"
    Image.new("L", (3, 2)).save(png)
    chunk = b"iTXt" + b"XML:com.adobe.xmp\0\0\0\0\0" + packet
    png.write_bytes(
        png.read_bytes()[:33] + struct.pack(">I", len(chunk) - 4) + chunk + bytes(4) + png.read_bytes()[33:]
    )
    assert read_tags(png)["FocalLength"] == 38.1


def test_text_is_made_printable() -> None:
    tags = tags_of(jpeg(photo(make="A\n[camera]\x1b[31m  B", model="x" * 1000)))
    assert tags["Make"] == "A [camera] [31m B"
    assert tags["Model"] == "x" * 80


def test_only_the_first_packets_are_read() -> None:
    packets = [f'<a exif:{name}="2"/>' for name in ("FNumber", "FNumber", "FNumber", "ISO", "FocalLength")]
    before = b""
    for packet in packets:
        body = b"http://ns.adobe.com/xap/1.0/\0" + packet.encode()
        before += b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    tags = tags_of(jpeg(tiff({MAKE: (ASCII, "Maker")}), before=before))
    assert tags["ISO"] == 2 and "FocalLength" not in tags


# What is refused, quietly


def test_rationals_without_a_value() -> None:
    zero, infinite = (RATIONAL, (0, 0)), (RATIONAL, (7, 0))
    tags = tags_of(jpeg(photo(exif={FOCAL_LENGTH: zero, DISTANCE: infinite})))
    assert "FocalLength" not in tags
    assert tags["SubjectDistance"] == float("inf")


def test_value_of_the_wrong_kind() -> None:
    tags = tags_of(
        jpeg(photo(exif={FOCAL_LENGTH: (ASCII, "long"), DISTANCE: (UNDEFINED, b"12345")}, main={MAKE: (SHORT, 3)}))
    )
    assert not {"FocalLength", "SubjectDistance", "Make"} & tags.keys()
    assert tags["FNumber"] == 2.8


@pytest.mark.parametrize("count", [0, 2**31, 2**32 - 1])
@pytest.mark.parametrize("kind", [2, 5, 7, 12])
def test_absurd_counts(count: int, kind: int) -> None:
    block = b"II*\0" + struct.pack("<IHHHII", 8, 1, FOCAL_LENGTH, kind, count, 8) + bytes(4)
    assert tags_of(block) == {}


def test_offset_beyond_the_file() -> None:
    block = b"II*\0" + struct.pack("<IHHHII", 8, 1, FOCAL_LENGTH, RATIONAL, 1, 2**32 - 4) + bytes(4)
    assert tags_of(block) == {}
    assert tags_of(b"MM\0*" + struct.pack(">I", 2**32 - 1) + bytes(8)) == {}


def test_directories_in_a_circle() -> None:
    entry = struct.pack("<HHII", EXIF, LONG, 1, 8)
    focal_length = struct.pack("<HHII", FOCAL_LENGTH, SHORT, 1, 35)
    block = b"II*\0" + struct.pack("<IH", 8, 2) + entry + focal_length + struct.pack("<I", 8)
    assert tags_of(block) == {"FocalLength": 35}


def test_every_truncation_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = jpeg(photo("NIKON", order=">"))
    seen = []
    for length in range(len(whole)):
        (tmp_path / "a.jpg").write_bytes(whole[:length])
        seen.append(len(read_tags(tmp_path / "a.jpg")))
    assert max(seen) == len(EXPECTED) + 2
    assert seen == sorted(seen)


def test_other_files_have_no_tags(tmp_path: Path) -> None:
    for data in (b"", b"x", b"hello world, this is text", bytes(1000), b"\xff\xd8" + b"\xff" * 1000):
        (tmp_path / "a.jpg").write_bytes(data)
        assert read_tags(tmp_path / "a.jpg") == {}


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.jpg"
    assert_one_sentence(message_of(lambda: read_tags(path), FileNotFoundError), "none.jpg")


def worst_files() -> dict[str, bytes]:
    """Files of 4 MB that would keep a careless reader busy for minutes, or make it swallow the machine's memory."""
    size = 1 << 22
    pointers = struct.pack("<HHII", SUB_IFDS, LONG, 16, 30) * 500
    entries = struct.pack("<HHII", FOCAL_LENGTH, UNDEFINED, 65000, 8) * 5000
    maker = struct.pack("<HHII", 0x927C, UNDEFINED, 2**20, 8) * 5000
    many = [b"II*\0" + struct.pack("<IH", 8, 65535) + block for block in (pointers, entries, maker)]
    canon = photo("Canon", note=lambda at: directory({0x93: (SHORT, [1] * 2**20)}, at, "<"))
    pointing = [struct.pack("<HHII", SUB_IFDS, LONG, 16, 6014 + 64 * number) for number in range(500)]
    tree = b"II*\0" + struct.pack("<IH", 8, 500) + b"".join(pointing) + bytes(4)
    tree += struct.pack("<8000I", *range(40_000, 48_000))  # each looks like a directory of 257 entries
    inner = b"Exif\0\0" + tree.ljust(65_000, b"\1")
    small = b"\xff\xe1" + struct.pack(">H", len(inner) + 2) + inner
    packet = b"http://ns.adobe.com/xap/1.0/\0" + b"a:b " * 16000
    xmp = b"\xff\xe1" + struct.pack(">H", len(packet) + 2) + packet
    item = struct.pack(">HHHH", 1, 0, 0, 65535)
    places = struct.pack(">BxxxBBH", 1, 0, 0, 65535) + item * (size // len(item))
    return {
        "tiff, pointers": many[0].ljust(size, b"\x10"),
        "tiff, entries": many[1].ljust(size, b"\x10"),
        "tiff, maker notes": many[2].ljust(size, b"\x10"),
        "tiff, tree": tree.ljust(size, b"\1"),
        "tiff, words": canon.ljust(size, b"\x10"),
        "jpeg, segments": b"\xff\xd8" + b"\xff\xe2\0\2" * (size // 4),
        "jpeg, blocks": b"\xff\xd8" + small * (size // len(small)),
        "jpeg, packets": b"\xff\xd8" + xmp * (size // len(xmp)),
        "png, chunks": b"\x89PNG\r\n\x1a\n" + (bytes(4) + b"IDAT" + bytes(4)) * (size // 12),
        "webp, chunks": b"RIFF\0\0\0\0WEBP" + b"ABCD\0\0\0\0" * (size // 8),
        "heic, boxes": box(b"ftyp", b"heic") + box(b"moov", box(b"free") * (size // 8)),
        "heic, nested": box(b"ftyp", b"heic") + struct.pack(">I4s", 0, b"moov") * (size // 8),
        "heic, extents": box(b"ftyp", b"heic") + box(b"meta", bytes(4), box(b"iloc", places)),
    }


@pytest.mark.parametrize("kind", worst_files())
def test_worst_files_take_bounded_work_and_memory(kind: str) -> None:
    data = worst_files()[kind]
    lines = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal lines
        lines += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        tags_of(data)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert lines < 2_000_000
    assert peak < len(data)


SEEDS = [
    jpeg(photo("Canon", note=b"\1\0\x93\0\3\0\x20\0\0\0\x10\0\0\0\0\0\0\0" + bytes(64))),
    jpeg(
        photo(
            "NIKON", order=">", note=b"Nikon\0\2\x10\0\0MM\0*\0\0\0\x08\0\1\0\x98\0\7\0\0\0\x20\0\0\0\x1a" + bytes(40)
        )
    ),
    photo("SONY", note=b"SONY DSC \0\0\0\1\0\x02\x94\7\0\x40\0\0\0\x10\0\0\0" + bytes(64)),
    photo("OLYMPUS", note=b"OLYMPUS\0II\3\0\1\0\x50\x20\4\0\1\0\0\0\x0c\0\0\0" + bytes(40)),
    photo("Apple", order=">", note=b"Apple iOS\0\0\1MM\0\1\0\x0c\0\x0a\0\0\0\2\0\0\0\x20" + bytes(40)),
    heic(photo()),
]


@settings(max_examples=300)
@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12),
    cut=st.integers(0, 10**6),
)
def test_mutated_files_never_raise(seed: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(seed)
    for at, byte in changes:
        data[at % len(data)] = byte
    data = data[: len(data) - cut % len(data) if cut % 3 == 0 else len(data)]
    settings_of(tags_of(bytes(data)), "a.jpg")


@given(st.binary(max_size=400))
def test_random_directories_never_raise(data: bytes) -> None:
    for head in (b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"):
        settings_of(tags_of(head + data), "a.tif")
        settings_of(tags_of(jpeg(head + data)), "a.jpg")
