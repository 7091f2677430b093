"""A lens as it is: what a profile says beside the thin lens, and depth with that taken out again.

A real lens focuses a flat thing onto a curved surface. Let its sharp image of a point at the image height r lie at
v + delta(r) where the thin lens has v. A frame whose sensor is at v_i then blurs the point to

    coc = A |v_i - v - delta| / (v + delta) = A v_i |1/d_i - u'|,    u' = 1/f - 1/(v + delta)

with the slope A v_i that the thin lens has too (`blur_slope_px`). So the frames agree at the *apparent* inverse depth
u' = u + curvature(r), and no other blur is in the model: reading u' and taking the curvature away is exact, pixel by
pixel, after the sweep. What a sweep cannot hold is u' < 0, "beyond infinity", where the curvature is negative:
`raised` moves focus distances and planes up by as much, and keeps every blur as it is through the magnification.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep.validation import as_setting

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Measured:
    """A number and one standard deviation of it."""

    value: float
    std: float = 0.0


@dataclass(frozen=True)
class Curvature:
    """How much nearer (1/m) things seem at a distance from the optical axis; straight in its square between two.

    Args:
        radii: metres on the sensor, ascending from above 0; on the axis the curvature is 0, beyond the last it stays.
        dioptres: at each.
        std: of each.
    """

    radii: tuple[float, ...]
    dioptres: tuple[float, ...]
    std: tuple[float, ...]

    def at(self, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Curvature and its standard deviation (1/m) at these distances from the axis."""
        knots = torch.tensor([0.0, *self.radii], dtype=radius.dtype).square()
        square = radius.square().clamp(max=float(knots[-1]))
        after = torch.searchsorted(knots, square.contiguous()).clamp(1, len(knots) - 1)
        share = (square - knots[after - 1]) / (knots[after] - knots[after - 1])
        tables = (torch.tensor([0.0, *values], dtype=radius.dtype) for values in (self.dioptres, self.std))
        value, std = (torch.lerp(table[after - 1], table[after], share) for table in tables)
        return value, std

    def within(self, radius: float) -> tuple[float, float]:
        """The least and the most between the axis, where it is 0, and this distance from it."""
        at_end = self.at(torch.tensor([radius], dtype=torch.float64))[0].item()
        inside = [value for at, value in zip(self.radii, self.dioptres, strict=True) if at < radius]
        return min(0.0, at_end, *inside), max(0.0, at_end, *inside)


@dataclass(frozen=True)
class LensProfile:
    """What is known of a lens beside its data sheet.

    Args:
        make, model, lens: as the photos' metadata has them; empty where it says nothing.
        focal_length: metres.
        f_number: that `blur` was measured at.
        curvature: of the field; None: flat.
        blur: how many times the told blur the photos have: the effective aperture over the told one.
        focus_scale: what told inverse focus distances are multiplied by.
        focus_offset: 1/m, what is added to them then.
        made: when, from what, by which version: for people.
        name: the file it came from.
    """

    focal_length: float
    f_number: float
    make: str = ""
    model: str = ""
    lens: str = ""
    curvature: Curvature | None = None
    blur: Measured = Measured(1.0)
    focus_scale: Measured = Measured(1.0)
    focus_offset: Measured = Measured(0.0)
    made: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def title(self) -> str:
        """What it is of, in words."""
        named = " ".join(part for part in (self.make, self.model, self.lens) if part)
        return f"{named + ', ' if named else ''}{self.focal_length * 1e3:.4g} mm"

    @property
    def lift(self) -> float:
        """1/m by which `raised` has to move focus and planes so that nothing seems beyond infinity."""
        return max(0.0, -min(self.curvature.dioptres)) if self.curvature else 0.0

    def curvature_range(self, stack: FocalStack, size: tuple[int, int]) -> tuple[float, float]:
        """The least (0 or below) and the most (0 or above) curvature in pictures H W of these settings, 1/m."""
        if self.curvature is None:
            return 0.0, 0.0
        column, row = _principal_point(stack, size)
        corner = _pixel_pitch(stack) * math.hypot(max(column, size[1] - column), max(row, size[0] - row))
        return self.curvature.within(corner)

    def apparent(self, planes: DepthGrid, stack: FocalStack, size: tuple[int, int], lift: float = 0.0) -> DepthGrid:
        """As many planes over what things at the depths of `planes` seem to be at, all over the picture."""
        low, high = self.curvature_range(stack, size)
        true = planes.inverse_depths + lift
        far, near = true[..., -1:], true[..., :1]
        wanted = (far + low).clamp_min(0)
        return DepthGrid(wanted + (true - far) * (near + high - wanted) / (near - far))

    def flatten_field(self, depth: Tensor, std: Tensor, stack: FocalStack) -> tuple[Tensor, Tensor]:  # H W each
        """Apparent depth and std (metres) of a stack with these settings, `raised` by `lift`, as they are."""
        if self.curvature is None:
            return depth, std
        point, pitch = _principal_point(stack, (depth.shape[0], depth.shape[1])), _pixel_pitch(stack)
        return flatten_field(depth, std, self.curvature, principal_point=point, pixel_pitch=pitch, lift=self.lift)

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self)


