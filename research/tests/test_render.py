"""`focalsweep render`: the files of DefocusNet's data set as other programs read them, resuming, sharing, refusals."""

import csv
import math
import tomllib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from focalsweep_research.benchmark.files import BenchmarkFiles
from focalsweep_research.benchmark.objects import make_library
from focalsweep_research.benchmark.renderer import RenderConfig, RenderedStack, Renderer, scene_of
from focalsweep_research.cli.render import read_picture_size
from tests.e2e.running import Run, assert_refused, contents, runner
from tests.errors import assert_one_sentence, message_of

pytest.importorskip("mitsuba", reason="Mitsuba comes with pip install 'focalsweep-research'")
OpenEXR = pytest.importorskip("OpenEXR", reason="OpenEXR comes with pip install 'focalsweep-research'")

QUICK = ["--size", "32", "--samples", "4", "--focus-distances", "0.1,0.3,1.5", "--variant", "scalar_rgb"]
SMALL = ["--train", "2", "--test", "1", *QUICK]
DISTANCES = (0.1, 0.3, 1.5)
STACKS = [("train", 0), ("train", 1), ("test", 0)]


def files_of(split: str, number: int) -> list[str]:
    return [*(f"{split}/{number:06d}_{i:02d}All.tif" for i in range(3)), f"{split}/{number:06d}Dpt.exr"]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered once; tests that change it work on a copy."""
    from focalsweep.cli.main import app

    folder = tmp_path_factory.mktemp("rendered") / "benchmark"
    app(["render", "-o", str(folder), "--quiet", *SMALL], standalone_mode=False)
    return folder


def test_the_files(benchmark: Path) -> None:
    expected = {name for stack in STACKS for name in files_of(*stack)} | {
        "stacks.toml",
        "index.csv",
        "contact_sheet.png",
    }
    assert {str(path.relative_to(benchmark)) for path in benchmark.rglob("*") if path.is_file()} == expected


def by_name(folder: Path) -> dict[Path, bytes | None]:
    return {path.relative_to(folder): content for path, content in contents(folder).items()}


def test_several_workers_make_the_same_files(benchmark: Path, tmp_path: Path, run: Run) -> None:
    done = run("render", "-o", tmp_path / "shared", "--workers", "2", *SMALL)
    assert done.status == 0, done.err
    assert by_name(tmp_path / "shared") == by_name(benchmark)
    assert "3 of 3" in done.err


def test_frames_as_pillow_and_opencv_read_them(benchmark: Path) -> None:
    for split, number in STACKS:
        frames = [np.asarray(Image.open(benchmark / name)) for name in files_of(split, number)[:3]]
        for name, pixels in zip(files_of(split, number), frames, strict=False):
            assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)
            np.testing.assert_array_equal(cv2.imread(str(benchmark / name))[..., ::-1], pixels)
            assert 40 < pixels.mean() < 190 and pixels.std() > 10, "neither black nor burnt out nor empty"
        assert not np.array_equal(frames[0], frames[1])


def test_depth_as_the_original_loader_reads_it(benchmark: Path) -> None:
    """Three channels R, G, B, their raw bytes half precision; ours in full beside them."""
    for split, number in STACKS:
        path = benchmark / f"{split}/{number:06d}Dpt.exr"
        file = OpenEXR.InputFile(str(path))
        window = file.header()["dataWindow"]
        assert (window.max.x - window.min.x + 1, window.max.y - window.min.y + 1) == (32, 32)
        red, green, blue = (np.frombuffer(data, np.float16).reshape(32, 32) for data in file.channels("RGB"))
        np.testing.assert_array_equal(red, green)
        np.testing.assert_array_equal(red, blue)
        full = OpenEXR.File(str(path)).channels()["Z"].pixels
        assert full.dtype == np.float32
        np.testing.assert_allclose(red, np.minimum(full, 3.0), rtol=1e-3)
        assert 0.1 < red.min() < red.max() / 1.5 <= 2


def test_depth_is_clipped_as_in_the_original(tmp_path: Path) -> None:
    config = RenderConfig(size=(8, 8), focus_distances=(1.0,))
    depth = np.full((8, 8), 0.25, np.float32)
    depth[0] = [0.1, 1.0, 2.99, 3.0, 3.01, 7.0, 1e6, np.inf]
    frames = np.full((1, 8, 8, 3), 0.5, np.float32)
    scene = scene_of(config, make_library("train"), 0)
    files = BenchmarkFiles(tmp_path, config)
    files.write_stack(("train", 12), RenderedStack(scene, frames, depth))
    written = OpenEXR.File(str(tmp_path / "train/000012Dpt.exr"), separate_channels=True).channels()
    np.testing.assert_allclose(written["R"].pixels[0], [0.1, 1.0, 2.99, 3, 3, 3, 3, 3], rtol=1e-3)
    np.testing.assert_array_equal(written["Z"].pixels, depth)
    with Image.open(tmp_path / "train/000012_00All.tif") as picture:
        assert np.unique(np.asarray(picture)).tolist() == [188], "0.5 of linear light in sRGB"


def test_settings(benchmark: Path) -> None:
    settings = tomllib.loads((benchmark / "stacks.toml").read_text())
    camera = settings["camera"]
    assert (camera["focal_length"], camera["f_number"]) == (0.0029, 1.0)
    assert camera["pixel_pitch"] == pytest.approx(3.1e-3 / 32)
    assert camera["aligned"] is True and camera["focus_reference"] == "lens"
    assert [frame["focus_distance"] for frame in settings["frame"]] == list(DISTANCES)
    for i, frame in enumerate(settings["frame"]):
        assert frame["magnification"] == pytest.approx((DISTANCES[i] - 0.0029) / DISTANCES[i])
        assert (benchmark / "train" / (frame["file"] % 1)).is_file()
    assert (benchmark / "test" / (settings["depth"]["file"] % 0)).is_file()


def test_a_stack_reads_as_a_focal_stack(benchmark: Path, tmp_path: Path) -> None:
    """The settings are what `load_stack` needs, once the names of a stack's files stand in them."""
    import focalsweep as fs

    text = (benchmark / "stacks.toml").read_text().split("[depth]")[0].replace("%06d", "000001")
    (tmp_path / "stack.toml").write_text(text)
    for i in range(3):
        name = f"000001_{i:02d}All.tif"
        (tmp_path / name).write_bytes((benchmark / "train" / name).read_bytes())
    stack = fs.load_stack(tmp_path)
    assert stack.images.shape == (3, 3, 32, 32)
    np.testing.assert_allclose(stack.focus_distances, DISTANCES)
    np.testing.assert_allclose(stack.magnification, [(d - 0.0029) / d for d in DISTANCES])


