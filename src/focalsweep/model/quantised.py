"""Weights in 8 bits: a scale for each output channel, the codes compressed. For networks too large to ship else."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

SCALE = ".scale"
LARGEST_BYTES = 2**29  # of the unpacked file: a damaged one does not fill the memory


def pack(state: dict[str, Tensor]) -> bytes:
    """Weights of two axes or more as codes -127..127 times a scale; biases, norms and their statistics in 32 bits."""
    from safetensors.torch import save

    packed: dict[str, Tensor] = {}
    for name, value in state.items():
        if not value.is_floating_point():
            packed[name] = value.contiguous()
        elif value.ndim < 2:
            packed[name] = value.float().contiguous()
        else:
            channels = value.float().flatten(1)
            largest = channels.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
            packed[name] = (channels * (127 / largest)[:, None]).round().to(torch.int8).view(value.shape)
            packed[name + SCALE] = largest / 127
    return zlib.compress(save(packed), 9)


def unpack(content: bytes) -> dict[str, Tensor]:
    """What `pack` made, as float32."""
    from safetensors.torch import load

    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(content, LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(f"the weights are damaged: {error}") from None
    if not reader.eof:
        raise ValueError("the weights are damaged: their end is missing, or they are larger than any we ship")
    packed = load(raw)
    scales = {name.removesuffix(SCALE): packed.pop(name) for name in list(packed) if name.endswith(SCALE)}
    return {
        name: value * scales[name].view(-1, *[1] * (value.ndim - 1)) if name in scales else value
        for name, value in packed.items()
    }
