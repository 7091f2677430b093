"""Adaptive cost aggregation (paper, Eq. 10): every pixel gathers the volume at nine learned places."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.validation import check_shape

NEIGHBOURS = 9
CENTRE = 4


def aggregate(
    volume: Tensor,  # B D H W
    offsets: Tensor,  # B 18 H W
    weights: Tensor,  # B 9 H W
    dilation: int = 2,
) -> Tensor:
    """Weighted sum of the volume at nine moved neighbours, the same places for all planes: B D H W.

        out(v, u, d) = sum_j w_j volume(v_j + dv_j, u_j + du_j, d),   (v_j, u_j) on a 3 x 3 grid, `dilation` px apart

    Sampling is bilinear; beyond the border the border's value counts. Differentiable (once) in all three arguments.
    Nine samples of four corners are 36 rows of a (H W) x D table with 36 weights: one `embedding_bag`, which reads
    all planes of a pixel at once and never holds nine volumes. Measured for 1 x 64 x 256 x 256 in float32 on one CPU
    thread: 53 ms, nine `grid_sample`s 155 to 235 ms; with gradients 285 ms, they 673 to 860 ms. On a GPU in single
    precision `aggregation_kernel.py` does the same.

    Args:
        volume: what is aggregated.
        offsets: pixels, (dv_j, du_j) of neighbour j in channels 2 j and 2 j + 1; neighbours row by row. The centre's
            (channels 8 and 9) is not read: it stays where it is.
        weights: w_j of the neighbours; usually a softmax over them.
        dilation: pixels between the neighbours at rest.
    """
    check_shape("volume", volume, "B D H W")
    batch, planes, height, width = volume.shape
    check_shape("offsets", offsets, "B C H W", B=batch, C=2 * NEIGHBOURS, H=height, W=width)
    check_shape("weights", weights, "B N H W", B=batch, N=NEIGHBOURS, H=height, W=width)
    device = volume.device
    if volume.is_cuda and volume.dtype == torch.float32 and find_spec("triton") is not None:
        from focalsweep.model import aggregation_kernel

        return aggregation_kernel.aggregate(volume, offsets, weights, dilation)
    # Half precision cannot hold a position in a large picture.
    precise = torch.promote_types(offsets.dtype, torch.float32)
    moves = offsets.movedim(1, -1).reshape(batch, height, width, NEIGHBOURS, 2).to(precise)
    moves = moves * (torch.arange(NEIGHBOURS, device=device) != CENTRE)[:, None]

    steps = dilation * torch.arange(-1, 2, device=device)
    rows_at_rest = torch.arange(height, device=device)[:, None, None] + steps.repeat_interleave(3)  # H 1 9
    columns_at_rest = torch.arange(width, device=device)[:, None] + steps.repeat(3)  # W 9
    rows, row_shares = _corners(moves[..., 0], rows_at_rest, height)
    columns, column_shares = _corners(moves[..., 1], columns_at_rest, width)

    first = torch.arange(batch, device=device, dtype=torch.int32)[:, None, None, None, None, None] * (height * width)
    index = rows[..., :, None] * width + columns[..., None, :] + first  # B H W 9 2 2
    shares = row_shares[..., :, None] * column_shares[..., None, :] * weights.movedim(1, -1)[..., None, None]

    # Contiguous, or the fast path is lost: planes of a pixel side by side. No copy where the volume is channels-last.
    table = volume.movedim(1, -1).reshape(-1, planes).contiguous()  # B H W, D
    bag = (batch * height * width, 4 * NEIGHBOURS)
    gathered = functional.embedding_bag(
        index.reshape(bag), table, mode="sum", per_sample_weights=shares.to(volume.dtype).reshape(bag)
    )
    return gathered.reshape(batch, height, width, planes).movedim(-1, 1)


def _corners(
    moves: Tensor,  # B H W 9
    at_rest: Tensor,  # whole pixels, broadcast
    size: int,
) -> tuple[Tensor, Tensor]:
    """The two pixels that a position lies between along one axis, and their bilinear shares: B H W 9 2 each.

    Both pixels are held inside the picture: that is sampling with the border repeated.
    """
    whole = moves.detach().floor()
    part = moves - whole
    before = at_rest + whole
    index = torch.stack((before, before + 1), -1).clamp(0, size - 1).int()
    return index, torch.stack((1 - part, part), -1)
