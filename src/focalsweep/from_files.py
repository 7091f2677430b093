"""A folder of results back to a `DepthResult`, for what is made of results: refocused pictures, views, exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalsweep.errors import InputError

if TYPE_CHECKING:
    from focalsweep.results.result import DepthResult
    from focalsweep.types import Lens


def load_result(folder: str | Path) -> DepthResult:
    """What `DepthResult.save` (and `focalsweep depth`) wrote to a folder; the sharp picture has the bits of its file.

    Colours of a photo's own profile stay in it, as linear light.
    """
    import numpy as np

    from focalsweep.photos.pictures import read_picture
    from focalsweep.results.result import DepthResult
    from focalsweep.types import DepthGrid

    folder = Path(folder)
    wanted = {name: folder / name for name in ("run.json", "depth.npz", "all_in_focus.png")}
    missing = [name for name, path in wanted.items() if not path.is_file()]
    if missing:
        raise InputError(
            "{place} has no {value}", place=folder, value=missing[0], remedy="give a folder that focalsweep depth wrote"
        )
    try:
        record = json.loads(wanted["run.json"].read_bytes())
        with np.load(wanted["depth.npz"], allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        maps = {name: np.asarray(arrays[name], np.float32) for name in (record["quantity"], "std", "confidence")}
        depth, std, confidence = maps.values()
        middle = arrays["principal_point"].tolist()
        lens = _lens(record)
    except (ValueError, KeyError, TypeError, OSError, AttributeError):
        raise InputError(
            "the results in {place} are damaged, or of a version before 0.3", place=folder, remedy="make them anew"
        ) from None
    sharp = read_picture(wanted["all_in_focus.png"]).pixels
    if depth.ndim != 2 or not (depth.shape == std.shape == confidence.shape == sharp.shape[:2]):
        raise InputError("depth and picture in {place} differ in size", place=folder, remedy="make them anew")
    projection = float(arrays["projection_px"]) if "projection_px" in arrays else None
    result = DepthResult(
        depth=depth, std=std, confidence=confidence, all_in_focus=sharp, camera=lens,
        planes=DepthGrid.uniform_in_inverse_depth(*_range(record), 64), record=record, principal_point=tuple(middle),
    )  # fmt: skip
    if projection is None:
        return result
    return replace(result, projection_distance=projection * float(record["camera"]["pixel_pitch"]))


def _lens(record: dict[str, Any]) -> Lens:
    from focalsweep.lenses import StageLens
    from focalsweep.types import Camera, RelativeLens

    if "camera" in record:
        settings = record["camera"]
        return Camera(*(_middle(settings[name]) for name in ("focal_length", "f_number", "pixel_pitch")))
    kind = StageLens if record["quantity"] == "height" else RelativeLens
    return kind(**record["lens"])


def _middle(value: Any) -> float:
    """A setting, or its median over the frames."""
    import numpy as np

    return float(np.median(value))


def _range(record: dict[str, Any]) -> tuple[float, float]:
    """Nearest and farthest plane; of a stage any, since its planes are heights."""
    if record["quantity"] == "height":
        return 1.0, 2.0
    ends = (record["planes"]["near"], record["planes"]["far"])
    return float(ends[0]), float(ends[1])
