"""Rendered stacks: depth and blur against closed forms, scenes within their bounds, the split, the noise."""

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from focalsweep.optics.thin_lens import coc_px
from focalsweep.types import Camera
from focalsweep_research.benchmark.objects import SPLITS, make_library, procedural_mesh
from focalsweep_research.benchmark.renderer import (
    RenderConfig,
    Renderer,
    exposure,
    load_mitsuba,
    sampler_seed,
    scene_of,
)
from focalsweep_research.benchmark.scenes import camera_axes, random_rotation
from tests.errors import assert_one_sentence, message_of

mitsuba = pytest.importorskip("mitsuba", reason="Mitsuba comes with pip install 'focalsweep-research'")

LIBRARIES = {split: make_library(split) for split in SPLITS}
AXES = camera_axes(math.radians(25), math.radians(10))  # as no scene is symmetric about
SMALL = RenderConfig(Camera(2.9e-3, 1.0, 3.1e-3 / 32), size=(32, 32), samples=4, focus_distances=(0.1, 1.5))


def renderer(config: RenderConfig) -> Renderer:
    return Renderer(config, LIBRARIES, "scalar_rgb")


def world(right: float, up: float, depth: float) -> Any:
    """A point given in the camera's axes."""
    return np.array([right, up, depth]) @ AXES


def loaded(**shapes: dict[str, Any]) -> Any:
    return mitsuba.load_dict({"type": "scene", "integrator": {"type": "path", "max_depth": 1}, **shapes})


GLOW = {"type": "area", "radiance": {"type": "rgb", "value": 1.0}}


# Depth


def test_depth_of_a_sphere_in_closed_form() -> None:
    config = RenderConfig(Camera(0.05, 2.0, 1e-3), size=(24, 40), focus_distances=(1.0,))
    made = renderer(config)
    centre, radius = np.array([0.25, -0.1, 1.4]), 0.2
    scene = loaded(ball={"type": "sphere", "center": world(*centre).tolist(), "radius": radius})
    depth = made.depth(scene, AXES)
    for row in range(24):
        for column in range(40):
            x, y = (column + 0.5 - 20) / 50, (12 - row - 0.5) / 50  # the focal length is 50 px
            a, b, c = x * x + y * y + 1, -2 * (np.array([x, y, 1.0]) @ centre), centre @ centre - radius**2
            inside = b * b - 4 * a * c
            expected = (-b - math.sqrt(inside)) / (2 * a) if inside > 0 else math.inf
            assert depth[row, column] == pytest.approx(expected, rel=1e-5), (row, column)
    assert 20 < np.isfinite(depth).sum() < 400


def test_depth_of_a_tilted_plane_is_linear_in_its_inverse() -> None:
    made = renderer(SMALL)
    normal = np.array([0.3, -0.4, -1.0]) @ AXES
    place = world(0.0, 0.0, 0.8)
    up = [0, 0, 1]
    pose = mitsuba.ScalarTransform4f().look_at(origin=place.tolist(), target=(place + normal).tolist(), up=up)
    depth = made.depth(loaded(wall={"type": "rectangle", "to_world": pose.scale([9, 9, 1])}), AXES)
    row, column = np.meshgrid(np.arange(32) + 0.5, np.arange(32) + 0.5, indexing="ij")
    x, y = (column - 16) / SMALL.focal_px, (16 - row) / SMALL.focal_px
    np.testing.assert_allclose(1 / depth, (1 - 0.3 * x + 0.4 * y) / 0.8, rtol=2e-5)


def test_depth_and_picture_show_the_same_pixels() -> None:
    """With a tiny aperture a glowing ball is bright where depth says that it is: neither is mirrored or shifted."""
    config = RenderConfig(Camera(2.9e-3, 100.0, 3.1e-3 / 48), size=(48, 48), samples=16, focus_distances=(0.6,))
    made = renderer(config)
    ball = {"type": "sphere", "center": world(0.15, 0.1, 0.6).tolist(), "radius": 0.08, "emitter": GLOW}
    scene = loaded(ball=ball)
    picture = made.frame(scene, made.sensor(AXES), 1)[..., 0]
    hit = np.isfinite(made.depth(scene, AXES))
    assert hit[:24, 24:].sum() > 0.9 * hit.sum() > 50, "right of the middle and above it"
    assert np.mean((picture > 0.5) == hit) > 0.995
    assert np.mean((picture > 0.5) == hit[:, ::-1]) < 0.95, "the check cannot fail"


# Blur


