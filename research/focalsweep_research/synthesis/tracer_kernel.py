"""The tracer on a GPU (Triton): `tracer.py` is its plain twin and says what is computed."""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl
from torch import Tensor

from focalsweep_research.synthesis import tracer
from focalsweep_research.synthesis.culling import TILE, solids_in_reach, tile_count, widest_sample
from focalsweep_research.synthesis.scenes import EMPTY, Scenes
from focalsweep_research.synthesis.textures import Atlas
from focalsweep_research.synthesis.tracer import Lenses

BLOCK = 128
SETTLED = tl.constexpr(tracer.SETTLED)
LARGEST_WAVE = tl.constexpr(tracer.LARGEST_WAVE)
FIELDS = 39
"""Numbers a solid: kind, centre 3, axes 9, half 3, waves 12, texture, mapping 3, tint 3, contrast, texture's mean 3."""


@triton.jit
def _hit(solid, ox, oy, dx, dy):
    """Depth of the ray's first hit with one solid (z of the direction is 1, z of the origin 0), 1e9 for a miss."""
    kind = tl.load(solid)
    rx = ox - tl.load(solid + 1)
    ry = oy - tl.load(solid + 2)
    rz = -tl.load(solid + 3)
    a0, a1, a2 = tl.load(solid + 4), tl.load(solid + 5), tl.load(solid + 6)
    b0, b1, b2 = tl.load(solid + 7), tl.load(solid + 8), tl.load(solid + 9)
    c0, c1, c2 = tl.load(solid + 10), tl.load(solid + 11), tl.load(solid + 12)
    px, py, pz = a0 * rx + a1 * ry + a2 * rz, b0 * rx + b1 * ry + b2 * rz, c0 * rx + c1 * ry + c2 * rz
    vx, vy, vz = a0 * dx + a1 * dy + a2, b0 * dx + b1 * dy + b2, c0 * dx + c1 * dy + c2
    z = tl.zeros_like(dx) + 1e9
    if kind < 2.5:
        ix, iy, iz = 1 / tl.load(solid + 13), 1 / tl.load(solid + 14), 1 / tl.load(solid + 15)
        px, py, pz, vx, vy, vz = px * ix, py * iy, pz * iz, vx * ix, vy * iy, vz * iz
        if kind < 1.5:
            a = vx * vx + vy * vy + vz * vz
            b = px * vx + py * vy + pz * vz
            cx, cy, cz = py * vz - pz * vy, pz * vx - px * vz, px * vy - py * vx
            inside = a - cx * cx - cy * cy - cz * cz
            z = tl.where(inside > 0, (-b - tl.sqrt(tl.maximum(inside, 0.0))) / a, 1e9)
        else:
            vx = tl.where(tl.abs(vx) < 1e-12, 1e-12, vx)
            vy = tl.where(tl.abs(vy) < 1e-12, 1e-12, vy)
            vz = tl.where(tl.abs(vz) < 1e-12, 1e-12, vz)
            x1, x2, y1, y2 = (-1 - px) / vx, (1 - px) / vx, (-1 - py) / vy, (1 - py) / vy
            z1, z2 = (-1 - pz) / vz, (1 - pz) / vz
            enter = tl.maximum(tl.maximum(tl.minimum(x1, x2), tl.minimum(y1, y2)), tl.minimum(z1, z2))
            leave = tl.minimum(tl.minimum(tl.maximum(x1, x2), tl.maximum(y1, y2)), tl.maximum(z1, z2))
            z = tl.where(leave > enter, enter, 1e9)
    else:
        flat = tl.where(tl.abs(vz) < 1e-9, 1e-9, vz)
        z = -pz / flat
        if tl.load(solid + 16) != 0:
            plane = z
            step = tl.zeros_like(z)
            for _ in tl.static_range(4):
                x, y = px + z * vx, py + z * vy
                height = tl.zeros_like(x)
                slope = tl.zeros_like(x)
                for k in tl.static_range(3):
                    amplitude = tl.load(solid + 16 + 4 * k)
                    kx, ky = tl.load(solid + 17 + 4 * k), tl.load(solid + 18 + 4 * k)
                    argument = kx * x + ky * y + tl.load(solid + 19 + 4 * k)
                    height += amplitude * tl.sin(argument)
                    slope += amplitude * tl.cos(argument) * (kx * vx + ky * vy)
                rate = flat - slope
                step = (pz + z * vz - height) / tl.where(tl.abs(rate) < 1e-9, 1e-9, rate)
                z -= step
            settled = (tl.abs(step) <= SETTLED * z) & (tl.abs(z - plane) <= LARGEST_WAVE * plane)
            z = tl.where(settled, z, plane)
    return z


