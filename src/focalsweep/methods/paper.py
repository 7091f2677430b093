"""The paper's method: its network reads its cost on its planes, and the farthest frame.

The network has seen 64 planes at equal steps from 0.1 to 3 m, and no others. The paper brings other scenes there by
multiplying every length (its NYU experiment by 0.3, 10 m to 3 m), which changes no blur in pixels (Eq. 2). Dividing the
planes by that factor is the same sweep and gives metres at once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.errors import InputError
from focalsweep.methods.method import Method, Options
from focalsweep.methods.tiled import Tiling, read_in_tiles
from focalsweep.model.papernet import STRIDE, PaperNet
from focalsweep.model.regression import prediction_from_probabilities
from focalsweep.model.weights import load_papernet
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.costs import PaperCost
from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

PAPER_PLANES = DepthGrid.uniform_in_depth()
COST = PaperCost()
LARGEST_BLUR_PX = 64.0  # that of the nearest plane at the largest scale of training
SEEN_BLUR_PX = 7.0  # the widest in any picture of training: 6.7 px on the benchmark
SMALLEST_PX = 64  # pictures are not made smaller than that
HALO_PX = 128  # the network sees farther, but hardly uses it
BYTES_A_PIXEL = 3600  # of a tile and its halo, the cost volume included
TILING = Tiling((512, 256, 128, 64), HALO_PX, STRIDE, BYTES_A_PIXEL)


def planes_over(planes: DepthGrid, trained: DepthGrid = PAPER_PLANES) -> DepthGrid:
    """The `trained` planes, all multiplied by one factor, so that they hold the range of `planes`.

    The farthest planes meet. Where that would leave the nearest outside (a range of more than 1 to 30 for the paper's
    planes; infinity), the nearest meet, and what lies beyond the last plane is taken for it.
    """
    near, far = (planes.depths[..., end] / trained.depths[..., end] for end in (0, -1))
    return DepthGrid(trained.inverse_depths / torch.minimum(near, far)[..., None])


def within_blur(stack: FocalStack, planes: DepthGrid, largest_px: float = LARGEST_BLUR_PX) -> DepthGrid:
    """The planes to sweep in place of `planes`: those where some frame's blur would be wider lie where it is that wide.

    `planes_over` may put planes far before the scene, for whose blur no picture has room. (The paper's code bounds the
    blur too, at 10 or 20 px.) The network still takes them for the planes that they stand for.
    """
    batch = stack.as_batch()
    slope_px = blur_slope_px(batch.focus_distances, batch.camera, batch.magnification)
    limit = (1 / batch.focus_distances + largest_px / slope_px).amin(1, keepdim=True)  # B 1
    inverse = planes.as_batch(len(batch.images))
    if bool((inverse <= limit).all()):
        return planes
    ranks = torch.arange(planes.count, 0, -1)  # planes must not repeat
    return DepthGrid(torch.minimum(inverse, limit * (1 + 1e-6 * ranks)))


def paper_depth(
    stack: FocalStack, planes: DepthGrid, options: Options, network: PaperNet | None = None
) -> DepthPrediction:
    """Depth of a batched stack as the paper's network reads the paper's cost; large pictures go in tiles with halos.

    Of `planes` only the range counts, see `planes_over`. Pictures whose blur over that range is wider than any that the
    network has met are read at a size where it is not, unless the setting size=full keeps them. Depth is the mean over
    the planes (Eq. 11), so that it lies between them; std and confidence are those of the network's probabilities,
    which nobody calibrated.
    """
    scale = 1.0
    if options.settings.get("size") != "full":
        scale = SEEN_BLUR_PX / float(sweep_coc_px(stack, planes).abs().max().clamp_min(SEEN_BLUR_PX))
        scale = max(scale, min(1.0, SMALLEST_PX / min(stack.size)))
    if scale < 1:
        small = _depth_at_size(stack.resized(scale), planes, options, network)
        maps = torch.stack([1 / small.depth, small.std / small.depth.square(), small.confidence], 1)
        inverse, spread, confidence = functional.interpolate(maps, size=stack.size, mode="bilinear").unbind(1)
        return DepthPrediction(1 / inverse, spread / inverse.square(), confidence)
    return _depth_at_size(stack, planes, options, network)


def _depth_at_size(stack: FocalStack, planes: DepthGrid, options: Options, network: PaperNet | None) -> DepthPrediction:
    """Depth of a batched stack at its own size."""
    channels = stack.images.shape[2]
    if channels not in (1, 3):
        raise InputError(
            "paper reads gray or RGB pictures, but these have {value} channels",
            field="method", value=channels, remedy="use argmin",
        )  # fmt: skip
    network = network or load_papernet(stack.images.device)
    stack = stack.to(dtype=torch.float32)
    stack = stack.with_images(stack.images.expand(-1, -1, 3, -1, -1))
    planes = planes_over(planes)
    inverse_depths = planes.as_batch(len(stack.images)).to(stack.images)
    picture = farthest_frame(stack)

    def read(area: tuple[slice, slice], volume: Tensor) -> Tensor:
        prediction = predict(network, picture[..., area[0], area[1]], volume, inverse_depths)
        return torch.stack([prediction.depth, prediction.std, prediction.confidence], 1)

    tiles = TILING.cut(stack.size, options.workspace)
    maps = read_in_tiles(stack, within_blur(stack, planes), COST, read, tiles, options)
    return DepthPrediction(*maps.unbind(1))


def farthest_frame(stack: FocalStack) -> Tensor:  # B 3 H W
    """The frame of a batched stack that is focused farthest, in sRGB: what the network sees beside the costs."""
    farthest = stack.focus_distances.argmax(1).to(stack.images.device, non_blocking=True)
    return linear_to_srgb(stack.images[torch.arange(len(farthest), device=farthest.device), farthest])


def predict(network: PaperNet, picture: Tensor, volume: Tensor, inverse_depths: Tensor) -> DepthPrediction:
    """In half precision on a GPU, as it was trained; probabilities and metres are never in half."""
    with torch.autocast(volume.device.type, dtype=torch.bfloat16, enabled=volume.device.type == "cuda"):
        probabilities = network(picture, volume)[-1]
    return prediction_from_probabilities(probabilities, inverse_depths)


PAPER = Method(
    "paper",
    "the paper's network on the paper's cost and planes",
    paper_depth,
    settings={"size": (("seen", "full"), "full: never reduced to the blur that its training had")},
    weights=("papernet",),
    swept=lambda planes, settings: planes_over(planes),
    reads_displayed=True,
)
