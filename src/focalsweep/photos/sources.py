"""What the user gave (a folder, files, a TIFF of many pages, a video) -> the frames of a stack, and their pictures."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.errors import InputError
from focalsweep.photos import tiff
from focalsweep.photos.decoding import Refusal, check_size
from focalsweep.photos.odd_files import FileState, odd_kind
from focalsweep.photos.pictures import (
    JPEG_EXTENSIONS,
    PICTURE_EXTENSIONS,
    RAW_EXTENSIONS,
    TIFF_EXTENSIONS,
    Picture,
    read_picture,
)
from focalsweep.photos.transfer import REC709

VIDEO_EXTENSIONS = {".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm"}
SIDE_CARS = {".toml", ".json", ".xmp", ".pp3", ".dop", ".aae", ".thm", ".txt", ".md", ".csv", ".npz", ".exr", ".ini"}
OUR_RESULTS = {"depth.png", "depth_mm.png", "all_in_focus.png", "sheet.png", "all_in_focus.jpg", "all_in_focus.tif"}
HEIF_EXTENSIONS = {".heic", ".heif", ".hif"}
# of several files of one shot, the one with the most of its light
PREFERENCE = (RAW_EXTENSIONS, TIFF_EXTENSIONS, {".png"}, HEIF_EXTENSIONS, {".webp"}, {".bmp"}, JPEG_EXTENSIONS)


@dataclass(frozen=True)
class Frame:
    """One picture of a stack, not read yet.

    Args:
        path: the file.
        page: of a TIFF, or the frame of a video, from 0; None: the file is the picture.
        twins: other files of the same shot, which are not read: the JPEG beside a RAW.
        state: of the file when it was found; it is read several times over, and must be the same each time.
    """

    path: Path
    page: int | None = None
    twins: tuple[Path, ...] = ()
    state: FileState | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", FileState.of(self.path))

    def check_unchanged(self) -> None:
        """Raises where the file was replaced, written to or removed since it was found."""
        if self.state is not None and FileState.of(self.path) != self.state:
            raise ValueError(f"{self.path} changed while it was worked on: run again when nobody writes to it")

    @property
    def name(self) -> str:
        """To show: "IMG_3.jpg", "stack.tif page 3", "sweep.mp4 frame 120" (pages and frames from 1)."""
        if self.page is None:
            return self.path.name
        return f"{self.path.name} {'frame' if _is_video(self.path) else 'page'} {self.page + 1}"


def find_frames(photos: str | Path | Sequence[str | Path], *, video_frames: int = 12) -> list[Frame]:
    """The frames of a stack, at least 2, in order.

    Args:
        photos: a folder, one TIFF of many pages, one video, or a list of files. In a folder only pictures count, not
            hidden files, side-cars, videos, or results of ours (depth.png, depth_mm.png, all_in_focus.png); where it
            holds no picture, its one video counts. Frames are in natural order of name: frame3 before frame11.
            A list keeps its order, unless that is alphabetical, as a shell's * gives it: then natural order too.
            Files of one name with different extensions are one shot. The first of RAW, TIFF, PNG, HEIC, WebP, BMP
            and JPEG that every shot has is read; the others are the frame's twins.
        video_frames: how many frames of a video, evenly spaced from its first to its last; fewer where it has fewer.

    Raises:
        FileNotFoundError: a file or folder is not there.
        ValueError: there are under 2 frames, or they do not make one stack: one sentence.
    """
    given = [Path(photos)] if isinstance(photos, str | Path) else [Path(photo) for photo in photos]
    if not given:
        raise ValueError("no photos given: give a folder, at least 2 files, a TIFF with several pages, or a video")
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist: check the name")
        if odd_kind(path) and not path.is_dir():
            raise ValueError(f"{path} is {odd_kind(path)}, no photo: leave it out")
        if path.is_dir() and len(given) > 1:
            raise ValueError(f"{path} is a folder among other photos: give one folder, or files only")
    files = _in_folder(given[0]) if given[0].is_dir() else _in_list(given)
    if len(files) == 1:
        return _in_file(files[0], video_frames)
    for path in files:
        if _is_video(path):
            raise ValueError(f"{path} is a video among other files: give it alone")
        if path.suffix.lower() in TIFF_EXTENSIONS and tiff.page_count(path) > 1:
            raise ValueError(f"{path} has {tiff.page_count(path)} pages: give it alone, as a stack of its own")
    frames = _one_file_a_shot(files)
    return frames if len(frames) > 1 else _in_file(frames[0].path, video_frames)


def read_frames(frames: Sequence[Frame]) -> Iterator[Picture]:
    """The pictures of a stack, one at a time, so that memory holds one; all have one size and as many channels.

    RAW files get the first frame's white balance. Where files of one size name different orientations (a camera that
    looks down cannot tell), the first frame's holds for all, and the picture's notes say so.
    """
    first: Picture | None = None
    shape: tuple[int, ...] = ()

    def check(frame: Frame, picture: Picture) -> Picture:
        nonlocal first, shape
        frame.check_unchanged()
        if first is None:
            shape = picture.pixels.shape
            first = replace(picture, pixels=picture.pixels[:0].copy())  # the record without the memory
        if picture.orientation != first.orientation and picture.stored_size == first.stored_size:
            note = f"orientation {picture.orientation} is not the first frame's {first.orientation}, which is used"
            picture = replace(picture.turned_to(first.orientation), notes=(*picture.notes, note))
        if picture.pixels.shape != shape:
            raise ValueError(
                f"{frame.name} has {_size(picture.pixels.shape)}, but {frames[0].name} has {_size(shape)}: "
                "all photos of a stack must have one size and as many channels, leave out the odd one"
            )
        return picture

    return map(check, frames, _pictures_of(frames))  # a generator would keep the last picture while it reads the next


def natural_order(path: Path) -> list[Any]:
    """Sorts numbers inside names by their value."""
    parts = re.split(r"(\d+)", path.name.lower())
    return [[(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts], path.name]


def odd_files(folder: Path) -> list[str]:
    """What is called like a photo in a folder and is none, a sentence each: such files are left out."""
    named = [path for path in folder.iterdir() if _is_picture(path) or _is_video(path)]
    odd = [(path, odd_kind(path)) for path in sorted(named, key=natural_order) if not path.name.startswith(".")]
    return [f"{path.name} is {kind}, no photo, and is left out" for path, kind in odd if kind]


def _in_folder(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    pictures = [path for path in files if _is_picture(path)]
    videos = [path for path in files if _is_video(path)]
    if not pictures and len(videos) == 1:
        return videos
    if not pictures:
        raise ValueError(f"{folder} holds no pictures: give the folder of the photos, or the files")
    return sorted(pictures, key=natural_order)


def _in_list(given: list[Path]) -> list[Path]:
    files = [path for path in given if not (path.suffix.lower() in SIDE_CARS or path.name.lower() in OUR_RESULTS)]
    stems = {path.with_suffix("") for path in files if _is_picture(path)}
    files = [path for path in files if not (_is_video(path) and path.with_suffix("") in stems)]  # of a live photo
    for path in files:
        if not (_is_picture(path) or _is_video(path)):
            raise ValueError(
                f"{path} is no picture that can be read: give JPEG, PNG, TIFF, RAW, HEIC, WebP or BMP files"
            )
        if files.count(path) > 1:
            raise ValueError(f"{path} is given twice: a stack needs different photos")
    if not files:
        raise ValueError(f"no pictures given, only {given[0]} and its like: give the photos")
    alphabetical: list[Callable[[Path], str]] = [str, lambda path: str(path).casefold()]
    if any(files == sorted(files, key=key) for key in alphabetical) and len({path.parent for path in files}) == 1:
        return sorted(files, key=natural_order)
    return files


def _in_file(path: Path, video_frames: int) -> list[Frame]:
    """A stack that lies in one file."""
    if _is_video(path):
        return _spread_over_video(path, video_frames)
    pages = tiff.page_count(path) if path.suffix.lower() in TIFF_EXTENSIONS else 1
    if pages < 2:
        raise ValueError(f"{path} is one picture only: a focal stack needs at least 2, focused at different distances")
    return [Frame(path, page) for page in range(pages)]


def _one_file_a_shot(files: list[Path]) -> list[Frame]:
    """Of files that differ in their extension alone, those of the first kind in PREFERENCE that every shot has."""
    shots: dict[Path, list[Path]] = defaultdict(list)
    for path in files:
        shots[path.with_name(path.stem.lower())].append(path)
    for kind in PREFERENCE:
        chosen = [next((path for path in shot if path.suffix.lower() in kind), None) for shot in shots.values()]
        if all(chosen):
            pairs = zip(chosen, shots.values(), strict=True)
            return [Frame(c, twins=tuple(p for p in shot if p != c)) for c, shot in pairs if c is not None]
    raws = [path for path in files if path.suffix.lower() in RAW_EXTENSIONS]
    doubled = [shot for shot in shots.values() if len(shot) > 1]
    if not raws and not doubled:
        return [Frame(path) for path in files]
    if raws:
        lone = next(shot for shot in shots.values() if not any(path in raws for path in shot))
        raise ValueError(f"{lone[0]} is no RAW file, but {raws[0].name} is: give all photos of a stack in one format")
    first, second = doubled[0][:2]
    raise ValueError(f"{first} and {second.name} are one shot twice, others are not: give every photo in one format")


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURE_EXTENSIONS and path.name.lower() not in OUR_RESULTS


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_EXTENSIONS


def _size(shape: tuple[int, ...]) -> str:
    height, width, channels = shape
    return f"{width} x {height} px and {channels} channel{'s' if channels > 1 else ''}"


def _pictures_of(frames: Sequence[Frame]) -> Iterator[Picture]:
    videos = {frame.path for frame in frames if _is_video(frame.path)}
    if videos:
        return _read_video(videos.pop(), [frame.page or 0 for frame in frames])
    white_balance: tuple[float, ...] | None = None

    def read(frame: Frame) -> Picture:
        nonlocal white_balance
        frame.check_unchanged()
        picture = read_picture(frame.path, page=frame.page, white_balance=white_balance)
        white_balance = white_balance or picture.white_balance
        return picture

    return map(read, frames)


# Videos


def _open_video(path: Path) -> Any:
    import cv2

    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # what is wrong with a file, we say ourselves
    video = cv2.VideoCapture(str(path))
    if not video.isOpened():
        raise ValueError(f"{path} cannot be read as a video: is it truncated, damaged or of another type?")
    return video


def _spread_over_video(path: Path, wanted: int) -> list[Frame]:
    if wanted < 2:
        raise InputError(
            "{video_frames} must be {rule}, but is {value}: a focal stack needs as many",
            field="video_frames", rule="2 or more", value=wanted,
        )  # fmt: skip
    count = _frame_count(path)
    if count < 2:
        raise ValueError(f"{path} has {count} frames: a focal stack needs at least 2")
    numbers = np.rint(np.linspace(0, count - 1, min(wanted, count))).astype(int)
    return [Frame(path, int(number)) for number in numbers]


def _frame_count(path: Path) -> int:
    """The header's count where its last frame can be read; else counted, and far fewer than the header's is damage."""
    import cv2

    video = _open_video(path)
    try:
        check_size(int(video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        claimed = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        if claimed > 0 and video.set(cv2.CAP_PROP_POS_FRAMES, claimed - 1) and video.grab():
            return claimed
        video.release()
        video = _open_video(path)
        count = 0
        while video.grab():
            count += 1
    except Refusal as refusal:
        raise ValueError(f"{path} {refusal}") from None
    finally:
        video.release()
    if count < 0.9 * claimed:
        raise ValueError(f"{path} breaks off after {count} of {claimed} frames: is it truncated or damaged?")
    return count


def _read_video(path: Path, numbers: list[int]) -> Iterator[Picture]:
    """These frames, in any order; all but ascending ones are held in memory at 8 bit."""
    ascending = sorted(set(numbers))
    decoded = _decode_video(path, ascending)
    if numbers != ascending:
        held = dict(zip(ascending, decoded, strict=True))
        decoded = (held[number] for number in numbers)
    for codes in decoded:
        height, width = codes.shape[:2]
        linear = REC709.to_linear  # OpenCV's order is B G R
        yield Picture(linear(codes[..., ::-1], 255), "BT.709 (video)", 8, 1, (width, height))


def _decode_video(path: Path, ascending: list[int]) -> Iterator[Any]:
    """In one pass: seeking is inexact in some formats."""
    video = _open_video(path)
    try:
        position = -1
        for number in ascending:
            while position < number:
                if not video.grab():
                    raise ValueError(f"{path} breaks off after {position + 1} frames: is it truncated or damaged?")
                position += 1
            done, codes = video.retrieve()
            if not done or codes is None or codes.dtype != np.uint8 or codes.ndim != 3:
                raise ValueError(f"{path} cannot be read at frame {number + 1}: is it damaged?")
            yield codes
    finally:
        video.release()