@pytest.mark.parametrize(("depth", "focus"), [(0.3, 0.12), (0.11, 0.4), (5.0, 0.2)])
def test_blur_of_a_point_is_coc_px(depth: float, focus: float) -> None:
    """By second moments: a uniform disk of diameter c has c^2 / 16 an axis, and so has the lamp; a pixel has 1 / 12."""
    camera = Camera(0.05, 2.0, 5e-4)
    config = RenderConfig(camera, size=(64, 64), samples=256, focus_distances=(focus,))
    made = renderer(config)
    lamp_px = 4.0
    half = lamp_px / 2 / config.focal_px * depth
    place = world(0.0, 0.0, depth)
    pose = mitsuba.ScalarTransform4f().look_at(origin=place.tolist(), target=[0, 0, 0], up=AXES[1].tolist())
    lamp = {"type": "disk", "to_world": pose.scale([half, half, 1]), "emitter": GLOW}
    picture = made.frame(loaded(lamp=lamp), made.sensor(AXES), 3)[..., 0].astype(float)
    weights, grid = picture / picture.sum(), np.arange(64) + 0.5
    variances = [m @ grid**2 - (m @ grid) ** 2 for m in (weights.sum(0), weights.sum(1))]
    blur = 4 * math.sqrt(np.mean(variances) - lamp_px**2 / 16 - 1 / 12)
    told = coc_px(depth, focus, camera, config.magnifications[0]).item()
    assert blur == pytest.approx(told, rel=0.01)
    if focus < 0.15:
        assert blur != pytest.approx(coc_px(depth, focus, camera).item(), rel=0.3), "magnification matters here"


def test_an_edge_is_as_wide_as_the_blur() -> None:
    """Half a plane glows: from dark to light takes one blur diameter, and a disk's cumulative share in between."""
    config = RenderConfig(Camera(0.05, 2.0, 5e-4), size=(32, 64), samples=256, focus_distances=(0.2,))
    made = renderer(config)
    place = world(0.5, 0.0, 0.5)  # the left edge of a rectangle of half width 0.5 is on the axis
    target = place - AXES[2]
    pose = mitsuba.ScalarTransform4f().look_at(origin=place.tolist(), target=target.tolist(), up=AXES[1].tolist())
    scene = loaded(half={"type": "rectangle", "to_world": pose.scale([0.5, 0.5, 1]), "emitter": GLOW})
    profile = made.frame(scene, made.sensor(AXES), 1)[8:24, :, 0].mean(0)
    coc = coc_px(0.5, 0.2, config.camera, config.magnifications[0]).item()
    t = np.clip((np.arange(64) + 0.5 - 32) / (coc / 2), -1, 1)
    expected = 0.5 + (t * np.sqrt(1 - t * t) + np.arcsin(t)) / np.pi
    assert np.abs(profile - expected).max() < 0.02
    assert 6 < coc < 60


# Stacks


def test_a_stack_depends_on_seed_split_and_number_only() -> None:
    first, again = renderer(SMALL).render("test", 3), renderer(SMALL).render("test", 3)
    np.testing.assert_array_equal(first.frames, again.frames)
    np.testing.assert_array_equal(first.depth, again.depth)
    assert first.frames.shape == (2, 32, 32, 3) and first.depth.shape == (32, 32)
    seeds = {sampler_seed(s, split, i, f) for s in (0, 1) for split in SPLITS for i in range(9) for f in range(3)}
    assert len(seeds) == 2 * 2 * 9 * 3
    other = RenderConfig(SMALL.camera, SMALL.focus_distances, SMALL.size, SMALL.samples, seed=1)
    places = [
        scene_of(config, LIBRARIES[split], number).things[0].centre.tolist()
        for config, split, number in ((SMALL, "test", 3), (other, "test", 3), (SMALL, "train", 3), (SMALL, "test", 4))
    ]
    assert len({tuple(place) for place in places}) == 4


def test_noise_of_frames_differs_and_exposure_does_not() -> None:
    """Focused alike, two frames differ by noise alone: not equal, but of one brightness."""
    config = RenderConfig(SMALL.camera, (0.7, 0.7), SMALL.size, samples=16)
    frames = renderer(config).render("train", 0).frames
    assert not np.array_equal(frames[0], frames[1])
    assert frames[0].mean() == pytest.approx(frames[1].mean(), rel=0.05)


def test_exposure() -> None:
    flat = np.full((2, 4, 4, 3), 5.0, np.float32)
    assert (exposure(flat) * flat).mean() == pytest.approx(0.22)
    contrasty = np.full((1, 10, 10, 3), 0.01, np.float32)
    contrasty[0, 0] = 10.0
    assert (exposure(contrasty) * contrasty).max() == pytest.approx(0.95)
    assert np.isfinite(exposure(0 * flat))


