"""`focalsweep evaluate`: methods against protocols, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from focalsweep.cli.methods import method_of
from focalsweep.cli.runs import methods_of_runs
from focalsweep.evaluation import generated, robustness, stacks
from focalsweep.evaluation.environment import describe
from focalsweep.evaluation.seeds import over_seeds

ON_GENERATED: dict[str, Callable[..., dict[str, Any]]] = {
    "generator": generated.evaluate_generator,
    "stack-size": partial(generated.evaluate_generator, frame_counts=(2, 3, 4, 5, 6, 7, 8), protocol="stack-size"),
    "cameras": generated.evaluate_cameras,
    "robustness": robustness.evaluate_robustness,
}
ON_STACKS: dict[str, Callable[..., dict[str, Any]]] = {
    "defocusnet": stacks.evaluate_defocusnet,
    "focus-split": stacks.evaluate_focus_split,
    "nyu": stacks.evaluate_nyu,
    "nyu-trained": partial(stacks.evaluate_nyu, protocol="nyu-trained"),
}


def run_protocol(
    protocol: str,
    methods: list[str],
    runs: list[str],
    textures: Path | None,
    data: Path | None,
    device: torch.device,
    quick: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """A protocol's result with the machine and versions; methods by name, and networks of training runs by folder.

    `runs` are folders, or NAME=FOLDER. Runs that differ in their seed alone share a row, see `methods_of_runs`; what
    each of them had is kept in "rows_of_runs".
    """
    if protocol not in ON_GENERATED | ON_STACKS:
        names = ", ".join(ON_GENERATED | ON_STACKS)
        raise ValueError(f"no protocol is called {protocol!r}: it is one of {names}")
    if protocol in ON_STACKS and data is None:
        raise ValueError(f"the protocol {protocol} measures on a dataset: give its folder with --data")
    compared = {name: method_of(name, device) for name in methods}
    trained = methods_of_runs(runs, compared, device)
    compared |= trained.methods
    share = 0.1 if quick else 1.0
    about = {"quick": quick, "trained": trained.about}
    with torch.no_grad():
        if protocol in ON_STACKS:
            result = ON_STACKS[protocol](compared, data, device, say, share)
        else:
            readers = {name: method.read_refitted for name, method in compared.items()}
            result = ON_GENERATED[protocol](readers, str(textures or ""), device, say, share)
            about["textures"] = "procedural and pictures" if textures else "procedural"
    if trained.groups:
        joined = over_seeds(result["rows"], trained.groups)
        result |= {"rows": joined, "rows_of_runs": result["rows"], "groups": trained.groups}
        if "spread" in result:
            result["spread"] = generated.spread_over_cameras(joined)
    return {**describe(device, generated.SEED), **about, **result}