def corrected_settings(stack: FocalStack, profile: LensProfile, *, aperture: bool = True) -> FocalStack:
    """The stack with the focus distances and, unless told otherwise, the aperture that the lens really has.

    Raises:
        ValueError: the corrected distances are none that the lens can focus at.
    """
    camera = stack.metric_camera
    inverse = profile.focus_scale.value / stack.focus_distances + profile.focus_offset.value
    if aperture:
        f_number = as_setting("f_number", camera.f_number) / profile.blur.value
        camera = Camera(camera.focal_length, f_number, camera.pixel_pitch)

    def told(distance: float) -> float:
        moved = profile.focus_scale.value / distance + profile.focus_offset.value
        return 1 / moved if moved > 0 else torch.inf

    ranges = tuple((told(near), told(far)) for near, far in stack.record.focus_ranges)
    record = replace(stack.record, focus_ranges=ranges)
    return replace(stack, focus_distances=1 / inverse.clamp_min(0), camera=camera, record=record)


def raised(stack: FocalStack, dioptres: float) -> FocalStack:
    """Every frame focused `dioptres` nearer, with the blur of before for what is nearer by as much.

    The slope of the blur goes with 1 / (1 - f / d); what that changes the magnification takes back.
    """
    if dioptres == 0:
        return stack
    f = as_setting("focal_length", stack.metric_camera.focal_length)
    before = 1 / stack.focus_distances
    after = before + dioptres
    magnification = as_setting("magnification", stack.magnification) * (1 - f * after) / (1 - f * before)
    return replace(stack, focus_distances=1 / after, magnification=magnification)


def _principal_point(stack: FocalStack, size: tuple[int, int]) -> tuple[float, float]:
    return stack.principal_point or (size[1] / 2, size[0] / 2)


def _pixel_pitch(stack: FocalStack) -> float:
    return float(as_setting("pixel_pitch", stack.metric_camera.pixel_pitch).flatten()[0])


def image_heights(
    rows: slice, width: int, principal_point: tuple[float, float], pixel_pitch: float
) -> Tensor:  # rows W, float64
    """Metres on the sensor from the optical axis to the middle of each pixel of these rows."""
    down = torch.arange(rows.start, rows.stop, dtype=torch.float64)[:, None] + 0.5 - principal_point[1]
    right = torch.arange(width, dtype=torch.float64) + 0.5 - principal_point[0]
    return pixel_pitch * torch.hypot(down, right)


def flatten_field(
    depth: Tensor,  # H W, apparent, metres
    std: Tensor,  # H W, metres
    curvature: Curvature,
    *,
    principal_point: tuple[float, float],
    pixel_pitch: float,
    lift: float = 0.0,
) -> tuple[Tensor, Tensor]:  # H W each, metres
    """Depth and std without field curvature, of a stack `raised` by `lift`; that of the curvature joins the std."""
    depth, std = depth.clone(), std.clone()
    height, width = depth.shape
    for top in range(0, height, ROWS_AT_ONCE):  # of full-size photos, several maps of doubles take too much
        rows = slice(top, min(top + ROWS_AT_ONCE, height))
        shift, unsure = curvature.at(image_heights(rows, width, principal_point, pixel_pitch))
        inverse = 1 / depth[rows].double()
        spread = std[rows].double() * inverse.square()
        true = (inverse - lift - shift).clamp_min(0)  # 1 / 0 is infinity, with an infinite std
        depth[rows] = (1 / true).to(depth)
        spread = torch.hypot(spread.nan_to_num(nan=0.0), unsure) / true.square()
        std[rows] = spread.nan_to_num(nan=torch.inf, posinf=torch.inf).to(std)
    return depth, std
