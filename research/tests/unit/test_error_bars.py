"""The protocol `confidence`, in miniature: a method that knows its errors, one that does not, one that misleads."""

import io
import math
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep.methods import registry
from focalsweep.methods.method import Method, Options
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.protocols import error_bars
from focalsweep_research.protocols.error_bars import evaluate_confidence, plot_confidence
from focalsweep_research.protocols.generated import BATCH, batch_of
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.tables.tables import table_of

CPU = torch.device("cpu")
TINY = GeneratorConfig(size=24, planes=8, rays=4, textures=4, solids=5, frames=(2, 3), held_out=True)


def guess(bar: float, seed: int = 1) -> Any:
    """Errors of a Laplace distribution around 1 m whose std is 0.05 to 0.15 m, and says `bar` times that."""

    def read(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
        generator = torch.Generator().manual_seed(seed)
        shape = (len(stack.images), *stack.size)
        std = 0.05 + 0.1 * torch.rand(shape, generator=generator)
        uniform = torch.rand(shape, generator=generator) - 0.5
        error = -std / math.sqrt(2) * uniform.sign() * torch.log1p(-2 * uniform.abs())
        said = bar * std if bar else 0.2 - std
        return DepthPrediction(1 + error, said, torch.full(shape, 0.5), None)

    return read


def refuse(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    raise FrameCountError("reads 7 frames")


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def flat(config: GeneratorConfig, step: int, stacks: int, device: torch.device) -> Any:
        sample = batch_of(config, step, stacks, device)
        sample.depth.fill_(1.0)
        planes = DepthGrid.uniform_in_inverse_depth(0.5, 3.0, 8)
        return type(sample)(sample.stack, planes, sample.depth)

    methods = {"honest": guess(1), "too sure": guess(0.5), "misled": guess(0), "seven": refuse}
    for name, value in {"DATA": TINY, "STACKS": 2 * BATCH, "batch_of": flat}.items():
        monkeypatch.setattr(error_bars, name, value)
    for name, read in methods.items():
        monkeypatch.setitem(registry._METHODS, name, Method(name, "", read))
    said: list[str] = []
    found = evaluate_confidence(list(methods), None, "", CPU, said.append)
    assert found["stacks"] == 2 * BATCH and said == ["1 of 2", "2 of 2"]
    return found


def test_each_method_has_what_it_deserves(result: dict[str, Any]) -> None:
    honest, too_sure, misled, seven = result["rows"]
    assert honest["pixels"] == 2 * BATCH * 24 * 24
    assert honest["within_1_std"] == pytest.approx(1 - math.exp(-math.sqrt(2)), abs=0.02)
    assert honest["within_2_std"] == pytest.approx(1 - math.exp(-math.sqrt(8)), abs=0.02)
    assert honest["miscalibration"] < 0.02 < 0.1 < too_sure["miscalibration"]
    assert too_sure["within_2_std"] == pytest.approx(honest["within_1_std"])
    assert honest["ause_share"] == pytest.approx(too_sure["ause_share"])  # the order is the same
    assert misled["aurg_share"] < -0.05 < 0.05 < honest["aurg_share"]
    assert honest["mean_confidence"] == 0.5
    assert seven["note"] == "reads 7 frames" and seven["within_1_std"] is None


def test_table_and_picture(result: dict[str, Any]) -> None:
    text = table_of(result).markdown()
    assert "| seven | –" in text and "75.7" in text and "what error bars should have" in text
    picture = np.asarray(Image.open(io.BytesIO(plot_confidence(result))).convert("RGB"))
    assert picture.std() > 5
    with pytest.raises(ValueError, match="nyu has no curves: give one of evaluate confidence"):
        plot_confidence({"protocol": "nyu", "rows": []})
    assert list(result["curves"]) == ["honest", "too sure", "misled"]


def test_an_unknown_method_is_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"sweep.*'magic'"):
        evaluate_confidence(["magic"], None, "", CPU, print)
