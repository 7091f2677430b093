"""Focal stacks with a known motion: a scene of steps in depth, blurred finely, then looked at through each transform.

Nothing of the alignment is used. Transforms are 3 x 3, pixels (column, row, 1) of the scene -> pixels of a frame.
"""

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Matrix = NDArray[np.float64]

OVERSAMPLING = 2
MARGIN_PX = 48
BLUR_STEPS = 7
TINT = np.array([1.0, 0.9, 0.75])


def similarity(
    size: tuple[int, int], scale: float = 1.0, angle_deg: float = 0.0, shift: tuple[float, float] = (0, 0)
) -> Matrix:
    """Zoom and turn about the picture's centre, then a shift (right, down)."""
    centre = np.array([(size[1] - 1) / 2, (size[0] - 1) / 2])
    c, s = scale * np.cos(np.radians(angle_deg)), scale * np.sin(np.radians(angle_deg))
    turn = np.array([[c, -s], [s, c]])
    matrix = np.eye(3)
    matrix[:2, :2], matrix[:2, 2] = turn, centre - turn @ centre + shift
    return matrix


def pan(size: tuple[int, int], focal_px: float, yaw_deg: float, pitch_deg: float) -> Matrix:
    """What turning the camera does: K R inv(K)."""
    yaw, pitch = np.radians([yaw_deg, pitch_deg])
    about_y = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
    camera = np.array([[focal_px, 0, (size[1] - 1) / 2], [0, focal_px, (size[0] - 1) / 2], [0, 0, 1.0]])
    return np.asarray(camera @ about_y @ about_x @ np.linalg.inv(camera))


@dataclass(frozen=True)
class Shake:
    """What happens to the frames of a stack between first and last."""

    frames: int = 5
    blur_px: float = 12.0  # a thing at the near end, in the frame focused at the far end
    breathing: float = 0.04
    shift_px: float = 20.0
    turn_deg: float = 0.5
    drift: float = 0.1
    noise_std: float = 0.01
    size: tuple[int, int] = (240, 320)
    moves: tuple[Matrix, ...] | None = field(default=None, hash=False)  # instead of random ones


def photograph(shake: Shake, seed: int) -> tuple[list[Array], list[Matrix], list[float]]:
    """The frames (H W 3, linear light), the transform of each, and how bright each came out."""
    rng = np.random.default_rng(seed)
    sharp, depth = _scene(rng, shake.size)
    steps = [_disk_blurred(sharp, OVERSAMPLING * shake.blur_px * k / BLUR_STEPS) for k in range(BLUR_STEPS + 1)]
    frames, moves, gains = [], [], []
    for i in range(shake.frames):
        focus = i / (shake.frames - 1)
        step = np.abs(depth - focus) * BLUR_STEPS
        seen = sum(np.clip(1 - np.abs(step - k), 0, 1) * blurred for k, blurred in enumerate(steps))
        zoom = 1 + shake.breathing * (focus - 0.5)
        angle, *shift = rng.uniform(-1, 1, 3) * [shake.turn_deg, shake.shift_px, shake.shift_px]
        move = shake.moves[i] if shake.moves else similarity(shake.size, zoom, angle, (shift[0], shift[1]))
        gain = 1 + shake.drift * rng.uniform(-1, 1)
        frame = gain * _look(seen.astype(np.float32), move, shake.size)[..., None] * TINT
        frame = frame + shake.noise_std * rng.standard_normal(frame.shape)
        frames.append(np.clip(frame, 0, 1).astype(np.float32))
        moves.append(move)
        gains.append(gain)
    return frames, moves, gains


def _scene(rng: np.random.Generator, size: tuple[int, int]) -> tuple[Array, Array]:
    """A textured wall on a slant with boxes and disks before it; depth 0..1 for each pixel of the fine canvas."""
    height, width = (OVERSAMPLING * (length + 2 * MARGIN_PX) for length in size)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    frequency[0, 0] = np.inf
    texture = np.fft.ifft2(np.fft.fft2(rng.standard_normal((height, width))) / frequency**1.3).real
    picture = 0.35 + 0.07 * texture / texture.std()
    rows, columns = np.mgrid[0:height, 0:width]
    slope = rng.uniform(-0.5, 0.5, 2)
    depth = 0.5 + slope[0] * (rows / height - 0.5) + slope[1] * (columns / width - 0.5)
    for number in range(25):
        centre, radius = rng.uniform(0, 1, 2) * (height, width), rng.uniform(10, 70)
        across = np.abs(rows - centre[0]), np.abs(columns - centre[1])
        inside = np.maximum(*across) < radius if number % 2 else np.hypot(*across) < radius
        picture[inside] = 0.7 * rng.uniform(0.02, 1) + 0.6 * (picture[inside] - 0.35)
        depth[inside] = rng.uniform()
    return picture.clip(0.01, 0.95).astype(np.float32), depth.astype(np.float32)


def _disk_blurred(picture: Array, diameter_px: float) -> Array:
    if diameter_px < 0.5:
        return picture
    fine, radius = 8, int(np.ceil(diameter_px / 2))
    at = (np.arange((2 * radius + 1) * fine) + 0.5) / fine - radius - 0.5
    disk = (np.hypot(at[:, None], at) <= diameter_px / 2).astype(np.float64)
    kernel = disk.reshape(2 * radius + 1, fine, 2 * radius + 1, fine).mean((1, 3))
    return np.asarray(cv2.filter2D(picture, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT), np.float32)


def _look(canvas: Array, move: Matrix, size: tuple[int, int]) -> Array:
    """The canvas through a transform: sampled finely, then averaged as a sensor's pixel does."""
    k = OVERSAMPLING
    onto_canvas = np.array([[k, 0, (MARGIN_PX + 0.5) * k - 0.5], [0, k, (MARGIN_PX + 0.5) * k - 0.5], [0, 0, 1.0]])
    from_fine = np.array([[1 / k, 0, 0.5 / k - 0.5], [0, 1 / k, 0.5 / k - 0.5], [0, 0, 1.0]])
    matrix = onto_canvas @ np.linalg.inv(move) @ from_fine
    flags = cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP
    fine = cv2.warpPerspective(canvas, matrix, (size[1] * k, size[0] * k), flags=flags, borderMode=cv2.BORDER_REFLECT)
    return np.asarray(fine.reshape(size[0], k, size[1], k).mean((1, 3)), np.float32)


def corner_error_px(found: Matrix, true: Matrix, size: tuple[int, int]) -> float:
    """How far two transforms part at the picture's corners, at most."""
    height, width = size
    corners = np.array([[0, 0, 1], [width - 1, 0, 1], [0, height - 1, 1], [width - 1, height - 1, 1.0]]).T
    (x, y, w), (true_x, true_y, true_w) = found @ corners, true @ corners
    return float(np.hypot(x / w - true_x / true_w, y / w - true_y / true_w).max())
