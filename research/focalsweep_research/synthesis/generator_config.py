"""What the generator draws from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

Range = tuple[float, float]


@dataclass(frozen=True)
class GeneratorConfig:
    """What the generator draws from. Ranges are drawn from evenly, those marked * evenly in the logarithm."""

    size: int = 256
    planes: int = 64
    frames: tuple[int, int] = (2, 8)
    solids: int = 16
    world_solids: int = 56
    rooms: float = 0.35  # share of scenes with larger, plainer surfaces, as indoors
    lights: float = 0.15  # share of scenes in which something burns out
    soft: float = 0.5  # share of stacks whose frames are all a little soft: the lens at its best, the mosaic, a resize
    softness_px: Range = (0.3, 1.2)  # standard deviation of that blur
    rays: int = 96
    blur_px: Range = (4.0, 30.0)  # * diameter between the ends of the depth range
    nearest: Range = (0.1, 2.0)  # * metres
    far_share: Range = (0.0, 0.7)  # inverse depth of the far end over that of the near one
    field_of_view_deg: Range = (15.0, 65.0)
    focal_length: Range = (0.004, 0.1)  # * metres
    f_number: float = 0.0  # 0: as the blur asks
    margin: Range = (0.03, 0.3)  # of the range, added to the planes at either end
    wide_range: float = 0.15  # share of stacks whose planes reach much farther than the scene
    partial_focus: float = 0.3  # share of stacks focused within a part of the scene's range only
    noise_std: Range = (5e-4, 2e-2)  # * of linear light
    quantised: float = 0.7  # share of stacks rounded to 8-bit sRGB
    jpeg: float = 0.5  # share of those that were JPEG files
    jpeg_quality: Range = (75.0, 98.0)
    distance_error: float = 0.005  # standard deviation of the metadata, relative
    f_number_error: float = 0.01
    odd_aperture: float = 0.3  # share of lenses whose aperture is a polygon or soft
    textures: int = 160  # procedural ones
    more_textures: int = 0  # procedural ones of other kinds: bricks, tiles, cloth, plaster (see `more_textures`)
    texture_folder: str = ""  # more of them (see `textures.read_pictures`)
    held_out: bool = False  # every fifth texture is for validation, the others for training
    worlds: float = 0.0  # share of scenes with gravity, furniture, shadows (see `worlds`)
    photographs: float = 0.0  # share of batches with the flaws of photographs (see `photograph`), odd lenses among them
    parts: float = 0.0  # share of batches that are parts of larger pictures, which they come with
    whole: int = 192  # size of those, made small
    reduction: Range = (1.4, 8.0)  # * how much smaller they are
    part_blur_px: Range = (1.5, 60.0)  # * in parts, in place of blur_px
    replays: int = 1  # batches made of each traced one, by other sensors and with frames left out
    seed: int = 0


def read_generator_config(table: dict[str, Any]) -> GeneratorConfig:
    """From a TOML table; unknown keys are errors."""
    known = {field.name for field in fields(GeneratorConfig)}
    for key in table:
        if key not in known:
            raise ValueError(f"[data] has no key {key!r}: it is one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    if type(values.get("replays", 1)) is not int or values.get("replays", 1) < 1:
        raise ValueError(f"[data] replays must be a whole number of 1 or more, but is {values['replays']!r}")
    return GeneratorConfig(**values)
