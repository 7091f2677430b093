"""Two photos of one scene, focused differently: the transform from the pixels of one to those of the other.

The enhanced correlation coefficient (Evangelidis and Psarakis 2008) is climbed by Gauss-Newton steps on a pyramid of
band-passed pictures whose contrast is evened out locally, so that neither defocus nor exposure draws the transform
aside. SIFT features with RANSAC give the start where that fails. OpenCV's own ECC has no similarity, the model of a
camera on a tripod, and on rendered stacks a similarity errs half as much as an affine and a third of a homography. A
richer model is taken only where it explains more: the hand turns the camera (homography), a rolling shutter shears
the picture (affine).

Transforms are 3 x 3 in normal coordinates: the origin at the picture's centre, half its diagonal as the unit. They
hold at every size of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Transform = NDArray[np.float64]

FINEST_PX = 1600  # the longer side of the finest level; the signal has no finer detail than that anyway
COARSEST_PX = 64
FINE_BLUR_PX, COARSE_BLUR_PX = 1.5, 8.0  # the band of every level, as standard deviations
THINNED_PX = 500  # the signal of a level larger than this is kept on every second pixel: its band needs no more
SHRUNK_FROM_PX, SHRUNK = 500, 4  # surroundings of larger levels than this are blurred on a picture as much smaller
EVENNESS = 0.5  # contrast under this share of the picture's own counts less: it may be noise
JUDGED_PX = 640  # the largest level at which models and failures are judged: finer ones hold noise and defocus
LEAST_CORRELATION = 0.5  # there; unrelated pictures reach 0.15, neighbours of a stack 0.9
SETTLED = 0.02  # of a pixel of the level: a step shorter than this is the last one
WORTHWHILE = 0.9  # a richer model must bring the misfit, 1 - correlation, under this share
FEATURE_PX = 1024
MODELS = {"shift": 2, "similarity": 4, "affine": 6, "homography": 8}  # parameters
TILES = 8


@dataclass(frozen=True, eq=False)
class Pyramid:
    """A photo made ready for registration: the signal at every level, coarse to fine, and 8 bit for features."""

    levels: tuple[Array, ...]
    preview: NDArray[np.uint8]
    size: tuple[int, int]  # H, W of the photo itself

    def normal(self, level: Array) -> Transform:
        """Pixels of a level -> normal coordinates."""
        return normal_coordinates(self.size, (level.shape[0], level.shape[1]))


@dataclass(frozen=True, eq=False)
class Registration:
    """How one picture lies on another.

    Args:
        transform: from normal coordinates of the first to those of the second.
        correlation: of their signals at the level where pairs are judged, up to 1.
        model: "shift", "similarity", "affine" or "homography".
        residual_px: what is left over, in pixels of the photos: the 90th percentile over tiles of the shift that
            would bring each into place. Parallax shows here; no transform of the whole picture mends it.
    """

    transform: Transform
    correlation: float
    model: str
    residual_px: float

    @property
    def plausible(self) -> bool:
        """Whether one camera in one place can have taken both: little zoom, rotation, shift and tilt."""
        scale, angle_deg, shift = zoom_turn_and_shift(self.transform)
        return (
            self.correlation >= LEAST_CORRELATION
            and 0.85 < scale < 1.18
            and abs(angle_deg) < 5
            and shift < 0.24  # of half the diagonal: 15 % of the width of a 4:3 picture is 0.24
            and bool(np.abs(self.transform[2, :2]).max() < 0.05)
        )


def normal_coordinates(size: tuple[int, int], level: tuple[int, int] | None = None) -> Transform:
    """Pixels of a picture of H W `size`, or of its reduction to the size `level` -> normal coordinates."""
    (height, width), (rows, columns) = size, level or size
    radius = math.hypot(height, width) / 2
    x, y = width / columns, height / rows  # pixels of the photo per pixel of the level
    return np.array([[x, 0, -x * (columns - 1) / 2], [0, y, -y * (rows - 1) / 2], [0, 0, radius]]) / radius


def registration_scale(size: tuple[int, int]) -> float:
    """Pixels of the finest level for each pixel of a photo of H W `size`."""
    return min(1.0, FINEST_PX / max(size))


def local_scale(transform: Transform, point: tuple[float, float] = (0.0, 0.0)) -> float:
    """How much larger things are after the transform, around a point: the root of the Jacobian's determinant."""
    x, y, w = transform @ np.array([*point, 1.0])
    jacobian = (transform[:2, :2] - np.outer([x / w, y / w], transform[2, :2])) / w
    return math.sqrt(max(float(np.linalg.det(jacobian)), 0.0))


