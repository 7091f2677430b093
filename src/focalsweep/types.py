"""What is passed between rooms: cameras, stacks with what is known of them, planes, depth.

Every bare length is in metres. Images live on any device; the settings (distances, camera fields) always live on
the CPU in float64, so that the physics is exact and reading a setting never waits for a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from focalsweep.errors import InputError, InputTypeError
from focalsweep.lenses import (
    Camera,
    Lens,
    RelativeLens,
    Setting,
    Stage,
    StageLens,
    expand_setting,
    part_of_lens,
    unit_of,
)
from focalsweep.validation import as_images, as_setting, check_shape, require

__all__ = [
    "Camera",
    "DepthGrid",
    "DepthPrediction",
    "FocalStack",
    "Lens",
    "PhotoTags",
    "RelativeLens",
    "Setting",
    "StackRecord",
    "Stage",
    "StageLens",
]


@dataclass(frozen=True, eq=False)
class PhotoTags:
    """What the sharp picture takes over from a photo beside its light.

    Args:
        bits: of a channel, 8 or 16.
        profile: the ICC profile; None: sRGB, or nothing is said.
        curves: linear light at evenly spaced encoded values from 0 to 1, by the profile: one, or one for each channel.
        exif: a TIFF structure of its own; None: there is none.
    """

    bits: int = 8
    profile: bytes | None = None
    curves: tuple[Any, ...] = ()
    exif: bytes | None = None


@dataclass(frozen=True, eq=False)
class StackRecord:
    """What is known of a stack beside its pixels; it travels with the stack and ends in run.json.

    Args:
        settings: the camera's by name, each with its value, source and range.
        frames: of each frame, near to far: file, focus distance with source and range, motion, exposure.
        focus_ranges: metres from the lens, the interval that each frame's distance is known to lie in; equal ends where
            it is exact. Empty: all of them are.
        area: rows and columns of the photos' own pixels that registration kept.
        warnings: what the user should know, a sentence each.
        made_of: the folder of the photos, for messages.
        photo: of the reference frame, for the sharp picture.
        made_with: "make", "model" and "lens" by the metadata, what it says of them.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    frames: tuple[dict[str, Any], ...] = ()
    focus_ranges: tuple[tuple[float, float], ...] = ()
    area: tuple[slice, slice] | None = None
    warnings: tuple[str, ...] = ()
    made_of: str = ""
    photo: PhotoTags | None = None
    made_with: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FocalStack:
    """Photos of one still scene, each focused at another distance (or a batch of such stacks, with one F).

    Args:
        images: F C H W, or B F C H W for a batch; linear light in [0, 1]; an array, a tensor or a list of frames.
        focus_distances: F (or B F), metres from the lens to the plane in focus; infinity is allowed. A `Stage` has
            positions instead.
        camera: the lens and the sensor; a `Stage` where it moves; a `RelativeLens` where depth has no unit.
        magnification: what each frame was magnified by when it was registered (1 by default); its blur was
            magnified with it. A renderer with a constant field of view has (d_f - f) / d_f.
        principal_point: column and row where the optical axis meets the picture, in pixels from its upper left corner
            (a pixel's middle is at 0.5); None is the middle of the picture.
        record: what is known of the photos; empty for arrays.
    """

    images: Tensor
    focus_distances: Tensor = None  # type: ignore[assignment]  # a stage has positions instead
    camera: Lens = None  # type: ignore[assignment]  # refused below
    magnification: Setting = 1.0
    principal_point: tuple[float, float] | None = None
    record: StackRecord = StackRecord()

    if TYPE_CHECKING:  # arrays, tensors and lists go in; tensors are kept

        def __init__(
            self,
            images: Any,
            focus_distances: Any = None,
            camera: Lens | Stage | None = None,
            magnification: Any = 1.0,
            principal_point: tuple[float, float] | None = None,
            record: StackRecord = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        images = as_images(self.images)
        if isinstance(self.camera, Stage):
            self._put_on_stage(self.camera, images.shape[-4])
        if not isinstance(self.camera, Camera | RelativeLens):
            raise InputTypeError(
                "{camera} must be {rule}, but is {value!r}",
                field="camera", rule="a focalsweep.Camera, a focalsweep.Stage or a focalsweep.RelativeLens",
                value=self.camera,
            )  # fmt: skip
        batched = images.ndim == 5
        shape = (images.shape[0], images.shape[1]) if batched else (1, images.shape[0])
        if shape[1] < 2:
            raise InputError(
                "a focal stack needs {rule}, but has {value}",
                field="images", rule="at least 2 frames", value=shape[1], remedy="add photos focused elsewhere",
            )  # fmt: skip
        distances = as_setting("focus_distances", self.focus_distances)
        if distances.ndim == 0 or distances.shape[-1] != shape[1]:
            raise InputError(
                "{focus_distances} must have {rule}, but its shape is {value}",
                field="focus_distances", rule=f"one value for each of the {shape[1]} frames",
                value=tuple(distances.shape),
            )  # fmt: skip
        magnification = as_setting("magnification", self.magnification)
        require(torch.isfinite(magnification) & (magnification > 0), magnification, "magnification", "be positive")
        full = expand_setting("focus_distances", distances, shape, batched, one_each="frame")
        camera = self.camera.expanded(shape, batched)
        require(~torch.isnan(full), full, "focus_distances", "be numbers")
        require(full > 0, full, "focus_distances", "be positive", " m")
        _check_beyond_focal_length(full, camera)
        _check_frames_differ(full, camera)
        expand_setting("magnification", magnification, shape, batched, one_each="frame")
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "focus_distances", distances)
        object.__setattr__(self, "magnification", magnification if magnification.ndim else self.magnification)

    def _put_on_stage(self, stage: Stage, frames: int) -> None:
        if self.focus_distances is not None:
            raise InputTypeError(
                "a stage has positions: leave out {focus_distances}",
                field="focus_distances",
                value=self.focus_distances,
            )
        distances, lens = stage.lens(frames)
        object.__setattr__(self, "focus_distances", distances)
        object.__setattr__(self, "camera", lens)

    def __repr__(self) -> str:
        shape, distances = tuple(self.images.shape), self.focus_distances
        near, far = distances.min().item(), distances.max().item()
        words = f"{'x'.join(map(str, shape))}, focused at {near:.3g} to {far:.3g}{' m' if self.unit else ', no unit'}"
        return f"FocalStack({words}, {self.camera!r}, {self.images.device})"

    @property
    def unit(self) -> Literal["m"] | None:
        """Of the answer, depth or height; None where only the order of the frames is known."""
        return unit_of(self.camera)

    @property
    def metric_camera(self) -> Camera:
        """The camera, for what needs its focal length or its pixels' size; a stack without a unit has none."""
        if not isinstance(self.camera, Camera):
            raise InputError(
                "this needs metres, and the stack has no unit",
                field="camera", rule="a Camera", value=self.camera, remedy="give its camera and {focus_distances}",
            )  # fmt: skip
        return self.camera

    @property
    def batched(self) -> bool:
        return self.images.ndim == 5

    @property
    def frame_count(self) -> int:
        return self.images.shape[-4]

    @property
    def size(self) -> tuple[int, int]:
        """H, W."""
        return self.images.shape[-2], self.images.shape[-1]

    def as_batch(self) -> FocalStack:
        """The same with a batch axis, and every setting expanded to B F."""
        images = self.images if self.batched else self.images[None]
        shape = (images.shape[0], images.shape[1])
        magnification = as_setting("magnification", self.magnification)
        return self._unchecked(
            images=images,
            focus_distances=expand_setting("focus_distances", self.focus_distances, shape, self.batched, "frame"),
            camera=self.camera.expanded(shape, self.batched),
            magnification=expand_setting("magnification", magnification, shape, self.batched, "frame"),
        )

    def one_of_batch(self, index: int) -> FocalStack:
        """The stack of that index, as a batch of one."""
        batch, part = self.as_batch(), slice(index, index + 1)
        return batch._unchecked(
            images=batch.images[part],
            focus_distances=batch.focus_distances[part],
            camera=part_of_lens(batch.camera, part),
            magnification=as_setting("magnification", batch.magnification)[part],
        )

    def resized(self, scale: float) -> FocalStack:
        """Resampled by exactly `scale` in both directions (antialiased); the pixel pitch follows."""
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be positive, but is {scale:g}")
        if min(self.size) * scale < 1:
            raise ValueError(f"scale {scale:g} leaves nothing of {self.size[0]} x {self.size[1]} px")
        flat = self.images.flatten(0, -4)
        small = torch.nn.functional.interpolate(
            flat, scale_factor=scale, mode="bilinear", antialias=scale < 1, align_corners=False
        )
        images = small.reshape(*self.images.shape[:-2], *small.shape[-2:])
        return self.with_resized(images, scale)

    def with_resized(self, images: Tensor, scale: float) -> FocalStack:
        """The same stack at `scale` times its size, resampled by the caller."""
        point = self.principal_point and tuple(scale * at for at in self.principal_point)
        return self._unchecked(images=images, camera=self.camera.resized(scale), principal_point=point)

    def cropped(self, top: int, left: int, height: int, width: int) -> FocalStack:
        """A window of the picture; the pixel pitch stays."""
        full_height, full_width = self.size
        inside = top >= 0 and left >= 0 and height > 0 and width > 0
        if not inside or top + height > full_height or left + width > full_width:
            raise ValueError(
                f"the crop {height} x {width} at row {top}, column {left} leaves the picture "
                f"of {full_height} x {full_width} px"
            )
        column, row = self.principal_point or (full_width / 2, full_height / 2)
        images = self.images[..., top : top + height, left : left + width]
        return self._unchecked(images=images, principal_point=(column - left, row - top))

    def with_images(self, images: Tensor) -> FocalStack:
        """Other pixels of the same frames (another channel, less noise), with the same axes; no pixel is checked."""
        if images.ndim != self.images.ndim or images.shape[-4] != self.frame_count or images.shape[-2:] != self.size:
            raise ValueError(f"images must have the frames and the size of {tuple(self.images.shape)}")
        return self._unchecked(images=images)

    def scaled(self, factor: float) -> FocalStack:
        """Every length multiplied by `factor` (paper, Section 4.3): pictures of a scene `factor` times as far.

        What the record says of the photos holds no longer, so it is empty.
        """
        focus_distances = self.focus_distances * factor
        return self._unchecked(focus_distances=focus_distances, camera=self.camera.scaled(factor), record=StackRecord())

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> FocalStack:
        """The images on another device or in another precision; settings stay where they are."""
        return self._unchecked(images=self.images.to(device=device, dtype=dtype))

    def _unchecked(self, **changes: Any) -> FocalStack:
        """A changed copy of a stack that is known to be valid: looks at no pixel again."""
        new = object.__new__(FocalStack)
        for name in ("images", "focus_distances", "camera", "magnification", "principal_point", "record"):
            object.__setattr__(new, name, changes.get(name, getattr(self, name)))
        return new


