"""Batches from items: deterministic, true to the items, scaled as the paper says."""

from dataclasses import replace

import pytest
import torch

from focalsweep import Camera, FocalStack, coc_px, srgb_to_linear
from focalsweep_research.datasets.item import Item, Items
from focalsweep_research.datasets.source import PAPER_SCALES, ItemsConfig, make_item_source, stacked, with_frames

CPU = torch.device("cpu")
FOCUS = (0.1, 0.15, 0.3, 0.7, 1.5)
CAMERA = Camera(2.9e-3, 1.0, 1.211e-5)


class Made(Items):
    """Items whose depth says in every pixel which item and pixel it is, and whose pixels follow from it."""

    def __init__(self, count: int, height: int = 24, width: int = 24, encoded: bool = True) -> None:
        self.count, self.height, self.width, self.encoded = count, height, width, encoded
        self.reads = 0

    def __len__(self) -> int:
        return self.count

    def read_item(self, number: int) -> Item:
        self.reads += 1
        pixel = torch.arange(self.height * self.width).reshape(self.height, self.width)
        depth = 0.2 + 1e-3 * pixel + number
        stack = FocalStack(pixels_of(depth, self.encoded), FOCUS, CAMERA, magnification=[0.97, 0.98, 0.99, 1, 1])
        return Item(f"item {number}", stack, depth)


def pixels_of(depth: torch.Tensor, encoded: bool) -> torch.Tensor:  # 5 3 H W
    codes = torch.stack([(1e3 * depth).round() * (7 + frame) % 256 for frame in range(5)])
    codes = codes[:, None].expand(-1, 3, -1, -1)
    return srgb_to_linear(codes / 255) if encoded else codes / 255


def test_the_same_for_the_same_step() -> None:
    first, second = (make_item_source(Made(7), ItemsConfig(size=16, scales=PAPER_SCALES, far=100.0)) for _ in range(2))
    second(0, 4, CPU)
    one, other = first(5, 4, CPU), second(5, 4, CPU)
    assert torch.equal(one.depth, other.depth) and torch.equal(one.stack.images, other.stack.images)
    assert not torch.equal(one.depth, first(6, 4, CPU).depth)
    reseeded = make_item_source(Made(7), ItemsConfig(size=16, scales=PAPER_SCALES, far=100.0, seed=1))
    assert not torch.equal(one.depth, reseeded(5, 4, CPU).depth)


def test_every_pass_meets_every_item_once() -> None:
    items = Made(6)
    source = make_item_source(items, ItemsConfig(size=16, far=100.0))
    orders = []
    for turn in range(2):
        depths = torch.cat([source(2 * turn + k, 3, CPU).depth for k in range(2)])
        orders.append(depths[:, 0, 0].floor().int().tolist())
        assert sorted(orders[-1]) == list(range(6))
    assert orders[0] != orders[1]
    assert items.reads == 6, "kept in memory"
    forgetful = Made(6)
    make_item_source(forgetful, ItemsConfig(size=16, in_memory=False))(0, 12, CPU)
    assert forgetful.reads == 12


@pytest.mark.parametrize("encoded", [True, False])
def test_pictures_and_depth_move_together(encoded: bool) -> None:
    source = make_item_source(Made(3, 20, 28, encoded), ItemsConfig(size=16))
    seen = set()
    for step in range(40):
        sample = source(step, 2, CPU)
        for images, depth in zip(sample.stack.images, sample.depth, strict=True):
            assert torch.allclose(images, pixels_of(depth, encoded), atol=1e-5)
            seen.add((bool(depth[0, 0] < depth[0, 1]), bool(depth[0, 0] < depth[1, 0]),
                      bool((depth[0, 1] - depth[0, 0]).abs() < 2e-3)))  # fmt: skip
    assert len(seen) == 8, "all turns and mirror images come up"


