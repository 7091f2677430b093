"""`focalsweep evaluate`: methods against protocols, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from focalsweep_research.datasets.nyu import AS_CARVALHO
from focalsweep_research.environment import describe
from focalsweep_research.metrics.seeds import over_seeds
from focalsweep_research.protocols import (
    error_bars,
    generated,
    measured,
    planes,
    real,
    robustness,
    rooms,
    runtime,
    stacks,
)
from focalsweep_research.protocols.methods import compared as compared_by_name
from focalsweep_research.protocols.training_runs import methods_of_runs

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
    "rooms": rooms.evaluate_rooms,
    "planes": planes.evaluate_planes,
    "nyu-trained": partial(stacks.evaluate_nyu, protocol="nyu-trained"),
    "nyu-gaussian": partial(stacks.evaluate_nyu, setup=AS_CARVALHO, protocol="nyu-gaussian"),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "confidence": error_bars.NAMES,
    "runtime": runtime.NAMES,
    "real": real.NAMES,
    "measured": measured.NAMES,
}
"""Those of methods that `estimate_depth` knows by name, and which they take by default."""
ALONE = ("runtime", "real")
METHODS = ("argmin", "argmin:cost=paper", "sweep")


@contextmanager
def processes(protocol: str) -> Iterator[bool]:
    """Whether this process writes the result: alone, or the first of those that torchrun started.

    They share a protocol's stacks among them. Sums travel by gloo, so that several may use one GPU.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield True
        return
    if protocol in ALONE:
        raise ValueError(f"{protocol} cannot be shared among processes: start it without torchrun")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.distributed.init_process_group("gloo", timeout=timedelta(hours=12))  # the last stacks of one may take long
    try:
        yield torch.distributed.get_rank() == 0
    finally:
        torch.distributed.destroy_process_group()


def run_protocol(
    protocol: str,
    methods: list[str] | None,
    runs: list[str],
    textures: Path | None,
    data: Path | None,
    device: torch.device,
    quick: bool,
    say: Callable[[str], None],
    pictures: Path | None = None,
    cache: Path | None = None,
) -> dict[str, Any]:
    """A protocol's result with the machine and versions; methods by name, and networks of training runs by folder.

    Without methods those of the protocol are taken. `pictures` is a folder for those that a protocol makes, `cache` one
    that keeps stacks rendered from NYU, or registered real ones.
    `runs` are folders, or NAME=FOLDER. Runs that differ in their seed alone share a row, see `methods_of_runs`; what
    each of them had is kept in "rows_of_runs".
    """
    known = (*ON_GENERATED, *ON_STACKS, *OTHERS)
    if protocol not in known:
        raise ValueError(f"no protocol is called {protocol!r}: it is one of {', '.join(known)}")
    share = 0.1 if quick else 1.0
    if (protocol in ON_STACKS or protocol in ("real", "measured")) and data is None:
        raise ValueError(f"the protocol {protocol} measures on a dataset: give its folder with --data")
    if protocol in OTHERS:
        if runs:
            raise ValueError(f"the protocol {protocol} takes methods by name alone: leave out --run")
        names = list(OTHERS[protocol]) if methods is None else methods
        if protocol != "runtime":  # which takes networks as they are made: time does not depend on what they learnt
            for name in names:
                compared_by_name(name)
        if protocol == "runtime":
            result = runtime.evaluate_runtime(names, device, say, share)
        elif protocol == "confidence":
            with torch.no_grad():
                result = error_bars.evaluate_confidence(names, data, str(textures or ""), device, say, share)
        else:
            assert data is not None
            evaluate = real.evaluate_real if protocol == "real" else measured.evaluate_measured
            result = evaluate(names, data, pictures, device, say, share)
        return {**describe(device, generated.SEED), "quick": quick, **result}
    compared = {name: compared_by_name(name) for name in (METHODS if methods is None else methods)}
    trained = methods_of_runs(runs, compared, device)
    compared |= trained.methods
    about = {"quick": quick, "trained": trained.about}
    with torch.no_grad():
        if protocol in ON_STACKS:
            kept: dict[str, Any] = {"pictures": pictures}
            if protocol.startswith("nyu") or protocol == "planes":  # the others' stacks are files already
                kept["cache"] = cache
            result = ON_STACKS[protocol](compared, data, device, say, share, **kept)
        else:
            readers = {name: method.read_refitted for name, method in compared.items()}
            result = ON_GENERATED[protocol](readers, str(textures or ""), device, say, share)
            about["textures"] = "procedural and pictures" if textures else "procedural"
    if trained.groups:
        joined = over_seeds(result["rows"], trained.groups)
        result |= {"rows": joined, "rows_of_runs": result["rows"], "groups": trained.groups}
        if "by_depth" in result:
            result["by_depth"] = over_seeds(result["by_depth"], trained.groups)
        if "spread" in result:
            result["spread"] = generated.spread_over_cameras(joined)
    return {**describe(device, generated.SEED), **about, **result}


SAME = ("protocol", "quick", "seed", "pictures", "stacks", "data", "textures", "light", "psf")
"""What two results must agree in to be one."""


def read_result(path: Path, protocol: str, quick: bool) -> dict[str, Any]:
    """A result to join, known to be one of that protocol before anything long begins."""
    try:
        result = json.loads(path.read_text())
        found = {"protocol": result["protocol"], "quick": result["quick"]}
        [row["method"] for row in result["rows"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not a result of focalsweep evaluate: give a JSON file that it wrote") from None
    _check_same({"protocol": protocol, "quick": quick}, found, path, tuple(found))
    return {**result, "file": path.name}


def join_result(result: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The result with the rows of another one of the same data; "joined" says where those were measured.

    A method that takes hours, or another machine, need not be measured again with every new one.
    """
    name = Path(other["file"])
    _check_same(result, other, name, SAME)
    methods = list(dict.fromkeys(row["method"] for row in other["rows"]))
    twice = set(methods) & {row["method"] for row in result["rows"]}
    if twice:
        raise ValueError(f"{name} has {sorted(twice)[0]} too: leave it out of --methods and --run, or do not join")
    elsewhere = {method for part in other.get("joined", []) for method in part["methods"]}
    own = [method for method in methods if method not in elsewhere]
    about = {key: other.get(key) for key in ("file", "machine", "versions", "weights", "commit")} | {"methods": own}
    lists: dict[str, Any] = {
        key: result[key] + other.get(key, []) for key in ("rows", "by_depth", "rows_of_runs") if key in result
    }
    merged: dict[str, Any] = {
        key: {**other.get(key, {}), **result[key]} for key in ("trained", "groups", "curves") if key in result
    }
    return {
        **result,
        **lists,
        **merged,
        "joined": [*result.get("joined", []), *other.get("joined", []), *([about] if own else [])],
    }


def _check_same(result: dict[str, Any], other: dict[str, Any], path: Path, keys: tuple[str, ...]) -> None:
    for key in keys:
        if other.get(key) != result.get(key):
            raise ValueError(
                f"{path} cannot be joined: its {key} is {other.get(key)!r}, that of this result {result.get(key)!r}"
            )
