"""The tracer on a GPU (Triton): `tracer.py` is its plain twin and says what is computed."""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl
from torch import Tensor

from focalsweep_research.synthesis import tracer
from focalsweep_research.synthesis.culling import TILE, solids_in_reach, tile_count, widest_sample
from focalsweep_research.synthesis.scenes import EMPTY, LIGHT, Scenes
from focalsweep_research.synthesis.textures import Atlas
from focalsweep_research.synthesis.tracer import BESIDE_PX, BORDER_PX, LAMP_SAMPLES, LENS, Lenses, lamp_samples

BLOCK = 128
SETTLED = tl.constexpr(tracer.SETTLED)
LARGEST_WAVE = tl.constexpr(tracer.LARGEST_WAVE)
SKY_GAIN = tl.constexpr(tracer.SKY_GAIN)
BRIGHTEST_LAMP = tl.constexpr(tracer.BRIGHTEST_LAMP)
NEAREST_REACH = tl.constexpr(tracer.AMBIENT_REACH[0])
LONGEST_REACH = tl.constexpr(tracer.AMBIENT_REACH[1] / tracer.AMBIENT_REACH[0])
LEAST_STEP = tl.constexpr(tracer.LEAST_STEP)
FIELDS = 42
"""Numbers a solid: kind, centre 3, axes 9, half 3, waves 12, texture, mapping 3, tint 3, contrast, texture's mean 3,
what cuts out a card, gloss 2."""


@triton.jit
def _turned(solid, x, y, z):
    """A vector in the solid's own frame."""
    a0, a1, a2 = tl.load(solid + 4), tl.load(solid + 5), tl.load(solid + 6)
    b0, b1, b2 = tl.load(solid + 7), tl.load(solid + 8), tl.load(solid + 9)
    c0, c1, c2 = tl.load(solid + 10), tl.load(solid + 11), tl.load(solid + 12)
    return a0 * x + a1 * y + a2 * z, b0 * x + b1 * y + b2 * z, c0 * x + c1 * y + c2 * z


@triton.jit
def _wave_height(solid, x, y):
    height = tl.zeros_like(x)
    for k in tl.static_range(3):
        argument = tl.load(solid + 17 + 4 * k) * x + tl.load(solid + 18 + 4 * k) * y + tl.load(solid + 19 + 4 * k)
        height += tl.load(solid + 16 + 4 * k) * tl.sin(argument)
    return height


@triton.jit
def _enter(solid, kind, px, py, pz, vx, vy, vz):
    """Where rays in the solid's own frame enter it, 1e9 for a miss; sheets aside."""
    t = tl.zeros_like(vx) + 1e9
    if kind < 4.5:
        ix, iy, iz = 1 / tl.load(solid + 13), 1 / tl.load(solid + 14), 1 / tl.load(solid + 15)
        px, py, pz, vx, vy, vz = px * ix, py * iy, pz * iz, vx * ix, vy * iy, vz * iz
        if kind < 1.5:
            a = vx * vx + vy * vy + vz * vz
            b = px * vx + py * vy + pz * vz
            cx, cy, cz = py * vz - pz * vy, pz * vx - px * vz, px * vy - py * vx
            inside = a - cx * cx - cy * cy - cz * cz
            t = tl.where(inside > 0, (-b - tl.sqrt(tl.maximum(inside, 0.0))) / a, 1e9)
        elif kind < 2.5:
            vx = tl.where(tl.abs(vx) < 1e-12, 1e-12, vx)
            vy = tl.where(tl.abs(vy) < 1e-12, 1e-12, vy)
            vz = tl.where(tl.abs(vz) < 1e-12, 1e-12, vz)
            x1, x2, y1, y2 = (-1 - px) / vx, (1 - px) / vx, (-1 - py) / vy, (1 - py) / vy
            z1, z2 = (-1 - pz) / vz, (1 - pz) / vz
            enter = tl.maximum(tl.maximum(tl.minimum(x1, x2), tl.minimum(y1, y2)), tl.minimum(z1, z2))
            leave = tl.minimum(tl.minimum(tl.maximum(x1, x2), tl.maximum(y1, y2)), tl.maximum(z1, z2))
            t = tl.where(leave > enter, enter, 1e9)
        else:
            a = tl.maximum(vx * vx + vy * vy, 1e-20)
            b = px * vx + py * vy
            cross = px * vy - py * vx
            inside = a - cross * cross
            root = tl.sqrt(tl.maximum(inside, 0.0))
            vz = tl.where(tl.abs(vz) < 1e-12, 1e-12, vz)
            z1, z2 = (-1 - pz) / vz, (1 - pz) / vz
            enter = tl.maximum((-b - root) / a, tl.minimum(z1, z2))
            leave = tl.minimum((-b + root) / a, tl.maximum(z1, z2))
            t = tl.where((inside > 0) & (leave > enter), enter, 1e9)
    else:
        t = -pz / tl.where(tl.abs(vz) < 1e-9, 1e-9, vz)
        x, y = px + t * vx, py + t * vy
        there = (tl.abs(x) <= tl.load(solid + 13)) & (tl.abs(y) <= tl.load(solid + 14))
        t = tl.where(there & (_wave_height(solid, x, y) >= tl.load(solid + 39)), t, 1e9)
    return t


