"""What the page says after each event: values for its components. Work and pictures are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from focalsweep.errors import USER_ERRORS, explain, say
from focalsweep.results.figures import metres
from focalsweep.web import views
from focalsweep.web.jobs import Failed, News, Running
from focalsweep.web.table import rows, source_of
from focalsweep.web.visitors import Visitor
from focalsweep.web.words import CAMERA, WORDS

STAGES = {  # what the page calls them, and the share of the whole that is done when they begin
    "reading": ("Reading the photos", 0.05),
    "aligning": ("Aligning the frames", 0.1),
    "looking": ("Looking for the range of depths", 0.25),
    "refining focus": ("Refining the focus distances", 0.3),
    "sweeping": ("Sweeping the planes", 0.45),
    "network": ("The network reads the planes", 0.45),  # tile by tile, in turn with the sweep: they share a stretch
    "full size": ("Bringing the depth to full size", 0.8),
    "writing": ("Writing the files", 0.9),
}
DEPTH_MODES = ["Read a depth", "Measure a distance"]


@dataclass(frozen=True)
class Parts:
    """The components that change, by what they show."""

    message: Any
    settings: Any
    camera: dict[str, Any]
    reference: Any
    unit: Any
    table: Any
    texts: Any
    toml: Any
    relative: Any
    order: Any
    run: Any
    cancel: Any
    status: Any
    results: Any
    summary: Any
    mode: Any
    depth: Any
    scale: Any
    reading: Any
    curve: Any
    frame: Any
    slider: Any
    focus: Any
    refocused: Any
    focused: Any
    confidence: Any
    confidence_scale: Any
    model_tab: Any
    model: Any
    files: Any

    @property
    def of_settings(self) -> list[Any]:
        shown = [self.message, self.settings, *self.camera.values(), self.reference, self.table, self.toml]
        return [*shown, self.run, self.results, self.status]

    @property
    def of_results(self) -> list[Any]:
        maps = [self.depth, self.scale, self.mode, self.reading, self.curve, self.slider, self.frame, self.focus]
        maps += [self.confidence, self.confidence_scale, self.model, self.files]
        return [self.status, self.run, self.cancel, self.results, self.summary, *maps]


def settings_after(p: Parts, visitor: Visitor, act: Callable[[], Any]) -> dict[Any, Any]:
    """The settings as they are after `act`, or the sentence of what is wrong with it."""
    words = ""
    try:
        act()
    except USER_ERRORS as error:
        words = error_box(explain(error, WORDS))
    settings = visitor.settings
    if settings is None:
        hidden = gr.update(visible=False)
        return {p.message: words, p.settings: hidden, p.run: hidden, p.results: hidden, p.status: ""}
    if not words and settings.notes:
        words = "".join(f'<p class="fs-note">{escape(say(note, WORDS))}</p>' for note in settings.notes)
    shown = visitor.shown.camera
    boxes = {}
    for name, box in p.camera.items():
        value = getattr(settings, name)
        missing = "fs-missing" if value is None else "fs-known"
        boxes[box] = gr.update(value=shown[name], info=source_of(value, factor=CAMERA[name][1]), elem_classes=[missing])
    return boxes | {
        p.message: words,
        p.settings: gr.update(visible=True),
        p.reference: settings.focus_reference,
        p.table: table_of(visitor),
        p.toml: gr.update(value=visitor.toml()),
        p.run: gr.update(visible=True, interactive=not visitor.busy),
        p.results: gr.update(visible=False),
        p.status: "",
    }


def table_of(visitor: Visitor) -> str:
    """The frames with their distances to type into; missing ones are marked."""
    if visitor.settings is None:
        return ""
    lines = ""
    for file, text, source in rows(visitor.settings, visitor.unit):
        name, missing = escape(file), "" if text else ' class="fs-missing"'
        box = f'<input data-file="{name}" value="{escape(text)}" aria-label="Focus distance of {name}">'
        lines += f"<tr{missing}><td>{name}</td><td>{box}</td><td>{escape(source)}</td></tr>"
    start = f'<table class="fs-table" data-unit="{escape(visitor.unit)}">'
    head = f"<tr><th>Photo</th><th>Focus ({escape(visitor.unit)})</th><th>Source</th></tr>"
    return f"{start}<thead>{head}</thead><tbody>{lines}</tbody></table>"


def status(news: News | int) -> str:
    """How far the work is."""
    if isinstance(news, int):
        if news == 0:
            return _progress("Starting", 0.0)
        others = "1 other stack" if news == 1 else f"{news} other stacks"
        return _progress(f"Waiting in line: {others} first", 0.0)
    if isinstance(news, Running):
        words, begins = STAGES.get(news.stage, (news.stage, 0.5))
        ends = min((share for _, share in STAGES.values() if share > begins), default=1.0)
        return _progress(words, begins + (ends - begins) * news.share)
    if isinstance(news, Failed):
        cancelled = news.sentence == "cancelled"
        return '<p class="fs-note">Cancelled.</p>' if cancelled else error_box(say(news.sentence, WORDS))
    return ""


def results_of(p: Parts, visitor: Visitor) -> dict[Any, Any]:
    """Every part of the result."""
    outcome = visitor.outcome
    if outcome is None:
        return {p.status: error_box("the result is gone: estimate the depth again")}
    names = [
        (name if outcome.relative else f"{metres(distance)}   {name}", number)
        for number, (name, distance) in enumerate(zip(outcome.names, outcome.focus_distances, strict=True))
    ]
    return {
        p.status: "",
        p.results: gr.update(visible=True),
        p.summary: views.summary(outcome),
        p.depth: views.depth_view(outcome),
        p.scale: views.depth_scale(outcome),
        p.reading: invitation(DEPTH_MODES[0]),
        p.mode: DEPTH_MODES[0],
        p.curve: "",
        p.slider: (outcome.frames[0], views.sharp_view(outcome)),
        p.frame: gr.update(choices=names, value=0),
        p.focus: 0,
        p.confidence: views.confidence_view(outcome),
        p.confidence_scale: views.confidence_scale(),
        p.model: None,
        p.files: [str(path) for path in outcome.files],
    }


def invitation(mode: str) -> str:
    what = "a point" if mode == DEPTH_MODES[0] else "two points"
    return f'<p class="fs-reading fs-quiet">Click {what} in the picture.</p>'


def error_box(words: str) -> str:
    return f'<p class="fs-error" role="alert">{escape(words)}</p>'


def _progress(words: str, share: float) -> str:
    percent = round(100 * min(max(share, 0.0), 1.0))
    return (
        f'<div class="fs-progress" role="progressbar" aria-valuenow="{percent}" aria-valuemin="0" aria-valuemax="100">'
        f'<p>{escape(words)}</p><div class="fs-bar"><div style="width:{percent}%"></div></div></div>'
    )
