"""TensorBoard: what a run writes is what its own reader finds."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from research.tests.unit.training.toy import silent, toy_config, toy_loss, toy_network, toy_source
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn

from focalsweep_research.synthesis.sample import Sample, Source
from focalsweep_research.training.loop import train

PICTURE = (np.arange(60, dtype=np.float32).reshape(3, 4, 5) * 4 + 3) / 255


def run(folder: Path, source: Source = toy_source, resume: bool = False, **changes: Any) -> str:
    """A toy run with pictures; what it said."""

    def pictures(network: nn.Module) -> dict[str, Tensor]:
        return {"validation_0": torch.from_numpy(PICTURE)}

    console = silent()
    train(
        toy_config(**changes),
        toy_network(),
        source,
        toy_loss,
        folder,
        validation_source=toy_source,
        pictures=pictures,
        resume=resume,
        console=console,
    )
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def read_back(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return events


def test_curves_and_pictures_can_be_read_back(tmp_path: Path) -> None:
    assert "TensorBoard" not in run(tmp_path, steps=4, validate_every=2)
    events = read_back(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged, validated = ([line for line in lines if key in line] for key in ("loss", "validation"))
    for name in ("loss", "learning_rate", "gradient_norm"):
        curve = {event.step: event.value for event in events.Scalars(f"train/{name}")}
        assert list(curve) == [1, 2, 3, 4]
        np.testing.assert_allclose(list(curve.values()), [line[name] for line in logged], rtol=1e-6)
    worst = [event.value for event in events.Scalars("train/worst")]
    np.testing.assert_allclose(worst, [line["figures"]["worst"] for line in logged], rtol=1e-6)
    curve = {event.step: event.value for event in events.Scalars("validation/loss")}
    assert list(curve) == [2, 4]
    np.testing.assert_allclose(list(curve.values()), [line["validation"]["loss"] for line in validated], rtol=1e-6)

    images = events.Images("validation_0")
    assert [image.step for image in images] == [2, 4]
    for image in images:
        pixels = np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
        np.testing.assert_array_equal(pixels, np.round(PICTURE.transpose(1, 2, 0) * 255))


def test_a_resumed_run_has_every_step_once(tmp_path: Path) -> None:
    """A crash after step 3 with a checkpoint of step 2: step 3 is done again, its curve is not doubled."""

    def failing(step: int, batch_size: int, device: torch.device) -> Sample:
        if step == 3:
            raise RuntimeError("the power is out")
        return toy_source(step, batch_size, device)

    with pytest.raises(RuntimeError, match="power"):
        run(tmp_path, failing, checkpoint_every=2)
    assert [event.step for event in read_back(tmp_path).Scalars("train/loss")] == [1, 2, 3]
    run(tmp_path, resume=True, checkpoint_every=2)
    assert [event.step for event in read_back(tmp_path).Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]
