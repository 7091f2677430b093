"""The method "sweep": tiles, smoothing of what is uncertain, the cost of a pixel."""

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, cost_volume, estimate_depth
from focalsweep.estimate import predict
from focalsweep.methods.sweep import (
    BYTES_A_VOXEL,
    HALO_PX,
    MOST_PLANES,
    SIDES_PX,
    cost_curve,
    method_of_network,
    planes_read,
    reblur_cost,
    smooth_uncertain,
)
from focalsweep.methods.tiled import Tiling
from focalsweep.model.sweepnet import STRIDE
from focalsweep.model.weights import load_network
from focalsweep.sweep.colour import project_to_dominant_colour
from tests.demo import demo_stack
from tests.errors import assert_one_sentence, message_of

TILING = Tiling(SIDES_PX, HALO_PX, STRIDE, 32 * BYTES_A_VOXEL)


def test_network_takes_gray_and_double_and_refuses_other_channels() -> None:
    images = torch.rand((3, 1, 33, 40), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    camera = Camera(0.05, 2.8, 6e-5)
    result = estimate_depth(FocalStack(images, [0.8, 1.2, 2.0], camera), "sweep")
    assert result.depth.shape == (33, 40) and result.depth.dtype == np.float32
    with pytest.raises(ValueError, match="4 channels"):
        estimate_depth(FocalStack(images.expand(3, 4, 33, 40), [0.8, 1.2, 2.0], camera), "sweep")


def test_a_network_of_ones_own_is_read_as_the_shipped_one() -> None:
    stack = demo_stack().stack.cropped(60, 100, 64, 80)
    method = method_of_network(load_network(), "mine")
    mine, shipped = (estimate_depth(stack, each, planes=DepthGrid.around(stack, 16)) for each in (method, "sweep"))
    assert np.array_equal(mine.depth, shipped.depth)
    assert mine.record["method"] == "mine" and mine.record["focalsweep"]["weights"] == {}


def test_tiles_leave_no_seam() -> None:
    """A picture in six tiles against the same in one: what differs, and by how much depth jumps between tiles."""
    stack = demo_stack().stack.cropped(3, 5, 281, 371)
    planes = DepthGrid.around(stack, 32)
    whole = predict(stack.as_batch(), "sweep", planes)
    told: list[tuple[str, float]] = []
    bound = 60_000_000  # of 32 planes, tiles of 128 px and their halos fit in
    tiled = predict(stack.as_batch(), "sweep", planes, workspace=bound, progress=lambda *news: told.append(news))
    shares = [share for _, share in told]
    assert shares == sorted(shares) and {round(6 * share, 6) for share in shares} >= {1, 2, 3, 4, 5, 6}
    assert {stage for stage, _ in told} == {"sweeping", "network"}
    difference = ((tiled.depth - whole.depth).abs() / whole.depth)[0].numpy()
    print(f"relative difference of depth: mean {difference.mean():.1e}, largest {difference.max():.1e}")
    assert 0 < difference.mean() < 1e-3
    assert np.quantile(difference, 0.999) < 0.02
    assert difference.max() < 0.15  # where an edge of the picture lets a guess follow one side or the other
    assert ((tiled.std - whole.std).abs() / whole.std).mean() < 0.02
    for axis in range(2):
        depths = (found.depth[0].numpy() for found in (tiled, whole))
        jump, usual = (np.abs(np.diff(1 / depth, axis=axis)).mean(1 - axis) for depth in depths)
        tiles = TILING.cut(stack.size, bound)
        borders = sorted({tile.core[axis].start - 1 for tile in tiles} - {-1})
        assert borders
        for border in borders:
            assert jump[border] < 1.1 * usual[border] + 0.1 * usual.mean(), f"a seam along axis {axis} at {border}"


@pytest.mark.parametrize("place", [(0, 0), (75, 100), (149, 199)])
def test_the_cost_curve_of_a_pixel_is_that_of_the_whole_volume(place: tuple[int, int]) -> None:
    """Up to the ripple of its cut edges: the same plane is lowest, and the curve has the same shape."""
    stack = demo_stack().stack.cropped(60, 100, 150, 200)
    planes = DepthGrid.around(stack, count=16)
    curve = cost_curve(stack, planes, *place)
    grey = project_to_dominant_colour(stack.as_batch())
    whole = cost_volume(grey, planes, reblur_cost())[0, :, place[0], place[1]]
    assert curve.shape == (16,) and int(curve.argmin()) == int(whole.argmin())
    np.testing.assert_allclose(curve, whole, atol=0.05 * float(whole.max() - whole.min()))


def test_the_cost_curve_outside_of_the_picture() -> None:
    stack = demo_stack().stack
    message = message_of(lambda: cost_curve(stack, DepthGrid.around(stack), 288, 0), ValueError)
    assert_one_sentence(message, "row 288", "384 x 288 px")


def test_what_the_network_is_unsure_of_follows_its_surroundings() -> None:
    images = torch.full((1, 2, 3, 40, 40), 0.3)
    answer = torch.stack([torch.full((1, 40, 40), 0.5), torch.full((1, 40, 40), 0.004)], 1)
    answer[:, 0, 10:20, 10:20], answer[:, 0, 30, 30] = 0.9, 0.9
    answer[:, 1, 10:20, 10:20] = 0.2  # told as a guess, unlike the lone pixel
    whole = smooth_uncertain(images, torch.zeros(1, 8, dtype=torch.long), answer)
    assert (whole[:, 0, 10:20, 10:20] - 0.5).abs().max() < 0.02
    assert whole[0, 0, 30, 30] > 0.52  # a voice among its neighbours
    torch.testing.assert_close(whole[:, 1], answer[:, 1])


def test_positions_stay_among_the_planes() -> None:
    torch.manual_seed(2)
    answer = torch.stack([2 * torch.rand(1, 24, 24) - 0.5, torch.full((1, 24, 24), 0.01)], 1)
    whole = smooth_uncertain(torch.rand(1, 2, 1, 24, 24), torch.zeros(1, 8, dtype=torch.long), answer)
    assert whole[:, 0].min() == 0 and whole[:, 0].max() == 1


def test_error_bars_mean_the_same_for_32_to_512_planes() -> None:
    """By the network's own scale 1 % of the pixels were off by more than 3 std with 32 planes, 10 % with 256."""
    demo = demo_stack()
    stack, truth = demo.stack.cropped(90, 120, 128, 160), demo.depth[90:218, 120:280].numpy()
    beyond, typical = [], []
    for count in (32, 64, 512):
        result = estimate_depth(stack, "sweep", planes=DepthGrid.uniform_in_inverse_depth(0.37, 1.3, count))
        beyond.append((np.abs(result.depth - truth) > 3 * result.std).mean())
        typical.append(np.median(result.std))
        assert result.planes.count == min(count, MOST_PLANES) == result.record["planes"]["count"]
    assert max(beyond) < 0.08 and max(beyond) < 3 * min(beyond)
    assert max(typical) < 1.4 * min(typical)


def test_planes_that_the_network_cannot_read_are_read_as_others_of_the_same_range() -> None:
    few = DepthGrid.uniform_in_inverse_depth(0.4, 2.0, 64)
    assert planes_read(few) is few
    uneven = planes_read(DepthGrid.uniform_in_depth(0.4, 2.0, 300))
    assert torch.equal(uneven.depths, DepthGrid.uniform_in_inverse_depth(0.4, 2.0, MOST_PLANES).depths)
