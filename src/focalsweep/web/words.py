"""What the page calls the settings that sentences of the library name: the labels of its boxes."""

from __future__ import annotations

STAGE = ("step", "positions", "pixel_size", "numerical_aperture", "magnification", "wavelength", "direction", "rail")
CAMERA = {
    "focal_length": ("Focal length", 1e3, "mm"),
    "f_number": ("f-number", 1.0, ""),
    "pixel_pitch": ("Pixel pitch", 1e6, "µm"),
}
"""Of each box: its name, what metres are multiplied by, and the unit that it shows."""
LABELS = {name: f"{label} ({unit})" if unit else label for name, (label, _, unit) in CAMERA.items()} | {
    "focus_distances": "Focus distances",
    "focus_reference": "Counted from the",
    "relative": "Relative depth",
    "order": "Without distances, the photos run",
}
"""The boxes are made with them."""
PHRASES = {
    "relative=True": f"tick “{LABELS['relative']}”",
    'focus_reference="lens"': f"“{LABELS['focus_reference']}” lens",
    'align="none"': "“aligned = true” in a stack.toml",
    "aligned": "“aligned” in stack.toml",
    'order="near-to-far"': "“near to far” under “Without distances, the photos run”",
    'order="far-to-near"': "“far to near” under “Without distances, the photos run”",
    'calibrate="off"': "“calibrate” off on the command line",
    "images": "the photos",
    "memory": "memory",
    "camera": "the camera",
    "planes": "the planes",
    "near": "the nearest depth",
    "far": "the farthest depth",
    "stack.toml": "a stack.toml",
    **{name: f"“{name}” in [stage] of stack.toml" for name in STAGE},
}
"""What the page has no box for."""
WORDS = LABELS | PHRASES
"""For `explain` and `say`."""