def _check_beyond_focal_length(distances: Tensor, camera: Lens) -> None:
    if isinstance(camera, RelativeLens):
        return
    focal_length = as_setting("focal_length", camera.focal_length)
    inside = (distances <= focal_length).nonzero()
    if len(inside) == 0:
        return
    stack, frame = (int(i) for i in inside[0])
    raise InputError(
        "{focus_distances} must {rule}: frame {frame} has {value:.3f} m, focal length {focal:.3f} m "
        "(millimetres given as metres?)",
        field="focus_distances", rule="exceed the focal length", value=distances[stack, frame].item(),
        frame=frame, focal=focal_length[stack, frame].item(),
    )  # fmt: skip


def _check_frames_differ(distances: Tensor, camera: Lens) -> None:
    """Frames that share focus and aperture carry no depth."""
    same = (distances == distances[:, :1]).all(-1)
    if isinstance(camera, Camera):
        apertures = as_setting("f_number", camera.f_number)
        same &= (apertures == apertures[:, :1]).all(-1)
    if bool(same.any()):
        distance = distances[int(same.nonzero()[0]), 0].item()
        raise InputError(
            "all {focus_distances} are equal ({value:g} m)",
            field="focus_distances", rule="different", value=distance,
            remedy="depth needs frames focused at different distances",
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class DepthGrid:
    """The planes of a sweep, near to far, as inverse depths (dioptres): D, or B D with a range for each stack."""

    inverse_depths: Tensor

    def __post_init__(self) -> None:
        planes = as_setting("inverse_depths", self.inverse_depths)
        if planes.ndim not in (1, 2) or planes.shape[-1] < 2:
            raise InputError(
                "{planes} must have {rule}, but the shape is {value}",
                field="planes", rule="the axes D or B D with at least 2 planes", value=tuple(planes.shape),
            )  # fmt: skip
        require(
            torch.isfinite(planes) & (planes >= 0),
            planes,
            "inverse depths of planes",
            "be 0 or more",
            " per metre",
            "plane",
        )
        if not bool((planes.diff(dim=-1) < 0).all()):
            raise InputError(
                "{planes} must {rule}",
                field="planes", rule="run from near to far without repeats", remedy="sort the depths first",
            )  # fmt: skip
        object.__setattr__(self, "inverse_depths", planes)

    @classmethod
    def uniform_in_inverse_depth(cls, near: Setting, far: Setting, count: int = 64) -> DepthGrid:
        """The default: equal steps of blur. `far` may be infinity; both may hold one value for each stack (B)."""
        near, far = _check_range(near, far, count)
        return cls(_steps(1 / near, 1 / far, count))

    @classmethod
    def uniform_in_depth(cls, near: Setting = 0.1, far: Setting = 3.0, count: int = 64) -> DepthGrid:
        """The paper's: 64 planes, 0.1 to 3 m inclusive."""
        near, far = _check_range(near, far, count)
        if not bool(torch.isfinite(far).all()):
            raise InputError(
                "{far} must be {rule} for planes uniform in depth",
                field="far", rule="finite", value=math.inf, remedy="use uniform_in_inverse_depth",
            )  # fmt: skip
        return cls(1 / _steps(near, far, count))

    @classmethod
    def around(cls, stack: FocalStack, count: int = 64, margin: float = 0.25) -> DepthGrid:
        """Uniform in inverse depth over the stack's focus distances and `margin` of their span to either side."""
        if margin < 0:
            raise ValueError(f"margin must be 0 or more, but is {margin:g}")
        focus = 1 / stack.focus_distances.detach()
        low, high = focus.amin(-1), focus.amax(-1)
        span = torch.where(high > low, high - low, 0.5 * high)  # one distance, two apertures: half of it to either side
        return cls.uniform_in_inverse_depth(1 / (high + margin * span), 1 / (low - margin * span).clamp_min(0), count)

    @classmethod
    def from_depths(cls, depths: Any) -> DepthGrid:
        """Planes at the given depths in metres, near to far; the last may be infinity."""
        return cls(1 / as_setting("depths", depths))

    @property
    def depths(self) -> Tensor:
        return 1 / self.inverse_depths

    @property
    def count(self) -> int:
        return self.inverse_depths.shape[-1]

    def scaled(self, factor: float) -> DepthGrid:
        """Every depth multiplied by `factor`."""
        return DepthGrid(self.inverse_depths / factor)

    def as_batch(self, size: int) -> Tensor:
        """Inverse depths, B D."""
        planes = self.inverse_depths
        if planes.ndim == 2 and planes.shape[0] not in (1, size):
            raise InputError(
                "{planes} hold ranges for {value} stacks, but the batch has {rule}",
                field="planes", rule=str(size), value=planes.shape[0],
            )  # fmt: skip
        return planes.expand(size, self.count)


def _check_range(near: Setting, far: Setting, count: int) -> tuple[Tensor, Tensor]:
    near, far = as_setting("near", near), as_setting("far", far)
    require(torch.isfinite(near) & (near > 0), near, "near", "be positive and finite", " m", "stack")
    beyond = far > near
    require(beyond, far.expand(beyond.shape), "far", "lie beyond {near}", " m", "stack")
    if count < 2:
        raise InputError(
            "a sweep needs {rule}, but {count} is {value}", field="count", rule="at least 2 planes", value=count
        )
    return near, far


def _steps(start: Tensor, end: Tensor, count: int) -> Tensor:
    """`count` equal steps from start to end inclusive, along a new last axis; both ends exact."""
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    return torch.lerp(start[..., None].expand(*start.shape, count), end[..., None].expand(*end.shape, count), t)


@dataclass(frozen=True, eq=False)
class DepthPrediction:
    """What a method makes of a stack, as tensors on its device.

    Args:
        depth: B H W, metres; infinity is allowed.
        std: B H W, metres, one standard deviation of depth.
        confidence: B H W in 0..1: the probability that the true plane is the chosen one or a direct neighbour.
        probabilities: B D H W over the planes, where the method keeps them.
    """

    depth: Tensor
    std: Tensor
    confidence: Tensor
    probabilities: Tensor | None = None

    def __post_init__(self) -> None:
        check_shape("depth", self.depth, "B H W")
        for name in ("std", "confidence"):
            value = getattr(self, name)
            if value.shape != self.depth.shape:
                raise ValueError(
                    f"{name} has the shape {tuple(value.shape)}, depth {tuple(self.depth.shape)}: they must agree"
                )
        if self.probabilities is not None:
            sizes = dict(zip("BHW", self.depth.shape, strict=True))
            check_shape("probabilities", self.probabilities, "B D H W", **sizes)
