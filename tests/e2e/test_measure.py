"""`focalsweep measure` on the results of a small stage stack: a tilted surface of known slope."""

import csv
from pathlib import Path

import pytest
import torch

import focalsweep as fs
from focalsweep.lenses import cone_px
from focalsweep.optics.diffraction import Diffraction
from tests.e2e.running import Run, assert_refused

STEP, PIXEL, NA, WIDE = 4e-6, 0.5e-6, 0.25, 160


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A surface that rises from the second to the eighth of nine frames, in strips of one height each."""
    stage = fs.Stage(step=STEP, pixel_size=PIXEL, numerical_aperture=NA)
    psf, high = Diffraction(NA, PIXEL, stage.wavelength), 96
    rng = torch.Generator().manual_seed(1)
    fy, fx = torch.fft.fftfreq(high, dtype=torch.float64)[:, None], torch.fft.fftfreq(WIDE, dtype=torch.float64)
    white = torch.randn((high, WIDE), generator=rng, dtype=torch.float64)
    texture = torch.fft.ifft2(torch.fft.fft2(white) / (torch.hypot(fy, fx) + 0.01)).real
    texture = 0.5 + 0.15 * (texture - texture.mean()) / texture.std()
    frames = torch.zeros((9, 1, high, WIDE))
    for number, place in enumerate(stage.places(9)):
        for column in range(0, WIDE, 8):
            height = STEP * (1 + 6 * (column + 4) / WIDE)
            cone = torch.tensor(cone_px(NA, PIXEL) * abs(height - place), dtype=torch.float64)
            blurred = torch.fft.ifft2(torch.fft.fft2(texture) * psf(cone, fy, fx)).real
            frames[number, 0, :, column : column + 8] = blurred[:, column : column + 8].float()
    out = tmp_path_factory.mktemp("measured") / "out"
    fs.estimate_depth(fs.FocalStack(frames.clamp(0, 1), camera=stage), "argmin").save(out)
    return out


def test_a_profile_has_the_slope(results: Path, run: Run) -> None:
    outcome = run("measure", results, "--profile", "20,48,140,48")
    assert outcome.status == 0 and outcome.out.strip().endswith("profile.csv")
    with (results / "profile.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert set(rows[0]) == {"px", "along_um", "height_um", "std_um"} and len(rows) == 121
    assert rows[-1]["along_um"] == pytest.approx(120 * PIXEL * 1e6)
    rise = (rows[-1]["height_um"] - rows[0]["height_um"]) / 120
    assert rise == pytest.approx(6 * STEP * 1e6 / WIDE, rel=0.1)


def test_roughness_of_an_area(results: Path, run: Run) -> None:
    outcome = run("measure", results, "--area", "30,20,130,80")
    assert outcome.status == 0
    found = {part.split()[0]: float(part.split()[1]) for part in outcome.out.split(" (")[0].split(", ")}
    assert set(found) == {"Sa", "Sq", "Sz", "Ra", "Rq"}
    assert 0 < found["Sa"] < found["Sq"] < found["Sz"] < STEP * 1e6  # a plane but for noise and strips


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("--profile", "--area")),
        (["--profile", "1,2,3"], ("--profile", "X0,Y0,X1,Y1", "'1,2,3'")),
        (["--profile", "0,0,500,10"], ("500,10", "160 x")),
        (["--area", "30,20,10,80"], ("--area", "X0 below X1")),
    ],
)
def test_what_cannot_be_measured(results: Path, run: Run, arguments: list[str], words: tuple[str, ...]) -> None:
    assert_refused(run("measure", results, *arguments), *words)
