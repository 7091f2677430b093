"""Scenes seen through a thin lens, one ray at a time: the plain version, for any device, twin of the Triton one.

A pixel looks along (x, y, 1), x = (column - centre) / focal_px. A ray leaves the lens at l (on a disk of diameter A)
and meets the pixel's line at the focus distance 1 / u, so at depth z it is at  l + z ((x, y) - u l).  The parameter of
a ray is its depth, and infinity needs no care. Blur diameters come out as focal_px A |u - 1/z| pixels, which is the
thin-lens formula at a constant field of view (magnification (d_f - f) / d_f).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.sweep.deconvolution import triton_serves
from focalsweep_research.synthesis.culling import TILE, largest_blur_px
from focalsweep_research.synthesis.scenes import BOX, ELLIPSOID, SHEET, WAVES, Scenes
from focalsweep_research.synthesis.textures import LEVELS, SIZE, TEXELS, Atlas

NEWTON_STEPS = 4
NEAREST = 1e-3  # metres: nothing nearer is hit
MISS = 1e9
SETTLED, LARGEST_WAVE = 1e-3, 0.4  # of the depth: Newton's last step, and how far a wave may lie from its plane
FULL_COVER = 2.0  # samples a square pixel of blur: twice as many change pixels by about 0.004 of full light


@dataclass(frozen=True, eq=False)
class Lenses:
    """The cameras of B stacks with F frames each."""

    focal_px: Tensor  # B
    aperture: Tensor  # B, diameter in metres
    inverse_focus: Tensor  # B F, 1/m

    def one(self, number: int) -> Lenses:
        """A batch of that camera alone."""
        here = slice(number, number + 1)
        return Lenses(self.focal_px[here], self.aperture[here], self.inverse_focus[here])

    def to(self, device: torch.device) -> Lenses:
        return Lenses(self.focal_px.to(device), self.aperture.to(device), self.inverse_focus.to(device))


def disk_samples(count: int) -> Tensor:
    """count x 4: points of the unit disk in even density (a sunflower's), and offsets within a pixel, -1/2..1/2."""
    k = torch.arange(count, dtype=torch.float64)
    radius, angle = torch.sqrt((k + 0.5) / count), k * math.pi * (3 - math.sqrt(5))
    # The plastic number's sequence fills the square evenly, and is not in step with the spiral.
    jitter = [(0.5 + k * step) % 1 - 0.5 for step in (0.7548776662466927, 0.5698402909980532)]
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle), *jitter], 1).float()


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
    stacks = [
        _render_one(scenes.one(number), lenses.one(number), atlas, sets, chosen) for number, chosen in enumerate(pixels)
    ]
    return torch.stack(stacks).movedim(-1, 2)


def _render_one(scene: Scenes, lens: Lenses, atlas: Atlas, sets: list[Tensor], choice: Tensor) -> Tensor:  # F H W 3
    """A stack, whose pixels (`choice`, F H W) each take the set of that number."""
    _, height, width = choice.shape
    picture = torch.zeros((*choice.shape, 3), device=sets[0].device)
    for number, samples in enumerate(sets):
        chosen = choice == number
        total = torch.zeros((int(chosen.sum()), 3), device=picture.device)
        for lens_x, lens_y, offset_x, offset_y in samples.tolist() if len(total) else []:
            origin, directions = _rays(lens, (lens_x, lens_y), (offset_x, offset_y), (height, width))
            rays = directions[0][chosen][None, :, None, None]  # the functions below have the axes B F H W
            total += _radiance(scene, atlas, lens, origin, rays, *_nearest(scene, origin, rays))[0, :, :, 0, 0]
        picture[chosen] = total / len(samples)
    return picture


def _choose_set(scenes: Scenes, lenses: Lenses, size: tuple[int, int], counts: list[int]) -> Tensor:
    """The number of the set that each tile takes, B F rows columns, int32."""
    seen = depth(scenes, lenses.focal_px, size)
    blur_px = largest_blur_px(seen, lenses.focal_px * lenses.aperture, lenses.inverse_focus)
    wanted = FULL_COVER * math.pi / 4 * blur_px.square()
    few = torch.tensor(counts[:-1], dtype=torch.float32, device=wanted.device)
    return torch.searchsorted(few, wanted.contiguous()).to(torch.int32)


def depth(scenes: Scenes, focal_px: Tensor, size: tuple[int, int]) -> Tensor:  # B H W
    """Depth along the optical axis at the pixel centres, through a pinhole (focal_px: B); infinity where nothing is."""
    if triton_serves(focal_px):
        from focalsweep_research.synthesis import tracer_kernel

        return tracer_kernel.depth(scenes, focal_px, size)
    pinhole = Lenses(focal_px, torch.zeros_like(focal_px), torch.zeros_like(focal_px)[:, None])
    origin, direction = _rays(pinhole, (0.0, 0.0), (0.0, 0.0), size)
    nearest, _ = _nearest(scenes, origin, direction)
    return torch.where(nearest < MISS, nearest, torch.inf)[:, 0]


