"""The paper's method on any range of depth.

Its network has seen 64 planes at equal steps from 0.1 to 3 m, and no others. The paper brings other scenes there by
multiplying every length (its NYU experiment by 0.3, 10 m to 3 m), which changes no blur in pixels (Eq. 2). Dividing the
planes by that factor is the same sweep and gives metres at once.
"""

from __future__ import annotations

import torch

from focalsweep.types import DepthGrid

PAPER_PLANES = DepthGrid.uniform_in_depth()


def planes_over(planes: DepthGrid, trained: DepthGrid = PAPER_PLANES) -> DepthGrid:
    """The `trained` planes, all multiplied by one factor, so that they hold the range of `planes`.

    The farthest planes meet. Where that would leave the nearest outside (a range of more than 1 to 30 for the paper's
    planes; infinity), the nearest meet, and what lies beyond the last plane is taken for it.
    """
    near, far = (planes.depths[..., end] / trained.depths[..., end] for end in (0, -1))
    return DepthGrid(trained.inverse_depths / torch.minimum(near, far)[..., None])