@triton.jit
def _hit(solid, ox, oy, dx, dy):
    """Depth of the ray's first hit with one solid (z of the direction is 1, z of the origin 0), 1e9 for a miss."""
    kind = tl.load(solid)
    px, py, pz = _turned(solid, ox - tl.load(solid + 1), oy - tl.load(solid + 2), -tl.load(solid + 3))
    vx, vy, vz = _turned(solid, dx, dy, 1.0)
    z = tl.zeros_like(dx) + 1e9
    if tl.abs(kind - 3) > 0.5:
        z = _enter(solid, kind, px, py, pz, vx, vy, vz)
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
def _gap(solid, kind, x, y, z):
    """About how far places in the solid's own frame are from it; a sheet's waves do not count."""
    hx, hy, hz = tl.load(solid + 13), tl.load(solid + 14), tl.load(solid + 15)
    gap = tl.abs(z)
    if kind < 1.5:
        share = tl.sqrt((x / hx) * (x / hx) + (y / hy) * (y / hy) + (z / hz) * (z / hz))
        sx, sy, sz = x / (hx * hx), y / (hy * hy), z / (hz * hz)
        gap = share * (share - 1) / tl.maximum(tl.sqrt(sx * sx + sy * sy + sz * sz), 1e-12)
    elif kind > 4.5:
        bx, by = tl.maximum(tl.abs(x) - hx, 0.0), tl.maximum(tl.abs(y) - hy, 0.0)
        gap = tl.sqrt(bx * bx + by * by + z * z)
    elif kind < 2.5:
        bx, by, bz = tl.abs(x) - hx, tl.abs(y) - hy, tl.abs(z) - hz
        ux, uy, uz = tl.maximum(bx, 0.0), tl.maximum(by, 0.0), tl.maximum(bz, 0.0)
        gap = tl.sqrt(ux * ux + uy * uy + uz * uz) + tl.minimum(tl.maximum(tl.maximum(bx, by), bz), 0.0)
    elif kind > 3.5:
        share = tl.sqrt((x / hx) * (x / hx) + (y / hy) * (y / hy))
        sx, sy = x / (hx * hx), y / (hy * hy)
        side = share * (share - 1) / tl.maximum(tl.sqrt(sx * sx + sy * sy), 1e-12)
        bz = tl.abs(z) - hz
        ux, uz = tl.maximum(side, 0.0), tl.maximum(bz, 0.0)
        gap = tl.sqrt(ux * ux + uz * uz) + tl.minimum(tl.maximum(side, bz), 0.0)
    return gap


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
def _normal(solid, px, py, pz):
    """The surface's normal at places in the solids' own frames (a pointer each): unit length, in these frames."""
    kind = tl.load(solid)
    hx, hy, hz = tl.load(solid + 13), tl.load(solid + 14), tl.load(solid + 15)
    qx, qy, qz = px / hx, py / hy, pz / hz
    slope_x = tl.zeros_like(px)
    slope_y = tl.zeros_like(px)
    for k in tl.static_range(3):
        amplitude = tl.load(solid + 16 + 4 * k)
        kx, ky = tl.load(solid + 17 + 4 * k), tl.load(solid + 18 + 4 * k)
        slope = amplitude * tl.cos(kx * px + ky * py + tl.load(solid + 19 + 4 * k))
        slope_x += slope * kx
        slope_y += slope * ky
    face = _dominant(qx, qy, qz)
    ball, box, can, card = kind < 1.5, kind < 2.5, kind > 3.5, kind > 4.5
    cap = tl.abs(qz) >= tl.sqrt(qx * qx + qy * qy)
    nx = tl.where(ball, qx / hx, tl.where(box, tl.where(face == 0, qx, 0.0), -slope_x))
    ny = tl.where(ball, qy / hy, tl.where(box, tl.where(face == 1, qy, 0.0), -slope_y))
    nz = tl.where(ball, qz / hz, tl.where(box, tl.where(face == 2, qz, 0.0), 1.0))
    nx = tl.where(card | (can & cap), 0.0, tl.where(can, qx / hx, nx))
    ny = tl.where(card | (can & cap), 0.0, tl.where(can, qy / hy, ny))
    nz = tl.where(card, 1.0, tl.where(can, tl.where(cap, qz, 0.0), nz))
    length = tl.sqrt(nx * nx + ny * ny + nz * nz) + 1e-20
    return nx / length, ny / length, nz / length


