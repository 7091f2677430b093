"""Scenes seen through a thin lens, one ray at a time: the plain version, for any device, twin of the Triton one.

A pixel looks along (x, y, 1), x = (column - centre) / focal_px. A ray leaves the lens at l (on a disk of diameter A)
and meets the pixel's line at the focus distance 1 / u, so at depth z it is at  l + z ((x, y) - u l).  The parameter of
a ray is its depth, and infinity needs no care. Blur diameters come out as focal_px A |u - 1/z| pixels, which is the
thin-lens formula at a constant field of view (magnification (d_f - f) / d_f).

A lamp lights what no solid hides from it, and as it has a size, shadows are soft; ambient light is weaker where a point
at some distance before the surface has a solid near it. Sheets cast no shadow. Both are worked out once for what a
pinhole in the middle of the lens sees, with a border around the picture (`Lighting`). Rays look it up where they end;
what only other points of the lens see has the light of the same solid beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from focalsweep.sweep.deconvolution import triton_serves
from focalsweep_research.synthesis.culling import TILE, largest_blur_px, widest_sample
from focalsweep_research.synthesis.scenes import BOX, CARD, CYLINDER, ELLIPSOID, EMPTY, SHEET, WAVES, Scenes
from focalsweep_research.synthesis.textures import LEVELS, SIZE, TEXELS, Atlas

NEWTON_STEPS = 4
NEAREST = 1e-3  # metres: nothing nearer is hit
MISS = 1e9
SETTLED, LARGEST_WAVE = 1e-3, 0.4  # of the depth: Newton's last step, and how far a wave may lie from its plane
SKY_GAIN = 0.4  # how much more ambient light comes from above than from the side
BRIGHTEST_LAMP = 4.0  # times its light at the camera
AMBIENT_REACH = (0.02, 0.3)  # of the depth: how far from a surface ambient light is asked for
LAMP_SAMPLES = 16
BORDER_PX = 32  # that is lit around the picture
BESIDE_PX = (
    (0, 0),
    (2, 0),
    (-2, 0),
    (0, 2),
    (0, -2),
    (6, 0),
    (-6, 0),
    (0, 6),
    (0, -6),
    (16, 0),
    (-16, 0),
    (0, 16),
    (0, -16),
)
LEAST_STEP = 1e-4  # of the way to the lamp
FULL_COVER = 2.0  # samples a square pixel of blur: twice as many change pixels by about 0.004 of full light


@dataclass(frozen=True, eq=False)
class Lenses:
    """The cameras of B stacks with F frames each.

    Args:
        focal_px: B.
        aperture: B, diameter in metres.
        inverse_focus: B F, 1/m.
        centre_px: B 2, where the optical axis meets the picture, x and y; by default in the middle.
        corner_px: B, how far from there curvature and cat-eye are as given; by default half the picture's diagonal.
        shift_px: B F 2, what a frame is moved by against the others: what registration left.
        sway: B F 2, metres that the lens moved to the right and down.
        curvature: B, what is added to the inverse focus at `corner_px`, 1/m; it grows with the square of the radius.
        cat_eye: B, how far the second rim of the lens is moved at `corner_px`, in radii.
    """

    focal_px: Tensor
    aperture: Tensor
    inverse_focus: Tensor
    centre_px: Tensor | None = None
    corner_px: Tensor | None = None
    shift_px: Tensor | None = None
    sway: Tensor | None = None
    curvature: Tensor | None = None
    cat_eye: Tensor | None = None

    def one(self, number: int) -> Lenses:
        """A batch of that camera alone."""
        return self._with_each(lambda value: value[number : number + 1])

    def to(self, device: torch.device) -> Lenses:
        return self._with_each(lambda value: value.to(device, non_blocking=True))

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> Lenses:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(value) for name, value in given.items() if value is not None})

    def axis_px(self, size: tuple[int, int]) -> Tensor:  # B 2
        if self.centre_px is not None:
            return self.centre_px
        return self.focal_px.new_tensor([size[1] / 2, size[0] / 2]).expand(len(self.focal_px), 2)

    def table(self, size: tuple[int, int]) -> Tensor:  # B F LENS
        """A row for each frame: focal_px, radius, inverse focus, centre 2, shift 2, sway 2, curvature, cat-eye.

        The last two are those of one pixel from the optical axis, the curvature's square already taken.
        """
        batch, frames = self.inverse_focus.shape
        corner = self.corner_px
        if corner is None:
            corner = torch.full_like(self.focal_px, math.hypot(*size) / 2)
        zero = torch.zeros_like(self.focal_px)
        none = torch.zeros_like(self.inverse_focus)[..., None].expand(batch, frames, 2)
        curvature, cat_eye = (zero if value is None else value for value in (self.curvature, self.cat_eye))
        of_stack = torch.stack([self.focal_px, self.aperture / 2], -1)
        axis, last = self.axis_px(size), torch.stack([curvature / corner.square(), cat_eye / corner], -1)
        columns = [
            of_stack[:, None].expand(batch, frames, 2), self.inverse_focus[..., None],
            axis[:, None].expand(batch, frames, 2), none if self.shift_px is None else self.shift_px,
            none if self.sway is None else self.sway, last[:, None].expand(batch, frames, 2),
        ]  # fmt: skip
        return torch.cat(columns, -1).contiguous()

    def spare_px(self, widest: Tensor) -> Tensor:  # B F
        """What culling must add to the blur: frames that moved, focus that is another in the corners."""
        spare = torch.zeros_like(self.inverse_focus)
        if self.shift_px is not None:
            spare = spare + self.shift_px.norm(dim=-1)
        if self.sway is not None:
            spare = spare + SWAY_PX * (self.sway != 0).any(-1)
        if self.curvature is not None:
            spare = spare + (self.curvature.abs() * self.focal_px * self.aperture / 2 * widest)[:, None]
        return spare


LENS = 11
SWAY_PX = 4.0  # more than parallax of a moved lens ever is here


def disk_samples(count: int) -> Tensor:
    """count x 4: points of the unit disk in even density (a sunflower's), and offsets within a pixel, -1/2..1/2."""
    k = torch.arange(count, dtype=torch.float64)
    radius, angle = torch.sqrt((k + 0.5) / count), k * math.pi * (3 - math.sqrt(5))
    # The plastic number's sequence fills the square evenly, and is not in step with the spiral.
    jitter = [(0.5 + k * step) % 1 - 0.5 for step in (0.7548776662466927, 0.5698402909980532)]
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle), *jitter], 1).float()


