"""Render the demo focal stack that ships with focalsweep: a tabletop still life through Mitsuba's thin lens.

    python examples/render_demo_stack.py src/focalsweep/demo_stack     # seven frames, depth, stack.toml
    python examples/render_demo_stack.py /tmp/preview --samples 16     # a quick, noisy look
    python examples/render_demo_stack.py /tmp/preview --only-frame 3
    python examples/render_demo_stack.py --check                       # rendered blur against the formula

World frame: metres, x to the right, y away from the camera along the table, z up, table top at z = 0.
Every mesh and texture is generated here from fixed seeds; nothing is loaded from a file.
"""

import argparse
import itertools
import math
import time
from pathlib import Path
from typing import Any

import cv2
import mitsuba as mi
import numpy as np
from numpy.typing import NDArray

mi.set_variant("scalar_rgb")

Array = NDArray[np.floating[Any]]
Spec = dict[str, Any]  # a Mitsuba plugin description, or several by name
Shape = tuple[int, int]  # rows, columns
Generator = np.random.Generator

WIDTH, HEIGHT = 384, 288
FOCAL_LENGTH = 0.050
F_NUMBER = 4.0
PIXEL_PITCH = 0.036 / WIDTH  # a full-frame sensor, 36 mm wide
APERTURE_RADIUS = FOCAL_LENGTH / (2 * F_NUMBER)
FOV_X_DEG = 2 * math.degrees(math.atan(WIDTH * PIXEL_PITCH / 2 / FOCAL_LENGTH))
# Uniform in inverse distance between the nearest and the farthest thing worth having sharp.
FOCUS_DISTANCES = [round(1 / inverse, 4) for inverse in np.linspace(1 / 0.38, 1 / 1.12, 7)]

CAMERA_HEIGHT = 0.182
CAMERA_PITCH = math.radians(14.0)
WALL_Y = 1.16
GAP = 0.0002  # between touching faces: which of two coplanar faces a ray hits changes from run to run
EXPOSURE = 0.78
SAMPLES_PER_PIXEL = 783  # 27 x 29 strata for the multi-jittered sampler
SENSOR_NOISE = 0.003  # standard deviation, linear light


# --------------------------------------------------------------------------------------------------
# Camera


def magnification(focus_distance: float) -> float:
    """Blur of a constant-field-of-view lens over that of a lens whose sensor moves: (d_f - f) / d_f."""
    return (focus_distance - FOCAL_LENGTH) / focus_distance


def blur_diameter_px(depth: float, focus_distance: float) -> float:
    """Blur diameter of the renderer's thin lens, m |d - d_f| / d * f^2 / (N (d_f - f)) / pitch.

    Mitsuba keeps the field of view whatever the focus distance, so its image plane stays at distance f.
    The cone of an object at depth d cuts the plane of focus in a disc of 2 R |d - d_f| / d, and that plane
    reaches the image scaled by f / d_f; with R = f / (2 N) the product is the thin-lens blur times m.
    """
    at_infinity = FOCAL_LENGTH**2 / (F_NUMBER * (focus_distance - FOCAL_LENGTH))
    thin_lens = abs(depth - focus_distance) / depth * at_infinity
    return magnification(focus_distance) * thin_lens / PIXEL_PITCH


def camera_pose() -> tuple[Array, Array]:
    """Camera centre and unit optical axis in the world frame."""
    return np.array([0, 0, CAMERA_HEIGHT]), np.array([0, math.cos(CAMERA_PITCH), -math.sin(CAMERA_PITCH)])


def sensor(focus_distance: float | None, samples_per_pixel: int, seed: int = 0, crop: Spec | None = None) -> Spec:
    """The camera: a thin lens, or a pinhole of the same view where no focus distance is given."""
    centre, axis = camera_pose()
    lens: Spec = {"type": "perspective"}
    if focus_distance is not None:
        lens = {"type": "thinlens", "aperture_radius": APERTURE_RADIUS, "focus_distance": focus_distance}
    return lens | {
        "fov": FOV_X_DEG,
        "fov_axis": "x",
        "near_clip": 0.01,
        "far_clip": 10.0,
        "to_world": mi.ScalarTransform4f().look_at(
            origin=centre.tolist(), target=(centre + axis).tolist(), up=[0, 0, 1]
        ),
        "film": {
            "type": "hdrfilm",
            "width": WIDTH,
            "height": HEIGHT,
            "pixel_format": "rgb",
            "component_format": "float32",
            "rfilter": {"type": "box"},  # a pixel integrates over its own square and nothing else
        }
        | (crop or {}),
        "sampler": {"type": "multijitter", "sample_count": samples_per_pixel, "seed": seed},
    }


# --------------------------------------------------------------------------------------------------
# Textures: sRGB values in [0, 1], rows x columns x 3


def texel_grid(shape: Shape, rows: float = 1, columns: float = 1) -> tuple[Array, Array]:
    """Each texel's row and column, counted from 0 to `rows` and from 0 to `columns`."""
    along_rows, along_columns = np.linspace(0, rows, shape[0]), np.linspace(0, columns, shape[1])
    row, column = np.meshgrid(along_rows, along_columns, indexing="ij")
    return row, column


