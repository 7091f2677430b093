"""Heights under a microscope, by wave optics: python research/scripts/wave_optics.py OUT.json [CASE ...]

Surfaces with a fractal texture, lit incoherently and seen through a round aperture in air. The picture of each height
is blurred by its own PSF: the field behind the aperture, carried to the plane in focus by the angular spectrum. Neither
the PSF in closed form nor the network has part in it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import focalsweep as fs
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe

Array = NDArray[np.float64]
WAVELENGTH = 0.55e-6
SIDE_PX, FINER, MARGIN_PX = 192, 2, 64  # pixels; fine ones a pixel; fine ones around the picture
LAYERS_A_STEP = 4
NOISE = 0.005
BORDER_PX = 12  # left out of the comparison
METHODS = ("sweep", "argmin", "focus_measure")


@dataclass(frozen=True)
class Case:
    """An objective, what is told of it, and a stack of frames.

    Args:
        depths_of_field: from the first frame to the last; one is wavelength / NA^2.
        surface: "tilt", a plane that crosses 80 % of the stack, or "dome".
        told: whether the aperture is known; otherwise the blur is measured.
    """

    numerical_aperture: float
    frames: int
    depths_of_field: float
    surface: str = "tilt"
    told: bool = True

    @property
    def pixel_size(self) -> float:
        """Metres: 1.4 pixels for each that the aperture resolves."""
        return WAVELENGTH / (4 * self.numerical_aperture) / 1.4

    @property
    def step(self) -> float:
        return self.depths_of_field * WAVELENGTH / self.numerical_aperture**2 / (self.frames - 1)


CASES = {
    "NA 0.05, 10 frames": Case(0.05, 10, 7),
    "NA 0.1, 20 frames": Case(0.1, 20, 7),
    "NA 0.25, 13 frames": Case(0.25, 13, 7),
    "NA 0.25, 13 frames, dome": Case(0.25, 13, 7, "dome"),
    "NA 0.25, 13 frames, aperture not told": Case(0.25, 13, 7, told=False),
    "NA 0.4, 13 frames": Case(0.4, 13, 7),
    "NA 0.4, 13 frames, dome": Case(0.4, 13, 7, "dome"),
    "NA 0.4, 13 frames, aperture not told": Case(0.4, 13, 7, told=False),
    "NA 0.4, 60 frames": Case(0.4, 60, 7),
}


def otf(case: Case, defocus: float, side: int) -> NDArray[np.complex128]:
    """Of an incoherent picture, on the fine grid: half of the plane, as `rfft2` wants it."""
    frequency = np.fft.fftfreq(side, case.pixel_size / FINER)
    sines = (frequency[:, None] ** 2 + frequency**2) * WAVELENGTH**2
    phase = 2 * math.pi / WAVELENGTH * defocus * np.sqrt(np.maximum(0, 1 - sines))
    field = np.fft.ifft2((sines < case.numerical_aperture**2) * np.exp(1j * phase))
    psf = np.abs(field) ** 2
    found: NDArray[np.complex128] = np.fft.rfft2(psf / psf.sum())
    return found


def heights_of(case: Case, side: int) -> Array:
    """Metres, on the fine grid with its margin."""
    across = (np.arange(side) + 0.5 - side / 2) / (SIDE_PX * FINER)  # -0.5 to 0.5 over the picture
    rise = 0.8 * case.step * (case.frames - 1)
    if case.surface == "tilt":
        return np.broadcast_to(rise * across, (side, side))
    radius = np.hypot(across, across[:, None])
    dome: Array = rise * (0.5 - np.clip(2 * radius, 0, 1) ** 2)
    return dome


def render(case: Case, seed: int = 0) -> tuple[torch.Tensor, list[float], Array]:
    """Frames F 1 H W, the heights they are focused at, and the surface's, metres."""
    rng = np.random.default_rng(seed)
    side = SIDE_PX * FINER + 2 * MARGIN_PX
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    texture = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(side, side))) / (frequency + 1 / side), (side, side))
    spectrum = np.fft.rfft2(np.clip(0.5 + 0.16 * (texture - texture.mean()) / texture.std(), 0.02, 0.98))
    heights = heights_of(case, side)
    count = LAYERS_A_STEP * (case.frames - 1) if case.frames < 30 else case.frames - 1
    levels = np.linspace(heights.min(), heights.max(), count)
    places = ((np.arange(case.frames) - (case.frames - 1) / 2) * case.step).tolist()
    frames = np.zeros((case.frames, side, side))
    for level in levels:
        share = np.clip(1 - np.abs(heights - level) / (levels[1] - levels[0]), 0, 1)
        for frame, place in zip(frames, places, strict=True):
            frame += share * np.fft.irfft2(spectrum * otf(case, level - place, side), (side, side))
    inside = np.s_[..., MARGIN_PX:-MARGIN_PX, MARGIN_PX:-MARGIN_PX]
    pixels = frames[inside].reshape(case.frames, SIDE_PX, FINER, SIDE_PX, FINER).mean((2, 4))
    pixels += NOISE * rng.normal(size=pixels.shape)
    truth = heights[inside].reshape(SIDE_PX, FINER, SIDE_PX, FINER).mean((1, 3))
    return torch.from_numpy(pixels.clip(0, 1)).float()[:, None], places, truth