CAMERAS = {
    "paper": RenderConfig(),
    "full frame": RenderConfig(Camera(0.05, 2.0, 0.036 / 256), (0.5, 4.0), near=0.4, far=6.0),
    "wide": RenderConfig(Camera(2.9e-3, 1.0, 1.2e-5), size=(128, 256)),
}


@pytest.mark.parametrize("name", CAMERAS)
def test_scenes_fill_their_range_and_spare_the_camera(name: str) -> None:
    config, library = CAMERAS[name], LIBRARIES["train"]
    scenes = [scene_of(config, library, i) for i in range(30)]
    for scene in scenes:
        assert len(scene.things) >= 5
        for thing in scene.things:
            vertices = thing.radius * library.mesh(thing.name).vertices @ thing.rotation.T + thing.centre
            assert (vertices @ scene.axes[2]).min() > config.near
        for lamp in scene.lamps:
            x, y, z = scene.axes @ lamp.centre
            assert z < 0.2 or math.hypot(x, y) / z > math.hypot(config.view.half_width, config.view.half_height)
    depths = np.concatenate([[scene.axes[2] @ thing.centre for thing in scene.things] for scene in scenes])
    assert np.quantile(depths, 0.1) < 4 * config.near and np.quantile(depths, 0.9) > config.far / 4
    assert {scene.kind for scene in scenes} == {"table", "room", "mid-air"}
    materials = [part.material for scene in scenes for part in (*scene.things, *scene.planes)]  # type: ignore[attr-defined]
    textured = np.mean([bool(material.texture) for material in materials])
    assert 0.8 < textured < 0.97
    assert {material.kind for material in materials} == {"diffuse", "plastic", "metal"}


def test_rotations_are_rotations() -> None:
    for seed in range(5):
        rotation = random_rotation(np.random.default_rng(seed))
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(rotation) == pytest.approx(1)
    np.testing.assert_allclose(AXES @ AXES.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(camera_axes(0, 0), [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-12)


# Libraries


def write_meshes(folder: Path, count: int) -> Path:
    folder.mkdir()
    for i in range(count):
        vertices = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3]], np.float32) + i
        faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
        np.savez(folder / f"thing_{i}.npz", vertices=vertices, uv=vertices[:, :2] * 3, faces=faces)
        cv2.imwrite(str(folder / f"thing_{i}.jpg"), np.full((8, 8, 3), 20 * i, np.uint8))
    return folder


def write_textures(folder: Path, count: int) -> Path:
    folder.mkdir()
    lines = ["name,box_x0,box_y0,box_x1,box_y1"]
    for i in range(count):
        picture = np.zeros((60, 80, 3), np.uint8)
        picture[5:40, 10:70] = (200, 10 * i, 50)
        cv2.imwrite(str(folder / f"print_{i}.jpg"), picture)
        lines.append(f"print_{i},12,7,68,38")
    (folder / "index.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_train_and_test_share_nothing(tmp_path: Path) -> None:
    meshes, textures = write_meshes(tmp_path / "meshes", 11), write_textures(tmp_path / "textures", 12)
    for folders in ((None, None), (meshes, textures)):
        train, test = (make_library(split, *folders) for split in SPLITS)
        assert not {*train.objects, *train.textures} & {*test.objects, *test.textures}
        assert len(train.objects) > 2 * len(test.objects) > 0
    assert test.objects == ("thing_3", "thing_8"), "every fifth of 0, 1, 10, 2, ..., as they sort"
    assert {"print_4", "print_9"} <= set(test.textures) and "print_3" in train.textures


def test_meshes_and_textures_of_a_folder(tmp_path: Path) -> None:
    library = make_library("train", write_meshes(tmp_path / "m", 6), write_textures(tmp_path / "t", 6))
    mesh = library.mesh("thing_3")
    assert np.linalg.norm(mesh.vertices, axis=1).max() == pytest.approx(1)
    np.testing.assert_allclose(mesh.vertices.min(0) + mesh.vertices.max(0), 0, atol=1e-5)
    size = np.ptp(mesh.vertices, axis=0)
    np.testing.assert_allclose(size / size[0], [1, 2, 3], rtol=1e-4)
    texture = library.texture("print_1")
    assert texture.shape == (31, 56, 3)
    assert np.abs(texture.mean((0, 1)) - [50, 10, 200]).max() < 4, "RGB, and no filler"
    assert Renderer(SMALL, {"train": library}, "scalar_rgb").render("train", 0).frames.mean() > 0.1


@pytest.mark.parametrize("name", LIBRARIES["train"].objects[:8])
def test_generated_meshes_are_sound(name: str) -> None:
    mesh = procedural_mesh(name)
    assert mesh.faces.max() < len(mesh.vertices) == len(mesh.uv)
    assert mesh.uv.min() >= 0 and mesh.uv.max() <= 1
    corners = mesh.vertices[mesh.faces]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    assert areas.min() > 1e-9
    assert mesh.smooth == (not name.startswith("box"))


# Refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"focus_distances": ()}, ["focus_distances"]),
        ({"focus_distances": (0.1, 0.002)}, ["frame 1", "0.002 m", "millimetres"]),
        ({"focus_distances": (0.1, math.inf)}, ["finite", "frame 1"]),
        ({"focus_distances": (0.1, math.nan)}, ["finite", "frame 1"]),
        ({"focus_distances": (100.0, 150.0)}, ["100 m", "3 m", "millimetres"]),
        ({"size": (4, 64)}, ["size", "64 x 4"]),
        ({"samples": 0}, ["samples", "0"]),
        ({"near": 3.0}, ["near", "far", "3 m"]),
        ({"far": math.inf}, ["near", "far", "inf"]),
    ],
)
def test_settings_that_make_no_sense(change: dict[str, Any], words: list[str]) -> None:
    assert_one_sentence(message_of(lambda: RenderConfig(**change), ValueError), *words)