def test_index_says_what_is_where(benchmark: Path) -> None:
    with (benchmark / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["split"], int(row["stack"])) for row in rows] == STACKS
    seen: dict[str, set[str]] = {"train": set(), "test": set()}
    for row in rows:
        seen[row["split"]] |= {*row["objects"].split(), *row["textures"].split()}
    assert min(len(names) for names in seen.values()) > 10
    assert not seen["train"] & seen["test"]


def test_contact_sheet(benchmark: Path) -> None:
    sheet = np.asarray(Image.open(benchmark / "contact_sheet.png"))
    assert sheet.shape[1] == 1600 and sheet.shape[0] > 3 * 300
    assert sheet.std() > 20


def test_machines_share_the_work(benchmark: Path, run: Run, tmp_path: Path) -> None:
    """The second and third stack alone are the same bytes, and the index is whole on every machine."""
    done = run("render", "-o", tmp_path / "part", *SMALL, "--start", "1", "--count", "5")
    assert done.status == 0, done.err
    assert "2 stacks rendered, 0 were there" in done.err and "scalar_rgb" in done.err
    made = {path.relative_to(tmp_path / "part"): path for path in (tmp_path / "part").rglob("*.*")}
    assert {str(name) for name in made if name.parent.name} == {*files_of("train", 1), *files_of("test", 0)}
    for name, path in made.items():
        if name.name != "contact_sheet.png":
            assert path.read_bytes() == (benchmark / name).read_bytes(), name


