"""What happens at which click."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from focalsweep.errors import USER_ERRORS, explain
from focalsweep.web import views
from focalsweep.web.answers import (
    DEPTH_MODES,
    Parts,
    error_box,
    invitation,
    results_of,
    settings_after,
    status,
    table_of,
)
from focalsweep.web.jobs import Done, Failed
from focalsweep.web.limits import of_a_folder
from focalsweep.web.style import COLLECT
from focalsweep.web.table import UNITS, Typed, rows
from focalsweep.web.uploads import Uploads
from focalsweep.web.visitors import Visitor, Visitors
from focalsweep.web.words import CAMERA, WORDS

OPENING_SECONDS = 0.4  # of a tab
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def connect(
    page: gr.Blocks, p: Parts, visitors: Visitors, uploads: Uploads, example: Path, drop: Any, folder: Any, button: Any
) -> None:
    """Every event of the page."""

    def of(request: gr.Request) -> Visitor:
        return visitors.of(request.session_hash)

    def take(files: list[str] | None, request: gr.Request) -> dict[Any, Any]:
        visitor, paths = of(request), [Path(file) for file in files or []]
        with uploads.claimed(paths):
            return {drop: None} | settings_after(p, visitor, lambda: visitor.take(paths) if paths else None)

    def take_folder(files: list[str] | None, request: gr.Request) -> dict[Any, Any]:
        visitor, paths = of(request), [Path(file) for file in files or []]
        with uploads.claimed(paths):
            return settings_after(p, visitor, lambda: visitor.take(of_a_folder(paths)))

    def take_example(request: gr.Request) -> dict[Any, Any]:
        visitor = of(request)
        return settings_after(p, visitor, lambda: visitor.take_example(example))

    def change(request: gr.Request, texts: str, reference: str, *camera: str) -> dict[Any, Any]:
        visitor, typed = of(request), _typed(texts, camera)
        with visitor.changing:
            before = visitor.given
            shown = settings_after(p, visitor, lambda: visitor.change(typed, reference))
            left_alone = [p.results, p.status]
            if visitor.given == before or _says_the_same(visitor, typed):  # somebody may be typing in it
                left_alone.append(p.table)
        return {part: value for part, value in shown.items() if part not in left_alone}

    def change_unit(request: gr.Request, texts: str, unit: str, *others: str) -> dict[Any, Any]:
        visitor = of(request)
        with visitor.changing:
            shown = change(request, texts, *others)  # what was typed in the unit before counts
            visitor.unit = unit
            return shown | {p.table: table_of(visitor)}

    async def run(request: gr.Request, texts: str, reference: str, *others: Any) -> AsyncIterator[dict[Any, Any]]:
        visitor = of(request)
        visitor.has_news = False
        try:
            *camera, relative, order = others
            # In a thread: others are served meanwhile.
            await asyncio.to_thread(visitor.change, _typed(texts, camera), reference)
        except USER_ERRORS as error:
            yield {p.status: error_box(explain(error, WORDS))}
            return
        begun: dict[Any, Any] = {
            p.run: gr.update(interactive=False),
            p.cancel: gr.update(visible=True),
            p.results: gr.update(visible=False),
        }
        async for news in visitor.run(bool(relative), str(order)):
            if isinstance(news, Done):
                visitor.has_news = True
            elif isinstance(news, Failed):
                yield {p.status: status(news)}
            else:
                yield {p.status: status(news)} | begun
                begun = {}

    def finish(request: gr.Request) -> dict[Any, Any]:
        visitor = of(request)
        shown = results_of(p, visitor) if visitor.has_news else {}
        visitor.has_news = False
        return shown | {p.run: gr.update(interactive=True), p.cancel: gr.update(visible=False)}

    def click(mode: str, event: gr.SelectData, request: gr.Request) -> dict[Any, Any]:
        visitor = of(request)
        outcome, stack = visitor.outcome, visitor.stack
        if outcome is None or stack is None:
            return {p.reading: ""}
        mark = views.mark_at(outcome, *event.index)
        if mode == DEPTH_MODES[0]:
            visitor.marks = [mark]
            shown = {p.reading: views.reading(outcome, mark), p.curve: views.cost_curve_view(outcome, stack, mark)}
        else:
            visitor.marks = [mark] if len(visitor.marks) != 1 else [*visitor.marks, mark]
            shown = {p.reading: views.ruler(outcome, visitor.marks), p.curve: ""}
        return shown | {p.depth: views.depth_view(outcome, visitor.marks)}

    def change_mode(mode: str, request: gr.Request) -> dict[Any, Any]:
        visitor = of(request)
        visitor.marks = []
        outcome = visitor.outcome
        if outcome is None:
            return {p.reading: ""}
        return {p.depth: views.depth_view(outcome), p.reading: invitation(mode), p.curve: ""}

    def change_frame(number: int | None, request: gr.Request) -> Any:
        outcome = of(request).outcome
        if outcome is None or number is None:
            return None
        return outcome.frames[min(max(int(number), 0), len(outcome.frames) - 1)], views.sharp_view(outcome)

    def change_focus(share: float, request: gr.Request) -> Any:
        outcome = of(request).outcome
        return (None, "") if outcome is None else views.refocused(outcome, share / 100)

    async def show_model(request: gr.Request) -> str | None:
        # Only once its tab is open: Gradio's viewer shows nothing that it was given while hidden, or being built.
        await asyncio.sleep(OPENING_SECONDS)
        outcome = of(request).outcome
        path = outcome.file("mesh.glb") if outcome else None
        return None if path is None else str(path)

    def cancel(request: gr.Request) -> None:
        of(request).cancel()

    def leave(request: gr.Request) -> None:
        visitors.leave(request.session_hash)

    typed = [p.texts, p.reference, *p.camera.values()]
    drop.upload(take, [drop], [drop, *p.of_settings], **PRIVATE)
    folder.upload(take_folder, [folder], p.of_settings, **PRIVATE)
    button.click(take_example, None, p.of_settings, **PRIVATE)
    edits = [p.table.input, p.reference.input]
    edits += [event for box in p.camera.values() for event in (box.blur, box.submit)]
    gr.on(edits, change, typed, p.of_settings, js=COLLECT, trigger_mode="always_last", **PRIVATE)
    p.unit.change(change_unit, [p.texts, p.unit, *typed[1:]], p.of_settings, js=COLLECT, **PRIVATE)
    working = p.run.click(
        run,
        [*typed, p.relative, p.order],
        p.of_results,
        js=COLLECT,
        concurrency_limit=None,
        trigger_mode="once",
        **PRIVATE,
    )
    # Once it has ended, not with its last news: until then Gradio drops a click on the button without a word, and at
    # the end it shows the last news again, over whatever a click on the picture has shown since.
    finished = working.then(finish, None, p.of_results, concurrency_limit=None, **PRIVATE)
    finished.then(change_focus, [p.focus], [p.refocused, p.focused], concurrency_id="refocus", **PRIVATE)
    p.cancel.click(cancel, None, None, **PRIVATE)
    p.depth.select(click, [p.mode], [p.depth, p.reading, p.curve], **PRIVATE)
    p.mode.change(change_mode, [p.mode], [p.depth, p.reading, p.curve], **PRIVATE)
    p.model_tab.select(show_model, None, [p.model], **PRIVATE)
    p.frame.input(change_frame, [p.frame], [p.slider], **PRIVATE)
    sliding: dict[str, Any] = {"concurrency_id": "refocus", "trigger_mode": "always_last", **PRIVATE}
    p.focus.input(change_focus, [p.focus], [p.refocused, p.focused], **sliding)
    page.unload(leave)


def _typed(texts: str, camera: Sequence[str]) -> Typed:
    """What the browser sends: the table as COLLECT wrote it, and the boxes of the camera."""
    boxes = dict(zip(CAMERA, camera, strict=True))
    try:
        sent = json.loads(texts or "{}")
        if sent["unit"] in UNITS:
            return Typed(boxes, [(str(file), str(text)) for file, text in sent["rows"]], sent["unit"])
    except (ValueError, TypeError, KeyError):  # not from our script
        pass
    return Typed(boxes, [])


def _says_the_same(visitor: Visitor, typed: Typed) -> bool:
    """Whether the rows that were sent are those that would be shown."""
    if visitor.settings is None or typed.unit != visitor.unit:
        return False
    shown = [tuple(row[:2]) for row in rows(visitor.settings, visitor.unit)]
    return shown == [(file, text.strip().replace(",", ".")) for file, text in typed.frames]