def fractal(rng: Generator, shape: Shape, cells: Shape, octaves: int = 5) -> Array:
    """Multi-octave value noise, zero mean, unit deviation; the coarsest octave has `cells` rows, columns."""
    total = np.zeros(shape)
    for octave in range(octaves):
        grid = rng.standard_normal((cells[0] * 2**octave + 1, cells[1] * 2**octave + 1))
        total += 0.62**octave * cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_CUBIC)
    return (total - total.mean()) / total.std()


def mix(first: Any, second: Any, weight: Array) -> Array:
    """Blend two colours or images by a weight map, which is clipped to [0, 1]."""
    weight = np.clip(weight, 0, 1)[..., None]
    return np.asarray(first) * (1 - weight) + np.asarray(second) * weight


def wood(rng: Generator, shape: Shape, planks: int, dark: Any, light: Any) -> Array:
    """Planks along the rows, with rings, streaks, pores, flecks and dark seams."""
    image = np.zeros((*shape, 3))
    edges = np.linspace(0, shape[0], planks + 1).astype(int)
    for top, bottom in itertools.pairwise(edges):
        size = (bottom - top, shape[1])
        across = np.linspace(0, 1, size[0])[:, None] + rng.uniform()
        rings = np.sin(2 * np.pi * (5 * across + 0.55 * fractal(rng, size, (1, 4), 4)))
        streaks = fractal(rng, size, (max(size[0] // 6, 2), 5), 3)
        pores = fractal(rng, size, (max(size[0] // 3, 2), 36), 2) > 1.8
        tone = 0.5 + 0.16 * rng.standard_normal() + 0.2 * rings + 0.17 * streaks
        flecks = 1 + 0.10 * fractal(rng, size, (max(size[0] // 4, 2), max(size[1] // 20, 2)), 2)
        plank = mix(dark, light, tone) * (flecks * (1 - 0.4 * pores))[..., None]
        plank[: max(size[0] // 60, 1)] *= 0.35
        image[top:bottom] = plank
    return image


def glyph_mask(rng: Generator, shape: Shape, cell: int, fill: float = 0.85) -> Array:
    """Lines of letter-like marks, 1 where there is ink; `cell` is a glyph's width in texels."""
    mask = np.zeros(shape)
    for row in range(cell, shape[0] - 2 * cell, int(2.2 * cell)):
        for column in range(cell, int(shape[1] * rng.uniform(0.7, 1)) - cell, cell):
            if rng.uniform() < fill:
                strokes = rng.uniform(size=(5, 3)) < 0.55
                size = (int(0.8 * cell), int(1.5 * cell))
                glyph = cv2.resize(strokes.astype(float), size, interpolation=cv2.INTER_NEAREST)
                mask[row : row + size[1], column : column + size[0]] = glyph
    return mask


def speckles(rng: Generator, image: Array, count: int, widths: tuple[int, int], colours: list[Any]) -> Array:
    """Scatter short rounded strokes over an image; their widths in texels lie between the two given."""
    canvas = np.ascontiguousarray(image, dtype=np.float32)
    for _ in range(count):
        start = rng.uniform(size=2) * canvas.shape[1::-1]
        size = int(rng.integers(widths[0], widths[1] + 1))
        angle = rng.uniform(0, 2 * np.pi)
        end = start + 2.0 * size * np.array([math.cos(angle), math.sin(angle)])
        colour = tuple(float(c) for c in colours[rng.integers(len(colours))])
        cv2.line(canvas, start.astype(int).tolist(), end.astype(int).tolist(), colour, size, cv2.LINE_AA)
    return canvas.astype(np.float64)


def checker(rng: Generator, shape: Shape, cells: int, colours: list[Any]) -> Array:
    """A checker whose cells differ a little in tone and whose edges wander."""
    row, column = texel_grid(shape, cells, cells)
    rows = np.clip(row + 0.06 * fractal(rng, shape, (6, 6)), 0, cells - 1e-6).astype(int)
    columns = np.clip(column + 0.06 * fractal(rng, shape, (6, 6)), 0, cells - 1e-6).astype(int)
    tone = 1 + 0.14 * rng.standard_normal((cells, cells))[rows, columns]
    tone += 0.07 * fractal(rng, shape, (30, 30), 3)
    return np.asarray(colours)[(rows + columns) % 2] * tone[..., None]


def gingham(rng: Generator, shape: Shape, stripes: int, colour: Any) -> Array:
    """Woven cloth: crossing bands, single threads and a small print in every light square."""
    rows, columns = texel_grid(shape, stripes, stripes)
    warp, weft = (rows % 1 < 0.5).astype(float), (columns % 1 < 0.5).astype(float)
    threads = 0.12 * (np.sin(2 * np.pi * 14 * rows) * np.sin(2 * np.pi * 14 * columns))
    flower = np.hypot(rows % 1 - 0.75, columns % 1 - 0.75) < 0.1
    dye = 0.42 * (warp + weft) + threads + 0.06 * fractal(rng, shape, (60, 60), 3)
    image = mix([0.93, 0.90, 0.83], colour, dye)
    return mix(image, [0.80, 0.42, 0.16], 0.9 * flower)


def wallpaper(rng: Generator, shape: Shape, tiles: tuple[int, int]) -> Array:
    """Leaf rosettes in a half-drop repeat on a finely hatched ground."""
    rows, columns = texel_grid(shape, *tiles)
    rows = rows + 0.5 * (columns.astype(int) % 2)
    y, x = rows % 1 - 0.5, columns % 1 - 0.5
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    leaves = radius < 0.20 + 0.20 * np.cos(3 * angle) ** 2
    veins = np.abs(np.sin(3 * angle)) < 0.16
    heart = radius < 0.09
    hatch = 0.5 + 0.5 * np.sin(2 * np.pi * 5 * (rows + columns))
    image = mix([0.13, 0.30, 0.33], [0.21, 0.40, 0.42], hatch + 0.35 * fractal(rng, shape, (12, 16), 6))
    image = mix(image, [0.66, 0.70, 0.55], 0.85 * (leaves & ~veins))
    image = mix(image, [0.86, 0.60, 0.28], heart.astype(float))
    return image * (1 + 0.06 * fractal(rng, shape, (40, 50), 4))[..., None]


def poster(rng: Generator, shape: Shape) -> Array:
    """A travel poster: a sun behind five ridges, with lines of print below."""
    rows, columns = texel_grid(shape)
    image = mix([0.95, 0.78, 0.50], [0.93, 0.52, 0.32], 1.6 * rows)
    sun = np.hypot(rows - 0.30, (columns - 0.62) * shape[1] / shape[0]) < 0.16
    image = mix(image, [0.97, 0.92, 0.76], sun * 1.0)
    for ridge in range(5):
        crest = 0.36 + 0.09 * ridge + 0.05 * fractal(rng, (1, shape[1]), (1, 4), 6)
        shade = np.array([0.62, 0.36, 0.36]) * (1 - ridge / 5) + np.array([0.10, 0.18, 0.27]) * ridge / 5
        rock = shade * (1 + 0.14 * fractal(rng, shape, (20, 30), 4))[..., None]
        image = mix(image, rock, (rows > crest) * 1.0)
    caption = int(0.80 * shape[0])
    image[caption:] = [0.93, 0.89, 0.78]
    print_mask = glyph_mask(rng, (shape[0] - caption, shape[1]), shape[1] // 34)
    image[caption:] = mix(image[caption:], [0.15, 0.16, 0.20], print_mask)
    border = (np.minimum(rows, 1 - rows) < 0.03) | (np.minimum(columns, 1 - columns) < 0.022)
    return mix(image, [0.95, 0.93, 0.88], border * 1.0)


def book_cover(rng: Generator, shape: Shape, colour: Any, ink: Any) -> Array:
    """Worn cloth with printed lines."""
    image = np.asarray(colour) * (1 + 0.10 * fractal(rng, shape, (40, 40), 5))[..., None]
    return mix(image, ink, 0.9 * glyph_mask(rng, shape, shape[1] // 22))


def glaze(rng: Generator, shape: Shape) -> Array:
    """Painted pottery: cobalt zigzags, dots and bands on cream, finely crazed."""
    rows, columns = texel_grid(shape)
    zigzag = np.abs((columns * 18) % 1 - 0.5) * 0.09
    lines = ((rows * 9 + 9 * zigzag) % 1 < 0.42) & ((rows * 4.5) % 1 < 0.55)
    bands = (rows * 18) % 1 < 0.22
    dots = np.hypot((rows * 18) % 1 - 0.62, ((columns * 30) % 1 - 0.5) * 1.3) < 0.22
    cobalt = (lines | bands) * (0.88 + 0.1 * fractal(rng, shape, (20, 30), 4))
    image = mix([0.91, 0.87, 0.78], [0.12, 0.22, 0.48], cobalt)
    image = mix(image, [0.72, 0.30, 0.16], (dots & ~lines) * 0.9)
    return image * (1 + 0.04 * fractal(rng, shape, (40, 60), 4))[..., None]


def pencil_paint(rng: Generator, colour: Any) -> Array:
    """Along a pencil from the tip: lead, cut wood, paint with print, ferrule, eraser."""
    shape = (512, 48)
    image = np.asarray(colour) * np.ones((*shape, 3)) * (0.82 + 0.3 * (np.arange(48) // 8 % 2))[None, :, None]
    image[120:400] = mix(image[120:400], [0.95, 0.88, 0.65], 0.9 * glyph_mask(rng, (48, 280), 8).T[:, :48])
    image[:26] = [0.10, 0.10, 0.11]
    image[26:74] = [0.82, 0.63, 0.42]
    image[440:478] = np.where(np.arange(38) % 10 < 5, 0.75, 0.45)[:, None, None]
    image[478:] = [0.85, 0.45, 0.45]
    return image


# --------------------------------------------------------------------------------------------------
# Materials and shapes


def painted(texture: Array) -> Spec:
    """A matte material with an image on it."""
    levels = np.round(255 * np.clip(texture, 0.02, 0.96)).astype(np.uint8)
    reflectance = {"type": "bitmap", "bitmap": mi.Bitmap(levels)}
    return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": reflectance}}


def glazed(texture: Array) -> Spec:
    """The same under a satin coat."""
    reflectance = painted(texture)["bsdf"]["reflectance"]
    coat = {"type": "roughplastic", "diffuse_reflectance": reflectance, "alpha": 0.22}
    return {"type": "twosided", "bsdf": coat}


def plain(colour: Any) -> Spec:
    """A matte material of one colour."""
    return painted(np.broadcast_to(np.asarray(colour, dtype=float), (2, 2, 3)))


def surface(points: Array, material: Spec, v: Array | None = None) -> mi.Mesh:
    """A smooth mesh over a grid of points (rows x columns x 3); v is the texture row of each grid row."""
    rows, columns = points.shape[:2]
    v = np.linspace(0, 1, rows) if v is None else v
    uv = np.stack(np.broadcast_arrays(np.linspace(0, 1, columns)[None, :], v[:, None]), axis=-1)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    first = np.stack([corner, corner + 1, corner + columns], axis=1)
    second = np.stack([corner + 1, corner + columns + 1, corner + columns], axis=1)
    faces = np.concatenate([first, second])
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(material)
    mesh = mi.Mesh(
        "surface", rows * columns, len(faces), properties, has_vertex_normals=True, has_vertex_texcoords=True
    )
    parameters = mi.traverse(mesh)
    parameters["vertex_positions"] = points.astype(np.float32).ravel()
    parameters["vertex_texcoords"] = uv.astype(np.float32).ravel()
    parameters["faces"] = faces.astype(np.uint32).ravel()
    parameters.update()
    return mesh


def rounded(profile: Any) -> Array:
    """Cut the corners of a polyline of (radius, height) knots four times (Chaikin); the ends stay."""
    knots = np.asarray(profile, dtype=float)
    for _ in range(4):
        near, far = 0.75 * knots[:-1] + 0.25 * knots[1:], 0.25 * knots[:-1] + 0.75 * knots[1:]
        knots = np.concatenate([knots[:1], np.stack([near, far], axis=1).reshape(-1, 2), knots[-1:]])
    return knots


def revolved(profile: Any, centre: Any) -> tuple[Array, Array]:
    """Revolve (radius, height) knots about the vertical: grid points, and v by arc length along them."""
    knots = np.asarray(profile, dtype=float)
    # The seam starts behind the object, where the camera does not see it.
    angle = np.linspace(0, 2 * np.pi, 129) + np.pi / 2
    radius, height = knots[:, :1], knots[:, 1:]
    points = np.stack(np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle), height), axis=-1)
    length = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(knots, axis=0).T))])
    return points + np.asarray(centre), length / length[-1]


def ball_profile(radius: float, rows: int = 80) -> Array:
    """The profile of a ball that stands on the table, open by a hair at both poles."""
    latitude = np.linspace(-np.pi / 2 + 0.01, np.pi / 2 - 0.01, rows)
    return np.stack([radius * np.cos(latitude), radius * (1 + np.sin(latitude))], axis=1)


def tube(path: Array, radius: Any, sides: int = 16) -> Array:
    """Rings of the given radius (one, or one per point) about a path (n x 3): grid points."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    # Any direction not along the path serves as reference for the rings.
    reference = np.eye(3)[np.argmin(np.abs(tangent).max(axis=0))]
    side = np.cross(tangent, reference)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(tangent, side)
    angle = np.linspace(0, 2 * np.pi, sides + 1)[None, :, None]
    rings = side[:, None] * np.cos(angle) + other[:, None] * np.sin(angle)
    radii = np.broadcast_to(np.asarray(radius, dtype=float), (len(path),))
    return path[:, None] + radii[:, None, None] * rings


def ring(centre: Any, major: float, minor: float) -> Array:
    """A horizontal torus: grid points."""
    turn = 2 * np.pi
    around, about = np.meshgrid(np.linspace(0, turn, 97) + np.pi / 2, np.linspace(0, turn, 49) - np.pi / 2)
    reach = major + minor * np.cos(about)
    points = np.stack([reach * np.cos(around), reach * np.sin(around), minor * np.sin(about)], axis=-1)
    return points + np.asarray(centre)


def box(centre: Any, size: Any, material: Spec, yaw_deg: float = 0, lean_deg: float = 0) -> Spec:
    """A box with the texture on each face, turned about the vertical after leaning back."""
    to_world = mi.ScalarTransform4f().translate(list(centre)).rotate([0, 0, 1], yaw_deg)
    to_world = to_world.rotate([1, 0, 0], -lean_deg).scale([edge / 2 for edge in size])
    return {"type": "cube", "to_world": to_world, "bsdf": material}


def panel(centre: Any, size: Any, material: Spec, yaw_deg: float = 0, lean_deg: float = 0) -> Spec:
    """An upright rectangle facing the camera, turned about the vertical after leaning back."""
    to_world = mi.ScalarTransform4f().translate(list(centre)).rotate([0, 0, 1], yaw_deg)
    # The flip puts a texture's first row, which lies at v = 0, on top.
    to_world = to_world.rotate([1, 0, 0], 90 - lean_deg).scale([size[0] / 2, -size[1] / 2, 1])
    return {"type": "rectangle", "to_world": to_world, "bsdf": material}


def pencil(tip: Any, end: Any, colour: Any, seed: int) -> mi.Mesh:
    """A pencil between two points, 7 mm thick."""
    along = np.array([0, 0.001, 0.14, 0.141, 0.86, 0.93, 0.999, 1.0])
    radius = 0.0035 * np.array([0.02, 0.15, 0.97, 1, 1, 1.03, 0.95, 0.02])
    path = np.asarray(tip) + along[:, None] * (np.asarray(end) - np.asarray(tip))
    return surface(tube(path, radius), painted(pencil_paint(np.random.default_rng(seed), colour)), along)


def book(centre: Any, size: Any, yaw_deg: float, colour: Any, ink: Any, seed: int) -> Spec:
    """Two boards, a spine and a block of pages standing in by 4 mm; the spine faces the camera."""
    rng = np.random.default_rng(seed)
    (x, y, z), (width, depth, height) = centre, size
    yaw = math.radians(yaw_deg)
    cover = painted(book_cover(rng, (400, 560), colour, ink))
    leaves = 0.80 + 0.10 * np.sign(rng.standard_normal((40, 1, 1))) + 0.04 * rng.standard_normal((40, 300, 1))
    pages = painted(leaves * np.array([1.0, 0.95, 0.84]))
    reach = depth / 2 + 0.0005
    front = (x + reach * math.sin(yaw), y - reach * math.cos(yaw), z)
    return {
        "top": box((x, y, z + height / 2 - 0.0015), (width, depth, 0.003), cover, yaw_deg),
        "bottom": box((x, y, z - height / 2 + 0.0015), (width, depth, 0.003), cover, yaw_deg),
        "spine": panel(front, (width, height), painted(book_cover(rng, (90, 480), colour, ink)), yaw_deg),
        "pages": box((x, y, z), (width - 0.008, depth - 0.008, height - 0.006), pages, yaw_deg),
    }


# --------------------------------------------------------------------------------------------------
# The still life


def room() -> Spec:
    """Table top, cloth, wall, picture and light."""
    rng = np.random.default_rng(11)
    table = wood(rng, (2400, 2400), 13, [0.30, 0.17, 0.09], [0.76, 0.53, 0.33])
    cloth = gingham(rng, (1400, 1400), 18, [0.19, 0.33, 0.50])
    paper = wallpaper(rng, (1200, 2400), (20, 40))
    moulding = wood(rng, (256, 256), 1, [0.12, 0.07, 0.05], [0.30, 0.19, 0.12])
    picture = painted(poster(rng, (500, 774)))
    flat = mi.ScalarTransform4f
    table_pose = flat().translate([0, 0.70, 0]).rotate([0, 0, 1], 98).scale([0.75, 0.75, 1])
    cloth_pose = flat().translate([0.03, 0.52, 0.0008]).rotate([0, 0, 1], -17).scale([0.135, 0.135, 1])
    window_pose = flat().look_at(origin=[-0.85, 0.20, 0.95], target=[0.05, 0.75, 0.0], up=[0, 0, 1])
    return {
        "table": {"type": "rectangle", "to_world": table_pose, "bsdf": painted(table)},
        "cloth": {"type": "rectangle", "to_world": cloth_pose, "bsdf": painted(cloth)},
        "wall": panel((0, WALL_Y, 0.4), (1.6, 0.8), painted(paper)),
        "frame": box((0.075, WALL_Y - 0.020, 0.086), (0.252, 0.012, 0.172), painted(moulding), lean_deg=8),
        "poster": panel((0.075, WALL_Y - 0.0265, 0.0855), (0.226, 0.146), picture, lean_deg=8),
        "window": {
            "type": "rectangle",
            "to_world": window_pose.scale([0.28, 0.28, 1]),
            "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [21.0, 19.2, 16.6]}},
        },
        "sky": {"type": "constant", "radiance": {"type": "rgb", "value": [0.40, 0.43, 0.48]}},
    }


def ring_cake(rng: Generator) -> mi.Mesh:
    """A doughnut with icing and sprinkles."""
    shape = (400, 1100)
    colours = [[0.96, 0.93, 0.86], [0.95, 0.76, 0.25], [0.25, 0.45, 0.62], [0.35, 0.16, 0.12]]
    icing = speckles(rng, np.ones((*shape, 3)) * [0.80, 0.46, 0.44], 900, (5, 8), colours)
    edge = np.linspace(0, 1, shape[0])[:, None] + 0.02 * fractal(rng, shape, (2, 14), 4)
    cake = mix([0.74, 0.50, 0.28], icing, ((edge > 0.20) & (edge < 0.80)) * 1.0)
    return surface(ring((0.098, 0.455, 0.0175), 0.030, 0.0165), glazed(cake))


def orange(rng: Generator) -> mi.Mesh:
    """A ball with a bumpy, speckled peel."""
    points, v = revolved(ball_profile(0.036), (0, 0, 0))
    relief = fractal(rng, points.shape[:2], (8, 16), 4)
    relief[:, -1] = relief[:, 0]  # closes the seam
    swelling = 1 + 0.012 * np.sin(np.pi * v)[:, None, None] * relief[..., None]
    points = points * [1, 1, 0] * swelling + points * [0, 0, 1] + [-0.125, 0.555, 0]
    peel = mix([0.86, 0.42, 0.08], [0.97, 0.62, 0.18], 0.5 + 0.25 * fractal(rng, (500, 1000), (4, 8), 6))
    peel = speckles(rng, peel, 2600, (2, 5), [[0.70, 0.30, 0.05], [0.98, 0.72, 0.34], [0.55, 0.24, 0.06]])
    return surface(points, glazed(peel), v)


def pear() -> Spec:
    """A pear of one colour: the object without texture."""
    radii = [0.0002, 0.022, 0.036, 0.034, 0.019, 0.016, 0.0002]
    heights = [0, 0, 0.014, 0.044, 0.058, 0.082, 0.084]
    body, v = revolved(rounded(np.stack([radii, heights], axis=1)), (0.03, 0.60, GAP))
    bend = np.linspace(0, 1, 9)[:, None]
    stem = np.array([0.03, 0.60, 0.080]) + bend * [0.002, 0, 0.022] + bend**2 * [0.008, 0, 0]
    return {
        "pear": surface(body, plain([0.78, 0.75, 0.42]), v),
        "stem": surface(tube(stem, 0.0016), plain([0.30, 0.20, 0.12])),
    }


def foreground() -> Spec:
    """Pencils, a sprinkled ring, an orange and a plain pear, from 0.4 to 0.65 m."""
    rng = np.random.default_rng(22)
    return {
        "pencil_yellow": pencil((0.045, 0.395, 0.0045), (-0.105, 0.425, 0.0045), [0.88, 0.66, 0.15], 1),
        "pencil_green": pencil((-0.055, 0.375, 0.0142), (-0.075, 0.520, 0.0045), [0.16, 0.42, 0.30], 2),
        "ring": ring_cake(rng),
        "orange": orange(rng),
        **pear(),
    }


def books(rng: Generator) -> Spec:
    """Two books, one upon the other, and a checkered block on top."""
    lower = book((0.172, 0.760, 0.016 + GAP), (0.170, 0.120, 0.032), 16, [0.55, 0.16, 0.13], [0.92, 0.80, 0.55], 3)
    upper = book((0.165, 0.765, 0.045 + 2 * GAP), (0.140, 0.105, 0.026), 4, [0.20, 0.30, 0.36], [0.90, 0.88, 0.80], 4)
    squares = checker(rng, (300, 300), 5, [[0.90, 0.82, 0.62], [0.70, 0.28, 0.18]])
    parts = {f"lower_{name}": part for name, part in lower.items()}
    parts |= {f"upper_{name}": part for name, part in upper.items()}
    return parts | {"block": box((0.140, 0.760, 0.0805 + 3 * GAP), (0.045, 0.045, 0.045), painted(squares), yaw_deg=34)}


def vase(rng: Generator) -> Spec:
    """A painted vase with four bare twigs."""
    radii = [0.0002, 0.027, 0.036, 0.056, 0.051, 0.023, 0.018, 0.026, 0.023, 0.015, 0.020]
    heights = [0, 0, 0.017, 0.050, 0.083, 0.106, 0.117, 0.128, 0.129, 0.116, 0.092]
    points, v = revolved(rounded(np.stack([radii, heights], axis=1)), (-0.165, 0.80, GAP))
    parts: Spec = {"vase": surface(points, glazed(glaze(rng, (900, 1200))), v)}
    grain = 0.5 + 0.4 * fractal(rng, (400, 40), (40, 3), 3)
    bark = painted(mix([0.16, 0.10, 0.07], [0.45, 0.32, 0.22], grain))
    step = np.linspace(0, 1, 24)[:, None]
    for index, lean in enumerate([(-0.13, 0.02), (-0.02, -0.05), (0.09, 0.03), (0.17, -0.02)]):
        path = np.array([-0.165, 0.80, 0.095]) + step * [0, 0, 0.18] + step**1.4 * [*lean, 0]
        path[:, :2] += 0.004 * np.sin(9 * step + index)
        parts[f"twig_{index}"] = surface(tube(path, np.linspace(0.0022, 0.0012, 24), 10), bark)
    return parts


def mug(rng: Generator) -> Spec:
    """A printed mug with three pencils."""
    radii = [0.0002, 0.034, 0.037, 0.038, 0.0365, 0.035, 0.034, 0.0002]
    heights = [0, 0, 0.003, 0.088, 0.090, 0.088, 0.01, 0.008]
    points, v = revolved(np.stack([radii, heights], axis=1), (0.0, 0.90, GAP))
    label = mix([0.86, 0.80, 0.68], [0.18, 0.17, 0.18], 0.92 * glyph_mask(rng, (500, 700), 18))
    return {
        "mug": surface(points, painted(label), v),
        "mug_pencil_red": pencil((-0.034, 0.905, 0.172), (0.018, 0.90, 0.012), [0.72, 0.18, 0.14], 5),
        "mug_pencil_blue": pencil((0.030, 0.91, 0.180), (-0.010, 0.89, 0.012), [0.16, 0.30, 0.58], 6),
        "mug_pencil_ochre": pencil((0.004, 0.93, 0.165), (0.002, 0.88, 0.012), [0.82, 0.58, 0.16], 7),
    }


def lantern(rng: Generator) -> Spec:
    """A cage of twisted wires, thinner than two pixels, round a marbled ball."""
    x, y = 0.285, 0.98
    parts: Spec = {}
    wire = plain([0.16, 0.15, 0.14])
    height = np.linspace(0, 1, 25)
    reach = 0.018 + 0.044 * np.sin(np.pi * (0.12 + 0.88 * height))
    for index, turn in enumerate(np.linspace(0, 2 * np.pi, 10, endpoint=False)):
        angle = turn + 2 * height
        path = np.stack([x + reach * np.cos(angle), y + reach * np.sin(angle), 0.004 + 0.15 * height], axis=1)
        parts[f"wire_{index}"] = surface(tube(path, 0.0017, 10), wire)
    parts["lantern_foot"] = surface(ring((x, y, 0.004), 0.034, 0.004), wire)
    parts["lantern_top"] = surface(ring((x, y, 0.154), 0.018, 0.003), wire)
    veins = 1.3 * np.abs(np.sin(3 * fractal(rng, (400, 800), (3, 6), 6)))
    points, v = revolved(ball_profile(0.034), (x, y, 0.004))
    return parts | {"ball": surface(points, painted(mix([0.86, 0.78, 0.66], [0.42, 0.16, 0.12], veins)), v)}


def yarn_cone(rng: Generator) -> mi.Mesh:
    """A cone wound with yarn in two colours."""
    shape = (600, 800)
    rows = np.linspace(0, 1, shape[0])[:, None] + 0.004 * fractal(rng, shape, (10, 14), 3)
    strands = np.sin(2 * np.pi * (44 * rows + 3 * np.linspace(0, 1, shape[1])))
    yarn = mix([0.84, 0.68, 0.32], [0.30, 0.42, 0.38], (np.sin(2 * np.pi * 9 * rows) > 0.1) * 1.0)
    yarn *= (1 + 0.22 * strands + 0.10 * fractal(rng, shape, (60, 40), 2))[..., None]
    points, v = revolved([(0.055, 0), (0.012, 0.150), (0.0002, 0.151)], (-0.305, 1.02, GAP))
    return surface(points, painted(yarn), v)


def background() -> Spec:
    """Books, a vase with twigs, a mug of pencils, a wire lantern and a cone, from 0.7 to 1.1 m."""
    rng = np.random.default_rng(33)
    return books(rng) | vase(rng) | mug(rng) | lantern(rng) | {"cone": yarn_cone(rng)}


def still_life() -> mi.Scene:
    """The whole scene; sensors come separately."""
    integrator = {"type": "path", "max_depth": 5}
    return mi.load_dict({"type": "scene", "integrator": integrator} | room() | foreground() | background())


# --------------------------------------------------------------------------------------------------
# Pictures


def linear_frame(scene: mi.Scene, index: int, samples_per_pixel: int) -> Array:
    """One frame in linear light, with sensor noise of its own."""
    camera = mi.load_dict(sensor(FOCUS_DISTANCES[index], samples_per_pixel, seed=index))
    image = EXPOSURE * np.array(mi.render(scene, sensor=camera, seed=mi.UInt32(1000 + index)), dtype=np.float64)
    return image + SENSOR_NOISE * np.random.default_rng(500 + index).standard_normal(image.shape)


def encode_srgb(linear: Array) -> NDArray[np.uint8]:
    """Linear light to 8-bit sRGB."""
    linear = np.clip(linear, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(255 * encoded).astype(np.uint8)


def depth_map(scene: mi.Scene) -> Array:
    """Depth along the optical axis, from one pinhole ray through each pixel's centre; 0 where none hits."""
    pinhole = mi.load_dict(sensor(None, 1))
    centre, axis = camera_pose()
    depth = np.zeros((HEIGHT, WIDTH))
    for row in range(HEIGHT):
        for column in range(WIDTH):
            position = mi.Point2f((column + 0.5) / WIDTH, (row + 0.5) / HEIGHT)
            ray, _ = pinhole.sample_ray(0.0, 0.5, position, mi.Point2f(0.5))
            hit = scene.ray_intersect(ray)
            if hit.is_valid():
                depth[row, column] = (np.array(hit.p, dtype=np.float64) - centre) @ axis
    return depth


def write_png(path: Path, image: NDArray[Any]) -> None:
    """Write a PNG, RGB or one channel, as small as it goes."""
    stored = image[..., ::-1] if image.ndim == 3 else image
    if not cv2.imwrite(str(path), stored, [cv2.IMWRITE_PNG_COMPRESSION, 9]):
        raise OSError(f"cannot write {path}: is the folder writable?")


def stack_toml() -> str:
    """The stack's description, as `focalsweep` reads it."""
    lines = [
        "[camera]",
        f"focal_length = {FOCAL_LENGTH:.3f}          # metres",
        f"f_number = {F_NUMBER}",
        f"pixel_pitch = {PIXEL_PITCH:.8g}       # metres per pixel of these files",
        'focus_reference = "lens"',
        "aligned = true",
    ]
    for index, distance in enumerate(FOCUS_DISTANCES):
        lines += ["", "[[frame]]", f'file = "frame_{index}.png"', f"focus_distance = {distance}"]
        lines += [f"magnification = {magnification(distance):.6f}"]
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------
# The blur check


def rendered_blur_px(depth: float, focus_distance: float, offset: tuple[float, float]) -> tuple[float, Array]:
    """Render a small luminous disc and measure its blur diameter and where it lies, in pixels.

    The disc's image is (disc * aperture * pixel), whose variances add: per axis a disc of diameter D has
    D^2 / 16 and a unit pixel 1 / 12. Offsets are metres right of and above the optical axis.
    """
    # The 1 / 12 holds only for images wider than a few pixels: with 0.0004 a blur of 1.7 px reads 6 % small.
    radius = 0.0015
    centre, axis = camera_pose()
    up = np.array([0, math.sin(CAMERA_PITCH), math.cos(CAMERA_PITCH)])
    position = centre + depth * axis + offset[0] * np.array([1, 0, 0]) + offset[1] * up
    facing = mi.ScalarTransform4f().look_at(origin=position.tolist(), target=(position - axis).tolist(), up=up.tolist())
    lamp = {
        "type": "disk",
        "to_world": facing.scale(radius),
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": 1.0}},
    }
    scale = FOCAL_LENGTH / PIXEL_PITCH / depth
    expected = np.array([WIDTH / 2 + offset[0] * scale, HEIGHT / 2 - offset[1] * scale])
    corner = np.floor(expected).astype(int) - 20
    crop = {
        "crop_offset_x": int(corner[0]),
        "crop_offset_y": int(corner[1]),
        "crop_width": 40,
        "crop_height": 40,
    }
    scene = mi.load_dict({"type": "scene", "integrator": {"type": "path"}, "lamp": lamp})
    camera = mi.load_dict(sensor(focus_distance, 4096, crop=crop))
    image = np.array(mi.render(scene, sensor=camera), dtype=np.float64)[..., 0]

    grid = np.arange(40) + 0.5
    marginals = np.stack([image.sum(axis=0), image.sum(axis=1)]) / image.sum()
    mean = marginals @ grid
    variance = float(np.mean([m @ (grid - middle) ** 2 for m, middle in zip(marginals, mean, strict=True)]))
    own_diameter_px = 2 * radius * scale
    diameter = 4 * math.sqrt(max(variance - own_diameter_px**2 / 16 - 1 / 12, 0.0))
    return diameter, mean + corner - expected


def check_blur(tolerance: float = 0.02) -> bool:
    """Print rendered blur against the formula for points before and behind the focus, on and off the axis."""
    passed = True
    print("  depth  focus  formula px  rendered px   error  centre off by px  (without magnification)")
    for depth, focus, offset in [
        (0.38, 1.12, (0.0, 0.0)),
        (1.12, 0.38, (0.0, 0.0)),
        (0.45, 0.70, (0.05, 0.03)),
        (0.90, 0.45, (-0.20, 0.10)),
        (1.15, 0.60, (0.25, -0.15)),
        (0.60, 0.52, (0.0, -0.08)),
    ]:
        formula = blur_diameter_px(depth, focus)
        measured, shift = rendered_blur_px(depth, focus, offset)
        error = measured / formula - 1
        passed &= abs(error) < tolerance and float(np.abs(shift).max()) < 0.05
        print(
            f"  {depth:5.2f}  {focus:5.2f}  {formula:10.3f}  {measured:11.3f}  {error:+6.2%}"
            f"    {shift[0]:+.3f} {shift[1]:+.3f}     {measured / formula * magnification(focus) - 1:+6.2%}"
        )
    print("blur check passed" if passed else f"blur check FAILED: more than {tolerance:.0%} or 0.05 px off")
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?", help="folder to write into")
    parser.add_argument(
        "--samples", type=int, default=SAMPLES_PER_PIXEL, help="samples per pixel (default: %(default)s)"
    )
    parser.add_argument("--only-frame", type=int, choices=range(len(FOCUS_DISTANCES)), help="render this frame alone")
    parser.add_argument("--check", action="store_true", help="compare the rendered blur with the formula, then stop")
    arguments = parser.parse_args()
    if arguments.check:
        raise SystemExit(0 if check_blur() else 1)
    if arguments.output is None:
        parser.error("output: name the folder to write into, or give --check")
    arguments.output.mkdir(parents=True, exist_ok=True)

    scene = still_life()
    everything = arguments.only_frame is None
    for index in range(len(FOCUS_DISTANCES)) if everything else [arguments.only_frame]:
        start = time.perf_counter()
        linear = linear_frame(scene, index, arguments.samples)
        write_png(arguments.output / f"frame_{index}.png", encode_srgb(linear))
        clipped, seconds = np.mean(linear.max(axis=2) >= 1), time.perf_counter() - start
        print(
            f"frame {index}: focus {FOCUS_DISTANCES[index]} m, {clipped:.2%} clipped, {seconds:.0f} s",
            flush=True,
        )
    if everything:
        depth = depth_map(scene)
        write_png(arguments.output / "depth_tenth_mm.png", np.round(depth * 10_000).astype(np.uint16))
        (arguments.output / "stack.toml").write_text(stack_toml())
        blur = [blur_diameter_px(d, focus) for d in (depth.min(), depth.max()) for focus in FOCUS_DISTANCES]
        print(f"depth {depth.min():.4f} to {depth.max():.4f} m, largest blur {max(blur):.1f} px")


if __name__ == "__main__":
    main()
