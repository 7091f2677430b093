"""`focalsweep calibrate`: a lens profile from photos of something flat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from focalsweep.cli.console import read_numbers, say, say_note, stages
from focalsweep.cli.options import (
    Distances,
    FNumber,
    FocalLength,
    PixelPitch,
    Quiet,
    Reference,
    read_overrides,
)
from focalsweep.cli.words import FLAGS_OF_OTHERS
from focalsweep.errors import InputError

FLAGS = FLAGS_OF_OTHERS["calibrate"]


def calibrate(
    photos: Annotated[
        list[Path], typer.Argument(help="Photos of something flat and textured; or folders, each with such a stack.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The profile to write.")] = Path("lens.toml"),
    region: Annotated[
        str | None,
        typer.Option(
            FLAGS["region"],
            help="What is flat, in pixels of the photos: X0,Y0,X1,Y1 or the corners X,Y,X,Y,X,Y ...; else it is found.",
        ),
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option(
            FLAGS["distances"],
            help="Metres from the lens to the flat thing, at the middle of the picture, one for each stack: 0.8,1.6",
        ),
    ] = None,
    focal_length_mm: FocalLength = None,
    f_number: FNumber = None,
    pixel_pitch_um: PixelPitch = None,
    focus_distances: Distances = None,
    focus_reference: Reference = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a profile that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """What a lens is beside its data sheet: field curvature, effective aperture, how its distances are off.

    A stack of a poster, a carpet or a wall, tilted as it may be, that reaches as far into the corners as it can.
    Writes the profile (TOML) and a picture of the fit beside it (PNG). depth takes it with --lens, or finds it by the
    photos' metadata in the folder that is told at the end.

    Example: focalsweep calibrate wall/ -o pixel6.toml
    """
    from focalsweep.calibrate import calibrate_lens
    from focalsweep.photos.lens_profiles import profile_folder

    given = read_overrides(focal_length_mm, f_number, pixel_pitch_um, focus_distances, focus_reference)
    with stages(quiet) as progress:
        found = calibrate_lens(
            _stacks(photos), region=_corners(region), distances=read_numbers(distance, "distances"),
            progress=progress, **given,
        )  # fmt: skip
    files = found.save(output, overwrite=force)
    if not quiet:
        for note in found.notes:
            say_note(note)
        profile = found.profile
        bent = profile.curvature
        if bent:
            say(
                f"{profile.title}: {bent.dioptres[-1]:+.3g} 1/m at {bent.radii[-1] * 1e3:.3g} mm from the axis "
                f"(std {bent.std[-1]:.2g}), blur {profile.blur.value:.3f} times that of f/{profile.f_number:g} "
                f"(std {profile.blur.std:.2g})"
            )
        if profile.make and profile.model:
            say(f"found by itself when it lies in {profile_folder()}")
    for path in files:
        print(path)


def _stacks(photos: Sequence[Path]) -> list[Any]:
    """Folders are a stack each; files are one together."""
    if all(path.is_dir() for path in photos):
        return list(photos)
    return [photos[0] if len(photos) == 1 else list(photos)]


def _corners(text: str | None) -> list[tuple[float, float]] | None:
    numbers = read_numbers(text, "region")
    if numbers is None:
        return None
    if len(numbers) < 4 or len(numbers) % 2:
        raise InputError(
            "{region} must be {rule}, but is {value!r}",
            field="region", rule="X0,Y0,X1,Y1 or three corners and more, X,Y,X,Y,X,Y", value=text,
        )  # fmt: skip
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    if len(points) == 2:
        (left, top), (right, bottom) = points
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    return points