def zoom_turn_and_shift(transform: Transform) -> tuple[float, float, float]:
    """Scale, rotation in degrees and shift at the picture's centre."""
    angle = math.atan2(transform[1, 0] - transform[0, 1], transform[0, 0] + transform[1, 1])
    x, y, w = transform[:, 2]
    return local_scale(transform), math.degrees(angle), math.hypot(x / w, y / w)


def build_pyramid(picture: Array, size: tuple[int, int] | None = None) -> Pyramid:
    """The pyramid of a photo in linear light, H W C; `size` is the photo's own where the picture is a reduced one."""
    gray = reduced_for_registration(gray_of(picture), size)
    preview = np.sqrt(np.maximum(_shrunk(gray, min(1.0, FEATURE_PX / max(gray.shape))), 0))
    bright = max(float(np.quantile(preview[::2, ::2], 0.995)), 1e-6)
    levels: list[Array] = []
    while not levels or (max(gray.shape) >= 2 * COARSEST_PX and min(gray.shape) >= COARSEST_PX):
        gray = _shrunk(gray, 0.5) if levels else gray
        signal = _signal(gray)
        levels.append(_shrunk(signal, 0.5) if max(gray.shape) > THINNED_PX else signal)
    shown = (preview * (255 / bright)).clip(0, 255).astype(np.uint8)
    return Pyramid(tuple(levels[::-1]), shown, size or (picture.shape[0], picture.shape[1]))


def gray_of(picture: Array) -> Array:
    """The mean of the channels, H W."""
    import cv2

    if picture.shape[-1] == 1:
        return picture[..., 0]
    weights = np.full((1, picture.shape[-1]), 1 / picture.shape[-1], np.float32)
    return np.asarray(cv2.transform(picture, weights), np.float32)


def reduced_for_registration(picture: Array, size: tuple[int, int] | None = None) -> Array:
    """A picture (H W or H W C) of a photo of H W `size`, no larger than registration looks at."""
    longer = max(size) if size else max(picture.shape[:2])
    wanted = round(longer * registration_scale((longer, longer)))
    return _shrunk(picture, wanted / max(picture.shape[:2]))


def _shrunk(picture: Array, scale: float) -> Array:
    import cv2

    if scale >= 1:
        return picture
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.float32)


def _signal(light: Array) -> Array:
    """Band-passed, and divided by the contrast around each pixel: a blurred edge counts like a sharp one.

    In linear light, where blur leaves an edge in its place; in display tones bright things grow as they blur.
    """
    import cv2

    band = cv2.GaussianBlur(light, (0, 0), FINE_BLUR_PX) - _widely_blurred(light, COARSE_BLUR_PX)
    energy = band * band
    around = _widely_blurred(energy, 1.5 * COARSE_BLUR_PX)
    signal: Array = band / np.sqrt(around + np.float32(EVENNESS**2 * energy.mean() + 1e-10))
    return signal


