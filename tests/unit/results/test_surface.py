"""Surfaces of planes, steps and gaps, and their files, read by trimesh and pygltflib."""

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image

from focalsweep import RelativeLens
from focalsweep.lenses import StageLens
from focalsweep.results import mesh_files
from focalsweep.results.geometry import NothingKnownError
from focalsweep.results.mesh_files import glb_bytes, mesh_ply_bytes, normals_png_bytes, obj_files, stl_bytes
from focalsweep.results.surface import surface_of
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import FOCAL_PX, scene, stepped, tilted

NORMAL = (0.48, 0.6, 0.64)
STEP = stepped(40, 60, 23)


def stage(**changes: Any) -> Any:
    heights = (2e-5 * np.sin(np.arange(60) / 9) * np.ones((40, 1))).astype(np.float32)
    return scene(np.ones((40, 60)), depth=heights, camera=StageLens(40.0), **changes)


def opened(data: bytes, kind: str) -> Any:
    return trimesh.load(io.BytesIO(data), file_type=kind, process=False)


@pytest.mark.parametrize("normal", [(0.0, 0.0, 1.0), (0.6, 0.0, 0.8), (0.0, -0.6, 0.8), NORMAL])
def test_a_plane_is_flat_whole_and_few_triangles(normal: tuple[float, float, float]) -> None:
    surface = surface_of(scene(tilted(40, 60, normal, 1.5)))
    points = surface.points.astype(np.float64)
    inner = (surface.across % 60 > 0) & (surface.down % 40 > 0)
    np.testing.assert_allclose(points[inner] @ normal, 1.5, rtol=1e-4)
    np.testing.assert_allclose(points @ normal, 1.5, rtol=0.03)  # half a pixel beyond the last one's middle
    corners = points[surface.faces]
    turned = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (turned @ normal < 0).all()  # towards the camera
    assert len(surface.faces) < 2 * 40 * 60 / 5
    assert not surface.bridged.any()
    assert len(surface.border) >= 4


def seen_from_the_camera(surface: Any, width: int, height: int) -> np.ndarray:
    """The inverse depth of the surface at every pixel, by rays against its triangles, NaN where there is none."""
    z = np.full((height, width), np.nan)
    across, down = surface.across.astype(np.float64), surface.down.astype(np.float64)
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    for a, b, c in surface.faces:
        area = (across[b] - across[a]) * (down[c] - down[a]) - (down[b] - down[a]) * (across[c] - across[a])
        second = ((x - across[a]) * (down[c] - down[a]) - (y - down[a]) * (across[c] - across[a])) / area
        third = ((across[b] - across[a]) * (y - down[a]) - (down[b] - down[a]) * (x - across[a])) / area
        inside = (second >= -1e-9) & (third >= -1e-9) & (second + third <= 1 + 1e-9)
        value = surface.relief[a] * (1 - second - third) + surface.relief[b] * second + surface.relief[c] * third
        z[inside] = value[inside]
    return z


def test_a_closed_surface_has_no_hole_and_the_depth_of_the_map() -> None:
    found = seen_from_the_camera(surface_of(scene(STEP)), 60, 40)
    assert np.isfinite(found).all()
    away = np.abs(np.arange(60) - 22.5) > 1
    np.testing.assert_allclose(found[:, away], STEP[:, away], rtol=0.01)


@pytest.mark.parametrize("far", [1.2, 1.3, 20.0])
def test_a_cut_surface_bridges_no_step(far: float) -> None:
    surface = surface_of(scene(stepped(40, 60, 23, far=far)), "cut")
    corners = surface.across[surface.faces]
    assert not ((corners.min(1) < 21.5) & (corners.max(1) > 24.5)).any()
    depth = 1 / surface.relief[surface.faces]
    assert (depth.max(1) / depth.min(1) < 1.05).all()
    found = seen_from_the_camera(surface, 60, 40)
    assert np.isnan(found).mean() < 0.05


def test_a_blurred_step_is_made_sharp() -> None:
    ramp = np.interp(np.arange(60), [28, 33], [1.0, 0.5]) * np.ones((40, 1))  # 1 to 2 m over 5 px
    relief = surface_of(scene(ramp)).relief
    assert ((relief < 0.53) | (relief > 0.94)).all()