@triton.jit
def _lighting_kernel(
    scenes, lights, present, lenses, lamps, owners, shadows_out, crowded_out, solids, height, width,
    FIELDS: tl.constexpr, LENS: tl.constexpr, LIGHT: tl.constexpr, BORDER: tl.constexpr, LAMPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    stack = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    columns, pixels = width + 2 * BORDER, (height + 2 * BORDER) * (width + 2 * BORDER)
    light = lights + stack * LIGHT
    if tl.load(light + 5) + tl.load(light + 6) > 0:
        focal = tl.load(lenses + stack * LENS)
        dx = ((index % columns - BORDER).to(tl.float32) + 0.5 - tl.load(lenses + stack * LENS + 3)) / focal
        dy = ((index // columns - BORDER).to(tl.float32) + 0.5 - tl.load(lenses + stack * LENS + 4)) / focal
        scene = scenes + stack * solids * FIELDS
        z, owner = _nearest(scene, solids, tl.load(present + stack), 0.0, 0.0, dx, dy, FIELDS)
        hit = z < 1e8
        z = tl.where(hit, z, 1.0)
        at_x, at_y = z * dx, z * dy
        solid = scene + owner * FIELDS
        px, py, pz = _turned(solid, at_x - tl.load(solid + 1), at_y - tl.load(solid + 2), z - tl.load(solid + 3))
        nx, ny, nz = _normal(solid, px, py, pz)
        a0, a1, a2 = tl.load(solid + 4), tl.load(solid + 5), tl.load(solid + 6)
        b0, b1, b2 = tl.load(solid + 7), tl.load(solid + 8), tl.load(solid + 9)
        c0, c1, c2 = tl.load(solid + 10), tl.load(solid + 11), tl.load(solid + 12)
        gx, gy, gz = a0 * nx + b0 * ny + c0 * nz, a1 * nx + b1 * ny + c1 * nz, a2 * nx + b2 * ny + c2 * nz
        turned = tl.where(gx * dx + gy * dy + gz > 0, -1.0, 1.0)
        gx, gy, gz = turned * gx, turned * gy, turned * gz
        radius = tl.load(light + 4)
        hidden = tl.zeros([BLOCK], tl.float32)
        crowded = tl.zeros([BLOCK], tl.float32)
        for s in range(LAMPS):
            way_x = tl.load(light) + radius * tl.load(lamps + 4 * s) - at_x
            way_y = tl.load(light + 1) + radius * tl.load(lamps + 4 * s + 1) - at_y
            way_z = tl.load(light + 2) + radius * tl.load(lamps + 4 * s + 2) - z
            far = tl.zeros([BLOCK], tl.float32) + LONGEST_REACH
            reach = z * NEAREST_REACH * tl.exp2(tl.load(lamps + 4 * s + 3) * tl.log2(far))
            from_x, from_y, from_z = at_x + reach * gx, at_y + reach * gy, z + reach * gz
            shadow = tl.zeros([BLOCK], tl.float32)
            nearest = reach
            for i in range(solids):
                by = scene + i * FIELDS
                what = tl.load(by)
                if what > 0.5:
                    cx, cy, cz = tl.load(by + 1), tl.load(by + 2), tl.load(by + 3)
                    other = owner != i
                    lx, ly, lz = _turned(by, from_x - cx, from_y - cy, from_z - cz)
                    nearest = tl.where(other, tl.minimum(nearest, _gap(by, what, lx, ly, lz)), nearest)
                    if tl.abs(what - 3) > 0.5:
                        lx, ly, lz = _turned(by, at_x - cx, at_y - cy, z - cz)
                        vx, vy, vz = _turned(by, way_x, way_y, way_z)
                        t = _enter(by, what, lx, ly, lz, vx, vy, vz)
                        shadow = tl.where(other & (t > LEAST_STEP) & (t < 1), 1.0, shadow)
            hidden += shadow
            crowded += tl.minimum(tl.maximum(1 - nearest / reach, 0.0), 1.0)
        out = stack.to(tl.int64) * pixels + index
        tl.store(owners + out, tl.where(hit, owner, -1), mask=index < pixels)
        tl.store(shadows_out + out, hidden / LAMPS, mask=index < pixels)
        tl.store(crowded_out + out, crowded / LAMPS, mask=index < pixels)


@triton.jit
def _render_kernel(
    scenes, lights, words, lenses, in_reach, choice, sets, samples, widest, owners, hidden, crowding_around, beside,
    out, solids, frames, height, width, tile_columns,
    FIELDS: tl.constexpr, LENS: tl.constexpr, LIGHT: tl.constexpr,
    SIZE: tl.constexpr, LEVELS: tl.constexpr, TEXELS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BORDER: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    BLOCK: tl.constexpr = ROWS * COLUMNS
    frame = tl.program_id(0)  # stack * frames + frame
    stack = frame // frames
    tile = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    y = tile // tile_columns * ROWS + lane // COLUMNS
    x = tile % tile_columns * COLUMNS + lane % COLUMNS
    inside = (y < height) & (x < width)
    lens = lenses + frame * LENS
    focal, radius, focus = tl.load(lens), tl.load(lens + 1), tl.load(lens + 2)
    column = x.to(tl.float32) + 0.5 - tl.load(lens + 3)
    row = y.to(tl.float32) + 0.5 - tl.load(lens + 4)
    shift_x, shift_y = tl.load(lens + 5), tl.load(lens + 6)
    sway_x, sway_y = tl.load(lens + 7), tl.load(lens + 8)
    u = focus + tl.load(lens + 9) * (column * column + row * row)
    cat_eye, rim = tl.load(lens + 10), tl.load(widest)
    near = tl.load(in_reach + frame * tl.num_programs(1) + tile)
    chosen = tl.load(choice + frame * tl.num_programs(1) + tile)
    first, last = tl.load(sets + chosen), tl.load(sets + chosen + 1)
    scene = scenes + stack * solids * FIELDS
    light = lights + stack * LIGHT
    lamp_x, lamp_y, lamp_z = tl.load(light), tl.load(light + 1), tl.load(light + 2)
    ambient = tl.load(light + 3)
    lit_pixels = stack.to(tl.int64) * (height + 2 * BORDER) * (width + 2 * BORDER)
    shadows, crowding = tl.load(light + 5), tl.load(light + 6)
    up_x, up_y, up_z = tl.load(light + 7), tl.load(light + 8), tl.load(light + 9)
    lamp_away = lamp_x * lamp_x + lamp_y * lamp_y + lamp_z * lamp_z
    red = tl.zeros([BLOCK], tl.float32)
    green = tl.zeros([BLOCK], tl.float32)
    blue = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for s in range(first, last):
        lens_x, lens_y = tl.load(samples + 4 * s), tl.load(samples + 4 * s + 1)
        off_x, off_y = lens_x - rim * cat_eye * column, lens_y - rim * cat_eye * row
        closed = tl.where(off_x * off_x + off_y * off_y > rim * rim, 1.0, 0.0)
        weight = 1 - closed * tl.where(cat_eye > 0, 1.0, 0.0)
        count += weight
        ox, oy = lens_x * radius, lens_y * radius
        dx = (column + tl.load(samples + 4 * s + 2) - shift_x) / focal - u * ox
        dy = (row + tl.load(samples + 4 * s + 3) - shift_y) / focal - u * oy
        ox, oy = ox + sway_x, oy + sway_y
        z, owner = _nearest(scene, solids, near, ox, oy, dx, dy, FIELDS)
        hit = z < 1e8
        z = tl.where(hit, z, 1.0)
        solid = scene + owner * FIELDS
        kind = tl.load(solid)
        at_x, at_y = ox + z * dx, oy + z * dy
        wx = at_x - tl.load(solid + 1)
        wy = at_y - tl.load(solid + 2)
        wz = z - tl.load(solid + 3)
        a0, a1, a2 = tl.load(solid + 4), tl.load(solid + 5), tl.load(solid + 6)
        b0, b1, b2 = tl.load(solid + 7), tl.load(solid + 8), tl.load(solid + 9)
        c0, c1, c2 = tl.load(solid + 10), tl.load(solid + 11), tl.load(solid + 12)
        px, py, pz = a0 * wx + a1 * wy + a2 * wz, b0 * wx + b1 * wy + b2 * wz, c0 * wx + c1 * wy + c2 * wz
        nx, ny, nz = _normal(solid, px, py, pz)
        card = kind > 4.5
        flat = card | ((kind > 2.5) & (kind < 3.5))
        faced = tl.where(flat, 2, _dominant(nx, ny, nz))
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
        gx, gy, gz = turned * gx, turned * gy, turned * gz
        way_x, way_y, way_z = lamp_x - at_x, lamp_y - at_y, lamp_z - z
        away = way_x * way_x + way_y * way_y + way_z * way_z
        distance = tl.sqrt(away)
        to_x, to_y, to_z = way_x / distance, way_y / distance, way_z / distance
        fall = tl.minimum(lamp_away / away, BRIGHTEST_LAMP)
        shadow = tl.zeros([BLOCK], tl.float32)
        crowded = tl.zeros([BLOCK], tl.float32)
        if shadows + crowding > 0:
            seen_x = tl.floor(at_x / z * focal + tl.load(lens + 3)) + BORDER
            seen_y = tl.floor(at_y / z * focal + tl.load(lens + 4)) + BORDER
            wanted = hit
            for k in tl.static_range(BESIDE):
                cx = tl.minimum(tl.maximum(seen_x + tl.load(beside + 2 * k), 0.0), width + 2 * BORDER - 1.0).to(
                    tl.int32
                )
                cy = tl.minimum(tl.maximum(seen_y + tl.load(beside + 2 * k + 1), 0.0), height + 2 * BORDER - 1.0).to(
                    tl.int32
                )
                there = lit_pixels + cy * (width + 2 * BORDER) + cx
                here = wanted & (tl.load(owners + there, mask=wanted, other=-1) == owner)
                shadow = tl.where(here, tl.load(hidden + there, mask=here, other=0.0), shadow)
                crowded = tl.where(here, tl.load(crowding_around + there, mask=here, other=0.0), crowded)
                wanted = wanted & (here == 0)
        lit = tl.maximum(gx * to_x + gy * to_y + gz * to_z, 0.0) * fall * (1 - shadows * shadow)
        above = 1 + SKY_GAIN * (gx * up_x + gy * up_y + gz * up_z)
        shade = ambient * above * (1 - crowding * crowded) + (1 - ambient) * lit
        shade = tl.where(hit, shade, 0.0) * weight
        view = tl.sqrt(dx * dx + dy * dy + 1)
        bx, by_, bz = to_x - dx / view, to_y - dy / view, to_z - 1 / view
        size = tl.maximum(tl.sqrt(bx * bx + by_ * by_ + bz * bz), 1e-6)
        facing = tl.maximum((gx * bx + gy * by_ + gz * bz) / size, 1e-6)
        shine = tl.exp2(tl.load(solid + 41) * tl.log2(facing)) * tl.load(solid + 40) * tl.where(lit > 0, fall, 0.0)
        shine = tl.where(hit, shine, 0.0) * weight * (1 - ambient) * (1 - shadows * shadow)
        red += shade * tl.load(solid + 32) * (mr + contrast * (r - mr)) + shine
        green += shade * tl.load(solid + 33) * (mg + contrast * (g - mg)) + shine
        blue += shade * tl.load(solid + 34) * (me + contrast * (e - me)) + shine
    count = tl.maximum(count, 1.0)
    target = out + frame.to(tl.int64) * 3 * height * width + y * width + x
    tl.store(target, red / count, mask=inside)
    tl.store(target + height * width, green / count, mask=inside)
    tl.store(target + 2 * height * width, blue / count, mask=inside)


@triton.jit
def _depth_kernel(
    scenes, present, lenses, out, solids, height, width, FIELDS: tl.constexpr, LENS: tl.constexpr, BLOCK: tl.constexpr
):
    stack = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    focal = tl.load(lenses + stack * LENS)
    dx = ((index % width).to(tl.float32) + 0.5 - tl.load(lenses + stack * LENS + 3)) / focal
    dy = ((index // width).to(tl.float32) + 0.5 - tl.load(lenses + stack * LENS + 4)) / focal
    z, _ = _nearest(scenes + stack * solids * FIELDS, solids, tl.load(present + stack), 0.0, 0.0, dx, dy, FIELDS)
    z = tl.where(z < 1e8, z, float("inf"))
    tl.store(out + stack.to(tl.int64) * height * width + index, z, mask=index < height * width)


def _pack(scenes: Scenes, means: Tensor | None) -> Tensor:
    """All numbers of a solid side by side: B P FIELDS."""
    batch, solids = scenes.kind.shape
    mean = scenes.half.new_zeros((batch, solids, 3)) if means is None else means[scenes.texture.long()]
    parts = [
        scenes.kind[..., None], scenes.centre, scenes.axes.flatten(2), scenes.extent, scenes.waves.flatten(2),
        scenes.texture[..., None], scenes.mapping, scenes.tint, scenes.contrast[..., None], mean,
        scenes.half[..., 2:], scenes.gloss,
    ]  # fmt: skip
    return torch.cat([part.float() for part in parts], -1).contiguous()


def _present(scenes: Scenes) -> Tensor:  # B
    """A bit for each solid that is there."""
    bits = 1 << torch.arange(scenes.kind.shape[1], dtype=torch.int64, device=scenes.kind.device)
    present: Tensor = ((scenes.kind != EMPTY) * bits).sum(1, dtype=torch.int64)
    return present


def render(
    scenes: Scenes, lenses: Lenses, atlas: Atlas, sets: list[Tensor], choice: Tensor, size: tuple[int, int]
) -> Tensor:
    """The Triton `tracer.render`; `choice` is the set of samples that each tile takes."""
    from focalsweep_research.synthesis.textures import LEVELS, SIZE, TEXELS

    batch, frames = lenses.inverse_focus.shape
    device = choice.device
    out = torch.empty((batch, frames, 3, *size), device=device)
    samples = torch.cat(sets)
    packed, light, table = _pack(scenes, atlas.means), scenes.light.contiguous(), lenses.table(size)
    bordered = (batch, size[0] + 2 * BORDER_PX, size[1] + 2 * BORDER_PX)
    owners = torch.empty(bordered, dtype=torch.int32, device=device)
    hidden, crowded = torch.empty(bordered, device=device), torch.empty(bordered, device=device)
    pinhole = table[:, 0].contiguous()
    _lighting_kernel[batch, triton.cdiv(bordered[1] * bordered[2], BLOCK)](
        packed, light, _present(scenes), pinhole, lamp_samples().to(device, non_blocking=True), owners, hidden, crowded,
        scenes.kind.shape[1], size[0], size[1],
        FIELDS=FIELDS, LENS=LENS, LIGHT=LIGHT, BORDER=BORDER_PX, LAMPS=LAMP_SAMPLES, BLOCK=BLOCK,
    )  # fmt: skip
    beside = torch.tensor(BESIDE_PX, dtype=torch.float32).to(device, non_blocking=True)
    widest = widest_sample(samples)
    in_reach = solids_in_reach(
        scenes, lenses.focal_px, lenses.aperture * widest, lenses.inverse_focus, size,
        lenses.axis_px(size), lenses.spare_px(widest),
    )  # fmt: skip
    starts = torch.tensor([0, *itertools.accumulate(len(one) for one in sets)], dtype=torch.int32).to(device)
    rows, columns = tile_count(size)
    _render_kernel[batch * frames, rows * columns](
        packed, light, atlas.words, table, in_reach.contiguous(), choice.contiguous(), starts, samples, widest,
        owners, hidden, crowded, beside, out,
        scenes.kind.shape[1], frames, size[0], size[1], columns,
        FIELDS=FIELDS, LENS=LENS, LIGHT=LIGHT, SIZE=SIZE, LEVELS=LEVELS, TEXELS=TEXELS, ROWS=TILE[0], COLUMNS=TILE[1],
        BORDER=BORDER_PX, BESIDE=len(BESIDE_PX),
    )  # fmt: skip
    return out


def depth(scenes: Scenes, pinhole: Lenses, size: tuple[int, int]) -> Tensor:
    """The Triton `tracer.depth`."""
    table = pinhole.table(size)[:, 0].contiguous()
    out = torch.empty((len(table), *size), device=table.device)
    _depth_kernel[len(table), triton.cdiv(size[0] * size[1], BLOCK)](
        _pack(scenes, None), _present(scenes), table, out, scenes.kind.shape[1], size[0], size[1],
        FIELDS=FIELDS, LENS=LENS, BLOCK=BLOCK,
    )  # fmt: skip
    return out