def fitted_laplacian(frames: torch.Tensor, places: list[float]) -> Array:
    """What microscopists use: the modified Laplacian's energy in a window, a Gaussian through its three best frames."""
    import cv2

    energy = []
    for frame in frames[:, 0].double().numpy():
        down, across = (
            cv2.filter2D(frame, -1, kernel)
            for kernel in (np.array([[-1], [2], [-1]]) * 1.0, np.array([[-1, 2, -1]]) * 1.0)
        )
        energy.append(cv2.GaussianBlur((np.abs(down) + np.abs(across)) ** 2, (0, 0), 3))
    logs = np.log(np.stack(energy) + 1e-12)
    best = logs.argmax(0).clip(1, len(logs) - 2)
    before, here, after = (np.take_along_axis(logs, best[None] + k, 0)[0] for k in (-1, 0, 1))
    bend = np.minimum(before - 2 * here + after, -1e-9)
    found: Array = places[0] + (places[1] - places[0]) * (best + np.clip(0.5 * (before - after) / bend, -1, 1))
    return found


def judge(found: Array, std: Array | None, truth: Array, case: Case) -> dict[str, float]:
    inside = np.s_[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX]
    error = (found - truth)[inside] / case.step
    row = {
        "median_error_steps": float(np.median(np.abs(error))),
        "p90_error_steps": float(np.quantile(abs(error), 0.9)),
    }
    if case.surface == "tilt":
        columns = np.broadcast_to(np.arange(SIDE_PX), truth.shape)[inside].ravel()
        row["tilt"] = float(
            np.polyfit(columns, found[inside].ravel(), 1)[0] / np.polyfit(columns, truth[inside].ravel(), 1)[0]
        )
    if std is not None:
        row["off_by_three_std"] = float(np.mean(np.abs(error) > 3 * std[inside] / case.step))
    return row


def run(name: str, case: Case) -> list[dict[str, Any]]:
    start = time.perf_counter()
    frames, places, truth = render(case)
    rendered = time.perf_counter() - start
    aperture = case.numerical_aperture if case.told else None
    stage = fs.Stage(positions=places, pixel_size=case.pixel_size, numerical_aperture=aperture)
    stack = fs.FocalStack(frames, camera=stage)
    rows = []
    for method in METHODS:
        result = fs.estimate_depth(stack, method)
        found = judge(np.asarray(result.depth, np.float64), np.asarray(result.std, np.float64), truth, case)
        rows.append({"case": name, "method": method, **found, "fits": result.record["fit"]["fits"]})
    rows.append(
        {"case": name, "method": "fitted Laplacian", **judge(fitted_laplacian(frames, places), None, truth, case)}
    )
    for row in rows:
        print(
            f"{name:40s} {row['method']:18s}",
            {k: round(v, 4) for k, v in row.items() if isinstance(v, float)},
            flush=True,
        )
    return [row | asdict(case) | {"step": case.step, "rendering_s": rendered} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    before = json.loads(asked.output.read_text())["rows"] if asked.output.is_file() else []
    rows = [row for row in before if row["case"] not in asked.cases]
    rows += [row for name in asked.cases for row in run(name, CASES[name])]
    rows.sort(key=lambda row: list(CASES).index(row["case"]))
    record = json_bytes({"benchmark": "wave optics", **describe(torch.device("cpu"), 0), "rows": rows})
    write_files({asked.output: lambda file: file.write(record)})


if __name__ == "__main__":
    main()