def _rays(
    lenses: Lenses, lens: tuple[float, float], offset: tuple[float, float], size: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Origins and directions, B F H W 3 each (the origin is the same for all pixels: B F 1 1 3)."""
    height, width = size
    device = lenses.focal_px.device
    focal_px = lenses.focal_px[:, None, None, None]
    x = (torch.arange(width, device=device) + 0.5 + offset[0] - width / 2) / focal_px
    y = (torch.arange(height, device=device)[:, None] + 0.5 + offset[1] - height / 2) / focal_px
    lens_x, lens_y = (value * lenses.aperture[:, None, None, None] / 2 for value in lens)
    u = lenses.inverse_focus[:, :, None, None]
    shape = (*lenses.inverse_focus.shape, height, width)
    x, y = (x - u * lens_x).expand(shape), (y - u * lens_y).expand(shape)
    origin = torch.stack([lens_x, lens_y, torch.zeros_like(lens_x)], -1)
    return origin, torch.stack([x, y, torch.ones_like(x)], -1)


def _nearest(scenes: Scenes, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Depth of the first hit and the number of what was hit, B F H W each."""
    shape = direction.shape[:-1]
    best = torch.full(shape, MISS, device=direction.device)
    owner = torch.zeros(shape, dtype=torch.int64, device=direction.device)
    for i, kinds in enumerate(scenes.kind.T.tolist()):
        if not any(kinds):
            continue
        o, d = _local(scenes, i, origin - scenes.centre[:, i, None, None, None]), _local(scenes, i, direction)
        kind = scenes.kind[:, i, None, None, None]
        half = scenes.half[:, i, None, None, None]
        z = torch.full((), MISS, device=best.device)
        if ELLIPSOID in kinds:
            z = torch.where(kind == ELLIPSOID, _hit_ellipsoid(o / half, d / half), z)
        if BOX in kinds:
            z = torch.where(kind == BOX, _hit_box(o / half, d / half), z)
        if SHEET in kinds:
            z = torch.where(kind == SHEET, _hit_sheet(scenes.waves[:, i], o, d), z)
        closer = (z > NEAREST) & (z < best)
        best, owner = torch.where(closer, z, best), torch.where(closer, i, owner)
    return best, owner


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
    scenes: Scenes, atlas: Atlas, lenses: Lenses, origin: Tensor, direction: Tensor, z: Tensor, owner: Tensor
) -> Tensor:  # B F 3 H W
    """Light from where the rays end: albedo from the texture, Lambert's law with some ambient light, black sky."""

    def of_owner(values: Tensor) -> Tensor:  # B P ... to B F H W ...
        batch = torch.arange(len(values), device=values.device)[:, None, None, None]
        return values[batch, owner]

    axes, half, kind = of_owner(scenes.axes), of_owner(scenes.half), of_owner(scenes.kind)
    hit = torch.where(z < MISS, z, 1.0)
    world = origin + hit[..., None] * direction - of_owner(scenes.centre)
    p = (axes * world[..., None, :]).sum(-1)
    q = p / half
    waves = of_owner(scenes.waves)
    argument = waves[..., 1] * p[..., None, 0] + waves[..., 2] * p[..., None, 1] + waves[..., 3]
    slopes = [(waves[..., 0] * waves[..., 1 + j] * torch.cos(argument)).sum(-1) for j in (0, 1)]
    face = q.abs() >= q.abs().amax(-1, keepdim=True)
    normal = torch.where((kind == ELLIPSOID)[..., None], q / half, torch.where(face, q.sign(), 0.0))
    sheet = torch.stack([-slopes[0], -slopes[1], torch.ones_like(slopes[0])], -1)
    normal = torch.where((kind == SHEET)[..., None], sheet, normal)
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-20)
    # Texture coordinates: the two local axes that the surface faces least.
    faced = torch.where((kind == SHEET), 2, normal.abs().argmax(-1))
    u = torch.where(faced == 0, p[..., 1], p[..., 0])
    v = torch.where(faced == 2, p[..., 1], p[..., 2])
    mapping = of_owner(scenes.mapping)
    texels_a_px = mapping[..., 0] * hit / lenses.focal_px[:, None, None, None]
    texture = of_owner(scenes.texture)
    along, down = (c * mapping[..., 0] + mapping[..., k] for k, c in ((1, u), (2, v)))
    colour, mean = fetch(atlas, texture, along, down, texels_a_px), atlas.means[texture.long()]
    contrast = of_owner(scenes.contrast)[..., None]
    albedo = of_owner(scenes.tint) * (mean + contrast * (colour - mean))
    world_normal = (axes * normal[..., :, None]).sum(-2)
    towards = (world_normal * direction).sum(-1, keepdim=True)
    world_normal = torch.where(towards > 0, -world_normal, world_normal)
    light = scenes.light[:, None, None, None]
    lit = (world_normal * light[..., :3]).sum(-1).clamp_min(0)
    shade = light[..., 3] + (1 - light[..., 3]) * lit
    radiance = torch.where((z < MISS)[..., None], albedo * shade[..., None], 0.0)
    return radiance.movedim(-1, 2)


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