def test_what_was_not_seen_is_marked_or_left_out() -> None:
    confidence = np.ones((40, 60), np.float32)
    confidence[10:25, 20:40] = 0.2
    result = scene(np.full((40, 60), 0.5), confidence=confidence)
    closed = surface_of(result)
    assert closed.bridged.any()
    inside = (closed.across[closed.faces].mean(1) // 1, closed.down[closed.faces].mean(1) // 1)
    assert (confidence[inside[1].astype(int), inside[0].astype(int)][~closed.bridged] == 1).all()
    cut = seen_from_the_camera(surface_of(result, "cut"), 60, 40)
    assert np.isnan(cut[11:24, 21:39]).all()
    assert np.isfinite(cut[:8]).all()
    assert np.isfinite(cut[28:]).all()


def test_depth_that_is_missing_or_infinite_is_filled() -> None:
    inverse = tilted(40, 60, NORMAL, 1.5)
    inverse[10:20, 30:40] = np.nan
    inverse[:4] = 0
    surface = surface_of(scene(inverse))
    assert np.isfinite(surface.points).all()
    assert surface.bridged.any()
    assert surface.points[:, 2].max() <= 1 / inverse[inverse > 0].min() + 1e-4
    nothing = scene(inverse, confidence=np.zeros((40, 60), np.float32))
    assert_one_sentence(message_of(lambda: surface_of(nothing), NothingKnownError), "0.5", "least_confidence")
    assert_one_sentence(message_of(lambda: surface_of(nothing, "torn"), ValueError), "closed or cut", "torn")  # type: ignore[arg-type]


def test_the_budget_is_kept() -> None:
    noisy = 0.5 + 0.05 * np.random.default_rng(0).random((300, 400))
    for most in (1000, 20_000):
        assert 0.8 * most < len(surface_of(scene(noisy), most_faces=most).faces) <= most


def test_a_viewer_shifts_the_picture_by_little() -> None:
    """Half a side in space is not half of it in the picture: on a steep plane of two triangles that would be seen."""
    surface = surface_of(scene(tilted(160, 160, (0.0, 0.9397, 0.3420), 1.5)))
    for side in ([0, 1], [1, 2], [2, 0]):
        first, last = surface.relief[surface.faces[:, side]].T
        length = np.hypot(*(np.diff(axis[surface.faces[:, side]])[:, 0] for axis in (surface.across, surface.down)))
        shift = 0.5 * length * np.abs(first - last) / (first + last)
        assert shift[length > 3].max() < 0.5


# Files


def tree_of(data: bytes) -> dict[str, Any]:
    (size,) = struct.unpack_from("<I", data, 12)
    return json.loads(data[20 : 20 + size])


def test_glb_by_pygltflib() -> None:
    import pygltflib

    loaded = pygltflib.GLTF2.load_from_bytes(glb_bytes(scene(STEP)))
    assert [material.name for material in loaded.materials] == ["seen", "bridged"]
    assert loaded.materials[0].doubleSided
    assert loaded.nodes[loaded.scenes[0].nodes[1]].camera == 0
    lens = loaded.cameras[0].perspective
    assert lens.yfov == pytest.approx(2 * np.arctan(20 / FOCAL_PX))
    assert lens.aspectRatio == pytest.approx(60 / 40)
    assert 0 < lens.znear < 1
    assert loaded.extras["unit"] == "metre"
    assert loaded.extras["scale"] == "true"
    assert loaded.extras["projection_px"] == pytest.approx(FOCAL_PX)


def test_glb_by_trimesh() -> None:
    """Each point lies on the ray of the place in the picture that it shows; y is up and z backward."""
    result = scene(STEP)
    meshes = opened(glb_bytes(result), "glb").geometry.values()
    assert len(meshes) == 2
    for mesh in meshes:
        x, y, z = mesh.vertices.T
        across, down = mesh.visual.uv[:, 0] * 60, (1 - mesh.visual.uv[:, 1]) * 40
        np.testing.assert_allclose(30 - FOCAL_PX * x / z, across, atol=1e-3)
        np.testing.assert_allclose(20 + FOCAL_PX * y / z, down, atol=1e-3)
        assert mesh.visual.material.baseColorTexture.size == (60, 40)
    assert (z < 0).all()


def test_a_camera_looks_at_a_relief_from_above() -> None:
    tree = tree_of(glb_bytes(scene(STEP, camera=RelativeLens(40.0))))
    lens = tree["cameras"][0]["orthographic"]
    assert lens["xmag"] == pytest.approx(0.5)
    assert lens["ymag"] == pytest.approx(20 / 60)
    place = tree["nodes"][1]["translation"]
    top, bottom = (tree["accessors"][0][end][2] for end in ("max", "min"))
    assert place[2] - lens["znear"] > top
    assert place[2] - lens["zfar"] < bottom
    assert tree["extras"]["unit"] == "relative"
    assert tree["extras"]["scale"].startswith("free")
    assert tree_of(glb_bytes(stage()))["extras"]["unit"] == "micrometre"


def test_texture_is_no_larger_than_viewers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_files, "LARGEST_TEXTURE_PX", 30)
    mesh = next(iter(opened(glb_bytes(scene(STEP)), "glb").geometry.values()))
    assert mesh.visual.material.baseColorTexture.size == (30, 20)
    gray = scene(STEP, all_in_focus=np.full((40, 60, 1), 0.5, np.float32))
    assert next(iter(opened(glb_bytes(gray), "glb").geometry.values())).visual.material.baseColorTexture.mode == "L"


