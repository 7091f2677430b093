"""Are wrong settings noticed, and named? python research/scripts/mistakes.py DATA OUT.json [STACKS [RIGHT]]

DATA holds nyu/, textures/ and real_stacks/. Every mistake is made on the demo stack, on STACKS (12) rendered ones and
on the real stacks whose distances are known; RIGHT (200) rendered ones and the real ones are checked as they are. Of
what was not noticed, the depth by wrong settings is compared with the true one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.estimate import PREVIEW_PX, predict
from focalsweep.optics.thin_lens import sensor_distance
from focalsweep.photos.demo import DEMO_STACK, demo_depth
from focalsweep.photos.frames import read_stack
from focalsweep.photos.reading import load_stack, open_photos
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.calibration import find_range, refine_focus
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.fit import Fit, check_fit
from focalsweep.sweep.self_calibration import self_calibration
from focalsweep.types import Camera, FocalStack
from focalsweep_research.environment import describe
from scripts.quick_stacks import quick_stack

REAL = ("pixel6pro_room", "canon60d_toys")
RELATIVE = ("columbia_exp10", "columbia_stairs11", "columbia_smallworld", "mobiledepth_keyboard", "lfsd_45")
FEET = 0.3048
FULL_FRAME_DIAGONAL = 0.04327
LEAST_CROP, LEAST_CHANGE = 1.25, 1.03  # less is no mistake
MOVED_SHARE, MOVED_BY = 0.3, 0.08  # of the picture's sides
FIRST_OF_OTHERS = 1000  # seeds


@dataclass(frozen=True, eq=False)
class Known:
    """A stack with right settings, small, and its depth where that is known."""

    name: str
    stack: FocalStack
    depth: Tensor | None = None


def with_distances(known: FocalStack, distances: Tensor) -> FocalStack:
    """Frames in the order that the distances say, as photos are sorted."""
    order = distances.argsort()
    magnification = torch.as_tensor(known.magnification, dtype=torch.float64).expand(len(order))
    record = replace(
        known.record, frames=tuple(known.record.frames[i] for i in order if known.record.frames), focus_ranges=()
    )
    return FocalStack(known.images[order], distances[order], known.camera, magnification[order], record=record)


def with_camera(known: FocalStack, focal: float = 1.0, stop: float = 1.0, pitch: float = 1.0) -> FocalStack:
    """Each setting so many times what it is."""
    camera = known.metric_camera
    changed = Camera(camera.focal_length * focal, camera.f_number * stop, camera.pixel_pitch * pitch)
    return FocalStack(known.images, known.focus_distances, changed, known.magnification, record=known.record)


def reversed_order(known: FocalStack, _: FocalStack) -> FocalStack:
    return with_distances(known, known.focus_distances.flip(0))


def exchanged(known: FocalStack, _: FocalStack) -> FocalStack:
    distances, middle = known.focus_distances.clone(), known.frame_count // 2
    distances[[middle - 1, middle]] = distances[[middle, middle - 1]]
    return with_distances(known, distances)


def counted_from_sensor(known: FocalStack, _: FocalStack) -> FocalStack | None:
    """Of a phone it changes next to nothing."""
    distances = sensor_distance(known.focus_distances, known.metric_camera.focal_length)
    if float((distances / known.focus_distances).max()) < LEAST_CHANGE:
        return None
    wrong = with_distances(known, distances)
    return replace(wrong, record=replace(wrong.record, settings={"focus_reference": {"value": "lens"}}))


def equivalent_focal_length(known: FocalStack, _: FocalStack) -> FocalStack | None:
    """On a sensor as large as film it is no mistake."""
    height, width = known.size
    own = float(known.metric_camera.pixel_pitch) * (height**2 + width**2) ** 0.5
    factor = FULL_FRAME_DIAGONAL / own
    return with_camera(known, focal=factor) if factor > LEAST_CROP else None


def same_photo(known: FocalStack, _: FocalStack) -> FocalStack:
    images = known.images.clone()
    images[1] = images[0]
    return known.with_images(images)


def other_scene(known: FocalStack, other: FocalStack) -> FocalStack:
    images = known.images.clone()
    picture = torch.nn.functional.interpolate(other.images[:1, :1], known.size, mode="bilinear", antialias=True)
    images[-1] = picture[0].expand_as(images[-1])
    return known.with_images(images)


def moved_thing(known: FocalStack, _: FocalStack) -> FocalStack:
    """A part of the picture lies elsewhere in the second half of the frames."""
    images, (height, width) = known.images.clone(), known.size
    rows, columns, by = int(MOVED_SHARE * height), int(MOVED_SHARE * width), int(MOVED_BY * width)
    top, left, half = height // 3, width // 3, known.frame_count // 2
    part = known.images[half:, :, top : top + rows, left : left + columns]
    images[half:, :, top : top + rows, left + by : left + by + columns] = part
    return known.with_images(images)


Change = Callable[[FocalStack, FocalStack], FocalStack | None]
MISTAKES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "order reversed": (reversed_order, ("order",)),
    "centimetres as metres": (lambda s, _: with_distances(s, s.focus_distances * 100), ("unit",)),
    "millimetres as metres": (lambda s, _: with_distances(s, s.focus_distances * 1000), ("unit",)),
    "feet as metres": (lambda s, _: with_distances(s, s.focus_distances / FEET), ("unit",)),
    "f-number 3 times": (lambda s, _: with_camera(s, stop=3), ("f_number",)),
    "f-number half": (lambda s, _: with_camera(s, stop=0.5), ("f_number",)),
    "pitch of a sensor 4 times as fine": (lambda s, _: with_camera(s, pitch=0.25), ("pixel_pitch",)),
    "focal length of 35 mm film": (equivalent_focal_length, ("equivalent", "focal_length")),
    "from the sensor, as if from the lens": (counted_from_sensor, ("reference",)),
    "two frames exchanged": (exchanged, ("exchanged",)),
    "one photo twice": (same_photo, ("same",)),
    "a photo of another scene": (other_scene, ("scene",)),
    "a thing moved": (moved_thing, ("moved",)),
}
"""And the names of the causes that are right."""


def demo() -> Known:
    return Known("demo", load_stack(DEMO_STACK), torch.from_numpy(demo_depth()).float())


def real(folder: Path) -> Known:
    """The small copy that the road looks at, with its focus distances refined as there."""
    frames = open_photos(folder).register()
    stack = read_stack(frames, min(1.0, PREVIEW_PX / max(frames.size)))
    ranges = stack.record.focus_ranges
    if any(near != far for near, far in ranges):
        refined = refine_focus(preview(stack), [(1 / far, 1 / near) for near, far in ranges])
        stack = FocalStack(stack.images, refined, stack.camera, stack.magnification, record=stack.record)
    return Known(folder.name, stack)


def preview(stack: FocalStack) -> FocalStack:
    scale = min(1.0, PREVIEW_PX / max(stack.size))
    return project_to_dominant_colour((stack.resized(scale) if scale < 1 else stack).as_batch())


def off_by_three_std(stack: FocalStack, fit: Fit, depth: Tensor | None) -> float | None:
    """Of the pixels whose depth is known and whose confidence is above a half; by the method `sweep`, calibrated."""
    if depth is None:
        return None
    calibration = self_calibration(preview(stack), fit)
    stack = calibration.apply(stack)
    planes, _ = find_range(preview(stack))
    found = calibration.widened(predict(stack, "sweep", planes), stack)
    sure = found.confidence[0] > 0.5
    off = (found.depth[0] - depth).abs() > 3 * found.std[0]
    return float(off[sure].float().mean()) if bool(sure.any()) else 0.0


def try_mistake(known: Known, other: Known, mistake: str) -> dict[str, Any] | None:
    change, right = MISTAKES[mistake]
    row: dict[str, Any] = {"stack": known.name, "mistake": mistake}
    try:
        wrong = change(known.stack, other.stack)
        if wrong is None:
            return None
        fit = check_fit(preview(wrong))
    except InputError as error:
        return row | {"noticed": True, "named": error.field.startswith(right) or "?" in str(error), "said": str(error)}
    names = [cause.name for cause in fit.causes]
    row |= {"noticed": fit.fits is False, "named": any(name in right for name in names[:2]), "causes": names}
    row |= {"blur": fit.blur, "explained": fit.explained, "said": str(fit.sentence)}
    if not row["noticed"]:
        row["off_by_three_std"] = off_by_three_std(wrong, fit, known.depth)
    return row


def right_row(known: Known) -> dict[str, Any]:
    start = time.process_time()
    fit: Fit = check_fit(preview(known.stack))
    seconds = time.process_time() - start
    row = {"stack": known.name, "fits": fit.fits, "explained": fit.explained, "blur": fit.blur, "seconds": seconds}
    return row | {"misfit": fit.misfit, "said": str(fit.sentence)}


def table(rows: list[dict[str, Any]], stacks: dict[str, set[str]]) -> None:
    print(f"{'mistake':36s}" + "".join(f"{kind:>24s}" for kind in stacks))
    for mistake in [*MISTAKES, "all"]:
        cells = []
        for names in stacks.values():
            some = [row for row in rows if row["stack"] in names and mistake in (row["mistake"], "all")]
            noticed, named = (sum(row[key] for row in some) for key in ("noticed", "named"))
            cells.append(f"{noticed} of {len(some)}, {named} named")
        print(f"{mistake:36s}" + "".join(f"{cell:>24s}" for cell in cells))


def main(data: Path, output: Path, count: int = 12, right: int = 200) -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        rendered = [Known(s.name, s.stack, s.depth) for s in (quick_stack(data, seed) for seed in range(count))]
        photos = [real(data / "real_stacks" / name) for name in REAL]
        stacks = [demo(), *rendered, *photos]
        rows = []
        for number, known in enumerate(stacks):
            for mistake in MISTAKES:
                row = try_mistake(known, stacks[number - 1], mistake)
                if row is None:
                    continue
                rows.append(row)
                if not (row["noticed"] and row["named"]):
                    print(row, flush=True)
        fits = [right_row(known) for known in (stacks[0], *photos)]
        for seed in range(FIRST_OF_OTHERS, FIRST_OF_OTHERS + right):
            made = quick_stack(data, seed)
            fits.append(right_row(Known(made.name, made.stack)))
    kinds = {"demo": {"demo"}, "rendered": {known.name for known in rendered}, "real": set(REAL)}
    table(rows, kinds)
    false = [row for row in fits if row["fits"] is False]
    print(
        f"right settings: {len(false)} false alarms of {len(fits)}, {sum(r['fits'] is None for r in fits)} cannot tell"
    )
    for row in (*fits[:3], *false):
        print(row)
    record = {"benchmark": "mistakes", **describe(torch.device("cpu"), 0), "rows": rows, "right": fits}
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    arguments = sys.argv[3:5]
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, arguments))
