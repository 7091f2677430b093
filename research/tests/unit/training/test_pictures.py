"""Strips of validation pictures: the right panels in the right colours."""

import json
import math
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image
from research.tests.unit.training.toy import silent
from torch import Tensor, nn

from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training import pictures
from focalsweep_research.training.objectives import PaperObjective, Reading, SweepObjective, true_position
from focalsweep_research.training.pictures import (
    CAPTION_PX,
    ERROR_PLANES,
    GAP_PX,
    in_colour,
    make_pictures,
    panels,
    strip,
)
from focalsweep_research.training.run import run_training
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")
CONFIG = """
network = "sweepnet"
cost = "reblur"
steps = 2
batch_size = 2
learning_rate = 1e-3
image_size = [32, 32]
planes = 16
validation_samples = 2
[network_options]
volume_width = 8
context_width = 8
detail_width = 8
[data]
rays = 4
textures = 4
solids = 5
"""
TURBO = matplotlib.colormaps["turbo"]


@pytest.fixture(scope="module")
def sample() -> Sample:
    return make_source(GeneratorConfig(size=32, planes=16, rays=2, textures=4, solids=5, frames=(3, 3)))(0, 2, CPU)


def colour_of(value: float) -> Tensor:
    return torch.tensor(TURBO(round(255 * value) / 255)[:3], dtype=torch.float32)


def test_colours_run_from_blue_to_red_and_stop() -> None:
    picture = in_colour(torch.tensor([[-1.0, 0.0, 0.5, 1.0, math.inf]]))
    assert picture.shape == (3, 1, 5)
    expected = torch.stack([colour_of(value) for value in (0, 0, 0.5, 1, 1)], 1)[:, None]
    torch.testing.assert_close(picture, expected, atol=0.01, rtol=0)
    assert picture[2, 0, 1] > picture[0, 0, 1] and picture[0, 0, 3] > picture[2, 0, 3]


def test_a_right_answer_has_the_colours_of_the_truth_and_no_error(sample: Sample) -> None:
    position = true_position(sample)
    picture = torch.rand(2, 3, 32, 32)
    parts = dict(enumerate(panels(sample, Reading(picture, position, torch.full_like(position, 0.1)), 1)))
    assert torch.equal(parts[2][1], parts[3][1])
    assert torch.equal(parts[1][1], picture[1])
    assert torch.equal(parts[4][1], in_colour(torch.zeros(32, 32)))
    torch.testing.assert_close(parts[5][1][:, 0, 0], in_colour(torch.tensor([[0.1 * 15 / ERROR_PLANES]]))[:, 0, 0])
    flat = sample.depth[1].flatten()
    nearest, farthest = int(flat.argmin()), int(flat.argmax())
    true = parts[2][1].flatten(1)
    torch.testing.assert_close(true[:, nearest], colour_of(1.0))
    torch.testing.assert_close(true[:, farthest], colour_of(0.0))
    assert f"{flat.min():.3g} m to {flat.max():.3g} m" in parts[2][0]
    assert "frame 2 of 3" in parts[0][0] and f"{sample.stack.focus_distances[1, 1]:.3g} m" in parts[0][0]


def test_an_error_of_planes_has_its_colour(sample: Sample) -> None:
    position = true_position(sample)
    wrong = torch.where(position < 0.5, position + 2 / 15, position - 2 / 15)  # two planes off
    parts = panels(sample, Reading(sample.stack.images[:, 0], wrong, None), 0)
    assert len(parts) == 5  # no scale
    torch.testing.assert_close(parts[4][1], in_colour(torch.full((32, 32), 2 / ERROR_PLANES)), atol=0.02, rtol=0)


def test_a_stack_of_which_nothing_is_known_has_its_strip(sample: Sample) -> None:
    nowhere = replace(sample, depth=torch.full_like(sample.depth, torch.nan))  # all beyond the planes
    position = true_position(sample)
    parts = panels(nowhere, Reading(torch.rand(2, 3, 32, 32), position, None), 1)
    assert all(torch.isfinite(picture).all() for _, picture in parts)
    assert torch.equal(parts[3][1], in_colour(1 - position[1]))


def test_a_strip_has_its_panels_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PANEL_PX", 30)
    red, blue = torch.zeros(3, 8, 12), torch.zeros(3, 8, 12)
    red[0], blue[2] = 1, 1
    sheet = strip([("left", red), ("right", blue)])
    assert sheet.shape == (3, 3 * 8 + CAPTION_PX, 2 * 36 + GAP_PX)
    assert torch.equal(sheet[:, CAPTION_PX:, :36], red.repeat_interleave(3, 1).repeat_interleave(3, 2))
    assert torch.equal(sheet[:, CAPTION_PX:, 36 + GAP_PX :], blue.repeat_interleave(3, 1).repeat_interleave(3, 2))
    assert float(sheet[:, :CAPTION_PX, :36].max()) > 0.5  # there is a caption
    assert not bool(sheet[:, :, 36 : 36 + GAP_PX].any())


@pytest.mark.parametrize(
    ("network", "objective", "count"),
    [
        (SweepNet(volume_width=8, context_width=8, detail_width=8), SweepObjective(), 6),
        (
            PaperNet(16, encoder_channels=(8, 8, 8, 8, 8), refine_channels=(8, 8, 8)),
            PaperObjective("reblur"),
            5,
        ),
    ],
    ids=["sweepnet", "papernet"],
)
def test_both_networks_have_strips(
    sample: Sample, network: nn.Module, objective: SweepObjective | PaperObjective, count: int
) -> None:
    asked = []

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        asked.append((step, batch_size, device))
        return sample

    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        strips = make_pictures(objective, source)(network.eval())
    assert asked == [(0, pictures.STACKS, CPU)]
    assert list(strips) == ["validation_0", "validation_1"]
    width = 32 * math.ceil(pictures.PANEL_PX / 32)
    for picture in strips.values():
        assert picture.shape == (3, width + CAPTION_PX, count * (width + GAP_PX) - GAP_PX)
        assert 0 <= float(picture.min()) < float(picture.max()) <= 1


def test_a_training_run_leaves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "STACKS", 2)
    (tmp_path / "tiny.toml").write_text(CONFIG)
    outcome = run_training(tmp_path / "tiny.toml", tmp_path / "run", device=CPU, console=silent())
    names = sorted(path.name for path in (tmp_path / "run" / "pictures").iterdir())
    assert names == ["validation_0_0000002.png", "validation_1_0000002.png"]
    first, second = (np.asarray(Image.open(tmp_path / "run" / "pictures" / name)) for name in names)
    assert first.shape == second.shape and not np.array_equal(first, second)
    assert outcome.validation == json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["validation"]


def test_pictures_that_are_not_square_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.toml"
    path.write_text(CONFIG.replace("[32, 32]", "[32, 64]"))
    call = lambda: run_training(path, tmp_path / "run", device=CPU)  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "wide.toml", "square", "[32, 64]")
