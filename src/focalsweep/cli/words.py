"""What the command line calls the settings that sentences of the library name: their flags."""

from __future__ import annotations

from collections.abc import Mapping

FLAGS = {
    "output": "--output",
    "method": "--method",
    "device": "--device",
    "align": "--align",
    "alignment": "--use-alignment",
    "save_alignment": "--save-alignment",
    "relative": "--relative",
    "focal_length": "--focal-length-mm",
    "f_number": "--f-number",
    "pixel_pitch": "--pixel-pitch-um",
    "focus_distances": "--focus-distances",
    "focus_reference": "--focus-reference",
    "step": "--step-um",
    "pixel_size": "--pixel-size-um",
    "numerical_aperture": "--numerical-aperture",
    "objective": "--objective",
    "direction": "--stage-up",
    "rail": "--rail",
    "channel": "--channel",
    "time": "--time",
    "near": "--near",
    "far": "--far",
    "refine": "--refine",
    "calibrate": "--calibrate",
    "order": "--order",
    "known_distance": "--known-distance",
    "strict": "--strict",
    "lens": "--lens",
    "memory": "--memory",
    "exports": "--export",
    "surface": "--surface",
    "sheet": "--sheet",
    "video_frames": "--frames",
}
"""Of `focalsweep depth`, by the argument that each one fills; the options are made with them."""
FLAGS_OF_OTHERS = {
    "inspect": {"overwrite": "--force"},
    "calibrate": {"region": "--region", "distances": "--distance"},
    "refocus": {
        "at": "--at",
        "aperture": "--f-number",
        "widen": "--widen",
        "tilt": "--tilt",
        "rack": "--rack",
        "stereo": "--stereo",
        "movie": "--movie",
        "size": "--size",
    },
    "measure": {"profile": "--profile", "area": "--area"},
    "batch": {"address": "--ray", "cores": "--cores"},
    "web": {"host": "--host", "port": "--port", "auth": "--auth"},
}
"""Of single commands, which no other has."""
PHRASES = {
    "planes": "--near and --far",
    "images": "the photos",
    "aligned": "aligned in stack.toml",
    "positions": "positions in [stage] of stack.toml",
    "magnification": "magnification in stack.toml",
    "wavelength": "wavelength in [stage] of stack.toml",
    "stack.toml": "stack.toml (focalsweep inspect --write)",
}
"""What has no flag."""
WORDS: Mapping[str, str] = (
    {name: flag for flags in FLAGS_OF_OTHERS.values() for name, flag in flags.items()} | FLAGS | PHRASES
)
"""For `explain` and `say`."""
