"""The road from photos to depth: every entrance (Python, command line, batch, page) walks all of it, and only here.

Pictures are read one at a time, several times over: memory holds the frames at the working size and a few pictures at
full size, never the whole stack at full size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalsweep.errors import InputError, InputTypeError, Sentence, SettingName
from focalsweep.memory import LEAST_WORKSPACE, MemoryBound, release_freed_memory, resident_bytes
from focalsweep.methods.method import Method, Options, Predict
from focalsweep.methods.registry import Choice, choose_method
from focalsweep.model.weights import shipped_weights
from focalsweep.optics.profile import LensProfile, corrected_settings, raised
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.photos.frames import Frames, FramesInMemory, fitted, read_stack
from focalsweep.photos.fusing import FrameWeights, fuse_frames
from focalsweep.photos.lens_profiles import AUTO, OFF, Lens, choose_profile, note_of_profile, same_aperture
from focalsweep.photos.photo_stack import Photos
from focalsweep.photos.reading import open_photos
from focalsweep.progress import Progress, part_of, renamed, silent
from focalsweep.results.heights import as_heights
from focalsweep.results.record import known_of, projection_distance, summary_of
from focalsweep.results.result import DepthResult
from focalsweep.sweep.calibration import find_range
from focalsweep.sweep.colour import grey_for_sweep
from focalsweep.sweep.known_distance import KnownDistance, check_known_distance
from focalsweep.sweep.selection import frames_for_depth, with_frames
from focalsweep.sweep.self_calibration import check_mode
from focalsweep.sweep.upsampling import upsample_guided
from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.sweep.working_size import working_scale
from focalsweep.trust import Trust, place_of, rescaled, settle
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack, StageLens
from focalsweep.validation import check_bytes
from focalsweep.version import versions

Source = str | Path | Sequence[str | Path] | Photos | FocalStack
LEAST_REDUCTION = 0.9  # a picture is not resampled for less
PREVIEW_PX = 360  # the longer side of the pictures that lens and range are read from
WIDEST_BLUR = 4.0  # of the picture's longer side
COPY_BYTES, COPY_SHARE = 300 * 2**20, 16  # small copies of photos may take so much, or so little of a bound on memory


@dataclass(frozen=True, eq=False)
class Estimate:
    """A result, and the stack at the size that it was worked out at."""

    result: DepthResult
    stack: FocalStack


def estimate_depth(
    photos: Source,
    method: str | Predict | Method | Choice = "sweep",
    *,
    planes: DepthGrid | None = None,
    refine: bool = True,
    calibrate: str = "auto",
    strict: bool = False,
    lens: Lens = AUTO,
    known_distance: KnownDistance | None = None,
    memory: int | None = None,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> DepthResult:
    """Depth in metres, its error bar, and the picture sharp all over.

    Photos are registered; focus distances of which only a range is known are found inside it; pictures whose blur is
    wider than the network has seen are worked on at a smaller size, and the answer is brought back to full size along
    the picture's edges. With `relative=True`, or where a stack.toml says only `order`, depth has no unit.

    Args:
        photos: a folder, a list of files, a TIFF of many pages, a video; or a `FocalStack`, whose batch gives batched
            arrays.
        method: by name, with settings if wanted ("sweep", "argmin:planes=80"; see `focalsweep.methods.registry`), or a
            function (batched stack, planes, `Options`) -> `DepthPrediction`.
        planes: the depths to look at; by default 64 planes over those in sight, within or beyond the focus distances.
        refine: look for the focus distances inside the ranges that coarse metadata leaves.
        calibrate: "auto" takes the growth of blur, or the scale of focus distances of which ranges are known, as the
            photos have it; "blur" trusts the distances, "focus" the camera, "off" both: so it is for a batch.
        strict: settings that do not explain the photos are an error, not a warning.
        lens: a lens profile (`focalsweep calibrate` makes it), its file, or a folder of them; "auto": of the user's
            configuration folder the one that the photos' metadata names, if it is there; "off": none.
        known_distance: one that was measured, `KnownDistance(metres, column, row)` at a pixel of the sharp picture; it
            sets the scale.
        memory: bytes that the whole process may take (on a GPU: that sweep and network may take of the GPU's). Tiles
            and, if need be, the working size are made smaller to keep it; what cannot be kept is told. A batch keeps
            its size: there only tiles are smaller.
        device: where to work; by default where the stack's pictures are, for photos the CPU.
        progress: called with the name of the stage at hand and the share of it that is done.
        **settings: for photos, as `load_stack` takes them: focal_length, focus_distances, relative, align ...
    """
    options: dict[str, Any] = {"planes": planes, "refine": refine, "calibrate": calibrate, "strict": strict}
    options |= {"lens": lens, "known_distance": known_distance}
    return estimate(photos, method, **options, memory=memory, device=device, progress=progress, **settings).result


def estimate(
    photos: Source,
    method: str | Predict | Method | Choice = "sweep",
    *,
    planes: DepthGrid | None = None,
    refine: bool = True,
    calibrate: str = "auto",
    strict: bool = False,
    lens: Lens = AUTO,
    known_distance: KnownDistance | None = None,
    memory: int | None = None,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Estimate:
    """`estimate_depth`, and the stack that it was worked out on."""
    choice = choose_method(method)
    choice.method.check()
    check_bytes("memory", memory)
    if isinstance(photos, FocalStack):
        if settings:
            raise InputTypeError(
                "a FocalStack has its settings already: leave out {name}",
                name=SettingName(min(settings)), field=min(settings), value=settings[min(settings)],
            )  # fmt: skip
        if photos.batched:
            if lens not in (AUTO, OFF):
                raise InputError(
                    "a batch of stacks takes no lens profile",
                    field="lens", value=lens, remedy="give the stacks one by one, or leave out {lens}",
                )  # fmt: skip
            if known_distance:
                check_known_distance(photos)
            return _estimate_batch(photos.to(device), choice, planes, memory, progress)
        frames: Frames = FramesInMemory(photos)
        device = device or photos.images.device
    else:
        opened = photos if isinstance(photos, Photos) else open_photos(photos, **settings)
        (progress or silent)("aligning", 0.0)
        frames = opened.register(progress, COPY_BYTES if memory is None else min(COPY_BYTES, memory // COPY_SHARE))
    trust = Trust(refine, check_mode(calibrate), strict, known_distance)
    device, progress = torch.device(device or "cpu"), progress or silent
    return _estimate_frames(frames, choice, planes, trust, lens, memory, device, progress)


def _estimate_frames(
    frames: Frames,
    choice: Choice,
    planes: DepthGrid | None,
    trust: Trust,
    lens: Lens,
    memory: int | None,
    device: torch.device,
    progress: Progress,
) -> Estimate:
    start = time.perf_counter()
    profile, notes = choose_profile(lens, frames.settings)
    settings = frames.settings
    if profile:
        settings = corrected_settings(settings, profile, aperture=same_aperture(profile, settings))
        notes.append(note_of_profile(profile, settings, frames.settings, frames.size))
    planes, source = planes or choice.grid(), "the caller"
    _check_blur(settings, planes, frames.size)
    _check_focus(settings, planes)
    if trust.known_distance:
        check_known_distance(settings)
    chosen = frames_for_depth(settings)
    with torch.no_grad():
        preview, channels = _preview(frames, settings, chosen, device, progress)
        settled = settle(settings, preview, chosen, frames.size, trust, progress)
        known, fit = settled.settings, settled.fit
        settings, preview = (raised(one, profile.lift if profile else 0.0) for one in (known, settled.preview))
        if profile and planes:
            planes = profile.apparent(planes, known, frames.size, profile.lift)
        if planes is None:
            found, source = find_range(preview, choice.plane_count, extend=settings.unit is not None)
            planes = choice.grid(found) or found
            planes = profile.apparent(planes, known, frames.size) if profile else planes
        swept = with_frames(settings, chosen)
        scale = working_scale(swept, planes, frames.size)
        scale = 1.0 if scale > LEAST_REDUCTION else scale
        workspace = memory
        bound, warnings = None, settings.record.warnings
        if memory is not None and device.type == "cpu":
            release_freed_memory()  # what the preview took
            bound, warnings = _bound(memory, swept, frames.size, channels)
            scale = min(scale, math.sqrt(bound.working_pixels / math.prod(frames.size)))
        progress("reading", 0.0)
        stack = read_stack(frames, scale, swept, progress, chosen)
        if bound:
            release_freed_memory()
            workspace = bound.workspace(math.prod(stack.size))
        progress("sweeping", 0.0)
        estimated_from = time.perf_counter()
        try:
            prediction = predict(stack.to(device=device), choice, planes, workspace=workspace, progress=progress)
        except InputError as error:  # of a blur too wide for the memory, say: the settings are the likelier fault
            raise error if fit.fits is not False else error.about(fit.sentence.within(f"{error}; ")) from None
        prediction = settled.calibration.widened(prediction, stack)
        estimated = time.perf_counter()
        result = _result(stack, choice, planes, source, prediction)
        at_hand = FramesInMemory(stack) if scale == 1 and len(chosen) == settings.frame_count else frames
        told = part_of(renamed(progress, "full size"), 0.0, 0.5) if scale < 1 else silent
        told("full size", 0.0)
        sharp = _fused(at_hand, settings, result, told)
        if scale < 1:
            bring = part_of(renamed(progress, "full size"), 0.5, 0.5)
            result = _at_full_size(result, sharp, settings, bring)
        else:
            result = replace(result, all_in_focus=sharp.numpy())
        measured = dict(settled.measured)
    if profile:
        result = _with_flat_field(result, profile, known)
    if isinstance(settings.camera, StageLens):
        result = as_heights(result, settings.camera)
    if trust.known_distance:
        result, measured["known_distance"] = rescaled(result, known, trust.known_distance)
    seconds = {
        "before_depth": estimated_from - start,
        "depth": estimated - estimated_from,
        "after_depth": time.perf_counter() - estimated,
    }
    warnings = (*notes, *settled.warnings, *warnings)
    record = {**result.record, **known_of(known, measured, warnings), "fit": fit.to_json(), "seconds": seconds}
    record["summary"] = summary_of(result, settings.frame_count)
    return Estimate(replace(result, record=record, fit=fit), stack)


def predict(
    stack: FocalStack,
    method: str | Predict | Method | Choice,
    planes: DepthGrid,
    *,
    workspace: int | None = None,
    progress: Progress | None = None,
) -> DepthPrediction:
    """What a method makes of a stack, as a batch, at its own size: the step that users and tables share.

    `workspace` bounds the bytes that it may use beside its input and output.
    """
    check_bytes("workspace", workspace)
    with torch.no_grad():
        return choose_method(method).predict(stack.as_batch(), planes, Options(workspace, progress))


def auto_depth_grid(stack: FocalStack, count: int = 64) -> tuple[DepthGrid, str]:
    """Planes over the depths that the stack shows (each stack of a batch on its own), and how they were found."""
    _check_focus(stack, None)
    with torch.no_grad():
        scale = min(1.0, PREVIEW_PX / max(stack.size))
        preview = grey_for_sweep((stack.resized(scale) if scale < 1 else stack).as_batch())
        extend = stack.unit is not None
        found = [find_range(preview.one_of_batch(i), count, extend=extend) for i in range(len(preview.images))]
    if not stack.batched:
        return found[0]
    near, far = (torch.stack([grid.depths[end] for grid, _ in found]) for end in (0, -1))
    return DepthGrid.uniform_in_inverse_depth(near, far, count), "the depths in sight of each stack"


def _estimate_batch(
    stack: FocalStack, choice: Choice, planes: DepthGrid | None, memory: int | None, progress: Progress | None
) -> Estimate:
    """Stacks of one size, worked on at that size."""
    planes, source = planes or choice.grid(), "the caller"
    if planes is None:
        found, source = auto_depth_grid(stack, choice.plane_count)
        planes = choice.grid(found) or found
    batch, workspace = stack.as_batch(), memory
    if memory is not None and batch.images.device.type == "cpu":
        workspace = max(LEAST_WORKSPACE, memory - resident_bytes())
    prediction = predict(batch, choice, planes, workspace=workspace, progress=progress)
    result = _result(stack, choice, planes, source, prediction)
    slope_px = blur_slope_px(batch.focus_distances, batch.camera, batch.magnification)
    each = zip(batch.images.detach(), batch.focus_distances, prediction.depth, prediction.std, slope_px, strict=True)
    sharp = [fuse_frames((image.movedim(0, -1) for image in images), *maps) for images, *maps in each]
    return Estimate(replace(result, all_in_focus=torch.stack(sharp).float().cpu().numpy()), stack)


def _preview(
    frames: Frames, settings: FocalStack, chosen: Sequence[int], device: torch.device, progress: Progress
) -> tuple[FocalStack, int]:
    """A small copy of the chosen frames in one channel, and how many channels they have."""
    progress("looking", 0.0)
    scale = min(1.0, PREVIEW_PX / max(frames.size))
    told = part_of(renamed(progress, "looking"), 0.0, 0.8)
    stack = read_stack(frames, scale, with_frames(settings, chosen), told, chosen)
    return grey_for_sweep(stack.to(device=device).as_batch()), stack.images.shape[1]


def _check_blur(settings: FocalStack, planes: DepthGrid | None, size: tuple[int, int]) -> None:
    """A blur far wider than the picture is a setting in the wrong unit, and would take hours to sweep."""
    blur_px = float(sweep_coc_px(settings.as_batch(), planes or DepthGrid.around(settings)).abs().max())
    if blur_px > WIDEST_BLUR * max(size):
        raise InputError(
            "{where}by these settings photos of {longer} px have a blur of {value:.0f} px",
            value=blur_px, where=place_of(settings), longer=max(size),
            remedy="check {focal_length}, {f_number}, {pixel_pitch} and {focus_distances}{near_too}",
            near_too=Sentence(", and {near}") if planes else "",
        )  # fmt: skip


def _check_focus(stack: FocalStack, planes: DepthGrid | None) -> None:
    """Raises where frames differ in aperture alone: their blur does not tell what is nearer from what is farther."""
    distances = stack.as_batch().focus_distances
    alike = (distances == distances[:, :1]).all(-1)
    if planes is None and bool(alike.any()):
        raise InputError(
            "all frames are focused at {value:g} m, so that blur does not tell near from far",
            field="focus_distances", value=distances[alike][0, 0].item(),
            remedy="add frames focused elsewhere, or give {planes} on one side of it",
        )  # fmt: skip


def _bound(
    memory: int, settings: FocalStack, size: tuple[int, int], channels: int
) -> tuple[MemoryBound, tuple[str, ...]]:
    """The bound shared out for these frames; a warning where it cannot be kept."""
    release_freed_memory()
    bound = MemoryBound(memory, resident_bytes(), size, channels, settings.frame_count, torch.get_num_threads())
    if memory >= bound.least:
        return bound, settings.record.warnings
    warning = Sentence(
        "{memory} of {bound:.2g} GB cannot be kept: photos of {width} x {height} px take at least {least:.2g} GB",
        bound=memory / 1e9, least=bound.least / 1e9, width=size[1], height=size[0],
    )  # fmt: skip
    return bound, (*settings.record.warnings, warning)


def _fused(frames: Frames, settings: FocalStack, result: DepthResult, progress: Progress) -> Tensor:  # H W C
    """The picture sharp all over, of frames with these settings and a result of any size."""
    slope_px = blur_slope_px(settings.focus_distances, settings.camera, settings.magnification)
    maps = torch.from_numpy(result.depth), torch.from_numpy(result.std), slope_px
    weights = FrameWeights(settings.focus_distances, *maps, frames.size[1])
    pictures = map(torch.from_numpy, frames.pictures(progress, weights.matters))
    return fuse_frames(pictures, settings.focus_distances, *maps, weights)


def _result(
    stack: FocalStack, choice: Choice, planes: DepthGrid, source: str, prediction: DepthPrediction
) -> DepthResult:
    """The prediction as arrays, without a sharp picture yet."""
    swept = choice.swept(planes)
    weights = {name: begin for name, begin in shipped_weights().items() if name in choice.method.weights}
    record = {
        "focalsweep": {**versions(), "weights": weights},
        "method": choice.label,
        "planes": {
            "count": swept.count,
            "near": swept.depths[..., 0].tolist(),
            "far": swept.depths[..., -1].tolist(),
            "source": source,
        },
        "focus_distances": stack.focus_distances.tolist(),
        "worked_at": {"width": stack.size[1], "height": stack.size[0]},
    }

    def array(values: Tensor) -> Any:
        return (values if stack.batched else values[0]).float().cpu().numpy()

    depth = array(prediction.depth)
    return DepthResult(
        depth=depth,
        std=array(prediction.std),
        confidence=array(prediction.confidence),
        all_in_focus=depth[..., None],  # until it is fused
        camera=stack.camera,
        planes=swept,
        record=record,
        projection_distance=None if stack.batched else projection_distance(stack),
        principal_point=stack.principal_point,
        photo=stack.record.photo,
    )


def _at_full_size(
    result: DepthResult,
    sharp: Tensor,  # H W C
    settings: FocalStack,
    progress: Progress,
) -> DepthResult:
    """A result of smaller pictures brought to full size along the edges of the full-size picture."""
    depth, std, confidence = (torch.from_numpy(maps) for maps in (result.depth, result.std, result.confidence))
    small = torch.from_numpy(fitted(sharp.numpy(), result.depth.shape))
    full = upsample_guided(depth, std, confidence, small, sharp, progress)
    return replace(
        result,
        depth=full.depth.numpy(),
        std=full.std.numpy(),
        confidence=full.confidence.numpy(),
        all_in_focus=sharp.numpy(),
        camera=settings.camera,
        principal_point=settings.principal_point,
    )


def _with_flat_field(result: DepthResult, profile: LensProfile, settings: FocalStack) -> DepthResult:
    """Depth as it seems through a lens whose field is curved, and `raised` -> depth as it is."""
    depth, std = profile.flatten_field(torch.from_numpy(result.depth), torch.from_numpy(result.std), settings)
    focus = [1 / (1 / distance - profile.lift) for distance in result.record["focus_distances"]]
    record = {**result.record, "focus_distances": focus, "lens": profile.to_json()}
    return replace(result, depth=depth.numpy(), std=std.numpy(), record=record)
