"""EXR, PLY and GLB, each reopened by a library that did not write it and taken apart by hand."""

import io
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focalsweep import RelativeLens
from focalsweep.results import writing
from focalsweep.results.exports import exr_bytes, ply_bytes
from focalsweep.results.geometry import point_cloud
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import scene, tilted

NORMAL = (0.48, 0.6, 0.64)
PLANE = tilted(30, 50, NORMAL, offset=1.5)
BASE = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "run.json"}


# OpenEXR


def parse_exr(data: bytes) -> tuple[dict[str, tuple[str, bytes]], dict[str, np.ndarray]]:
    """Attributes and float channels of a scan-line file with ZIP compression, as the format's specification has it."""
    assert data[:8] == struct.pack("<II", 20000630, 2)  # magic number; version 2, single part, scan lines
    position, attributes = 8, {}

    def text() -> str:
        nonlocal position
        end = data.index(b"\0", position)
        word, position = data[position:end].decode(), end + 1
        return word

    while name := text():
        kind = text()
        (size,) = struct.unpack_from("<i", data, position)
        attributes[name] = (kind, data[position + 4 : position + 4 + size])
        position += 4 + size
    assert attributes["compression"][1] == b"\3"  # 16 lines a block, zlib
    left, top, right, bottom = struct.unpack("<4i", attributes["dataWindow"][1])
    width, height = right - left + 1, bottom - top + 1
    channels, rest = [], attributes["channels"][1]
    while rest[0]:
        name, rest = rest.split(b"\0", 1)
        assert struct.unpack_from("<i", rest)[0] == 2  # 32-bit float
        channels.append(name.decode())
        rest = rest[16:]
    maps = {name: np.empty((height, width), np.float32) for name in channels}
    for block in range(-(-height // 16)):
        (start,) = struct.unpack_from("<Q", data, position + 8 * block)
        line, size = struct.unpack_from("<ii", data, start)
        lines = min(16, top + height - line)
        packed = data[start + 8 : start + 8 + size]
        whole = 4 * len(channels) * width * lines
        raw = packed
        if size < whole:
            differences = np.frombuffer(zlib.decompress(packed), np.uint8).astype(np.int64)
            differences[1:] -= 128
            halves = (np.cumsum(differences) & 255).astype(np.uint8)
            mixed = np.empty(whole, np.uint8)
            mixed[0::2], mixed[1::2] = halves[: (whole + 1) // 2], halves[(whole + 1) // 2 :]
            raw = mixed.tobytes()
        values = np.frombuffer(raw, "<f4").reshape(lines, len(channels), width)
        for number, name in enumerate(channels):
            maps[name][line - top : line - top + lines] = values[:, number]
    return attributes, maps


def with_noise() -> Any:
    inverse = PLANE.copy()
    inverse[3, 4] = 0
    noise = np.random.default_rng(0).random((2, 30, 50), dtype=np.float32)
    return scene(inverse, std=noise[0], confidence=noise[1])


def test_exr_by_hand() -> None:
    result = with_noise()
    attributes, maps = parse_exr(exr_bytes(result))
    assert set(maps) == {"Z", "std", "confidence"}
    np.testing.assert_array_equal(maps["Z"], result.depth)
    assert maps["Z"][3, 4] == np.inf
    np.testing.assert_array_equal(maps["std"], result.std)
    np.testing.assert_array_equal(maps["confidence"], result.confidence)
    for name, value in {"focal_length": 0.05, "f_number": 2.8, "pixel_pitch": 5e-4, "projection_px": 100}.items():
        kind, stored = attributes[name]
        assert kind == "float"
        assert struct.unpack("<f", stored)[0] == pytest.approx(value, rel=1e-6)
    assert attributes["unit"] == ("string", b"metre")
    assert b"optical axis" in attributes["comments"][1]


def test_exr_by_its_reference_library() -> None:
    import OpenEXR

    result = with_noise()
    with OpenEXR.File(io.BytesIO(exr_bytes(result))) as file:
        channels = file.channels()
        np.testing.assert_array_equal(channels["Z"].pixels, result.depth)
        np.testing.assert_array_equal(channels["std"].pixels, result.std)
        assert file.header()["focal_length"] == pytest.approx(0.05)


def test_exr_without_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    message = message_of(lambda: scene(PLANE).save(tmp_path / "out", exports=["exr"]), ModuleNotFoundError)
    assert_one_sentence(message, "depth.exr", "pip install", "focalsweep[exports]")
    assert not (tmp_path / "out").exists()


# PLY


def parse_ply(data: bytes) -> tuple[list[str], np.ndarray]:
    """Comments, and the vertices as a record array."""
    header, body = data.split(b"end_header\n", 1)
    lines = header.decode("ascii").splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    kinds = {"float": "<f4", "uchar": "u1"}
    properties = [line.split() for line in lines if line.startswith("property")]
    (count,) = (int(line.split()[2]) for line in lines if line.startswith("element vertex"))
    records = np.frombuffer(body, [(name, kinds[kind]) for _, kind, name in properties])
    assert len(records) == count
    return [line for line in lines if line.startswith("comment")], records


def test_ply_by_hand() -> None:
    result = scene(PLANE)
    comments, records = parse_ply(ply_bytes(result))
    assert any("x right, y down, z forward" in comment and "unit: metre" in comment for comment in comments)
    points = np.stack([records[axis] for axis in "xyz"], -1).astype(np.float64)
    np.testing.assert_allclose(points @ NORMAL, 1.5, rtol=1e-5)
    cloud = point_cloud(result)
    np.testing.assert_array_equal(np.stack([records[c] for c in ("red", "green", "blue")], -1), cloud.colours)
    np.testing.assert_array_equal(records["std"], result.std.ravel())
    np.testing.assert_array_equal(records["confidence"], 1)


def test_ply_by_trimesh() -> None:
    import trimesh

    cloud = trimesh.load(io.BytesIO(ply_bytes(scene(PLANE))), file_type="ply")
    assert cloud.vertices.shape == (1500, 3)
    np.testing.assert_allclose(cloud.vertices @ NORMAL, 1.5, rtol=1e-5)
    np.testing.assert_array_equal(cloud.colors[:, :3], point_cloud(scene(PLANE)).colours)


def test_ply_without_points_is_valid() -> None:
    _, records = parse_ply(ply_bytes(scene(PLANE, confidence=np.zeros((30, 50), np.float32))))
    assert len(records) == 0


# save


def test_save_writes_what_is_asked_for(tmp_path: Path) -> None:
    result = scene(PLANE)
    paths = result.save(tmp_path / "all", exports=("exr", "ply", "glb"))
    assert {path.name for path in paths} == BASE | {"depth.exr", "cloud.ply", "mesh.glb"}
    assert {path.name for path in (tmp_path / "all").iterdir()} == {path.name for path in paths}
    assert paths[-1].name == "run.json"  # last: a folder without it is known to be unfinished
    assert json.loads(paths[-1].read_text())["exports"] == ["depth.exr", "cloud.ply", "mesh.glb"]
    assert (tmp_path / "all" / "cloud.ply").read_bytes() == ply_bytes(result)
    assert {path.name for path in result.save(tmp_path / "one", exports="ply")} == BASE | {"cloud.ply"}


def test_what_has_no_unit_is_no_exr(tmp_path: Path) -> None:
    relative = scene(PLANE, camera=RelativeLens(40.0))
    assert_one_sentence(
        message_of(lambda: exr_bytes(relative), ValueError), "without a unit", "metres", "focus_distances"
    )
    with pytest.warns(UserWarning, match=r"depth.exr is left out: it needs depth in metres from a camera"):
        relative.save(tmp_path / "out", exports=("exr",))


def test_ply_without_a_unit_is_a_relief() -> None:
    comments, records = parse_ply(ply_bytes(scene(PLANE, camera=RelativeLens(40.0))))
    assert any("unit: relative; scale: free" in comment for comment in comments)
    assert np.ptp(records["x"]) == pytest.approx(49 / 50)


def test_unknown_export(tmp_path: Path) -> None:
    message = message_of(lambda: scene(PLANE).save(tmp_path / "out", exports=("ply", "usd")), ValueError)
    assert_one_sentence(message, "'usd'", "exr, ply, glb")
    assert not (tmp_path / "out").exists()


def test_a_mesh_of_nothing_is_left_out_with_a_warning(tmp_path: Path) -> None:
    unsure = scene(PLANE, confidence=np.zeros((30, 50), np.float32))
    with pytest.warns(UserWarning, match=r"mesh.glb is left out: no surface has a confidence of 0.5") as caught:
        paths = unsure.save(tmp_path, exports=("glb", "ply"))
    assert caught[0].filename == __file__
    assert {path.name for path in paths} == BASE | {"cloud.ply"}


def test_a_failing_write_leaves_no_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writing, "_write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        scene(PLANE).save(tmp_path, exports=("ply",))
    assert list(tmp_path.iterdir()) == []