@dataclass(frozen=True, eq=False)
class Lighting:
    """How what a pinhole sees is lit, for the picture and BORDER_PX around it."""

    owner: Tensor  # B H W, int32: the solid in sight, -1 where none is
    shadow: Tensor  # B H W: share of the lamp that solids hide
    crowded: Tensor  # B H W: how near solids are before the surface, 0..1


def lamp_samples() -> Tensor:  # LAMP_SAMPLES 4
    """Points of the unit ball, and 0..1 for the reach of ambient light."""
    k = torch.arange(LAMP_SAMPLES, dtype=torch.float64)
    # The sequence of the plastic number's cousin in four dimensions.
    z, turn, radius, reach = ((0.5 + k * 0.8566748838545029**power) % 1 for power in (1, 2, 3, 4))
    z, turn, radius = 2 * z - 1, 2 * math.pi * turn, radius ** (1 / 3)
    flat = torch.sqrt(1 - z * z)
    points = [radius * flat * torch.cos(turn), radius * flat * torch.sin(turn), radius * z]
    return torch.stack([*points, reach], 1).float()


def render(
    scenes: Scenes,
    lenses: Lenses,
    atlas: Atlas,
    samples: Tensor | Sequence[Tensor],  # S 4: lens point in the unit disk, offset within the pixel
    size: tuple[int, int],
) -> Tensor:  # B F 3 H W
    """The frames in linear light: the mean over the samples, the same ones for every pixel, so there is no noise.

    Of several sets of samples, few to many, a tile of the picture takes the first that has FULL_COVER samples for each
    square pixel of its widest blur, or the last.
    """
    sets = [samples] if isinstance(samples, Tensor) else list(samples)
    choice = _choose_set(scenes, lenses, size, [len(one) for one in sets])
    if triton_serves(sets[0]):
        from focalsweep_research.synthesis import tracer_kernel

        return tracer_kernel.render(scenes, lenses, atlas, sets, choice, size)
    pixels = choice.repeat_interleave(TILE[0], -2).repeat_interleave(TILE[1], -1)[..., : size[0], : size[1]]
    widest = float(widest_sample(torch.cat(sets)))
    stacks = []
    for number, chosen in enumerate(pixels):
        scene, lens = scenes.one(number), lenses.one(number)
        stacks.append(_render_one(scene, lens, atlas, sets, chosen, widest, light_up(scene, lens, size)))
    return torch.stack(stacks).movedim(-1, 2)


