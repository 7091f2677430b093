"""The picture at the top of the README: python examples/demo_figure.py docs/demo.png ."""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import focalsweep
from focalsweep.photos.demo import DEMO_STACK


def main(target: str) -> None:
    result = focalsweep.estimate_depth(DEMO_STACK)
    sharp = focalsweep.linear_to_srgb(torch.from_numpy(result.all_in_focus)).numpy()
    figure = Figure(figsize=(12, 3.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 4)
    panels = [
        ("nearest focus, 0.38 m", np.asarray(Image.open(DEMO_STACK / "frame_0.png"))),
        ("farthest focus, 1.12 m", np.asarray(Image.open(DEMO_STACK / "frame_6.png"))),
        ("sharp all over", np.clip(sharp, 0, 1)),
    ]
    for panel, (title, pixels) in zip(axes[:3], panels, strict=True):
        panel.imshow(pixels)
        panel.set_title(title, fontsize=10)
    image = axes[3].imshow(1 / result.depth, cmap="turbo", vmin=1 / 1.2, vmax=1 / 0.36)
    axes[3].set_title("depth", fontsize=10)
    ticks = [0.4, 0.5, 0.6, 0.8, 1.1]
    bar = figure.colorbar(image, ax=axes[3], ticks=[1 / tick for tick in ticks])
    bar.ax.set_yticklabels([f"{tick:g} m" for tick in ticks])
    for panel in axes:
        panel.set_axis_off()
    figure.savefig(Path(target))


if __name__ == "__main__":
    main(sys.argv[1])
