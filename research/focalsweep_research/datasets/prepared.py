"""Real stacks as `estimate_depth` hands them to a method: registered, lens and range found, at the working size."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from focalsweep.estimate import estimate
from focalsweep.methods.method import Options
from focalsweep.photos.frames import read_stack
from focalsweep.photos.reading import open_photos
from focalsweep.results.writing import write_files
from focalsweep.types import Camera, DepthGrid, DepthPrediction, FocalStack, RelativeLens
from focalsweep.version import __version__
from focalsweep_research.datasets.marked import Region, registered_mask

LENSES = {"camera": Camera, "lens": RelativeLens}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A stack, and where its flat things are.

    Args:
        name: of its folder.
        stack: not a batch.
        planes: over what it shows.
        regions: by name, H W.
    """

    name: str
    stack: FocalStack
    planes: DepthGrid
    regions: dict[str, Tensor]

    @property
    def focus_range(self) -> float:
        """In inverse depth."""
        inverse = 1 / self.stack.focus_distances
        return float(inverse.max() - inverse.min())


def prepare(
    folder: Path, regions: list[Region], share: float = 1.0, cache: Path | None = None, order: str | None = None
) -> Prepared:
    """The way of `estimate_depth` up to its method; `share` below 1: smaller than that.

    `cache` keeps what comes out, by the names and sizes of photos and marks: empty it when registration changes.
    `order` is that of the focus, where the folder does not say it: "near-to-far" or "far-to-near".
    """
    kept = cache / f"{folder.name}-{_key(folder, regions, share, order)}.pt" if cache else None
    if kept and kept.is_file():
        return _from_plain(folder.name, torch.load(kept, weights_only=True))
    prepared = _prepare(folder, regions, share, order)
    if kept:
        plain = _to_plain(prepared)

        def write(file: IO[bytes]) -> None:
            torch.save(plain, file)

        write_files({kept: write})
    return prepared


def _prepare(folder: Path, regions: list[Region], share: float, order: str | None) -> Prepared:
    try:
        given: dict[str, Any] = {"order": order} if order else {}
        photos = open_photos(folder, **given)
    except ValueError:
        photos = open_photos(folder, relative=True)
    frames = photos.register()
    try:
        estimate(read_stack(frames), _hand_over)
    except _HandedOverError as handed:
        stack, planes = _without_batch(handed.stack), handed.planes
    stack = stack.resized(share) if share < 1 else stack
    masks = {region.name: registered_mask(region, frames, stack.size) for region in regions}
    return Prepared(folder.name, stack, planes, masks)


def _without_batch(stack: FocalStack) -> FocalStack:
    """A batch of one, whose settings have the axes 1 F."""
    lens = {key: torch.as_tensor(value)[0] for key, value in asdict(stack.camera).items()}
    return FocalStack(
        images=stack.images[0],
        focus_distances=stack.focus_distances[0],
        camera=type(stack.camera)(**lens),
        magnification=torch.as_tensor(stack.magnification)[0],
    )


class _HandedOverError(Exception):
    """Carries what a method was given out of `estimate`: no depth of it is brought to full size."""

    def __init__(self, stack: FocalStack, planes: DepthGrid) -> None:
        super().__init__()
        self.stack, self.planes = stack, planes


def _hand_over(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    raise _HandedOverError(stack, planes)


def _key(folder: Path, regions: list[Region], share: float, order: str | None) -> str:
    files = sorted((path.name, path.stat().st_size) for path in folder.iterdir() if path.is_file())
    return hashlib.sha256(repr((__version__, share, files, regions, order)).encode()).hexdigest()[:12]


def _to_plain(prepared: Prepared) -> dict[str, Any]:
    """Tensors and plain values alone: reading them executes nothing."""
    stack = prepared.stack
    lens = next(name for name, kind in LENSES.items() if isinstance(stack.camera, kind))
    return {
        lens: {key: torch.as_tensor(value) for key, value in asdict(stack.camera).items()},
        "images": stack.images,
        "focus_distances": stack.focus_distances,
        "magnification": torch.as_tensor(stack.magnification),
        "inverse_depths": prepared.planes.inverse_depths,
        "regions": prepared.regions,
    }


def _from_plain(name: str, plain: dict[str, Any]) -> Prepared:
    lens = next(key for key in LENSES if key in plain)
    stack = FocalStack(
        images=plain["images"],
        focus_distances=plain["focus_distances"],
        camera=LENSES[lens](**plain[lens]),
        magnification=plain["magnification"],
    )
    return Prepared(name, stack, DepthGrid(plain["inverse_depths"]), plain["regions"])
