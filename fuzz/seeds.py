"""Good input for each target, to begin from."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from focalsweep.photos.demo import DEMO_STACK
from fuzz.targets import MAKERS, TARGETS, photo_with_note, tiff_with_description

OME = (
    '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Instrument ID="I"><Objective '
    'ID="O" LensNA="0.4"/></Instrument><Image ID="Image:0"><Pixels ID="P" DimensionOrder="XYZCT" Type="uint8" '
    'SizeX="2" SizeY="2" SizeZ="2" SizeC="1" SizeT="1" PhysicalSizeX="0.5" PhysicalSizeXUnit="µm" '
    'PhysicalSizeZ="1.5"><TiffData FirstZ="0" IFD="0"/><TiffData FirstZ="1" IFD="1"/></Pixels></Image></OME>'
).encode()
IMAGEJ = b"ImageJ=1.53t\nimages=2\nslices=2\nunit=micron\nspacing=1.5\nloop=false\n"
TOML = b"""[camera]
focal_length = 0.05
f_number = 2.8
pixel_pitch = 4.3e-6
focus_reference = "lens"
aligned = false
[[frame]]
file = "a.jpg"
focus_distance = 0.45
[[frame]]
file = "b.jpg"
focus_range = [0.44, inf]
"""
STAGE = b'[stage]\nstep = 1.0e-4\nnumerical_aperture = 0.1\npixel_size = 2.4e-6\n[[frame]]\nfile = "a.jpg"\n'
HEAD = b"host: localhost\ncontent-length: 120\ncontent-type: multipart/form-data; boundary=x\n\n"
FORM = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\nyyy\r\n--x--\r\n'
REQUESTS = [
    b"GET /config\nhost: localhost\ncontent-length: 0\norigin: http://localhost\n\n",
    b"POST /gradio_api/upload?upload_id=a\n" + HEAD + FORM,
    b"POST /gradio_api/upload\ncookie: a\n" + HEAD + FORM[:40] + b"\n\n" + FORM[40:],
    b"POST /gradio_api/queue/join\nhost: 127.0.0.1:1\ncontent-length: 9\nsec-fetch-site: cross-site\n\n{}",
    b"GET /gradio_api/heartbeat/abc\nhost: [::1]\n\n",
]


@cache
def seeds(target: str) -> list[bytes]:
    if target == "page":
        return REQUESTS
    if target == "stack_toml":
        return [TOML, STAGE, (DEMO_STACK / "stack.toml").read_bytes()]
    if target == "maker_notes":
        return [bytes([number]) + _note(make) for number, make in enumerate(MAKERS)]
    if target == "ome":
        return [OME, IMAGEJ]
    pictures = {name: _picture(name) for name in ("jpeg", "png", "tiff")}
    if target == "microscope_file":
        return [tiff_with_description(OME), tiff_with_description(IMAGEJ), pictures["tiff"]]
    if target == "exif":
        return [*pictures.values(), _picture("webp"), photo_with_note(b"Canon", _note(b"Canon"))]
    return [pictures[target]]


def _note(make: bytes) -> bytes:
    """A directory of two entries, as most makers write it behind a few letters of theirs."""
    directory = b"\2\0" + b"\x03\0\3\0\4\0\0\0\x40\0\0\0" + b"\x97\0\4\0\1\0\0\0\1\0\0\0" + bytes(40)
    heads = {b"NIKON CORPORATION": b"Nikon\0\2\x10\0\0II*\0\x08\0\0\0", b"Apple": b"Apple iOS\0\0\1II"}
    heads |= {b"OLYMPUS": b"OLYMPUS\0II\3\0", b"FUJIFILM": b"FUJIFILM\x0c\0\0\0", b"Panasonic": b"Panasonic\0\0\0"}
    return heads.get(make, b"") + directory


def _picture(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (8, 10, 3), dtype=np.uint8)
    tags = Image.Exif()
    tags[0x010F], tags[0x0112] = "Canon", 6
    if kind != "tiff":  # where Pillow cannot write it
        tags[0x8769] = {0x920A: 50.0, 0x829D: 2.8, 0x9206: 1.5, 0x927C: _note(b"Canon")}
    made = io.BytesIO()
    Image.fromarray(pixels).save(made, kind, exif=tags)
    return made.getvalue()


def write(folder: Path) -> None:
    """Each target's seeds as files, for a fuzzer to begin from."""
    for target in TARGETS:
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(seeds(target)):
            (place / f"seed{number}").write_bytes(data)