def _render_one(
    scene: Scenes,
    lens: Lenses,
    atlas: Atlas,
    sets: list[Tensor],
    choice: Tensor,
    widest: float,
    lighting: Lighting | None,
) -> Tensor:  # F H W 3
    """A stack, whose pixels (`choice`, F H W) each take the set of that number."""
    _, height, width = choice.shape
    picture = torch.zeros((*choice.shape, 3), device=sets[0].device)
    for number, samples in enumerate(sets):
        chosen = choice == number
        total = torch.zeros((int(chosen.sum()), 3), device=picture.device)
        seen = torch.zeros_like(total[:, :1])
        for sample in samples.tolist() if len(total) else ():
            origin, directions, open_ = _rays(lens, sample, (height, width), widest)
            # the functions below have the axes B F H W
            rays, start = (v.expand(*choice.shape, 3)[chosen][None, :, None, None] for v in (directions[0], origin[0]))
            found = _nearest(scene, start, rays)
            light = _radiance(scene, atlas, lens, start, rays, *found, lighting, choice.shape[1:])[0, :, :, 0, 0]
            weight = open_[0][chosen][:, None]
            total, seen = total + weight * light, seen + weight
        picture[chosen] = total / seen.clamp_min(1)
    return picture


def _choose_set(scenes: Scenes, lenses: Lenses, size: tuple[int, int], counts: list[int]) -> Tensor:
    """The number of the set that each tile takes, B F rows columns, int32."""
    seen = depth(scenes, lenses.focal_px, size, lenses.axis_px(size))
    blur_px = largest_blur_px(seen, lenses.focal_px * lenses.aperture, lenses.inverse_focus)
    wanted = FULL_COVER * math.pi / 4 * blur_px.square()
    few = torch.tensor(counts[:-1], dtype=torch.float32, device=wanted.device)
    return torch.searchsorted(few, wanted.contiguous()).to(torch.int32)


def depth(
    scenes: Scenes,
    focal_px: Tensor,  # B
    size: tuple[int, int],
    centre_px: Tensor | None = None,  # B 2
) -> Tensor:  # B H W
    """Depth along the optical axis at the pixel centres, through a pinhole; infinity where nothing is."""
    zero = torch.zeros_like(focal_px)
    pinhole = Lenses(focal_px, zero, zero[:, None], centre_px)
    if triton_serves(focal_px):
        from focalsweep_research.synthesis import tracer_kernel

        return tracer_kernel.depth(scenes, pinhole, size)
    origin, direction, _ = _rays(pinhole, [0.0, 0.0, 0.0, 0.0], size, 1.0)
    nearest, _ = _nearest(scenes, origin, direction)
    return torch.where(nearest < MISS, nearest, torch.inf)[:, 0]


