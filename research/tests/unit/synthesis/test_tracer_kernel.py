"""The tracer on a GPU against its plain twin: furnished worlds through lenses with flaws, lit by lamps with shadows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from focalsweep_research.synthesis import tracer
from focalsweep_research.synthesis.generator import atlas_of, draw_scenes, trace
from focalsweep_research.synthesis.generator_config import GeneratorConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

CONFIG = GeneratorConfig(
    size=96, whole=96, frames=(3, 3), rays=24, textures=8, more_textures=8, worlds=0.75, photographs=1.0, lights=0.2
)


@pytest.mark.parametrize("parts", [0.0, 1.0])
def test_the_kernel_sees_what_its_plain_twin_sees(parts: float, monkeypatch: pytest.MonkeyPatch) -> None:
    device, config = torch.device("cuda"), replace(CONFIG, parts=parts)
    atlas = atlas_of(config)
    drawing = draw_scenes(config, atlas.count, 3, 6)
    assert (drawing.parts is not None) == bool(parts)
    quick = trace(config, atlas.to(device), drawing, 3, device)
    again = draw_scenes(config, atlas.count, 3, 6)  # cameras are drawn on
    monkeypatch.setattr(tracer, "triton_serves", lambda tensor: False)
    plain = trace(config, atlas.to(device), again, 3, device)
    for one, other in ((quick, plain), *([(quick.whole, plain.whole)] if parts else [])):
        assert one is not None and other is not None
        # Rays along an edge end on either side of it: rounding decides, and few pixels have such rays.
        apart = (one.images - other.images).abs().amax(2)
        assert (apart > 0.02).float().mean() < 0.005
        assert np.quantile(apart.cpu().numpy(), 0.98) < 2e-3
        assert torch.isclose(one.depth, other.depth, rtol=1e-4, atol=0).float().mean() > 0.998
        wrong = (one.images - other.images.flip(-1)).abs().amax(2)
        assert (wrong > 0.02).float().mean() > 0.1  # this can fail
