"""Weights in 8 bits: a scale for each output channel, the codes compressed. For networks too large to ship else."""

from __future__ import annotations

import json
import zlib
from typing import Any

import torch
from torch import Tensor

SCALE = ".scale"
ABOUT = "about"
LARGEST_BYTES = 2**29  # of the unpacked file: a damaged one does not fill the memory


def pack(state: dict[str, Tensor], about: dict[str, Any] | None = None, largest_code: int = 127) -> bytes:
    """Weights of two axes or more as codes times a scale; biases, norms and their statistics in 32 bits.

    Args:
        state: of a network.
        about: what is to be known of it, plain values; `read_about` gives it back.
        largest_code: codes go from minus this to this; fewer of them are smaller when compressed, and farther off.
    """
    if not 1 <= largest_code <= 127:
        raise ValueError(f"largest_code must lie in 1 to 127 to fit 8 bits, but is {largest_code}")
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
            packed[name] = (channels * (largest_code / largest)[:, None]).round().to(torch.int8).view(value.shape)
            packed[name + SCALE] = largest / largest_code
    return zlib.compress(save(packed, metadata={ABOUT: json.dumps(about or {})}), 9)


def unpack(content: bytes) -> dict[str, Tensor]:
    """What `pack` made, as float32."""
    from safetensors.torch import load

    packed = load(_decompressed(content))
    scales = {name.removesuffix(SCALE): packed.pop(name) for name in list(packed) if name.endswith(SCALE)}
    return {
        name: value * scales[name].view(-1, *[1] * (value.ndim - 1)) if name in scales else value
        for name, value in packed.items()
    }


def read_about(content: bytes) -> dict[str, Any]:
    """What `pack` was told of the weights; the header of a safetensors file is JSON after its length in 8 bytes."""
    raw = _decompressed(content)
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    about: dict[str, Any] = json.loads(header.get("__metadata__", {}).get(ABOUT, "{}"))
    return about


def _decompressed(content: bytes) -> bytes:
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(content, LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(f"the weights are damaged: {error}") from None
    if not reader.eof:
        raise ValueError("the weights are damaged: their end is missing, or they are larger than any we ship")
    return raw
