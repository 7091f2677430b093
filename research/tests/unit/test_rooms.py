"""`render rooms` and `evaluate rooms` in miniature: files, groups of pixels, figures that can be told beforehand."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focalsweep.methods import registry
from focalsweep.methods.method import Method, Options
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.benchmark.objects import make_library
from focalsweep_research.benchmark.renderer import RenderConfig, Renderer
from focalsweep_research.benchmark.scenes import camera_axes
from focalsweep_research.datasets.rooms import Rooms
from focalsweep_research.protocols.methods import compared
from focalsweep_research.protocols.rooms import (
    EDGE_PX,
    evaluate_rooms,
    near_edges,
    pixel_groups,
    smooth_cells,
    stack_groups,
)
from focalsweep_research.rooms.building import Sight
from focalsweep_research.rooms.files import RoomFiles
from focalsweep_research.rooms.plugins import room_spec
from focalsweep_research.rooms.renderer import RenderedRoom, RoomRenderer, RoomsConfig, covariance_root, plan
from focalsweep_research.rooms.scenes import Room
from focalsweep_research.rooms.solids import Surface, quad
from focalsweep_research.tables.tables import table_of
from tests.e2e.running import Run, assert_refused
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")
LIBRARY = make_library("test")
CONFIG = RoomsConfig(samples=4, seed=1, reduction=12)
STACKS = [("phone", 0), ("slr", 1)]
HEIGHT, WIDTH = 32, 42


def made(stack: tuple[str, int]) -> RenderedRoom:
    """A wall at 1 m on the left, at 2 m on the right; plain above, faint in the middle, textured below."""
    planned = plan(CONFIG, LIBRARY, stack)
    assert planned.config.size == (HEIGHT, WIDTH)
    frames = np.random.default_rng(0).uniform(0.1, 0.9, (len(planned.config.focus_distances), HEIGHT, WIDTH, 3))
    depth, texture = np.ones((HEIGHT, WIDTH)), np.full((HEIGHT, WIDTH), 0.002)
    depth[:, WIDTH // 2 :] = 2
    texture[10:20], texture[20:] = 0.02, 0.1
    return RenderedRoom(planned, *(values.astype(np.float32) for values in (frames, depth, texture)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = RoomFiles(tmp_path_factory.mktemp("made") / "rooms", CONFIG, LIBRARY)
    files.write_settings()
    for stack in STACKS:
        assert not files.has(stack)
        files.write_stack(stack, made(stack))
        assert files.has(stack)
    return files.folder


def one_metre(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """Right on the left half, half the depth on the right."""
    depth = torch.ones(len(stack.images), *stack.size)
    return DepthPrediction(depth, 0.3 * depth, 0.5 * depth)


def test_a_stack_reads_as_it_was_rendered(folder: Path) -> None:
    rooms = Rooms(folder)
    assert len(rooms) == 2
    clean, flawed = (rooms.read(place) for place in range(2))
    assert (clean.camera, clean.flawed, flawed.camera, flawed.flawed) == ("phone", False, "slr", True)
    for room, stack in ((clean, STACKS[0]), (flawed, STACKS[1])):
        rendered = made(stack)
        config = rendered.planned.config
        np.testing.assert_allclose(room.item.depth, rendered.depth, rtol=6e-5)
        np.testing.assert_allclose(room.texture, rendered.texture, atol=5e-4)
        np.testing.assert_allclose(room.item.stack.focus_distances, config.focus_distances)
        np.testing.assert_allclose(room.item.stack.magnification, config.magnifications)
        assert room.item.stack.camera.pixel_pitch == pytest.approx(config.camera.pixel_pitch)
    np.testing.assert_allclose(clean.item.stack.images, made(STACKS[0]).frames.transpose(0, 3, 1, 2), atol=5e-3)
    assert flawed.item.stack.images.shape[0] == 7


def test_groups_of_pixels(folder: Path) -> None:
    room = Rooms(folder).read(0)
    groups = pixel_groups(room)
    assert torch.stack(list(groups.values())).int().sum(0).eq(1).all(), "every pixel is in one"
    columns = torch.nonzero(groups["edges"].all(0)).flatten().tolist()
    assert columns == list(range(WIDTH // 2 - 1 - EDGE_PX, WIDTH // 2 + 1 + EDGE_PX))
    assert groups["plain"][:10, 0].all() and groups["faint"][10:20, 0].all() and groups["textured"][20:, 0].all()
    assert {"all", "clean", "phone", "phone, clean"} < set(stack_groups(room))


def test_planes_have_no_edges_however_steep() -> None:
    rows, columns = torch.meshgrid(torch.arange(40.0), torch.arange(60.0), indexing="ij")
    steep = 1 / (0.05 + 0.02 * rows + 0.03 * columns)
    assert not near_edges(steep).any()
    corner = 1 / torch.maximum(0.5 + 0.004 * columns, 0.9 - 0.004 * columns)
    assert not near_edges(corner).any(), "two walls meet"
    step = torch.where(rows < 20, steep, 1.1 * steep)
    assert near_edges(step)[20 - 1 - EDGE_PX : 20 + 1 + EDGE_PX].all()
    assert not near_edges(step)[: 20 - 1 - EDGE_PX].any()


def test_figures_of_a_made_example(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry._METHODS, "one-metre", Method("one-metre", "", one_metre))
    said: list[str] = []
    result = evaluate_rooms({"one-metre": compared("one-metre")}, folder, CPU, said.append, pictures=tmp_path)
    assert said == ["1 of 2", "2 of 2"] and result["stacks"] == 2
    rows = {row["group"]: row for row in result["rows"]}
    assert rows["all"]["abs_rel"] == pytest.approx(0.25, rel=1e-3)
    assert rows["all"]["rmse"] == pytest.approx(math.sqrt(0.5), rel=1e-3)
    assert rows["all"]["delta_1.05"] == pytest.approx(0.5)
    assert rows["all"]["within_1_std"] == pytest.approx(0.5)
    for camera, other in (("phone, clean", "phone, flawed"), ("slr, flawed", "slr, clean")):
        assert rows[camera]["pixels"] == HEIGHT * WIDTH and other not in rows
    parts = [rows[group]["pixels"] for group in ("plain", "faint", "textured", "edges")]
    assert parts == [2 * 10 * 32, 2 * 10 * 32, 2 * 12 * 32, 2 * 32 * 10]
    assert sum(row["pixels"] for group, row in rows.items() if group.startswith("blur")) == rows["all"]["pixels"]
    assert all(row["miscalibration"] is not None and row["ause_share"] is not None for row in rows.values())
    assert (tmp_path / "depths.png").is_file()
    markdown = table_of(result).markdown()
    assert "| all | one-metre | 0.250 | 0.707 | 50.0 |" in markdown


def test_agreement_over_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One depth for all sizes agrees; one that grows with the size does not, nor do cells with an edge count."""
    monkeypatch.setattr("focalsweep_research.protocols.rooms.LEAST_PX", 8)
    room = Rooms(folder).read(0)
    cells = list(smooth_cells(room, CPU))
    assert len(cells) == 8 * 6, "two of eight columns touch the jump"

    def grows(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
        depth = torch.full((len(stack.images), *stack.size), float(stack.size[1]))
        return DepthPrediction(depth, 0.1 * depth, torch.full_like(depth, 0.5))

    for read, share in ((one_metre, 1.0), (grows, 0.0)):
        monkeypatch.setitem(registry._METHODS, "sized", Method("sized", "", read))
        rows = evaluate_rooms({"sized": compared("sized")}, folder, CPU, lambda text: None)["rows"]
        (every,) = (row for row in rows if row["group"] == "all")
        assert every["size_alike"] == share and every["size_agreement"] == share


def test_what_is_no_room_is_refused(folder: Path, tmp_path: Path) -> None:
    one = tmp_path / "rooms" / "phone_00"
    one.mkdir(parents=True)
    for path in (folder / "phone_00").iterdir():
        (one / path.name).write_bytes(path.read_bytes())
    (one / "room.json").write_text(json.dumps({"camera": "phone"}))
    message = message_of(lambda: Rooms(tmp_path / "rooms").read(0), ValueError)
    assert_one_sentence(message, "phone_00", "room.json", "evaluate measured")


def test_texture_is_what_two_noisy_pictures_share() -> None:
    rng = np.random.default_rng(2)
    columns = np.arange(120)
    scene = np.where(columns < 60, 0.3, 0.3 + 0.05 * (columns % 2))[None].repeat(60, 0)
    first, second = (scene + rng.normal(0, 0.02, scene.shape) for _ in range(2))
    texture = covariance_root(first, second)
    assert np.median(texture[:, :50]) < 0.004, "the noise is off"
    assert np.median(texture[:, 70:]) == pytest.approx(0.025, rel=0.1)


@pytest.mark.slow
def test_depth_of_a_floor_by_mitsuba() -> None:
    """A plane at a height below a camera that looks down by an angle: depth in closed form, the room scaled."""
    pytest.importorskip("mitsuba")
    pitch, height, scale = math.radians(35), 0.8, 0.5
    config = RenderConfig(replace(RenderConfig(), size=(12, 16)).camera, size=(12, 16), samples=1)
    sight = Sight(np.array([0.0, 0, height]), camera_axes(pitch, 0.0), config.view.half_width, config.view.half_height)
    grey = Surface("", np.full((4, 4, 3), 128, np.uint8), 1.0)
    floor = quad("floor", [(-50, -50, 0), (50, -50, 0), (50, 50, 0), (-50, 50, 0)], grey)
    room = Room("plane", sight, [floor], [], "", 0.0, True, scale)
    renderer = Renderer(config, {}, "scalar_rgb")
    depth = renderer.depth(renderer.mitsuba.load_dict(room_spec(renderer.mitsuba, room, LIBRARY)), sight.axes)
    down = (np.arange(12) + 0.5 - 6) / config.focal_px  # of the pixels' rays
    expected = scale * height / (math.sin(pitch) + down * math.cos(pitch))
    np.testing.assert_allclose(depth, np.broadcast_to(expected[:, None], (12, 16)), rtol=1e-5)


@pytest.mark.slow
def test_rendered_from_the_command_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mitsuba")
    quick = ["--samples", "1", "--reduction", "16", "--variant", "scalar_rgb"]
    done = run("render", "rooms", "-o", tmp_path / "rooms", "--count", "2", "--workers", "2", *quick)
    assert done.status == 0, done.err
    assert "2 stacks rendered, 0 were there" in done.err
    rooms = Rooms(tmp_path / "rooms")
    assert [rooms.read(place).camera for place in range(2)] == ["phone", "slr"]
    assert (tmp_path / "rooms/contact_sheet.png").is_file()
    before = {path: path.read_bytes() for path in (tmp_path / "rooms").glob("slr*/*")}
    for path in before:
        path.unlink()
    monkeypatch.setattr(RoomFiles, "write_sheet", lambda self: None)
    done = run("render", "rooms", "-o", tmp_path / "rooms", "--count", "2", *quick)
    assert "1 stacks rendered, 1 were there" in done.err
    assert {path: path.read_bytes() for path in before} == before, "the same in another process"
    other = ["--count", "1", *quick, "--seed", "5"]
    assert_refused(run("render", "rooms", "-o", tmp_path / "rooms", *other), "another folder", "seed 0, not 5")
    done = run("evaluate", "rooms", "--data", tmp_path / "rooms", "--methods", "argmin", "-o", tmp_path / "result.json")
    assert done.status == 0, done.err
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert {row["group"] for row in rows} >= {"all", "clean", "phone", "slr", "edges"}
    assert (tmp_path / "result.md").read_text().startswith("| group | method |")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["houses"], ["'houses'", "benchmark or rooms"]),
        (["rooms", "--near", "1"], ["--near", "render benchmark"]),
        (["--reduction", "2"], ["--reduction", "render rooms"]),
        (["rooms", "--start", "60"], ["--start 60", "60 stacks"]),
        (["rooms", "--samples", "0"], ["samples", "0"]),
    ],
)
def test_bad_input(arguments: list[str], words: list[str], run: Run, tmp_path: Path) -> None:
    assert_refused(run("render", *arguments, "-o", tmp_path / "out"), *words)
    assert not (tmp_path / "out").exists()


def test_a_renderer_opens_again_in_another_process() -> None:
    pytest.importorskip("mitsuba")
    renderer: Any = RoomRenderer(CONFIG, LIBRARY, "scalar_rgb")
    again = renderer.reopen()
    assert again.config == CONFIG and again.variant == "scalar_rgb"
    assert [renderer.frame_count(stack) for stack in (("phone", 0), ("slr", 0), ("paper", 0))] == [5, 7, 5]
