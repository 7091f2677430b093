"""The command `measure`: profiles and roughness, from a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalsweep.cli.words import FLAGS_OF_OTHERS
from focalsweep.errors import InputError

if TYPE_CHECKING:
    from focalsweep.results.result import DepthResult

FLAGS = FLAGS_OF_OTHERS["measure"]
MICROMETRES = 1e6


def measure(
    results: Annotated[Path, typer.Argument(help="A folder that focalsweep depth wrote.")],
    profile: Annotated[
        str | None,
        typer.Option(FLAGS["profile"], help="From X0,Y0 to X1,Y1, pixels of the sharp picture: X0,Y0,X1,Y1."),
    ] = None,
    area: Annotated[
        str | None,
        typer.Option(FLAGS["area"], help="Roughness of the heights in columns X0 to X1, rows Y0 to Y1: X0,Y0,X1,Y1."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the profile; RESULTS/profile.csv by default.")
    ] = None,
) -> None:
    """A profile between two points as a table, and the roughness of an area, from a folder of results.

    Roughness is Sa, Sq, Sz (ISO 25178) and Ra, Rq (ISO 4287, mean over rows), in micrometres, without a filter.

    Example: focalsweep measure out/ --profile 20,300,900,300 --area 100,100,400,300
    """
    from focalsweep.from_files import load_result
    from focalsweep.results.heights import roughness
    from focalsweep.results.writing import write_files

    if not (profile or area):
        raise InputError("nothing is asked for", field="profile", remedy="give {profile} or {area}")
    line = _four(profile, "profile") if profile else None
    corners = _four(area, "area") if area else None
    result = load_result(results)
    if corners:
        if result.quantity != "height":
            raise InputError("{area} needs {rule}, but {value} has depth", field="area", rule="heights", value=results)
        left, top, right, bottom = (round(value) for value in corners)
        rows, columns = result.depth.shape
        if not (0 <= left < right <= columns and 0 <= top < bottom <= rows):
            raise InputError(
                "{area} must lie {rule}, but is {value}",
                field="area", rule=f"in the picture of {columns} x {rows} px, X0 below X1 and Y0 below Y1", value=area,
            )  # fmt: skip
        found = roughness(result.depth[top:bottom, left:right])
        words = [f"{name.capitalize()} {getattr(found, name) * MICROMETRES:.4g} um" for name in ("sa", "sq", "sz")]
        words += [f"{name.capitalize()} {getattr(found, name) * MICROMETRES:.4g} um" for name in ("ra", "rq")]
        print(f"{', '.join(words)} ({found.pixels} px, tilt taken out)")
    if line:
        table = _table(result, line).encode()
        for path in write_files({output or results / "profile.csv": lambda file: file.write(table)}):
            print(path)


def _four(text: str, field: str) -> tuple[float, float, float, float]:
    try:
        first, second, third, fourth = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{{{field}}} must be {{rule}}, but is {{value!r}}", field=field, rule="X0,Y0,X1,Y1", value=text
        ) from None
    return first, second, third, fourth


def _table(result: DepthResult, line: tuple[float, float, float, float]) -> str:
    """Comma-separated, with units in the names of the columns."""
    from focalsweep.results.heights import profile as along
    from focalsweep.results.heights import specimen_pixel

    height = result.quantity == "height"
    factor = MICROMETRES if height else 1.0
    unit = "_um" if height else "_m" if result.unit else ""
    pixel = specimen_pixel(result)
    head = ["px", *(["along_um"] if pixel else []), f"{result.quantity}{unit}", f"std{unit}"]
    lines = [",".join(head)]
    for place, value, std in along(result, line[:2], line[2:]):
        cells = [place, *([place * pixel * MICROMETRES] if pixel else []), value * factor, std * factor]
        lines.append(",".join(f"{cell:.7g}" for cell in cells))
    return "\n".join(lines) + "\n"
