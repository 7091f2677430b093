"""Pictures and their truth, and files that no library at hand writes: small DNG and ICC files, HEIC from elsewhere."""

import base64
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import tifffile


def noise(dtype: type = np.uint8, channels: int = 3, height: int = 24, width: int = 32) -> np.ndarray:
    """H W C, or H W for one channel."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    top = np.iinfo(dtype).max
    return np.random.default_rng(1).integers(0, top + 1, shape, dtype=dtype)


def srgb(codes: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1, H W C."""
    x = codes.astype(np.float64) / np.iinfo(codes.dtype).max
    light = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    return light[..., None] if light.ndim == 2 else light


def png_with(chunk: bytes, body: bytes, codes: np.ndarray) -> bytes:
    """A PNG of OpenCV with one chunk put in front of the pixels."""
    data = cv2.imencode(".png", codes[..., ::-1])[1].tobytes()
    added = struct.pack(">I", len(body)) + chunk + body + struct.pack(">I", zlib.crc32(chunk + body))
    return data[:33] + added + data[33:]


def gray_steps(top: float = 0.8) -> np.ndarray:
    """Four flat quarters, wide enough that demosaicing leaves their middles alone."""
    steps = np.array([[0.1, 0.2], [0.4, 1.0]]) * top
    return np.kron(steps, np.ones((24, 32)))


def write_dng(
    path: Path,
    light: np.ndarray,
    neutral: tuple[float, float, float] = (0.5, 1.0, 0.6),
    orientation: int = 1,
    black: int = 1000,
    camera: tuple[float, float, float] | None = None,
) -> None:
    """A gray picture (H W, 0..1) as a sensor of R G / G B stores it.

    `camera` is what the sensor makes of white, `neutral` what the file says that it makes.
    """
    seen = np.array(camera or neutral)
    pattern = np.array([[0, 1], [1, 2]])
    height, width = light.shape
    rows, columns = np.mgrid[:height, :width]
    mosaic = light * seen[pattern[rows % 2, columns % 2]]
    identity = [value for row in np.eye(3, dtype=int) for item in row for value in (int(item), 1)]
    tags = [
        (274, "H", 1, orientation, True),
        (33421, "H", 2, (2, 2), True),  # CFARepeatPatternDim
        (33422, "B", 4, bytes(pattern.ravel().tolist()), True),
        (50706, "B", 4, bytes([1, 4, 0, 0]), True),  # DNGVersion
        (50708, "s", 0, "Test Camera", True),  # UniqueCameraModel
        (50714, "H", 1, black, True),
        (50717, "I", 1, 65535, True),  # WhiteLevel
        (50721, "2i", 9, identity, True),  # ColorMatrix1
        (50728, "2I", 3, [v for x in neutral for v in (round(x * 10000), 10000)], True),  # AsShotNeutral
        (50778, "H", 1, 21, True),  # CalibrationIlluminant1: D65
    ]
    codes = np.rint(black + mosaic * (65535 - black)).astype(np.uint16)
    tifffile.imwrite(path, codes, photometric="cfa", extratags=tags, metadata=None)


def icc_profile(*curves: bytes) -> bytes:
    """A profile with the given curves for R, G, B (or one for gray), and nothing else."""
    names = [b"kTRC"] if len(curves) == 1 else [b"rTRC", b"gTRC", b"bTRC"]
    offset = 132 + 12 * len(curves)
    table, body = struct.pack(">I", len(curves)), b""
    for name, curve in zip(names, curves, strict=True):
        table += struct.pack(">4sII", name, offset + len(body), len(curve))
        body += curve + b"\0" * (-len(curve) % 4)
    space = b"GRAY" if len(curves) == 1 else b"RGB "
    header = struct.pack(">I4sI4s4s4s", offset + len(body), b"test", 0x02400000, b"mntr", space, b"XYZ ") + b"\0" * 12
    return (header + b"acsp").ljust(128, b"\0") + table + body


def curv(*values: int) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(f">I{len(values)}H", len(values), *values)


def para(kind: int, *numbers: float) -> bytes:
    fixed = [round(number * 65536) for number in numbers]
    return b"para\0\0\0\0" + struct.pack(f">HH{len(fixed)}i", kind, 0, *fixed)