def _rays(
    lenses: Lenses, sample: Sequence[float], size: tuple[int, int], widest: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Origins and directions, B F H W 3 each, and 1 where the lens lets the ray through: B F H W.

    `sample` is a point of the lens and an offset in the pixel.
    """
    height, width = size
    row = lenses.table(size)[..., None, None, :]
    focal, radius, u, axis_x, axis_y, shift_x, shift_y, sway_x, sway_y, curvature, cat_eye = row.unbind(-1)
    x = torch.arange(width, device=row.device) + 0.5 - axis_x
    y = torch.arange(height, device=row.device)[:, None] + 0.5 - axis_y
    u = u + curvature * (x * x + y * y)
    lens_x, lens_y = sample[0] - widest * cat_eye * x, sample[1] - widest * cat_eye * y
    closed = (cat_eye > 0) & (lens_x * lens_x + lens_y * lens_y > widest * widest)
    lens_x, lens_y = sample[0] * radius, sample[1] * radius
    x = (x + sample[2] - shift_x) / focal - u * lens_x
    y = (y + sample[3] - shift_y) / focal - u * lens_y
    x, y, closed = torch.broadcast_tensors(x, y, closed)  # type: ignore[no-untyped-call]
    origin = torch.stack([lens_x + sway_x, lens_y + sway_y, torch.zeros_like(sway_x)], -1).expand(*x.shape, 3)
    return origin, torch.stack([x, y, torch.ones_like(x)], -1), (~closed).to(x)


def _nearest(scenes: Scenes, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Depth of the first hit and the number of what was hit, B F H W each."""
    shape = direction.shape[:-1]
    best = torch.full(shape, MISS, device=direction.device)
    owner = torch.zeros(shape, dtype=torch.int64, device=direction.device)
    for i, kinds in enumerate(scenes.kind.T.tolist()):
        if not any(kinds):
            continue
        o, d = _local(scenes, i, origin - scenes.centre[:, i, None, None, None]), _local(scenes, i, direction)
        z = _enter(scenes, i, o, d)
        if SHEET in kinds:
            z = torch.where(scenes.kind[:, i, None, None, None] == SHEET, _hit_sheet(scenes.waves[:, i], o, d), z)
        closer = (z > NEAREST) & (z < best)
        best, owner = torch.where(closer, z, best), torch.where(closer, i, owner)
    return best, owner


def _enter(scenes: Scenes, i: int, o: Tensor, d: Tensor) -> Tensor:
    """Where the rays o + t d, in solid i's own frame, enter it; MISS where they pass it by. Sheets aside."""
    kinds, kind = scenes.kind[:, i].tolist(), scenes.kind[:, i, None, None, None]
    half = scenes.extent[:, i, None, None, None]
    t = torch.full((), MISS, device=d.device)
    for one, hit in ((ELLIPSOID, _hit_ellipsoid), (BOX, _hit_box), (CYLINDER, _hit_cylinder)):
        if one in kinds:
            t = torch.where(kind == one, hit(o / half, d / half), t)
    if CARD in kinds:
        t = torch.where(kind == CARD, _hit_card(scenes.waves[:, i], scenes.half[:, i, None, None, None], o, d), t)
    return t


def _local(scenes: Scenes, i: int, vectors: Tensor) -> Tensor:
    return torch.einsum("bij,bfhwj->bfhwi", scenes.axes[:, i], vectors)


def _hit_ellipsoid(q: Tensor, r: Tensor) -> Tensor:
    """Of the unit sphere. The discriminant, a - |q x r|^2, keeps its digits for small and far things in this form."""
    q, r = torch.broadcast_tensors(q, r)  # type: ignore[no-untyped-call]
    a, b = (r * r).sum(-1), (q * r).sum(-1)
    inside = a - torch.linalg.cross(q, r).square().sum(-1)
    return torch.where(inside > 0, (-b - inside.clamp_min(0).sqrt()) / a, MISS)


def _hit_box(q: Tensor, r: Tensor) -> Tensor:
    r = torch.where(r.abs() < 1e-12, 1e-12, r)
    one, two = (-1 - q) / r, (1 - q) / r
    enter, leave = torch.minimum(one, two).amax(-1), torch.maximum(one, two).amin(-1)
    return torch.where(leave > enter, enter, MISS)


def _hit_cylinder(q: Tensor, r: Tensor) -> Tensor:
    """Of radius 1, from -1 to 1 along the third axis."""
    q, r = torch.broadcast_tensors(q, r)  # type: ignore[no-untyped-call]
    a = (r[..., 0].square() + r[..., 1].square()).clamp_min(1e-20)
    b = q[..., 0] * r[..., 0] + q[..., 1] * r[..., 1]
    inside = a - (q[..., 0] * r[..., 1] - q[..., 1] * r[..., 0]).square()
    root = inside.clamp_min(0).sqrt()
    along = torch.where(r[..., 2].abs() < 1e-12, 1e-12, r[..., 2])
    one, two = (-1 - q[..., 2]) / along, (1 - q[..., 2]) / along
    enter = torch.maximum((-b - root) / a, torch.minimum(one, two))
    leave = torch.minimum((-b + root) / a, torch.maximum(one, two))
    return torch.where((inside > 0) & (leave > enter), enter, MISS)


def _hit_card(waves: Tensor, half: Tensor, o: Tensor, d: Tensor) -> Tensor:
    t = -o[..., 2] / torch.where(d[..., 2].abs() < 1e-9, 1e-9, d[..., 2])
    x, y = o[..., 0] + t * d[..., 0], o[..., 1] + t * d[..., 1]
    there = (x.abs() <= half[..., 0]) & (y.abs() <= half[..., 1]) & (wave_height(waves, x, y)[0] >= half[..., 2])
    return torch.where(there, t, MISS)


def _hit_sheet(waves: Tensor, o: Tensor, d: Tensor) -> Tensor:
    """The plane, then Newton's steps towards the waves on it.

    Along a wavy horizon the steps do not settle, or jump to another wave: there the sheet is its plane.
    """
    flat = torch.where(d[..., 2].abs() < 1e-9, 1e-9, d[..., 2])
    plane = -o[..., 2] / flat
    z, step = plane, torch.zeros_like(plane)
    for _ in range(NEWTON_STEPS):
        p = o + z[..., None] * d
        height, slope_x, slope_y = wave_height(waves, p[..., 0], p[..., 1])
        rate = flat - slope_x * d[..., 0] - slope_y * d[..., 1]
        step = (p[..., 2] - height) / torch.where(rate.abs() < 1e-9, 1e-9, rate)
        z = z - step
    settled = (step.abs() <= SETTLED * z) & ((z - plane).abs() <= LARGEST_WAVE * plane)
    return torch.where(settled, z, plane)


def wave_height(waves: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Height and slopes of B ... sheets, waves B WAVES 4."""
    height, slope_x, slope_y = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    for k in range(WAVES):
        amplitude, kx, ky, phase = (waves[:, k, j, None, None, None] for j in range(4))
        argument = kx * x + ky * y + phase
        height = height + amplitude * torch.sin(argument)
        slope_x = slope_x + amplitude * kx * torch.cos(argument)
        slope_y = slope_y + amplitude * ky * torch.cos(argument)
    return height, slope_x, slope_y


def _radiance(
    scenes: Scenes,
    atlas: Atlas,
    lenses: Lenses,
    origin: Tensor,
    direction: Tensor,
    z: Tensor,
    owner: Tensor,
    lighting: Lighting | None,
    size: Sequence[int],
) -> Tensor:  # B F 3 H W
    """Light from where the rays end: albedo from the texture, Lambert's law, ambient light, a highlight; black sky."""

    def of_owner(values: Tensor) -> Tensor:
        return _of_owner(values, owner)

    kind = of_owner(scenes.kind)
    hit = torch.where(z < MISS, z, 1.0)
    place = origin + hit[..., None] * direction
    world_normal, normal, p = _normal(scenes, place, direction, owner)
    # Texture coordinates: the two local axes that the surface faces least.
    faced = torch.where((kind == SHEET) | (kind == CARD), 2, normal.abs().argmax(-1))
    u = torch.where(faced == 0, p[..., 1], p[..., 0])
    v = torch.where(faced == 2, p[..., 1], p[..., 2])
    mapping = of_owner(scenes.mapping)
    texels_a_px = mapping[..., 0] * hit / lenses.focal_px[:, None, None, None]
    texture = of_owner(scenes.texture)
    along, down = (c * mapping[..., 0] + mapping[..., k] for k, c in ((1, u), (2, v)))
    colour, mean = fetch(atlas, texture, along, down, texels_a_px), atlas.means[texture.long()]
    contrast = of_owner(scenes.contrast)[..., None]
    albedo = of_owner(scenes.tint) * (mean + contrast * (colour - mean))
    light = scenes.light[:, None, None, None]
    way = light[..., :3] - place
    distance = way.norm(dim=-1, keepdim=True)
    to_lamp = way / distance
    fall = (light[..., :3].norm(dim=-1) / distance[..., 0]).square().clamp_max(BRIGHTEST_LAMP)
    shadow, crowded = _look_up(lighting, lenses, place, owner, size)
    open_ = 1 - light[..., 6] * crowded
    lit = (world_normal * to_lamp).sum(-1).clamp_min(0) * fall * (1 - light[..., 5] * shadow)
    above = 1 + SKY_GAIN * (world_normal * light[..., 7:10]).sum(-1)
    shade = light[..., 3] * above * open_ + (1 - light[..., 3]) * lit
    between = to_lamp - direction / direction.norm(dim=-1, keepdim=True)
    between = between / between.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    gloss = of_owner(scenes.gloss)
    shine = (world_normal * between).sum(-1).clamp_min(1e-6) ** gloss[..., 1] * gloss[..., 0] * (lit > 0) * fall
    shine = shine * (1 - light[..., 3]) * (1 - light[..., 5] * shadow)
    radiance = torch.where((z < MISS)[..., None], albedo * shade[..., None] + shine[..., None], 0.0)
    return radiance.movedim(-1, 2)


def _of_owner(values: Tensor, owner: Tensor) -> Tensor:  # B P ... to B F H W ...
    batch = torch.arange(len(values), device=values.device)[:, None, None, None]
    return values[batch, owner]


def _normal(scenes: Scenes, place: Tensor, direction: Tensor, owner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The surface's normal towards where the ray came from; the normal and the place in the solid's own frame."""
    axes, half, kind = (_of_owner(values, owner) for values in (scenes.axes, scenes.extent, scenes.kind))
    p = (axes * (place - _of_owner(scenes.centre, owner))[..., None, :]).sum(-1)
    q = p / half
    waves = _of_owner(scenes.waves, owner)
    argument = waves[..., 1] * p[..., None, 0] + waves[..., 2] * p[..., None, 1] + waves[..., 3]
    slopes = [(waves[..., 0] * waves[..., 1 + j] * torch.cos(argument)).sum(-1) for j in (0, 1)]
    face = q.abs() >= q.abs().amax(-1, keepdim=True)
    normal = torch.where((kind == ELLIPSOID)[..., None], q / half, torch.where(face, q.sign(), 0.0))
    third = torch.arange(3, device=p.device) == 2
    capped = (q[..., 2].abs() >= torch.hypot(q[..., 0], q[..., 1]))[..., None]
    round_ = torch.where(capped, torch.where(third, q.sign(), 0.0), torch.where(third, 0.0, q / half))
    normal = torch.where((kind == CYLINDER)[..., None], round_, normal)
    sheet = torch.stack([-slopes[0], -slopes[1], torch.ones_like(slopes[0])], -1)
    normal = torch.where((kind == SHEET)[..., None], sheet, normal)
    normal = torch.where((kind == CARD)[..., None], third.to(p).expand_as(p), normal)
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-20)
    world = (axes * normal[..., :, None]).sum(-2)
    towards = (world * direction).sum(-1, keepdim=True)
    return torch.where(towards > 0, -world, world), normal, p


def _look_up(
    lighting: Lighting | None, lenses: Lenses, place: Tensor, owner: Tensor, size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Shadow and crowding of places on these solids: where a pinhole sees them, or the same solid beside them."""
    shadow, crowded = torch.zeros_like(place[..., 0]), torch.zeros_like(place[..., 0])
    if lighting is None:
        return shadow, crowded
    axis = lenses.axis_px((size[0], size[1]))[:, None, None, None]
    focal = lenses.focal_px[:, None, None, None]
    x, y = (torch.floor(place[..., i] / place[..., 2] * focal + axis[..., i]) + BORDER_PX for i in (0, 1))
    rows, columns = lighting.owner.shape[-2:]
    batch = torch.arange(len(x), device=x.device)[:, None, None, None]
    wanted = torch.ones_like(shadow, dtype=torch.bool)
    for right, down in BESIDE_PX:
        column, row = (x + right).clamp(0, columns - 1).long(), (y + down).clamp(0, rows - 1).long()
        here = wanted & (lighting.owner[batch, row, column] == owner)
        shadow = torch.where(here, lighting.shadow[batch, row, column], shadow)
        crowded = torch.where(here, lighting.crowded[batch, row, column], crowded)
        wanted = wanted & ~here
    return shadow, crowded


def light_up(scenes: Scenes, lenses: Lenses, size: tuple[int, int]) -> Lighting | None:
    """How what a pinhole sees is lit; none where no scene has shadows or crowded corners."""
    if not bool((scenes.light[:, 5:7] > 0).any()):
        return None
    bordered = (size[0] + 2 * BORDER_PX, size[1] + 2 * BORDER_PX)
    zero = torch.zeros_like(lenses.focal_px)
    pinhole = Lenses(lenses.focal_px, zero, zero[:, None], lenses.axis_px(size) + BORDER_PX)
    origin, direction, _ = _rays(pinhole, [0.0, 0.0, 0.0, 0.0], bordered, 1.0)
    z, owner = _nearest(scenes, origin, direction)
    place = origin + torch.where(z < MISS, z, 1.0)[..., None] * direction
    normal = _normal(scenes, place, direction, owner)[0]
    near, far = AMBIENT_REACH
    shadow, crowded = torch.zeros_like(z), torch.zeros_like(z)
    light = scenes.light[:, None, None, None]
    for lamp in lamp_samples().tolist():
        way = light[..., :3] + light[..., 4:5] * light.new_tensor(lamp[:3]) - place
        hidden, nearest = _hidden(scenes, owner, place, way, normal, place[..., 2] * near * (far / near) ** lamp[3])
        shadow, crowded = shadow + hidden / LAMP_SAMPLES, crowded + nearest / LAMP_SAMPLES
    return Lighting(torch.where(z < MISS, owner, -1)[:, 0].int(), shadow[:, 0], crowded[:, 0])


def _hidden(
    scenes: Scenes, owner: Tensor, place: Tensor, way: Tensor, normal: Tensor, reach: Tensor
) -> tuple[Tensor, Tensor]:
    """Whether another solid lies on the way from a place to the lamp, and how much one crowds it, 0..1 each.

    A surface is crowded by what is nearer than `reach` to a point at that distance before it.
    """
    shadow, nearest = torch.zeros_like(reach), reach
    before = place + reach[..., None] * normal
    for i, kinds in enumerate(scenes.kind.T.tolist()):
        if not any(kinds):
            continue
        kind, centre = (values[:, i, None, None, None] for values in (scenes.kind, scenes.centre))
        other = (owner != i) & (kind != EMPTY)
        t = _enter(scenes, i, _local(scenes, i, place - centre), _local(scenes, i, way))
        shadow = torch.where(other & (t > LEAST_STEP) & (t < 1), 1.0, shadow)
        gap = _gap(kind, scenes.extent[:, i, None, None, None], _local(scenes, i, before - centre))
        nearest = torch.where(other, torch.minimum(nearest, gap), nearest)
    return shadow, (1 - nearest / reach).clamp(0, 1)


def _gap(kind: Tensor, half: Tensor, p: Tensor) -> Tensor:
    """About how far places in a solid's own frame are from it, less than 0 inside; a sheet's waves do not count."""
    flat = torch.where((kind == CARD)[..., None] & (torch.arange(3, device=p.device) == 2), 0.0, half)
    beyond = p.abs() - flat
    box = beyond.clamp_min(0).norm(dim=-1) + beyond.amax(-1).clamp_max(0)
    share = (p / half).norm(dim=-1)
    ball = share * (share - 1) / (p / half.square()).norm(dim=-1).clamp_min(1e-12)
    share = (p / half)[..., :2].norm(dim=-1)
    side = share * (share - 1) / (p / half.square())[..., :2].norm(dim=-1).clamp_min(1e-12)
    both = torch.stack([side, beyond[..., 2]], -1)
    can = both.clamp_min(0).norm(dim=-1) + both.amax(-1).clamp_max(0)
    gap = torch.where(kind == ELLIPSOID, ball, torch.where(kind == CYLINDER, can, box))
    return torch.where(kind == SHEET, p[..., 2].abs(), gap)


def fetch(atlas: Atlas, texture: Tensor, u: Tensor, v: Tensor, texels_a_px: Tensor) -> Tensor:
    """The texture's colour at (u, v) in texels, (..., 3) in linear light.

    It lies between four texels of the level that is nearest to a texel a pixel; beyond its edges a texture is mirrored.
    """
    level = torch.floor(torch.log2(texels_a_px.clamp(1.0, 1 << (LEVELS - 1))) + 0.5).long()
    side = torch.tensor([SIZE >> k for k in range(LEVELS)], device=u.device)[level]
    start = torch.tensor([sum((SIZE >> j) ** 2 for j in range(k)) for k in range(LEVELS)], device=u.device)[level]
    scale = side / SIZE
    base = texture.long() * TEXELS + start
    total = torch.zeros((*u.shape, 3), device=u.device)
    x, y = u * scale - 0.5, v * scale - 0.5
    x0, y0 = torch.floor(x), torch.floor(y)
    for dy in (0, 1):
        for dx in (0, 1):
            share = (1 - (x - x0 - dx).abs()) * (1 - (y - y0 - dy).abs())
            index = base + _mirror(y0 + dy, side) * side + _mirror(x0 + dx, side)
            total += share[..., None] * unpack(atlas.words[index])
    return total


def _mirror(position: Tensor, side: Tensor) -> Tensor:
    folded = position.long() % (2 * side)
    return torch.minimum(folded, 2 * side - 1 - folded)


def unpack(words: Tensor) -> Tensor:
    """Packed texels to linear light, (..., 3)."""
    code = torch.stack([words & 255, (words >> 8) & 255, (words >> 16) & 255], -1).float() / 255
    return code * code