@triton.jit
def _nearest(scene, solids, in_reach, ox, oy, dx, dy, FIELDS: tl.constexpr):
    best = tl.zeros_like(dx) + 1e9
    owner = tl.zeros_like(dx).to(tl.int32)
    for i in range(solids):
        solid = scene + i * FIELDS
        if ((in_reach >> i) & 1) != 0:
            z = _hit(solid, ox, oy, dx, dy)
            closer = (z > 1e-3) & (z < best)
            best = tl.where(closer, z, best)
            owner = tl.where(closer, i, owner)
    return best, owner


@triton.jit
def _texel(words, index):
    word = tl.load(words + index)
    r = (word & 255).to(tl.float32) / 255
    g = ((word >> 8) & 255).to(tl.float32) / 255
    b = ((word >> 16) & 255).to(tl.float32) / 255
    return r * r, g * g, b * b


@triton.jit
def _mirror(position, side):
    folded = position % (2 * side)
    folded = tl.where(folded < 0, folded + 2 * side, folded)
    return tl.minimum(folded, 2 * side - 1 - folded)


@triton.jit
def _dominant(nx, ny, nz):
    """The axis that a normal points along most; the first of equals."""
    x, y, z = tl.abs(nx), tl.abs(ny), tl.abs(nz)
    return tl.where((x >= y) & (x >= z), 0, tl.where(y >= z, 1, 2))