def test_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_sentence(message_of(lambda: load_mitsuba("optix"), ValueError), "'optix'", "scalar_rgb")
    assert load_mitsuba("auto").variant() in ("cuda_ad_rgb", "scalar_rgb")
    monkeypatch.setitem(__import__("sys").modules, "mitsuba", None)
    assert_one_sentence(message_of(load_mitsuba, ModuleNotFoundError), "pip install 'focalsweep-research'")


def test_bad_folders(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    few, meshes, textures = (tmp_path / name for name in ("few", "meshes", "textures"))
    write_meshes(few, 3)
    write_meshes(meshes, 6)
    write_textures(textures, 6)
    (tmp_path / "empty").mkdir()
    refusals: list[tuple[Any, type[Exception], list[str]]] = [
        (lambda: make_library("dev"), ValueError, ["train, test", "'dev'"]),
        (lambda: make_library("test", nowhere), FileNotFoundError, ["--meshes", "nowhere"]),
        (lambda: make_library("test", tmp_path / "empty"), FileNotFoundError, ["empty", ".npz"]),
        (lambda: make_library("test", few), ValueError, ["few", "3 meshes", "at least 5"]),
        (lambda: make_library("test", None, nowhere), FileNotFoundError, ["index.csv", "nowhere"]),
        (lambda: make_library("test", None, None, meshes), FileNotFoundError, ["--skies", ".hdr"]),
    ]
    for call, error, words in refusals:
        assert_one_sentence(message_of(call, error), *words)
    library = make_library("train", meshes, textures)
    (meshes / "thing_0.npz").write_bytes(b"PK")
    np.savez(meshes / "thing_1.npz", vertices=np.zeros((3, 3)), faces=np.zeros((1, 3), int))
    np.savez(meshes / "thing_2.npz", vertices=np.eye(3), uv=np.zeros((3, 2)), faces=np.array([[0, 1, 3]]))
    np.savez(meshes / "thing_3.npz", vertices=np.zeros((3, 3)), uv=np.zeros((3, 2)), faces=np.array([[0, 1, 2]]))
    (meshes / "thing_5.jpg").unlink()
    (textures / "print_0.jpg").write_bytes(b"no picture")
    for name, word in (("thing_0", "truncated"), ("thing_1", "'uv"), ("thing_2", "faces"), ("thing_3", "one place")):
        assert_one_sentence(message_of(lambda name=name: library.mesh(name), ValueError), name, word)
    assert_one_sentence(message_of(lambda: library.mesh("thing_5"), FileNotFoundError), "thing_5.jpg", "missing")
    assert_one_sentence(message_of(lambda: library.texture("print_0"), ValueError), "print_0.jpg", "picture")
    wrong = write_textures(tmp_path / "wrong", 6)
    (wrong / "index.csv").write_text("name,box\nprint_0,3\n")
    assert_one_sentence(message_of(lambda: make_library("train", None, wrong), ValueError), "index.csv", "box_x0")
