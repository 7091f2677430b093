"""The page: what stands where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from focalsweep.web.answers import DEPTH_MODES, Parts
from focalsweep.web.events import connect
from focalsweep.web.style import TABLE_JAVASCRIPT
from focalsweep.web.table import UNITS
from focalsweep.web.uploads import Uploads
from focalsweep.web.visitors import Visitors
from focalsweep.web.words import CAMERA, LABELS

HEAD = """<h1>focalsweep</h1><p>Depth in metres from photos of one still scene, each focused at another distance.
The photos stay on this computer.</p>"""


def make_page(visitors: Visitors, uploads: Uploads, example: Path) -> Any:
    with gr.Blocks(title="focalsweep", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        gr.HTML(HEAD, padding=False, elem_classes="fs-head")
        gr.HTML('<h2 class="fs-step">Photos</h2>', padding=False)
        drop = gr.File(
            label="Drop the photos here",
            show_label=False,
            file_count="multiple",
            height=150,
            elem_id="fs-drop",
        )
        with gr.Row():
            folder = gr.UploadButton("Choose a folder", file_count="directory", size="sm", min_width=140, scale=0)
            try_example = gr.Button("Try the example", size="sm", min_width=140, scale=0, elem_id="fs-example")
        message = gr.HTML(padding=False, elem_classes="fs-message", elem_id="fs-message")
        parts = Parts(message=message, **_settings_part(), **_run_part(), **_results_part())
        connect(page, parts, visitors, uploads, example, drop, folder, try_example)
    page.queue(default_concurrency_limit=8, max_size=64)
    return page


def _settings_part() -> dict[str, Any]:
    with gr.Column(visible=False, elem_id="fs-settings") as settings:
        gr.HTML('<h2 class="fs-step">Settings</h2>', padding=False)
        camera = {}
        with gr.Row():
            for name in CAMERA:
                camera[name] = gr.Textbox(
                    label=LABELS[name],
                    info=" ",
                    min_width=150,
                    elem_id=f"fs-{name}",
                    max_lines=1,
                )
        with gr.Row():
            unit = gr.Radio(
                list(UNITS), value="m", label=f"{LABELS['focus_distances']} in", min_width=220, elem_id="fs-unit"
            )
            reference = gr.Radio(["lens", "sensor"], value="lens", label=LABELS["focus_reference"], min_width=160)
        table = gr.HTML(elem_id="fs-table", js_on_load=TABLE_JAVASCRIPT)
        texts = gr.Textbox(visible=False)
        toml = gr.DownloadButton("Download stack.toml", size="sm", scale=0, min_width=180, elem_id="fs-toml")
        relative = gr.Checkbox(
            label=f"{LABELS['relative']}: no unit, for focus distances that are unknown, photos in order"
        )
        order = gr.Radio(
            [("near to far", "near-to-far"), ("far to near", "far-to-near"), ("as the photos look", "auto")],
            value="near-to-far", label=LABELS["order"], elem_id="fs-order",
        )  # fmt: skip
    made = {"settings": settings, "camera": camera, "reference": reference, "unit": unit}
    return made | {"table": table, "texts": texts, "toml": toml, "relative": relative, "order": order}


def _run_part() -> dict[str, Any]:
    with gr.Row():
        run = gr.Button("Estimate depth", variant="primary", scale=0, min_width=220, visible=False, elem_id="fs-run")
        cancel = gr.Button("Cancel", scale=0, min_width=120, visible=False, elem_id="fs-cancel")
    return {
        "run": run,
        "cancel": cancel,
        "status": gr.HTML(padding=False, elem_classes="fs-message", elem_id="fs-status"),
    }


def _results_part() -> dict[str, Any]:
    made: dict[str, Any] = {}
    plain: dict[str, Any] = {
        "show_label": False,
        "interactive": False,
        "buttons": [],
        "format": "png",
        "elem_classes": "fs-picture",
    }
    with gr.Column(visible=False, elem_id="fs-results") as made["results"]:
        gr.HTML('<h2 class="fs-step">Result</h2>', padding=False)
        made["summary"] = gr.HTML(padding=False, elem_id="fs-summary")
        with gr.Tabs():
            with gr.Tab("Depth"), gr.Row():
                with gr.Column(scale=3, min_width=320):
                    made["depth"] = gr.Image(**plain, label="Depth", elem_id="fs-depth")
                    made["scale"] = gr.HTML(padding=False)
                with gr.Column(scale=2, min_width=260):
                    made["mode"] = gr.Radio(
                        DEPTH_MODES, value=DEPTH_MODES[0], label="A click in the picture will", elem_id="fs-mode"
                    )
                    made["reading"] = gr.HTML(padding=False, elem_id="fs-reading")
                    made["curve"] = gr.HTML(padding=False, elem_id="fs-curve")
            with gr.Tab("Sharp picture"):
                made["slider"] = gr.ImageSlider(
                    show_label=False, interactive=False, buttons=[], format="png", elem_id="fs-slider"
                )
                made["frame"] = gr.Dropdown([], label="Left: one photo; right: sharp all over", elem_id="fs-frame")
            with gr.Tab("Refocus"):
                made["refocused"] = gr.Image(**plain, label="Refocused", elem_id="fs-refocused")
                made["focus"] = gr.Slider(0, 100, value=0, step=1, label="Focus, near to far", elem_id="fs-focus")
                made["focused"] = gr.HTML(padding=False, elem_id="fs-focused")
            with gr.Tab("Confidence"):
                made["confidence"] = gr.Image(**plain, label="Confidence", elem_id="fs-confidence")
                made["confidence_scale"] = gr.HTML(padding=False)
            with gr.Tab("3D model") as made["model_tab"]:
                made["model"] = gr.Model3D(
                    show_label=False, interactive=False, clear_color=(0, 0, 0, 0), height=460, elem_id="fs-model"
                )
            with gr.Tab("Downloads"):
                made["files"] = gr.File(file_count="multiple", interactive=False, show_label=False, elem_id="fs-files")
    return made