@triton.jit
def _render_kernel(
    scenes, lights, words, focal_px, aperture, inverse_focus, in_reach, choice, sets, samples, out,
    solids, frames, height, width, tile_columns,
    FIELDS: tl.constexpr, SIZE: tl.constexpr, LEVELS: tl.constexpr, TEXELS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    BLOCK: tl.constexpr = ROWS * COLUMNS
    frame = tl.program_id(0)  # stack * frames + frame
    stack = frame // frames
    tile = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    y = tile // tile_columns * ROWS + lane // COLUMNS
    x = tile % tile_columns * COLUMNS + lane % COLUMNS
    inside = (y < height) & (x < width)
    column = x.to(tl.float32) + 0.5 - width / 2
    row = y.to(tl.float32) + 0.5 - height / 2
    near = tl.load(in_reach + frame * tl.num_programs(1) + tile)
    chosen = tl.load(choice + frame * tl.num_programs(1) + tile)
    first, last = tl.load(sets + chosen), tl.load(sets + chosen + 1)
    focal = tl.load(focal_px + stack)
    radius = tl.load(aperture + stack) / 2
    u = tl.load(inverse_focus + frame)
    scene = scenes + stack * solids * FIELDS
    light_x, light_y = tl.load(lights + stack * 4), tl.load(lights + stack * 4 + 1)
    light_z, ambient = tl.load(lights + stack * 4 + 2), tl.load(lights + stack * 4 + 3)
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    for s in range(first, last):
        ox = tl.load(samples + 4 * s) * radius
        oy = tl.load(samples + 4 * s + 1) * radius
        dx = (column + tl.load(samples + 4 * s + 2)) / focal - u * ox
        dy = (row + tl.load(samples + 4 * s + 3)) / focal - u * oy
        z, owner = _nearest(scene, solids, near, ox, oy, dx, dy, FIELDS)
        hit = z < 1e8
        z = tl.where(hit, z, 1.0)
        solid = scene + owner * FIELDS
        kind = tl.load(solid)
        wx = ox + z * dx - tl.load(solid + 1)
        wy = oy + z * dy - tl.load(solid + 2)
        wz = z - tl.load(solid + 3)
        a0, a1, a2 = tl.load(solid + 4), tl.load(solid + 5), tl.load(solid + 6)
        b0, b1, b2 = tl.load(solid + 7), tl.load(solid + 8), tl.load(solid + 9)
        c0, c1, c2 = tl.load(solid + 10), tl.load(solid + 11), tl.load(solid + 12)
        px, py, pz = a0 * wx + a1 * wy + a2 * wz, b0 * wx + b1 * wy + b2 * wz, c0 * wx + c1 * wy + c2 * wz
        hx, hy, hz = tl.load(solid + 13), tl.load(solid + 14), tl.load(solid + 15)
        qx, qy, qz = px / hx, py / hy, pz / hz
        slope_x = tl.zeros([BLOCK], tl.float32)
        slope_y = tl.zeros([BLOCK], tl.float32)
        for k in tl.static_range(3):
            amplitude = tl.load(solid + 16 + 4 * k)
            kx, ky = tl.load(solid + 17 + 4 * k), tl.load(solid + 18 + 4 * k)
            slope = amplitude * tl.cos(kx * px + ky * py + tl.load(solid + 19 + 4 * k))
            slope_x += slope * kx
            slope_y += slope * ky
        face = _dominant(qx, qy, qz)
        nx = tl.where(kind > 2.5, -slope_x, tl.where(kind < 1.5, qx / hx, tl.where(face == 0, qx, 0.0)))
        ny = tl.where(kind > 2.5, -slope_y, tl.where(kind < 1.5, qy / hy, tl.where(face == 1, qy, 0.0)))
        nz = tl.where(kind > 2.5, 1.0, tl.where(kind < 1.5, qz / hz, tl.where(face == 2, qz, 0.0)))
        length = tl.sqrt(nx * nx + ny * ny + nz * nz) + 1e-20
        nx, ny, nz = nx / length, ny / length, nz / length
        faced = tl.where(kind > 2.5, 2, _dominant(nx, ny, nz))
        scale = tl.load(solid + 29)
        tu = tl.where(faced == 0, py, px) * scale + tl.load(solid + 30)
        tv = tl.where(faced == 2, py, pz) * scale + tl.load(solid + 31)
        footprint = tl.minimum(tl.maximum(scale * z / focal, 1.0), 1 << (LEVELS - 1))
        level = tl.floor(tl.log2(footprint) + 0.5).to(tl.int32)
        side = SIZE >> level
        # Texels of the levels before: SIZE^2 (1 + 1/4 + ...) = (4 SIZE^2 - 4 side^2) / 3.
        texture = tl.load(solid + 28).to(tl.int32) * TEXELS
        base = texture + (4 * SIZE * SIZE - 4 * side * side) // 3
        along = tu * side / SIZE - 0.5
        down = tv * side / SIZE - 0.5
        x0, y0 = tl.floor(along), tl.floor(down)
        fx, fy = along - x0, down - y0
        left, right = _mirror(x0.to(tl.int32), side), _mirror(x0.to(tl.int32) + 1, side)
        top = base + _mirror(y0.to(tl.int32), side) * side
        bottom = base + _mirror(y0.to(tl.int32) + 1, side) * side
        r00, g00, e00 = _texel(words, top + left)
        r01, g01, e01 = _texel(words, top + right)
        r10, g10, e10 = _texel(words, bottom + left)
        r11, g11, e11 = _texel(words, bottom + right)
        w00, w01, w10, w11 = (1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy
        r = w00 * r00 + w01 * r01 + w10 * r10 + w11 * r11
        g = w00 * g00 + w01 * g01 + w10 * g10 + w11 * g11
        e = w00 * e00 + w01 * e01 + w10 * e10 + w11 * e11
        mr, mg, me = tl.load(solid + 36), tl.load(solid + 37), tl.load(solid + 38)
        contrast = tl.load(solid + 35)
        gx = a0 * nx + b0 * ny + c0 * nz
        gy = a1 * nx + b1 * ny + c1 * nz
        gz = a2 * nx + b2 * ny + c2 * nz
        turned = tl.where(gx * dx + gy * dy + gz > 0, -1.0, 1.0)
        lit = tl.maximum(turned * (gx * light_x + gy * light_y + gz * light_z), 0.0)
        shade = tl.where(hit, ambient + (1 - ambient) * lit, 0.0)
        red += shade * tl.load(solid + 32) * (mr + contrast * (r - mr))
        green += shade * tl.load(solid + 33) * (mg + contrast * (g - mg))
        blue += shade * tl.load(solid + 34) * (me + contrast * (e - me))
    count = last - first
    target = out + frame.to(tl.int64) * 3 * height * width + y * width + x
    tl.store(target, red / count, mask=inside)
    tl.store(target + height * width, green / count, mask=inside)
    tl.store(target + 2 * height * width, blue / count, mask=inside)


@triton.jit
def _depth_kernel(scenes, present, focal_px, out, solids, height, width, FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    stack = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    focal = tl.load(focal_px + stack)
    dx = ((index % width).to(tl.float32) + 0.5 - width / 2) / focal
    dy = ((index // width).to(tl.float32) + 0.5 - height / 2) / focal
    z, _ = _nearest(scenes + stack * solids * FIELDS, solids, tl.load(present + stack), 0.0, 0.0, dx, dy, FIELDS)
    z = tl.where(z < 1e8, z, float("inf"))
    tl.store(out + stack.to(tl.int64) * height * width + index, z, mask=index < height * width)


def _pack(scenes: Scenes, means: Tensor | None) -> Tensor:
    """All numbers of a solid side by side: B P FIELDS."""
    batch, solids = scenes.kind.shape
    parts = [
        scenes.kind[..., None], scenes.centre, scenes.axes.flatten(2), scenes.half, scenes.waves.flatten(2),
        scenes.texture[..., None], scenes.mapping, scenes.tint, scenes.contrast[..., None],
    ]  # fmt: skip
    packed = torch.cat([part.float() for part in parts], -1)
    extra = scenes.kind.new_zeros((batch, solids, FIELDS - packed.shape[-1]), dtype=torch.float32)
    if means is not None:
        extra[..., :3] = means[scenes.texture.long()]
    return torch.cat([packed, extra], -1).contiguous()


def render(
    scenes: Scenes, lenses: Lenses, atlas: Atlas, sets: list[Tensor], choice: Tensor, size: tuple[int, int]
) -> Tensor:
    """The Triton `tracer.render`; `choice` is the set of samples that each tile takes."""
    from focalsweep_research.synthesis.textures import LEVELS, SIZE, TEXELS

    batch, frames = lenses.inverse_focus.shape
    device = choice.device
    out = torch.empty((batch, frames, 3, *size), device=device)
    samples = torch.cat(sets)
    in_reach = solids_in_reach(
        scenes, lenses.focal_px, lenses.aperture * widest_sample(samples), lenses.inverse_focus, size
    )
    starts = torch.tensor([0, *itertools.accumulate(len(one) for one in sets)], dtype=torch.int32).to(device)
    rows, columns = tile_count(size)
    _render_kernel[batch * frames, rows * columns](
        _pack(scenes, atlas.means), scenes.light, atlas.words, lenses.focal_px, lenses.aperture,
        lenses.inverse_focus.contiguous(), in_reach.contiguous(), choice.contiguous(), starts, samples, out,
        scenes.kind.shape[1], frames, size[0], size[1], columns,
        FIELDS=FIELDS, SIZE=SIZE, LEVELS=LEVELS, TEXELS=TEXELS, ROWS=TILE[0], COLUMNS=TILE[1],
    )  # fmt: skip
    return out


def depth(scenes: Scenes, focal_px: Tensor, size: tuple[int, int]) -> Tensor:
    """The Triton `tracer.depth`."""
    out = torch.empty((len(focal_px), *size), device=focal_px.device)
    bits = torch.arange(scenes.kind.shape[1], dtype=torch.int32, device=focal_px.device)
    present = ((scenes.kind != EMPTY) * (1 << bits)).sum(1, dtype=torch.int32)
    _depth_kernel[len(focal_px), triton.cdiv(size[0] * size[1], BLOCK)](
        _pack(scenes, None), present, focal_px, out, scenes.kind.shape[1], size[0], size[1], FIELDS=FIELDS, BLOCK=BLOCK
    )
    return out
