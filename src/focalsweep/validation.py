"""What every room checks alike: shapes, settings, images. Errors say what, which one, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.errors import InputError, InputTypeError, Sentence, SettingName

LIGHT = "linear light in [0, 1]"


def check_shape(name: str, tensor: Tensor, axes: str, **sizes: int) -> None:
    """Raise unless `tensor` has the axes named in `axes` ("B F C H W") and the given sizes (`F=5`)."""
    letters = axes.split()
    fits = tensor.ndim == len(letters) and all(
        tensor.shape[i] == sizes[letter] for i, letter in enumerate(letters) if letter in sizes
    )
    if not fits:
        wanted = " ".join(f"{letter}={sizes[letter]}" if letter in sizes else letter for letter in letters)
        raise InputError(
            "{name} must have the axes {rule}, but its shape is {value}",
            name=SettingName(name), field=name, rule=wanted, value=tuple(tensor.shape),
        )  # fmt: skip


def as_setting(name: str, value: Any) -> Tensor:
    """The value as a float64 tensor on the CPU; gradients still flow to a tensor that was given."""
    if isinstance(value, Tensor):
        return value.to(device="cpu", dtype=torch.float64)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError
        return torch.from_numpy(array.astype(np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(
            "{name} must be {rule}, but is {value!r}",
            name=SettingName(name), field=name, rule="a number or an array of numbers", value=value,
        ) from None  # fmt: skip


def require(ok: Tensor, values: Tensor, name: str, rule: str, unit: str = "", axis: str = "frame") -> None:
    """Raise naming the first offending value, and where it stands: `axis` is what the last axis runs over."""
    if bool(ok.all()):
        return
    bad = tuple(int(i) for i in (~ok).nonzero()[0])
    where = f"{axis} {bad[-1]} has " if bad else "it is "
    if len(bad) > 1:
        where = f"stack {bad[0]}, " + where
    raise InputError(
        "{name} must {rule}: {where}{value:g}{unit}",
        name=SettingName(name), where=where, unit=unit,
        field=name, rule=Sentence(rule), value=values.detach()[bad].item(),
    )  # fmt: skip


def check_bytes(name: str, value: Any) -> None:
    """Raise unless a bound on memory is None or a number of bytes above 0."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(
            "{name} must be {rule}, but is {value!r}",
            name=SettingName(name), field=name, rule="a number of bytes", value=value,
        )  # fmt: skip
    if not 0 < float(value) < math.inf:
        rule = "above 0 bytes"
        raise InputError(
            "{name} must be {rule}, but is {value}", name=SettingName(name), field=name, rule=rule, value=value
        )


def as_images(images: Any) -> Tensor:
    """The frames as one floating-point tensor, finite and within reach of [0, 1]."""
    if images is None or isinstance(images, str | bytes):
        raise InputTypeError(
            "{images} must be {rule}, but is {value!r}",
            field="images", rule="an array, a tensor or a list of frames", value=images,
        )  # fmt: skip
    if isinstance(images, Sequence) and not images:
        raise InputError("a focal stack needs at least 2 frames, but {images} is empty", field="images")
    if isinstance(images, Sequence):
        sizes = [tuple(np.shape(frame)) for frame in images]
        for i, size in enumerate(sizes):
            if size != sizes[0]:
                raise ValueError(f"all frames must have one size: frame 0 is {sizes[0]}, frame {i} is {size}")
        images = torch.stack([torch.as_tensor(frame) for frame in images])
    tensor = torch.as_tensor(images)
    if tensor.ndim not in (4, 5):
        raise InputError(
            "{images} must have the axes {rule}, but the shape is {value}",
            field="images", rule="F C H W or B F C H W", value=tuple(tensor.shape),
        )  # fmt: skip
    if tensor.numel() == 0:
        raise InputError("{images} are empty: the shape is {value}", field="images", value=tuple(tensor.shape))
    if tensor.shape[-1] in (1, 3, 4) and tensor.shape[-3] not in (1, 3):
        raise InputError(
            "{images} must be {rule}, but the shape {value} looks like F H W C",
            field="images", rule="F C H W", value=tuple(tensor.shape), remedy="move the channels",
        )  # fmt: skip
    if not tensor.dtype.is_floating_point:
        raise InputTypeError(
            "{images} must be {rule} as floats, but are {value}",
            field="images", rule=LIGHT, value=tensor.dtype, remedy="see focalsweep.srgb_to_linear",
        )  # fmt: skip
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    # One frame at a time: no temporary the size of a large stack. Read all at once: a GPU is waited for once.
    ends = [torch.stack(frame.aminmax()) for frame in tensor.detach().flatten(0, -4)]
    for i, (low, high) in enumerate(torch.stack(ends).tolist()):
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InputError(
                "{images} must be {rule}: frame {frame} has NaN or infinite pixels",
                field="images", rule="finite", frame=i % tensor.shape[-4],
            )  # fmt: skip
        if low < -0.5 or high > 2.0:
            raise InputError(
                "{images} must be {rule}: frame {frame} runs from {low:g} to {high:g}",
                field="images", rule=LIGHT, value=(low, high), frame=i % tensor.shape[-4], low=low, high=high,
                remedy="divide by the white level first",
            )  # fmt: skip
    return tensor