# 32 x 16 px, written with pillow-heif 1.8: red and green rise from 0 at the left to white at the right, blue falls.
# TURNED carries orientation 6. 4:4:4, within 2 steps of the truth at 8 bit, 4 at 10 bit.
HEIC = base64.b85decode(
    "0000SW^{RQXk}@500000ZE0pPXk}@5ZE0a<0004gZDn*}000000000XXk=`10000000000aA{+700000000000000000000B57=IV*mgE07O"
    "6l0RRC200001q5uH^00000006%L001LtX>Mi!000000RR916=`l}WdZ;I000310BCk&F#rGn01j|zbZr0t000010002~X>f9I0002qX>en20"
    "001YXm(>m0R#vD005pi000009`FGC|M>U-"
    "01pFT0096OKmiN^|NjIC00093o;Uyi0{{RXx&lC90096hLID8;2mk;B0G>Di00RI39*_hOAhO+6(_GvHG#C&700RM#000935P)I;0RRX@0l{"
    "+^Fc^>k000wXZ)|dIV{CW;0RRmE27mwn02FC+aAg1h0000006+i$06+i$04QT@VQ>Hd03ZMW0096101yBG00IC1|KI=s00RI2|Ih#c00IC20"
    "1$9#cxeCt0009B2nYZG02pa-ZD9Za00000009621%Uzs1%v<q0LN`)VRQfh0J|swuLiOn>9Wv~s#KXm{5*(aA3e7JGze|Xht)cH^jJL~k`y-"
    "Lr6^)5Nj*PM73G`RE0+~FiM9gBmTy%($t1>vnVxw%K|3P1S1051H`urFJ3@%AxQWtN7ZpYaWw515eViq?=%{$ZkuTDCdM4q(qz1+rfBpbkTG"
    "$WLTl%^-J>(9YY#`_fwti;Ec9kC@W;*(b8-PR*>Bac=oI-_$cNY}rLk)x|A%bv%1vX-~O$tT@@-NsmxB"
)
HEIC_TURNED = base64.b85decode(
    "0000SW^{RQXk}@500000ZE0pPXk}@5ZE0a<0005WZDn*}000000000XXk=`10000000000aA{+700000000000000000000G-"
    "+&aV*mgE07O6l0ssL300001?EnD)00000006%L0ssI200OK40RR9100000Bme*aIB98aW&i*H00062000$fZf0cy000000RRAKc4ILB0000L"
    "X>Mj^0ssI300IC2MR;ju000004sdC7Z2$lO00031009VTaB^?}008G{aAR)(004Jrc4I>U1PA~C0G>Di0000U@BsY(`1k+-"
    "4+CHT0RR_30Sp2E{{#pC00RJ?H~;_x0017k0zhE^0RSpO0RaRE00093o;Uyi0{{RXkOUAQvfWkFT-"
    "*dS7!Uve0|Af#00RIJfMNgv00=|@!E+ce7?1z}025<xY;ta6Y<K_x01W^JfB*mh6lrsCWdHyG00000KmY&$KmY&$C}V74Z~y=RAOHXW0RR91"
    "5C8xG0ssI1-~a#s0{{R2&;S4c0ssI25O8UDX#fBK00RgJ2mk;832Aa~bOQhY02yg;ZD9Za000000096227v+t1%!qG000_ka%E-"
    "!00000000hSWOHKx0ssL30RR91>uqFVbN~PVyC?y#2C^RMve1#LRGC8jJcwc+J+}We2yM)V)jE0fSUn$-"
    "6gJ|eC}Ju}JwH$t<(t_nmlZdOwgSkOZ&f|XB*ui9o_RV!J0iDNC*$)s*thXJLWr)oiPBdW6-"
    "EbTu%$_ToF%vDsCdJXFVc8=CgH%O2F4kG{s3B9*bmZM`nonf<PMx{Am|CUerCsZl^-HzI{JwlfJ6}K#rXD|LWPER7Zm414TLBmf^dQbHe$9-"
    "3PuI;FW5D>00006MR;ju002!*04e|g00;m90TKWM0000100sa600000"
)
HEIC_10_BIT = base64.b85decode(
    "0000SW^{RQXk}@500000ZE0pPXk}@5ZE0a<0004gZDn*}000000000XXk=`10000000000aA{+700000000000000000000B57=IV*mgE07O"
    "6l0RRC200001q5uH^00000005c*001LtX>Mi!000000RR916=`l}WdZ;I000310BCk&F#rGn01j|zbZr0t000010002~X>f9I0002qX>en20"
    "001YXm(>m0R#vD005jg000009`FGC|N8m>01pFT0096OKmiN^|NjIC00093oHzgg0{{RXx&lC90096hLID8;2mk;B0Gv1g00RI39*_hOAe$}"
    "KT{X?XLqUN600RIS000930SICM0RRX@0l{+^Fc^>k000wXZ)|dIV{CW;0RRmE27mwn02FC+aAg1h0000006+i$06+i$04QT@VQ>Hd03ZMW00"
    "96101yBG00IC1|KI=s00RI2|Ih#c00IC201$9#cxeCt0009D3JL%K02pa-ZD9Za00000009621%Uzs1%v<q0HSSVVRQfh0G22LuLiOn;c<}6"
    ");Y&S4nJMa+|~JE{&vHMaaW6)?_%0>{8faTCQQLQVPB`GXYzcJ489DEVUSF0e{{dgj{OKrL$_!6{QnMq6Oj6k88)di-"
    "O%5&Sy0XvTXJ$Zr1U>IIjz6YXzJR0RYS6dee@o;-$gT*x`xnJxGLY!YoZgWIc2%a@ziQZpgDj4OyZumY*_1n"
)
