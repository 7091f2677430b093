"""The paper's method with a small network that was packed into a folder of the test."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, DepthPrediction, FocalStack, Options, coc_px, estimate_depth
from focalsweep.methods import paper
from focalsweep.methods.paper import PAPER_PLANES, planes_over, within_blur
from focalsweep.model import weights
from focalsweep.model.papernet import PaperNet
from focalsweep.model.quantised import pack
from focalsweep.model.weights import PAPERNET, load_papernet, papernet_about
from focalsweep.optics.light import linear_to_srgb
from focalsweep.sweep.volume import cost_volume
from tests.errors import assert_one_sentence, message_of
from tests.rendering import render_plane

OPTIONS: dict[str, Any] = {"encoder_channels": [8, 8, 8, 8, 8], "refine_channels": [8, 8, 8]}


def small_network() -> PaperNet:
    torch.manual_seed(3)
    network = PaperNet(**OPTIONS)
    for name, value in network.state_dict().items():  # as if it were trained: norms of their own, offsets too
        if name.endswith(("running_mean", "offsets.weight")):
            value.normal_(0, 0.2)
        elif name.endswith("score.weight"):
            value.mul_(40)
    return network.eval()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    (tmp_path / PAPERNET).write_bytes(pack(small_network().state_dict(), {"options": OPTIONS}))
    return tmp_path


def a_stack(size: int = 40) -> FocalStack:
    return render_plane("dslr", 1.3, size=size).stack


def test_the_method_is_network_cost_and_planes_of_the_paper(folder: Path) -> None:
    stack = a_stack()
    result = estimate_depth(stack, "paper", planes=DepthGrid.uniform_in_inverse_depth(0.8, 2.4, 16))
    planes = DepthGrid.uniform_in_depth(0.08, 2.4)  # 0.1 to 3 m, times 0.8
    volume = cost_volume(stack, planes, "paper")[None]
    farthest = linear_to_srgb(stack.images[int(stack.focus_distances.argmax())])[None]
    with torch.no_grad():
        expected = small_network().predict(farthest, volume, planes.as_batch(1))
    np.testing.assert_allclose(result.depth, expected.depth[0], rtol=0.02)  # 8 bits are not 32
    np.testing.assert_allclose(result.std, expected.std[0], rtol=0.05)
    assert result.depth.std() > 0.05
    told = result.record["planes"]
    assert (told["count"], told["near"], told["far"]) == (64, pytest.approx(0.08), pytest.approx(2.4))


def test_lengths_times_a_factor_are_depth_times_that_factor(folder: Path) -> None:
    stack, planes = a_stack(), DepthGrid.uniform_in_inverse_depth(0.8, 2.4, 16)
    near = estimate_depth(stack, "paper", planes=planes)
    far = estimate_depth(stack.scaled(7.0), "paper", planes=planes.scaled(7.0))
    np.testing.assert_allclose(far.depth, 7 * near.depth, rtol=1e-3)


def test_the_papers_planes_stay_themselves() -> None:
    for planes in (PAPER_PLANES, planes_over(DepthGrid.uniform_in_inverse_depth(2.0, math.inf))):
        torch.testing.assert_close(planes_over(planes).depths, planes.depths)


def test_planes_far_before_the_scene_are_swept_where_blur_ends() -> None:
    stack = a_stack()
    planes = planes_over(DepthGrid.uniform_in_inverse_depth(1.9, 2.0, 8))  # from 0.067 m on
    swept = within_blur(stack, planes, 20.0)
    blur = torch.stack([coc_px(swept.depths[0], d, stack.camera) for d in stack.focus_distances.tolist()]).amax(0)
    assert blur.max().item() == pytest.approx(20, rel=1e-3)
    free = blur < 19.99
    torch.testing.assert_close(swept.depths[0][free], planes.depths[free])
    assert 1 < free.sum() < 64
    assert within_blur(stack, planes, 1e6) is planes


def test_a_narrow_range_far_away_is_read(folder: Path) -> None:
    result = estimate_depth(a_stack(), "paper", planes=DepthGrid.uniform_in_inverse_depth(19.0, 20.0, 8))
    assert np.isfinite(result.depth).all() and result.depth.max() <= 20


def test_gray_stacks_and_others(folder: Path) -> None:
    """Gray is RGB of three equal channels."""
    images, camera = a_stack().images[:3], Camera(0.05, 2.8, 6e-5)
    gray = FocalStack(images[:, :1].double(), [0.8, 1.2, math.inf], camera)
    grays = FocalStack(images[:, :1].expand(-1, 3, -1, -1), [0.8, 1.2, math.inf], camera)
    results = [estimate_depth(stack, "paper") for stack in (gray, grays)]
    np.testing.assert_allclose(results[0].depth, results[1].depth, rtol=1e-4)
    assert np.isfinite(results[0].depth).all()
    four = FocalStack(images[:, :1].expand(-1, 4, -1, -1), [0.8, 1.2, 2.0], camera)
    assert_one_sentence(message_of(lambda: estimate_depth(four, "paper"), ValueError), "4 channels", "argmin")


def paper_depth(stack: FocalStack, planes: DepthGrid, workspace: int | None = None, **settings: str) -> DepthPrediction:
    return paper.paper_depth(stack, planes, Options(workspace, settings=settings))


def test_tiles_agree_with_the_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, told = a_stack(160), list[tuple[str, float]]()
    planes = DepthGrid.around(stack, 8)
    whole = paper_depth(stack.as_batch(), planes, size="full")
    monkeypatch.setattr(paper, "TILING", replace(paper.TILING, halo_px=64))
    bound = 128 * 192 * paper.BYTES_A_PIXEL  # a tile of 64 px in a corner, not one of 128
    options = Options(bound, lambda *news: told.append(news), {"size": "full"})
    tiled = paper.paper_depth(stack.as_batch(), planes, options)
    difference = (tiled.depth - whole.depth).abs() / whole.depth
    assert 0 < difference.mean() < 0.01 < (whole.depth.std() / whole.depth.mean())
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 4
    assert tiled.probabilities is None


def test_tiles_fit_into_the_workspace() -> None:
    def rows(workspace: int | None) -> int:
        return len({tile.core[0].start for tile in paper.TILING.cut((4096, 6144), workspace)})

    assert rows(None) == rows(3 * 10**9) == 8  # of 512 px
    assert rows(10**9) == 16 and rows(10**8) == 64


def test_wide_blur_is_read_at_a_size_where_it_is_as_in_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []
    at_size = paper._depth_at_size

    def remember(stack: FocalStack, *others: Any) -> Any:
        sizes.append(stack.size)
        return at_size(stack, *others)

    monkeypatch.setattr(paper, "_depth_at_size", remember)
    stack = a_stack(160)
    planes = DepthGrid.around(stack, 8)
    widest = float(coc_px(planes.depths, stack.focus_distances[:, None], stack.camera).abs().max())
    for seen, expected in ((2 * widest, 160), (widest / 2, 80), (widest / 8, paper.SMALLEST_PX)):
        monkeypatch.setattr(paper, "SEEN_BLUR_PX", seen)
        found = paper_depth(stack.as_batch(), planes)
        assert sizes.pop() == (expected, expected) and found.depth.shape == (1, 160, 160)
    monkeypatch.setattr(paper, "SEEN_BLUR_PX", widest / 2)
    # The range that is asked for counts, not that of the network's planes.
    estimate_depth(stack, "paper", planes=planes)
    assert sizes.pop() == (80, 80)
    small = at_size(stack.as_batch().resized(0.5), planes, Options(), None)
    found = paper_depth(stack.as_batch(), planes)
    paper_depth(stack.as_batch(), planes, size="full")
    assert [sizes.pop() for _ in range(2)] == [(160, 160), (80, 80)]
    means = torch.nn.functional.avg_pool2d(1 / found.depth, 2)
    torch.testing.assert_close(means[:, 2:-2, 2:-2], (1 / small.depth)[:, 2:-2, 2:-2], rtol=0.05, atol=0)


def test_without_the_file_there_is_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    message = message_of(lambda: estimate_depth(a_stack(24), "paper"), FileNotFoundError)
    assert_one_sentence(message, PAPERNET, "configs/paper-defocusnet.toml", "pack_papernet.py")


def test_weights_of_another_network_are_refused(folder: Path) -> None:
    (folder / PAPERNET).write_bytes(pack(PaperNet(**OPTIONS).state_dict(), {"options": {}}))
    assert_one_sentence(message_of(load_papernet, ValueError), PAPERNET, "shape")


def test_what_ships_tells_its_whole_training() -> None:
    about = papernet_about()
    steps = [int(word) for word in re.findall(r"\d{4}", about["recipe"].partition("cycles")[2])]
    assert sum(steps) == 27023 and len(steps) == 4
    assert "Google Scanned Objects" in about["attribution"] and "CC BY 4.0" in about["attribution"]
    assert about["options"] == {"planes": 64}
