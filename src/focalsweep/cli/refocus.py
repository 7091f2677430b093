"""The command `refocus`: pictures that only depth makes, from a folder of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalsweep.cli.console import read_positive, stages
from focalsweep.cli.options import Quiet, check_output
from focalsweep.cli.words import FLAGS_OF_OTHERS
from focalsweep.errors import InputError

if TYPE_CHECKING:
    from focalsweep.results.movies import Pixels
    from focalsweep.results.result import Array, DepthResult
    from focalsweep.results.writing import Writer

FLAGS = FLAGS_OF_OTHERS["refocus"]
STEREO = ("pair", "anaglyph", "rock")
RACK_FRAMES, ROCK_FRAMES = 48, 24
MOVIE_PX = 960  # the longer side of a movie


def refocus(
    results: Annotated[Path, typer.Argument(help="A folder that focalsweep depth wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the pictures; RESULTS/refocused by default.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(FLAGS["at"], help="In focus: metres from the lens, or a share of the way from near to far: 30%."),
    ] = None,
    f_number: Annotated[
        float | None, typer.Option(FLAGS["aperture"], help="Of the aperture; the photos' by default.")
    ] = None,
    widen: Annotated[
        float, typer.Option(FLAGS["widen"], help="How many times as wide the aperture is; without a camera, too.")
    ] = 1.0,
    tilt: Annotated[
        float,
        typer.Option(
            FLAGS["tilt"], help="Lean the plane in focus: 1 back, as a ground plane is seen; -1 forward: toy streets."
        ),
    ] = 0.0,
    rack: Annotated[
        str | None, typer.Option(FLAGS["rack"], help="A movie whose focus goes from near to far and back: mp4 or gif.")
    ] = None,
    stereo: Annotated[
        str | None,
        typer.Option(
            FLAGS["stereo"],
            help="pair (left and right eye), anaglyph (red and cyan glasses), rock (a movie to and fro); commas.",
        ),
    ] = None,
    movie: Annotated[str, typer.Option(FLAGS["movie"], help="Of rock: mp4 or gif.")] = "gif",
    size: Annotated[
        int | None, typer.Option(FLAGS["size"], min=64, help="The longer side in px; movies have 960 by default.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """The sharp picture focused anew, with another aperture, as a movie or in stereo, from a folder of results.

    Writes refocused.png, rack.mp4, left.jpg, right.jpg, anaglyph.jpg, rock.gif: what is asked for.

    Examples: focalsweep refocus out/ --at 0.45 --f-number 1.4

    focalsweep refocus out/ --rack mp4 --stereo anaglyph,rock
    """
    from focalsweep.from_files import load_result
    from focalsweep.results.writing import write_files

    kinds = [name.strip() for name in (stereo or "").split(",") if name.strip()]
    for name in kinds:
        if name not in STEREO:
            raise InputError(
                "{stereo} must be of {rule}, but has {value!r}", field="stereo", rule=", ".join(STEREO), value=name
            )
    for field, value in (("rack", rack), ("movie", movie)):
        if value is not None and value not in ("mp4", "gif"):
            raise InputError(
                f"{{{field}}} must be {{rule}}, but is {{value!r}}", field=field, rule="mp4 or gif", value=value
            )
    if not (at or rack or kinds):
        raise InputError("nothing is asked for", field="at", remedy="give {at}, {rack} or {stereo}")
    where = _focus(at) if at else {}
    read_positive(f_number, "aperture")
    read_positive(widen, "widen")
    folder = output or results / "refocused"
    check_output(folder)
    result = load_result(results)
    lens = {"f_number": f_number, "widen": widen, "tilt": tilt}
    files: dict[str, bytes] = {}
    with stages(quiet) as progress:
        if at:
            progress("refocusing", 0.0)
            files["refocused.png"] = _still(result, where, lens, size)
        if rack:
            files[f"rack.{rack}"] = _rack(
                result, lens, size or MOVIE_PX, rack, lambda share: progress("rack focus", share)
            )
        if kinds:
            progress("stereo", 0.0)
            files |= _stereo(result, kinds, size, movie)
    written = write_files({folder / name: _writer(data) for name, data in files.items()})
    for path in written:
        print(path)


def _focus(text: str) -> dict[str, float]:
    try:
        return {"share": float(text[:-1]) / 100} if text.endswith("%") else {"at": float(text)}
    except ValueError:
        raise InputError(
            "{at} must be {rule}, but is {value!r}", field="at", rule="metres, or a share such as 30%", value=text
        ) from None


def _still(result: DepthResult, where: dict[str, float], lens: dict[str, float | None], size: int | None) -> bytes:
    from focalsweep.results.picture_files import png_bytes
    from focalsweep.results.refocus import refocus_result

    return png_bytes(refocus_result(result, **where, **lens, size_px=size))  # type: ignore[arg-type]


def _rack(
    result: DepthResult, lens: dict[str, float | None], size: int, kind: str, tell: Callable[[float], None]
) -> bytes:
    from focalsweep.results.figures import srgb_8_bit
    from focalsweep.results.movies import MOVIES, there_and_back
    from focalsweep.results.refocus import refocus_result

    way = there_and_back(RACK_FRAMES)
    half: list[Pixels] = []
    for number, share in enumerate(way[: RACK_FRAMES // 2 + 1]):
        half.append(srgb_8_bit(refocus_result(result, share=share, **lens, size_px=size)))  # type: ignore[arg-type]
        tell((number + 1) / (RACK_FRAMES // 2 + 1))
    return MOVIES[f".{kind}"]([*half, *half[-2:0:-1]])


def _stereo(result: DepthResult, kinds: Iterable[str], size: int | None, movie: str) -> dict[str, bytes]:
    from focalsweep.results.figures import srgb_8_bit
    from focalsweep.results.movies import MOVIES, there_and_back
    from focalsweep.results.views import anaglyph, parallax_px, stereo_pair, view

    files: dict[str, bytes] = {}
    if {"pair", "anaglyph"} & set(kinds):
        left, right = stereo_pair(result, size)
        if "pair" in kinds:
            files |= {"left.jpg": _jpg(left), "right.jpg": _jpg(right)}
        if "anaglyph" in kinds:
            files["anaglyph.jpg"] = _jpg(anaglyph(left, right))
    if "rock" in kinds:
        sharp, parallax = parallax_px(result, size or MOVIE_PX)
        views = [srgb_8_bit(view(sharp, parallax, 2 * share - 1)) for share in there_and_back(ROCK_FRAMES)]
        files[f"rock.{movie}"] = MOVIES[f".{movie}"](views)
    return files


def _jpg(linear: Array) -> bytes:
    import io

    from PIL import Image

    from focalsweep.results.figures import srgb_8_bit
    from focalsweep.results.picture_files import JPEG_QUALITY

    pixels = srgb_8_bit(linear)
    buffer = io.BytesIO()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    picture.save(buffer, "jpeg", quality=JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


def _writer(data: bytes) -> Writer:
    return lambda file: file.write(data)
