"""The rivals that are networks: built by name, filled with weights that you trained, read as methods.

Their weights are not part of the package. `focalsweep train research/configs/defocusnet.toml -o weights/defocusnet`
makes some; with FOCALSWEEP_WEIGHTS=weights in the environment `estimate_depth(stack, method="defocusnet")` finds
them, and `load("defocusnet", "weights/defocusnet")` gives the network itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from focalsweep.methods.method import Options, uninformed
from focalsweep.model.weights import fill
from focalsweep.progress import silent
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.rivals.aifdepthnet import AiFDepthNet
from focalsweep_research.rivals.answer import Answer, near_to_far
from focalsweep_research.rivals.ddff import DDFF
from focalsweep_research.rivals.defocusnet import DefocusNet

VARIABLE = "FOCALSWEEP_WEIGHTS"
CHECKPOINT = "checkpoint.pt"  # in the folder of a training run
OPTIONS = "network_options"  # in the header of a safetensors file: the constructor's keywords as JSON

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "ddff": DDFF,
    "defocusnet": DefocusNet,
    "aifdepthnet": AiFDepthNet,
    "aifdepthnet-aif": AiFDepthNet,  # trained by the all-in-focus picture, without depth
}


BYTES_A_PIXEL = {"ddff": 2100, "defocusnet": 1200, "aifdepthnet": 900, "aifdepthnet-aif": 900}
"""Of a frame, on a CPU: the peak memory of research/results/0.1/runtime-cpu.json."""


def build(name: str, **options: Any) -> nn.Module:
    """The untrained network of that name."""
    if name not in NETWORKS:
        raise ValueError(f"no network of the rivals is called {name!r}: it is one of {', '.join(NETWORKS)}")
    return NETWORKS[name](**options)


def load(name: str, path: str | Path, device: torch.device | str = "cpu") -> nn.Module:
    """The network of that name with weights from a file, ready to predict.

    Args:
        name: of NETWORKS.
        path: a safetensors file, a checkpoint of `focalsweep train`, or the folder of such a run.
        device: where it will run.
    """
    path = Path(path)
    if path.is_dir():
        path = path / CHECKPOINT
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give weights of {name}, or {_recipe(name)}")
    state, options = _read_safetensors(path) if path.suffix == ".safetensors" else _read_checkpoint(path, name)
    network = build(name, **options)
    fill(network, state, path, f"it is of another network than {name}, or of other network_options")
    return network.eval().requires_grad_(False).to(device)


def save(network: nn.Module, path: str | Path, **options: Any) -> None:
    """Weights as safetensors, with the `options` that the network was built with; `load` reads them back."""
    from safetensors.torch import save_file

    state = {key: value.contiguous() for key, value in network.state_dict().items()}
    save_file(state, str(path), metadata={OPTIONS: json.dumps(options)})


def find_weights(name: str) -> Path:
    """The weights of that name in the folder that FOCALSWEEP_WEIGHTS names: NAME.safetensors or a run's NAME/."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise FileNotFoundError(f"the weights of {name} are not shipped: {_recipe(name)}")
    choices = (Path(folder) / f"{name}.safetensors", Path(folder) / name / CHECKPOINT)
    for path in choices:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{VARIABLE} has neither {choices[0]} nor {choices[1]}: {_recipe(name)}")


def network_depth(stack: FocalStack, planes: DepthGrid, options: Options, name: str) -> DepthPrediction:
    """Depth of a batched stack by the network of that name, with the weights that `find_weights` finds.

    These networks read a picture whole: a stack that takes more memory than there is, is refused first.
    """
    path = find_weights(name)
    _check_memory(name, stack)
    network = _loaded(name, path, path.stat().st_mtime_ns, stack.images.device)
    prediction = predict(network, stack, planes)
    (options.progress or silent)("network", 1.0)
    return prediction


def _check_memory(name: str, stack: FocalStack) -> None:
    batch, frames, _, height, width = stack.images.shape
    needed = BYTES_A_PIXEL[name] * batch * frames * height * width
    there = psutil.virtual_memory().available
    if stack.images.device.type == "cpu" and needed > there:
        raise ValueError(
            f"{name} takes about {needed / 1e9:.0f} GB for {frames} frames of {width} x {height} px, and "
            f"{there / 1e9:.0f} GB are free: give smaller or fewer photos"
        )


@torch.no_grad()
def predict(network: nn.Module, stack: FocalStack, planes: DepthGrid) -> DepthPrediction:
    """What a rival's network says of a batched stack.

    Where it has a spread (AiFDepthNet) that is the std, and the confidence is the chance that a Laplace distribution of
    it gives a plane and its neighbours; the others say nothing of their error.
    """
    answer: Answer = network(*near_to_far(stack.to(dtype=torch.float32)))
    if answer.std is None:
        return uninformed(answer.depth, planes)
    inverse = planes.as_batch(len(answer.depth)).to(answer.depth)
    step = ((inverse[:, 0] - inverse[:, -1]) / (planes.count - 1))[:, None, None]
    scale = (answer.std / answer.depth.square() / 2**0.5).clamp_min(1e-9)
    return DepthPrediction(answer.depth, answer.std, -torch.expm1(-1.5 * step / scale))


@lru_cache(maxsize=4)
@torch.inference_mode(False)
def _loaded(name: str, path: Path, changed: int, device: torch.device) -> nn.Module:
    return load(name, path, device)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            options = json.loads((file.metadata() or {}).get(OPTIONS, "{}"))
            return {key: file.get_tensor(key) for key in file.keys()}, options  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError):
        raise ValueError(f"{path} is no safetensors file, or a truncated one: take another") from None


def _read_checkpoint(path: Path, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The averaged weights of a training run; nothing in the file is executed."""
    try:
        record = torch.load(path, map_location="cpu", weights_only=True)
        state, config = record["ema"], record["config"]
        trained, options = config["network"], config["network_options"]
    except Exception:  # torch has no one error for bad bytes
        raise ValueError(f"{path} is no checkpoint of focalsweep, or a truncated one: take another") from None
    if trained != name:
        raise ValueError(f"{path} holds {trained}, not {name}: point to a run of {name}")
    return state, options


def _recipe(name: str) -> str:
    command = f"focalsweep train research/configs/{name}.toml -o FOLDER/{name} --data DATA"
    return f"train it ({command}) and set {VARIABLE}=FOLDER"