def _widely_blurred(picture: Array, std_px: float) -> Array:
    """A Gaussian far wider than a pixel, on a smaller picture."""
    import cv2

    size = (picture.shape[1], picture.shape[0])
    if max(size) <= SHRUNK_FROM_PX:
        return np.asarray(cv2.GaussianBlur(picture, (0, 0), std_px), np.float32)
    small = cv2.resize(picture, (size[0] // SHRUNK, max(1, size[1] // SHRUNK)), interpolation=cv2.INTER_AREA)
    small = cv2.GaussianBlur(small, (0, 0), std_px / SHRUNK)
    return np.asarray(cv2.resize(small, size, interpolation=cv2.INTER_LINEAR), np.float32)


def register(first: Pyramid, second: Pyramid, *, shift_only: bool = False) -> Registration:
    """The transform from the first picture to the second; look at `plausible` before you trust it."""
    found = _climb(first, second, np.eye(3), from_features=False, shift_only=shift_only)
    if not found.plausible and not shift_only:
        start = _match_features(first, second)
        if start is not None:
            again = _climb(first, second, start, from_features=True)
            if again.plausible or again.correlation > found.correlation:
                found = again
    return found


def _climb(
    first: Pyramid, second: Pyramid, start: Transform, *, from_features: bool, shift_only: bool = False
) -> Registration:
    """Coarse to fine: a shift, then a similarity, then the model that the judged level asks for."""
    judged = max((i for i, level in enumerate(first.levels) if max(level.shape) <= JUDGED_PX), default=0)
    transform, model, correlation = start, "shift" if shift_only else "similarity", 0.0
    for i in range(judged if from_features else 0, len(first.levels)):
        pair = first, second, i
        if i == 0 and judged > 0:
            transform, _ = _refine(*pair, transform, "shift")
        refined, here = _refine(*pair, transform, model)
        if i == judged:
            transform, correlation = refined, here
            if correlation < LEAST_CORRELATION:
                break
            for richer in () if shift_only else ("affine", "homography"):
                bent, better = _refine(*pair, transform, richer)
                if 1 - better < WORTHWHILE * (1 - correlation) - 1e-4:
                    transform, model, correlation = bent, richer, better
        elif i < judged or here >= LEAST_CORRELATION:
            transform = refined
        else:  # what is finer than this is noise, or out of focus in one of the two
            break
    return Registration(transform, correlation, model, _residual(first, second, judged, transform))


def _refine(
    first: Pyramid, second: Pyramid, level: int, transform: Transform, model: str, steps: int = 12
) -> tuple[Transform, float]:
    """Gauss-Newton steps at one level: the transform, and the correlation it reaches."""
    template = first.levels[level]
    normal = first.normal(template)
    count = MODELS[model]
    unit_x, unit_y = normal[0, 0], normal[1, 1]
    u = (np.arange(template.shape[1]) * unit_x + normal[0, 2]).astype(np.float32)[None]
    v = (np.arange(template.shape[0]) * unit_y + normal[1, 2]).astype(np.float32)[:, None]
    slopes = _slopes(template)
    settled = False
    for step in range(steps + 1):
        warped, inside = _warp(second.levels[level], normal, transform)
        correlation, gain = _correlate(template, warped, inside)
        if settled or step == steps or inside.mean() < 0.3:
            break
        misfit = gain * template - warped
        spread = 1.4826 * float(np.median(np.abs(misfit[::3, ::3][inside[::3, ::3] > 0])))
        weights = inside / (1 + (misfit / (3 * max(spread, 1e-3))) ** 2)  # Cauchy: occlusions count little
        along_x, along_y = ((a + b) * np.float32(0.5) for a, b in zip(slopes, _slopes(warped), strict=True))
        fields = _fields(along_x / np.float32(unit_x), along_y / np.float32(unit_y), u, v, count)
        rows = np.stack([field.ravel() for field in fields])
        weighted = rows * weights.ravel()
        normal_matrix = (weighted @ rows.T).astype(np.float64)
        normal_matrix += 1e-6 * np.trace(normal_matrix) / count * np.eye(count) + 1e-12 * np.eye(count)
        change = np.asarray(np.linalg.solve(normal_matrix, weighted @ misfit.ravel()), np.float64)
        transform = np.matmul(transform, _motion(change))
        if not abs(transform[2, 2]) > 1e-3:  # ran away
            return np.eye(3), 0.0
        transform = transform / transform[2, 2]
        settled = bool(np.abs(change).max() < SETTLED * unit_x)  # at the corners
    return transform, correlation


def _fields(x: Array, y: Array, u: Array, v: Array, count: int) -> list[Array]:
    """How the signal changes with each parameter: its slopes along the motions that `_motion` is made of."""
    fields = [x, y, x * u + y * v, y * u - x * v][:count]
    if count > 4:
        fields += [x * u - y * v, x * v + y * u]
    if count > 6:
        fields += [fields[2] * u, fields[2] * v]
    return fields


def _motion(change: NDArray[np.float64]) -> Transform:
    """Near the identity: shift, zoom, turn, stretch, shear, tilt about two axes."""
    right, down, zoom, turn, stretch, shear, tilt_x, tilt_y = np.pad(change, (0, 8 - len(change)))
    return np.array(
        [
            [1 + zoom + stretch, shear - turn, right],
            [shear + turn, 1 + zoom - stretch, down],
            [-tilt_x, -tilt_y, 1],
        ]
    )


def _slopes(picture: Array) -> tuple[Array, Array]:
    import cv2

    x, y = cv2.Scharr(picture, -1, 1, 0, scale=1 / 32), cv2.Scharr(picture, -1, 0, 1, scale=1 / 32)
    return np.asarray(x, np.float32), np.asarray(y, np.float32)


def _warp(picture: Array, normal: Transform, transform: Transform) -> tuple[Array, Array]:
    """The second picture where the first one's pixels look, and 1 where that is inside it."""
    import cv2

    pixels = np.linalg.inv(normal) @ transform @ normal
    size = (picture.shape[1], picture.shape[0])
    warped = cv2.warpPerspective(picture, pixels, size, flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP)
    ones = np.ones(picture.shape, np.float32)
    inside = cv2.warpPerspective(ones, pixels, size, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP)
    inside = cv2.erode(inside, np.ones((5, 5), np.uint8), borderValue=[0.0])  # where the signal leans on the border
    return np.asarray(warped, np.float32), np.asarray(inside, np.float32)


def _correlate(template: Array, warped: Array, inside: Array) -> tuple[float, float]:
    """Correlation of two signals of mean 0 where both exist, and the gain that gives them one size."""
    covered = inside * warped
    own, other = float((inside * template * template).sum()), float((covered * warped).sum())
    if own <= 0 or other <= 0:
        return 0.0, 1.0
    return float((covered * template).sum()) / math.sqrt(own * other), math.sqrt(other / own)


def _residual(first: Pyramid, second: Pyramid, level: int, transform: Transform) -> float:
    """The 90th percentile over textured tiles of the shift each still asks for, in pixels of the photo."""
    import cv2

    template = first.levels[level]
    warped, inside = _warp(second.levels[level], first.normal(template), transform)
    x, y = ((a + b) / 2 for a, b in zip(_slopes(template), _slopes(warped), strict=True))
    misfit = template - warped
    products = (x * x, x * y, y * y, x * misfit, y * misfit, template * template, warped * warped, template * warped)
    means: Sequence[Any] = [
        cv2.resize(inside * product, (TILES, TILES), interpolation=cv2.INTER_AREA).astype(np.float64)
        for product in products
    ]
    xx, xy, yy, bx, by, own, other, both = means
    determinant = xx * yy - xy * xy
    # A tile counts where it has structure in both directions, and is the same thing in both pictures.
    good = (determinant > 0.02 * (xx + yy) ** 2) & (both > 0.7 * np.sqrt(own * other)) & (own > 0)
    if not good.any():
        return 0.0
    shift_x, shift_y = (yy * bx - xy * by)[good], (xx * by - xy * bx)[good]
    shifts = np.hypot(shift_x, shift_y) / determinant[good]
    return float(np.quantile(shifts, 0.9) * max(first.size) / max(template.shape))


def _match_features(first: Pyramid, second: Pyramid) -> Transform | None:
    """A similarity from SIFT features, or None where fewer than 12 agree."""
    import cv2

    sift = cv2.SIFT.create(nfeatures=3000)
    (points, descriptors), (others, other_descriptors) = (
        sift.detectAndCompute(picture.preview, None) for picture in (first, second)
    )
    if descriptors is None or other_descriptors is None or min(len(points), len(others)) < 12:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(descriptors, other_descriptors, k=2)
    matches = [near for near, next_best in pairs if near.distance < 0.8 * next_best.distance]
    if len(matches) < 12:
        return None
    start = np.array([points[match.queryIdx].pt for match in matches])
    end = np.array([others[match.trainIdx].pt for match in matches])
    affine, agree = cv2.estimateAffinePartial2D(start, end, method=cv2.RANSAC, ransacReprojThreshold=3.0)
    if affine is None or int(agree.sum()) < 12:
        return None
    normal = normal_coordinates(first.size, (first.preview.shape[0], first.preview.shape[1]))
    return np.asarray(normal @ np.vstack([affine, [0, 0, 1]]) @ np.linalg.inv(normal))