def test_a_stopped_run_goes_on(
    benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = runner(capfd)
    before = {path.relative_to(benchmark): path.read_bytes() for path in benchmark.rglob("*.*")}
    for name, data in before.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    rendered: list[tuple[str, int]] = []
    original = Renderer.render

    def spy(self: Renderer, split: str, number: int, *more: Any) -> Any:
        rendered.append((split, number))
        return original(self, split, number, *more)

    monkeypatch.setattr(Renderer, "render", spy)
    assert run("render", "-o", tmp_path, *SMALL, "--train", "1").status == 0
    assert rendered == [], "all were there"
    assert (tmp_path / "index.csv").read_bytes() == before[Path("index.csv")], (
        "and those beyond the ones asked for stay"
    )
    (tmp_path / "train/000001_02All.tif").unlink()
    (tmp_path / "test/000000Dpt.exr").write_bytes(b"")
    assert run("render", "-o", tmp_path, *SMALL).status == 0
    assert rendered == [("train", 1), ("test", 0)]
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_failure_leaves_no_half_stack(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tifffile

    written: list[int] = []

    def full_disk(*_: Any, **__: Any) -> None:
        written.append(1)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tifffile, "imwrite", full_disk)
    assert_refused(run("render", "-o", tmp_path / "out", *SMALL, "--quiet"), "no space left")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["index.csv", "stacks.toml"]


def test_another_camera(run: Run, tmp_path: Path) -> None:
    lens = ["--focal-length-mm", "50", "--f-number", "2", "--pixel-pitch-um", "900"]
    where = ["--focus-distances", "0.6,4", "--near", "0.5", "--far", "6", "--size", "40x24"]
    arguments = ["--train", "1", "--test", "0", "--samples", "4", "--variant", "scalar_rgb", *lens, *where]
    done = run("render", "-o", tmp_path / "out", *arguments)
    assert done.status == 0, done.err
    with Image.open(tmp_path / "out/train/000000_01All.tif") as picture:
        assert picture.size == (40, 24)
    depth = OpenEXR.File(str(tmp_path / "out/train/000000Dpt.exr")).channels()["Z"].pixels
    assert depth.shape == (24, 40) and depth.min() > 0.5
    settings = tomllib.loads((tmp_path / "out/stacks.toml").read_text())
    assert settings["camera"]["pixel_pitch"] == pytest.approx(9e-4)
    assert settings["frame"][1]["magnification"] == pytest.approx(3.95 / 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "big"], ["--size", "'big'", "384x256"]),
        (["--size", "4"], ["size", "4 x 4"]),
        (["--focus-distances", "0.1,near"], ["--focus-distances", "0.1,near"]),
        (["--focus-distances", "100,150"], ["focus_distances", "100 m", "millimetres"]),
        (["--focal-length-mm", "-3"], ["--focal-length-mm", "-3"]),
        (["--f-number", "0"], ["--f-number", "0"]),
        (["--pixel-pitch-um", "nan"], ["--pixel-pitch-um", "nan"]),
        (["--samples", "0"], ["samples", "0"]),
        (["--near", "2"], ["near", "2 and 3 m"]),
        (["--start", "7"], ["--start 7", "3 stacks"]),
        (["--train", "0", "--test", "0"], ["0 stacks"]),
        (["--count", "0"], ["--count"]),
        (["--variant", "blender"], ["'blender'", "scalar_rgb"]),
        (["--meshes", "nowhere"], ["--meshes nowhere"]),
        (["--textures", "nowhere"], ["nowhere", "index.csv"]),
        (["--skies", "nowhere"], ["--skies nowhere"]),
    ],
)
def test_bad_input(
    arguments: list[str], words: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(run("render", "-o", "out", *SMALL, *arguments), *words)
    assert contents(tmp_path) == {}


def test_a_folder_of_other_settings_is_refused(benchmark: Path, run: Run, tmp_path: Path) -> None:
    before = contents(benchmark)
    for arguments, words in (
        (["--seed", "5"], ["render.seed 0, not 5"]),
        (["--f-number", "2"], ["camera.f_number 1.0, not 2.0"]),
        (["--focus-distances", "0.1,0.3"], ["frame"]),
        (["--samples", "9"], ["render.samples 4, not 9"]),
    ):
        assert_refused(run("render", "-o", benchmark, *SMALL, *arguments), "another folder", *words)
    (tmp_path / "stacks.toml").write_text("[camera")
    assert_refused(run("render", "-o", tmp_path, *SMALL), "stacks.toml", "TOML")
    (tmp_path / "file").write_text("")
    assert_refused(run("render", "-o", tmp_path / "file", *SMALL), "--output", "is a file")
    assert contents(benchmark) == before


def test_sizes() -> None:
    assert read_picture_size("256") == (256, 256)
    assert read_picture_size(" 384X256 ") == (256, 384)
    for text in ("", "1.5", "-3", "3x", "3x4x5"):
        assert_one_sentence(message_of(lambda text=text: read_picture_size(text), ValueError), "--size", repr(text))
    assert math.isfinite(3100 / read_picture_size("31")[1])
