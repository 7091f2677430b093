"""Suwajanakorn's method: stitching, re-blurring and depth, each where the answer is known."""

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, coc_px
from focalsweep.methods.method import Options
from focalsweep.methods.registry import choose_method
from focalsweep.optics.light import linear_to_srgb
from focalsweep_research.rivals import suwajanakorn
from focalsweep_research.rivals.mrf import Labelling
from focalsweep_research.rivals.suwajanakorn import _between_planes, reblur_costs, solve, stitch
from tests.rendering import RIGS, render_plane

SIZE = 48


def halves(rig: str, near: float, far: float) -> FocalStack:
    """Two rendered planes side by side, frames in a shuffled order."""
    left, right = (render_plane(rig, depth, size=SIZE, seed=seed).stack for depth, seed in ((near, 0), (far, 1)))
    images = torch.cat([left.images[..., : SIZE // 2], right.images[..., SIZE // 2 :]], -1).clamp(0, 1)
    order = [3, 0, 4, 2, 1]
    return FocalStack(images[order], left.focus_distances[order], left.camera).as_batch()


def test_stitching_takes_the_frame_in_focus() -> None:
    stack = halves("dslr", 1.0, 2.0)  # both are focus distances
    found = stitch(linear_to_srgb(stack.images), stack.focus_distances)
    chosen = stack.focus_distances[0][found.labels[0]]
    middle = SIZE // 2
    assert (chosen[:, : middle - 4] == 1.0).double().mean() > 0.9
    assert (chosen[:, middle + 4 :] == 2.0).double().mean() > 0.9
    assert -1e-6 <= found.gap.item() < 0.2


@pytest.mark.parametrize(("rig", "depth"), [("phone", 0.4), ("dslr", 1.3), ("paper", 0.25)])
def test_the_true_plane_explains_the_frames(rig: str, depth: float) -> None:
    """With the picture that is really sharp, the lowest cost is at the plane nearest the truth."""
    rendered = render_plane(rig, depth, size=SIZE)
    stack = rendered.stack.as_batch()
    planes = DepthGrid.around(stack, 33)
    costs = reblur_costs(stack, planes, rendered.sharp[None])
    assert costs.min() >= 0 and costs.max() <= 1
    inside = costs[0, :, 8:-8, 8:-8]
    best = int(inside.mean((1, 2)).argmin())
    expected = int((planes.inverse_depths[0] - 1 / depth).abs().argmin())
    print(f"{rig}: plane {best}, expected {expected} of {planes.count}")
    assert abs(best - expected) <= 1
    assert float(coc_px(planes.depths.max(), depth, RIGS[rig].camera)) > 1  # so that planes differ


def test_depth_of_two_planes() -> None:
    stack = halves("dslr", 1.0, 2.0)
    planes = DepthGrid.around(stack, 24)
    shares: list[float] = []
    found = solve(stack, planes, progress=lambda _, share: shares.append(share))
    depth = 1 / found.inverse_depth[0]
    middle = SIZE // 2
    print(f"medians {depth[:, :middle].median():.3f}, {depth[:, middle:].median():.3f} m, gap {found.gap.item():.3f}")
    assert depth[:, : middle - 4].median().item() == pytest.approx(1.0, rel=0.06)
    assert depth[:, middle + 4 :].median().item() == pytest.approx(2.0, rel=0.06)
    assert shares == sorted(shares) and shares[-1] == 1
    assert -1e-6 <= found.gap.item() < 0.3
    assert found.picture.shape == (1, 3, SIZE, SIZE)


def test_it_is_a_method_and_a_small_workspace_means_a_smaller_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render_plane("dslr", 1.3, size=SIZE)
    planes = DepthGrid.around(rendered.stack, 16)
    sizes = []

    def remember(stack: FocalStack, *arguments: object, **keywords: object) -> suwajanakorn.Found:
        sizes.append(stack.size)
        return solve(stack, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(suwajanakorn, "solve", remember)
    whole = SIZE * SIZE * 16 * suwajanakorn.BYTES_A_LABEL
    for workspace in (2 * whole, whole // 4):
        method = choose_method("suwajanakorn")
        prediction = method.predict(rendered.stack.as_batch(), planes, Options(workspace))
        assert prediction.depth.shape == (1, SIZE, SIZE)
        assert prediction.depth.median().item() == pytest.approx(1.3, rel=0.08)
        assert (prediction.std >= 0).all() and prediction.confidence.min() >= 0 and prediction.confidence.max() <= 1
    assert sizes == [(SIZE, SIZE), (SIZE // 2, SIZE // 2)]


def test_between_planes_by_hand() -> None:
    """Beliefs on a parabola about plane 2.3 give 2.3; an end label stays at the end."""
    planes = DepthGrid(torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]))
    places = torch.arange(5.0)
    beliefs = torch.stack([(places - 2.3).square(), (places - 0.2).square()], 1)[None, :, None]
    labels = torch.tensor([[[2, 0]]])
    inverse = _between_planes(Labelling(labels, beliefs, torch.zeros(1), [torch.zeros(1)]), planes)
    torch.testing.assert_close(inverse, torch.tensor([[[5.0 - 2.3, 5.0]]]))


def test_gray_and_infinity() -> None:
    images = torch.rand((1, 3, 1, 16, 24), generator=torch.Generator().manual_seed(0))
    stack = FocalStack(images, (0.5, 2.0, float("inf")), Camera(0.05, 2.8, 2e-4)).as_batch()
    prediction = suwajanakorn.suwajanakorn_depth(stack, DepthGrid.around(stack, 8), Options())
    assert not torch.isnan(prediction.depth).any() and not torch.isnan(prediction.std).any()