@pytest.mark.parametrize("kind", ["closed", "cut"])
def test_obj_and_ply_hold_the_surface(kind: Any, tmp_path: Path) -> None:
    result = scene(STEP)
    surface = surface_of(result, kind)
    for name, data in obj_files(result, kind).items():
        (tmp_path / name).write_bytes(data)
    obj = trimesh.load(tmp_path / "mesh.obj", process=False, force="mesh")
    ply = opened(mesh_ply_bytes(result, kind), "ply")
    assert len(obj.faces) == len(ply.faces) == len(surface.faces)
    corners = mesh_files.turned(surface)[surface.faces]
    np.testing.assert_allclose(ply.vertices[ply.faces], corners, rtol=1e-6)
    np.testing.assert_allclose(np.sort(obj.area_faces), np.sort(ply.area_faces), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(obj.bounds, ply.bounds, rtol=1e-5)
    assert obj.visual.material.image.size == (60, 40)
    place = np.argmin(np.abs(surface.across - 30) + np.abs(surface.down - 20))
    pixel = result.all_in_focus[min(int(surface.down[place]), 39), min(int(surface.across[place]), 59)]
    encoded = 255 * np.where(pixel <= 0.0031308, 12.92 * pixel, 1.055 * pixel ** (1 / 2.4) - 0.055)
    np.testing.assert_allclose(ply.visual.vertex_colors[place, :3], encoded, atol=1)
    marked = ply.metadata["_ply_raw"]["face"]["data"]["bridged"]
    np.testing.assert_array_equal(np.ravel(marked).astype(bool), surface.bridged)


@pytest.mark.parametrize("result", [scene(STEP), scene(STEP, camera=RelativeLens(40.0)), stage()])
def test_stl_is_watertight(result: Any) -> None:
    body = trimesh.load(io.BytesIO(stl_bytes(result)), file_type="stl")
    assert body.is_watertight
    assert body.is_winding_consistent
    low, high = body.bounds
    np.testing.assert_allclose(low, 0, atol=1e-4)
    np.testing.assert_allclose(high[:2], [100, 100 * 40 / 60], rtol=1e-5)
    assert 2 < high[2] <= 32 + 1e-3
    assert body.volume > 2 * high[0] * high[1]  # outside is out, and the plate is solid


def test_the_relief_of_a_plane_has_true_proportions_at_the_middle() -> None:
    """A plane leans by 0.2 in 0.98, where the picture's scale is that of its middle depth."""
    body = trimesh.load(io.BytesIO(stl_bytes(scene(tilted(8, 60, (-0.2, 0, 0.96**0.5), 1.0)))), file_type="stl")
    top = body.vertices[body.vertices[:, 2] > 1]
    slope = np.polyfit(top[:, 0], top[:, 2], 1)[0]
    assert slope == pytest.approx(-0.2 / 0.96**0.5, rel=0.05)


def test_normals_of_a_plane() -> None:
    """Red right, green up, blue towards the camera: the plane's normal turned to it."""
    with Image.open(io.BytesIO(normals_png_bytes(scene(tilted(40, 60, NORMAL, 1.5))))) as picture:
        codes = np.asarray(picture)[6:-6, 6:-6]
    expected = (np.array([-NORMAL[0], NORMAL[1], NORMAL[2]]) + 1) * 127.5
    np.testing.assert_allclose(codes, np.broadcast_to(expected, codes.shape), atol=1.5)


def test_save_writes_the_surface_asked_for(tmp_path: Path) -> None:
    result = scene(STEP)
    paths = {path.name for path in result.save(tmp_path / "a", exports=("glb", "obj", "mesh", "stl", "normals"))}
    assert {"mesh.glb", "mesh.obj", "mesh.mtl", "mesh.jpg", "mesh.ply", "print.stl", "normals.png"} <= paths
    assert (tmp_path / "a" / "mesh.glb").read_bytes() == glb_bytes(result)
    result.save(tmp_path / "b", exports=("glb",), surface="cut")
    assert (tmp_path / "b" / "mesh.glb").read_bytes() == glb_bytes(result, "cut")
    message = message_of(lambda: result.save(tmp_path / "c", surface="torn"), ValueError)  # type: ignore[arg-type]
    assert_one_sentence(message, "surface", "closed or cut", "torn")
