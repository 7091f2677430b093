"""NYU Depth V2 (Silberman 2012) made into focal stacks by Carvalho's renderer: the paper's NYU experiment.

Read as `nyu_depth_v2_labeled.mat` (HDF5), or as a folder of `NNNN_rgb.jpg` with `NNNN_depth.png` (8 bit,
metres = (v + 0.5) / 25.5). Numbers are the official ones from 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.optics.psf import Gaussian, HasKernel, Psf
from focalsweep.photos.pictures import read_codes
from focalsweep.results.layered import DILATION_PX, SLICE_THICKNESS, render_layered
from focalsweep.results.writing import write_files
from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.files import existing_folder, hdf5_array, opened_hdf5, read_single_channel
from focalsweep_research.datasets.item import Item, Items

CAMERA = Camera(15e-3, 2.8, 5.6e-6)  # paper, Table 1
CROP_PX = 256
CROPS = tuple((int(50 + 62 * row), int(50 + 284 / 3 * column)) for row in range(3) for column in range(4))
"""Top and left of the 12 windows of 256 x 256 px that the paper measures in each picture of 640 x 480."""


@dataclass(frozen=True, eq=False)
class NyuSetup:
    """How pictures become stacks; as it stands, the paper's experiment.

    Args:
        camera: 15 mm f/2.8 with 5.6 um pixels (paper, Table 1).
        focus_distances: metres, before `scale`.
        scale: every length of stack and depth is multiplied by it after rendering: 10 m become 3 m. The blur stays.
        psf: "disk" (what the paper says) or `Gaussian(0.3)` (what Carvalho published, with `largest_kernel_px` 21).
        light: "display" blurs the 8-bit values as they are, as Carvalho did: the stack holds these values, in which the
            blur adds up, and the paper's cost must not encode them again (`PaperCost(display_encoded=False)`).
            "linear" blurs linear light and stores sRGB, as a camera does; costs are used as they are.
        dilation_px, largest_kernel_px, slice_thickness: see `render_layered`.
    """

    camera: Camera = CAMERA
    focus_distances: tuple[float, ...] = (2.0, 4.0, 8.0)
    scale: float = 0.3
    psf: str | Psf | HasKernel = "disk"
    light: Literal["display", "linear"] = "display"
    dilation_px: int = DILATION_PX
    largest_kernel_px: int | None = None
    slice_thickness: float = SLICE_THICKNESS

    def __post_init__(self) -> None:
        if self.light not in ("display", "linear"):
            raise ValueError(f'light must be "display" or "linear", but is {self.light!r}')


AS_CARVALHO = NyuSetup(psf=Gaussian(0.3), largest_kernel_px=21)
"""By the parameters that Carvalho published, where the paper says disks."""


class Nyu(Items):
    """Whole pictures (640 x 480) as stacks rendered when they are asked for, 8-bit values.

    Args:
        path: the .mat file, or the folder.
        ids: official numbers from 0; None is all that are there.
        setup: camera and renderer.
        device: where stacks are rendered and stay.
        cache: folder that keeps what was rendered, 8 bit, for the next time: rendering takes longer than most methods.
    """

    def __init__(
        self,
        path: str | Path,
        ids: Sequence[int] | None = None,
        *,
        setup: NyuSetup | None = None,
        device: torch.device | str = "cpu",
        cache: str | Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.setup = setup or NyuSetup()
        self.device = torch.device(device)
        self.cache = None if cache is None else Path(cache)
        present = self._present()
        self.ids = present if ids is None else [int(i) for i in ids]
        missing = sorted(set(self.ids) - set(present))
        if missing:
            raise ValueError(f"{self.path} has no picture {missing[0]:04d}: it holds {len(present)} of them")

    def __len__(self) -> int:
        return len(self.ids)

    def read_item(self, number: int) -> Item:
        official = self.ids[number]
        image, depth = (maps.to(self.device) for maps in self.read(official))
        return item_of(f"{official:04d}", self._codes(official, image, depth), depth, self.setup)

    def _codes(self, official: int, image: Tensor, depth: Tensor) -> Tensor:  # F 3 H W
        if self.cache is None:
            return render_codes(image, depth, self.setup)
        # By what goes in: another picture of that number, or another renderer's settings, is another file.
        key = hashlib.sha256(repr(self.setup).encode() + image.cpu().numpy().tobytes() + depth.cpu().numpy().tobytes())
        path = self.cache / f"{official:04d}-{key.hexdigest()[:16]}.npy"
        with contextlib.suppress(FileNotFoundError, ValueError, EOFError):  # not there, or damaged: rendered anew
            return torch.from_numpy(np.load(path, allow_pickle=False)).to(self.device)
        codes = render_codes(image, depth, self.setup)
        write_files({path: lambda file: np.save(file, codes.cpu().numpy(), allow_pickle=False)})
        return codes

    def read(self, number: int) -> tuple[Tensor, Tensor]:
        """The sharp picture, display-encoded 0..1 (3 H W), and its depth in metres (H W), by official number."""
        codes, depth = self._read_mat(number) if self.path.is_file() else self._read_files(number)
        if codes.shape[-1] != 3 or codes.shape[:2] != depth.shape:
            raise ValueError(
                f"{self.path}: picture {number:04d} has the shape {codes.shape}, its depth {depth.shape}: "
                "they must be H W 3 and H W"
            )
        image = torch.from_numpy(codes.astype(np.float32)).movedim(-1, 0).contiguous() / 255
        return image, torch.from_numpy(np.ascontiguousarray(depth, dtype=np.float32))

    def _present(self) -> list[int]:
        if self.path.is_file():
            with opened_hdf5(self.path) as file:
                return list(range(len(hdf5_array(file, "images", self.path, "N C W H"))))
        folder = existing_folder(self.path, "NYU Depth V2 (NNNN_rgb.jpg and NNNN_depth.png), or its .mat file")
        names = sorted(path.name for path in folder.glob("*_rgb.jpg") if re.fullmatch(r"\d{4}_rgb\.jpg", path.name))
        if not names:
            raise FileNotFoundError(f"{folder} has no NNNN_rgb.jpg: give the folder of NYU Depth V2, or its .mat file")
        return [int(name[:4]) for name in names]

    def _read_mat(self, number: int) -> tuple[Any, Any]:
        """MATLAB stores columns first: C W H and W H."""
        with opened_hdf5(self.path) as file:
            codes = hdf5_array(file, "images", self.path, "N C W H")[number]
            depth = hdf5_array(file, "depths", self.path, "N W H")[number]
        return codes.transpose(2, 1, 0), depth.T

    def _read_files(self, number: int) -> tuple[Any, Any]:
        steps = read_single_channel(self.path / f"{number:04d}_depth.png")
        return read_codes(self.path / f"{number:04d}_rgb.jpg"), (steps.astype(np.float64) + 0.5) / 25.5


def render_codes(image: Tensor, depth: Tensor, setup: NyuSetup) -> Tensor:  # F C H W, 8 bit
    """The frames of a display-encoded picture (C H W, 0..1) with its depth (H W, metres), as files would hold them."""
    frames = render_layered(
        srgb_to_linear(image) if setup.light == "linear" else image,
        depth,
        setup.camera,
        setup.focus_distances,
        psf=setup.psf,
        slice_thickness=setup.slice_thickness,
        dilation_px=setup.dilation_px,
        largest_kernel_px=setup.largest_kernel_px,
    ).clamp(0, 1)
    if setup.light == "linear":
        frames = linear_to_srgb(frames)
    return frames.mul(255).round().to(torch.uint8)


def item_of(name: str, codes: Tensor, depth: Tensor, setup: NyuSetup) -> Item:
    """What was rendered (F C H W, 8 bit) as a stack with its depth (H W, metres), all lengths times the scale."""
    frames = codes.float() / 255
    frames = srgb_to_linear(frames) if setup.light == "linear" else frames
    stack = FocalStack(frames, list(setup.focus_distances), setup.camera).scaled(setup.scale)
    return Item(name, stack, depth * setup.scale)


def part_of(path: str | Path, part: Literal["train", "test"]) -> tuple[Path, list[int] | None]:
    """Where the pictures of a part are, and their numbers, None for all: what `Nyu` takes.

    Args:
        path: the .mat file, with the official splits.mat beside it; a folder with train/, and test/ or dev/ for
            testing; or a folder that is such a part itself.
        part: which one.
    """
    path = Path(path)
    if path.is_file():
        splits = path.with_name("splits.mat")
        if not splits.is_file():
            raise FileNotFoundError(f"{splits} says which pictures are for testing: put NYU's official one there")
        return path, official_split(splits, part)
    names = {"train": ("train",), "test": ("test", "dev")}
    for name in names[part]:
        if (path / name).is_dir():
            return path / name, None
    if part == "train" and path.name in names["test"]:
        raise ValueError(f"{path} holds pictures for testing: train on others, or give the folder that has train/ too")
    return path, None


def official_split(path: str | Path, part: Literal["train", "test"]) -> list[int]:
    """Numbers from 0 of the official split, as `splits.mat` has them: 795 for training, 654 for testing."""
    from scipy.io import loadmat

    table = loadmat(path)
    return [int(i) - 1 for i in table[f"{part}Ndxs"].reshape(-1)]
