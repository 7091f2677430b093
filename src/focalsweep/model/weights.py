"""Weights are data: what they are, how they were made, under which terms; and loading them with every check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from focalsweep.model.blocks import fold_batch_norms
from focalsweep.model.papernet import PaperNet
from focalsweep.model.quantised import read_about, unpack
from focalsweep.model.sweepnet import SweepNet

FOLDER = Path(__file__).resolve().parent / "data"

SCANNED_OBJECTS = (
    "trained on textures of Google Scanned Objects by Google Research (CC BY 4.0, Downs et al., ICRA 2022; "
    "cut to squares and resized) and on procedural content"
)


@dataclass(frozen=True)
class Weights:
    """One file of weights.

    Args:
        file: in the package, safetensors in half precision.
        sha256: of the file.
        recipe: the command that made it.
        licence: of the file.
        attribution: of the training content.
        results: what was measured with it.
        valid_range: what it was trained for.
        options: of the network's constructor.
    """

    file: str
    sha256: str
    recipe: str
    licence: str
    attribution: str
    results: dict[str, float]
    valid_range: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)


WEIGHTS = {
    "sweepnet": Weights(
        file="sweepnet.safetensors",
        sha256="9e1771a70794cc2fc5281e550681df28598fcd68c5d1b9c9bbac7fafedbde2de",
        recipe="focalsweep train configs/sweepnet.toml --time-limit 6.5 --textures TEXTURES, 3136 steps, then "
        "configs/sweepnet-refine.toml three times, each from the weights before, with --time-limit 8, 6.5 and 5, 4064, "
        "2572 and 1710 steps, on one H200; research/scripts/ship_sweepnet.py of the last two",
        licence="MIT",
        attribution=SCANNED_OBJECTS,
        results={"nyu_sampled_rmse": 0.0542, "benchmark_rmse_m": 0.225, "focus_split_rmse_m": 0.259},
        valid_range={"frames": [2, 8], "blur_px": [4, 30], "noise_std": [5e-4, 2e-2], "planes": [32, 128]},
    )
}


PAPERNET = "papernet.safetensors.zlib"
"""The paper's network in 8 bits, in the package or not; it says itself what it is, see `papernet_about`."""
FULLER_DESCRIPTIONS = {
    "42c5fb476ab0": {
        "recipe": "focalsweep train research/configs/paper-defocusnet.toml --data BENCHMARK on one H200, four cycles "
        "of 6856, 8012, 4716 and 7439 steps, each from the weights before; research/scripts/pack_papernet.py of the "
        "last",
        "attribution": "trained on pictures rendered of Google Scanned Objects by Google Research (CC BY 4.0, Downs et "
        "al., ICRA 2022; meshes simplified, textures resized) and of their textures, lit by Poly Haven's skies (CC0)",
    }
}
"""By the begin of a packed file's SHA-256: what it says too briefly of itself."""


def load_network(name: str = "sweepnet", device: torch.device | str = "cpu") -> SweepNet:
    """The shipped network of that name, ready to predict."""
    if name not in WEIGHTS:
        raise ValueError(f"no weights are called {name!r}: they are {', '.join(WEIGHTS)}")
    return _load(name, torch.device(device))


def load_papernet(device: torch.device | str = "cpu") -> PaperNet:
    """The paper's network with the weights of this installation, ready to predict."""
    path = FOLDER / PAPERNET
    if not path.is_file():
        raise FileNotFoundError(
            f'{path} does not exist: method "paper" needs the weights of a run of '
            'research/configs/paper-defocusnet.toml, packed by research/scripts/pack_papernet.py; or use method "sweep"'
        )
    return _load_papernet(path, path.stat().st_mtime_ns, torch.device(device))


@lru_cache(maxsize=2)
@torch.inference_mode(False)
def _load_papernet(path: Path, changed: int, device: torch.device) -> PaperNet:
    content = path.read_bytes()
    network = PaperNet(**papernet_about(content).get("options", {}))
    fill(network, unpack(content), path, "pack the weights of a PaperNet")
    network = fold_batch_norms(network.eval()).requires_grad_(False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.to(device)


def papernet_about(content: bytes | None = None) -> dict[str, Any]:
    """What the packed weights say of themselves: recipe, licence, attribution, results, valid_range, options."""
    content = (FOLDER / PAPERNET).read_bytes() if content is None else content
    return {**read_about(content), **FULLER_DESCRIPTIONS.get(_sha256_begin(content), {})}


def shipped_weights() -> dict[str, str]:
    """The files of weights that are in the package, by the begin of their SHA-256: goes into results."""
    found = {name: about.sha256[:12] for name, about in WEIGHTS.items()}
    if (FOLDER / PAPERNET).is_file():
        found["papernet"] = _sha256_begin((FOLDER / PAPERNET).read_bytes())
    return found


def _sha256_begin(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def fill_shipped(network: torch.nn.Module, name: str) -> None:
    """The shipped weights of that name into a network that is to be trained on."""
    if name not in WEIGHTS:
        raise ValueError(f"no weights of {name!r} are shipped: they are {', '.join(WEIGHTS)}")
    read_weights(network, FOLDER / WEIGHTS[name].file, WEIGHTS[name].sha256)


@lru_cache(maxsize=4)
@torch.inference_mode(False)
def _load(name: str, device: torch.device) -> SweepNet:
    network = SweepNet(**WEIGHTS[name].options)
    fill_shipped(network, name)
    return ready(network, device)


def ready(network: SweepNet, device: torch.device) -> SweepNet:
    """The network as it predicts: batch norms folded, in half precision on a GPU."""
    network = fold_batch_norms(network.eval()).requires_grad_(False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)


def read_weights(network: torch.nn.Module, path: Path, sha256: str) -> None:
    """Fill a network from a safetensors file; the hash, the names and the shapes must be right."""
    from safetensors.torch import load

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: install focalsweep anew, its weights are part of the package")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is not the file that was shipped (sha256 {found[:12]}..., expected {sha256[:12]}...): "
            "install focalsweep anew"
        )
    fill(network, load(content), path, "it belongs to another version of the network")


def fill(network: torch.nn.Module, given: Mapping[str, Any], path: str | Path, remedy: str) -> None:
    """Weights into a network that they must fit in every name and shape; batch norms' counters may be missing.

    An error says what does not fit in the file at `path`, and the remedy.
    """
    wanted = network.state_dict()
    counters = {key for key in wanted if key.endswith("num_batches_tracked")}
    for key in sorted((set(given) ^ set(wanted)) - (counters - set(given))):
        problem = "has no" if key in wanted else "has unknown"
        raise ValueError(f"{path} {problem} weights {key!r}: {remedy}")
    for key in given:
        shape = tuple(given[key].shape) if isinstance(given[key], torch.Tensor) else "of no tensor"
        if shape != tuple(wanted[key].shape):
            raise ValueError(
                f"{path}: weights {key!r} have the shape {shape}, the network {tuple(wanted[key].shape)}: {remedy}"
            )
    with torch.no_grad():
        for key in given:
            wanted[key].copy_(given[key])