def test_scale_keeps_the_blur_and_the_planes() -> None:
    """Lengths times sigma; every pixel has the blur that it was rendered with (paper, Eq. 2 and Section 4.3)."""
    source = make_item_source(Made(4), ItemsConfig(size=None, turns=False, scales=(2.5,), spacing="depth"))
    sample = source(0, 4, CPU)
    stack = sample.stack.as_batch()
    assert torch.allclose(stack.focus_distances, 2.5 * torch.tensor(FOCUS, dtype=torch.float64).expand(4, 5))
    for b in range(4):
        camera = Camera(*(getattr(stack.camera, name)[b, 0] for name in ("focal_length", "f_number", "pixel_pitch")))
        for frame, focus in enumerate(FOCUS):
            before = coc_px(sample.depth[b] / 2.5, focus, CAMERA)
            after = coc_px(sample.depth[b], stack.focus_distances[b, frame], camera)
            assert torch.allclose(before, after, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert sample.planes.depths.shape == (4, 64)
    assert torch.allclose(sample.planes.depths[2], torch.linspace(0.1, 3.0, 64, dtype=torch.float64))


def test_what_a_scale_moves_beyond_the_planes_is_not_known() -> None:
    """Items 0, 1 ... begin at 0.2, 1.2 ... m and gain a millimetre with every pixel."""
    source = make_item_source(Made(4), ItemsConfig(size=None, turns=False, scales=(2.5,)))
    depth = source(0, 4, CPU).depth.sort(0).values
    assert [bool(one.isfinite().any()) for one in depth] == [True, True, False, False]
    assert 3.02 < depth[:2].nan_to_num(0).max() <= 3.0301, "a hundredth beyond is rounding"
    unscaled = make_item_source(Made(3), ItemsConfig(size=None, turns=False))(0, 3, CPU)
    assert bool(unscaled.depth.isfinite().all())


def test_paper_scales() -> None:
    assert PAPER_SCALES[:3] == (1.0, 1.5, 2.0) and PAPER_SCALES[-1] == 9.0 and len(PAPER_SCALES) == 17
    source = make_item_source(Made(1), ItemsConfig(size=None, scales=PAPER_SCALES))
    nearest = [source(step, 1, CPU).stack.focus_distances.min().item() / 0.1 for step in range(120)]
    assert {round(2 * value) / 2 for value in nearest} == set(PAPER_SCALES)
    assert ItemsConfig().grid().inverse_depths.diff().std() < 1e-9


def test_some_frames() -> None:
    item = Made(1)[0]
    test = with_frames(item, (1, 3))
    assert test.stack.focus_distances.tolist() == [0.15, 0.7] and test.depth is item.depth
    assert torch.as_tensor(test.stack.magnification).tolist() == [0.98, 1]
    sample = make_item_source(Made(2), ItemsConfig(size=16, frames=(0, 2, 4)))(0, 2, CPU)
    assert sample.stack.as_batch().focus_distances.tolist() == [[0.1, 0.3, 1.5]] * 2
    with pytest.raises(ValueError, match="item 0 has 5 frames: there is no frame 7"):
        with_frames(item, (0, 7))


def test_cameras_of_a_batch_stay_apart() -> None:
    one = Made(1)[0].stack
    other = FocalStack(one.images, FOCUS, Camera(3e-3, [1, 2, 2, 2, 2], 1e-5))
    batch = stacked([one, other]).as_batch()
    assert batch.camera.f_number.tolist() == [[1] * 5, [1, 2, 2, 2, 2]]  # type: ignore[union-attr]
    assert torch.equal(batch.images[1], other.images)
    with pytest.raises(ValueError, match="must agree in frames and size"):
        stacked([one, one.cropped(0, 0, 8, 8)])


def test_unknown_depth_stays_unknown() -> None:
    class Holes(Made):
        def read_item(self, number: int) -> Item:
            item = super().read_item(number)
            return replace(item, depth=torch.full_like(item.depth, torch.nan))

    assert bool(torch.isnan(make_item_source(Holes(1), ItemsConfig(size=8))(0, 1, CPU).depth).all())


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="no items to train on"):
        make_item_source(Made(0), ItemsConfig())
    with pytest.raises(ValueError, match="item 0 has 24 x 20 px: too small for windows of 22 px"):
        make_item_source(Made(1, 20, 24), ItemsConfig(size=22))(0, 1, CPU)
    with pytest.raises(ValueError, match="spacing must be"):
        ItemsConfig(spacing="log")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scales must be positive"):
        ItemsConfig(scales=())
    with pytest.raises(ValueError, match="at least 2 frames"):
        ItemsConfig(frames=(1, 1))
    batch = stacked([Made(1)[0].stack] * 2)
    with pytest.raises(ValueError, match="holds one stack, not a batch"):
        Item("x", batch, torch.zeros(24, 24))
