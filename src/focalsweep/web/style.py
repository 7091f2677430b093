"""How the page looks: fonts of this computer, one accent, light and dark; and a crosshair for the keyboard."""

from __future__ import annotations

from typing import Any

FONT = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Menlo", "DejaVu Sans Mono", "monospace")

CSS = """
:root { --body-text-color-subdued: #475569; --fs-accent: var(--primary-700); --fs-wrong: #c2410c; }
.dark { --body-text-color-subdued: #a3b1c6; --fs-accent: var(--primary-400); --fs-wrong: #fb923c; }
.gradio-container { width: 100%; max-width: min(1000px, 100vw) !important; margin: 0 auto !important; }
.gradio-container { padding: 24px 20px 48px !important; overflow-x: clip; }
.gradio-container :is(.main, .wrap, .contain, .column, .tabs, .tabitem, .tab-wrapper) { min-width: 0; max-width: 100%; }
.gradio-container .html-container { padding: 0 !important; }
.fs-head h1 { font-size: 1.5rem; font-weight: 650; letter-spacing: -0.01em; margin: 0 0 2px; }
.fs-head p { color: var(--body-text-color-subdued); margin: 0; max-width: 70ch; }
.fs-step { font-size: 1.05rem; font-weight: 600; margin: 18px 0 0; }
.fs-message:not(:has(p)), .fs-message .wrap { display: none !important; }
.fs-message p + p { margin-top: 6px !important; }
.fs-error, .fs-note { border-left: 3px solid; padding: 8px 12px; border-radius: 4px; margin: 0;
  overflow-wrap: anywhere; }
.fs-error { border-color: var(--fs-wrong); background: color-mix(in srgb, var(--fs-wrong) 12%, transparent); }
.fs-note { border-color: var(--primary-500); background: color-mix(in srgb, var(--primary-500) 10%, transparent); }
.fs-notes { color: var(--body-text-color-subdued); margin: 4px 0 0; padding-left: 18px; overflow-wrap: anywhere; }
.fs-progress p { margin: 0 0 6px; }
.fs-progress .fs-bar { height: 6px; border-radius: 3px; background: var(--border-color-primary); overflow: hidden; }
.fs-progress .fs-bar div { height: 100%; background: var(--primary-500); transition: width 0.2s; }
.fs-missing input, .fs-missing textarea { box-shadow: inset 0 0 0 2px var(--fs-wrong) !important; }
.fs-table { width: 100%; border-collapse: collapse; margin: 0; table-layout: fixed; border: 0 !important; }
.fs-table :is(th, td) { text-align: left; padding: 5px 8px 5px 0 !important; border: 0 !important; }
.fs-table tr { border: 0 !important; border-bottom: 1px solid var(--border-color-primary) !important; }
.fs-table th { font-weight: 600; }
.fs-table td { overflow-wrap: anywhere; }
.fs-table td:last-child { color: var(--body-text-color-subdued); }
.fs-table input { width: 100%; max-width: 10em; padding: 4px 8px; border-radius: 4px; color: inherit;
  border: 1px solid var(--border-color-primary); background: var(--input-background-fill); }
.fs-table input:focus { outline: 2px solid var(--primary-500); outline-offset: -1px; }
#fs-results button[role="tab"][aria-selected="true"] { color: var(--fs-accent); }
#fs-results .tab-container.visually-hidden { width: 0; overflow: hidden; }
#fs-results .tab-wrapper { width: min(940px, calc(100vw - 30px)); }
#fs-files .label-clear-button, #fs-files td.action { display: none; }
.fs-scale > div:first-child { height: 12px; border-radius: 3px; }
.fs-ticks { position: relative; height: 1.5em; margin-top: 2px; font-size: 0.85rem; }
.fs-ticks span { position: absolute; white-space: nowrap; font-variant-numeric: tabular-nums; }
.fs-reading { font-size: 1.05rem; margin: 4px 0; font-variant-numeric: tabular-nums; }
.fs-reading b { font-size: 1.3rem; }
.fs-reading span, .fs-quiet { color: var(--body-text-color-subdued); }
.fs-reading span { margin-left: 10px; }
.fs-curve { margin: 4px 0 0; }
.fs-curve figcaption { color: var(--body-text-color-subdued); font-size: 0.85rem; margin-bottom: 6px; }
.fs-curve svg { width: 100%; height: 120px; display: block; border-bottom: 1px solid var(--border-color-primary); }
.fs-curve polyline { fill: none; stroke: var(--body-text-color); stroke-width: 1.6; vector-effect: non-scaling-stroke; }
.fs-curve line { stroke: var(--primary-500); stroke-width: 2; vector-effect: non-scaling-stroke; }
.fs-curve div { display: flex; justify-content: space-between; font-size: 0.85rem; }
.fs-picture :is(.image-frame, img) { width: 100% !important; height: auto !important; max-height: none; }
.fs-picture img { object-fit: contain !important; }
:is(#fs-refocused, #fs-confidence) { max-width: 720px; }
#fs-drop button .wrap { font-size: 0; gap: 10px; }
#fs-drop button .wrap::after { content: "Drop the photos here, or click to choose them"; font-size: 1rem; }
#fs-drop button .wrap .or { display: none; }
#fs-depth img { cursor: crosshair; }
.gradio-container :is(button, input, textarea, a, [tabindex]):focus-visible {
  outline: 2px solid var(--fs-accent) !important; outline-offset: 2px; }
.fs-cross { position: fixed; width: 17px; height: 17px; margin: -8px 0 0 -8px; pointer-events: none; z-index: 50;
  background: linear-gradient(#fff, #fff) center / 17px 3px no-repeat, linear-gradient(#fff, #fff) center / 3px 17px
  no-repeat; filter: drop-shadow(0 0 2px #000); }
"""

# In the head of the page: Gradio rewrites the selectors of its own CSS, and breaks those of narrow screens.
NARROW = """
<style>
@media (max-width: 640px) {
  .gradio-container.gradio-container { padding: 12px 6px 32px !important; }
  .gradio-container .main.main { padding-left: 8px !important; padding-right: 8px !important; }
  .fs-head h1 { font-size: 1.3rem !important; }
  #fs-run, #fs-cancel { flex: 1 1 100% !important; }
}
</style>
"""
# Rows mark themselves at once: the server sends a new table only where rows must move, as somebody may be typing.
TABLE_JAVASCRIPT = """
element.addEventListener("change", (event) => {
  const row = event.target.closest("tr");
  if (!row) return;
  const typed = event.target.value.trim() !== "";
  row.classList.toggle("fs-missing", !typed);
  row.lastElementChild.textContent = typed ? "typed in" : "";
  trigger("input");
});
"""
# Puts the texts of the table, and their unit, in place of the first input of an event.
COLLECT = """
(first, ...others) => [JSON.stringify({
  unit: document.querySelector("#fs-table table")?.dataset.unit,
  rows: [...document.querySelectorAll("#fs-table input")].map((box) => [box.dataset.file, box.value]),
}), ...others]
"""

# Arrow keys move a cross over the depth picture, Enter clicks there.
JAVASCRIPT = """
<script>
(() => {
  let at = { x: 0.5, y: 0.5 };
  const holder = () => document.getElementById("fs-depth");
  const image = () => holder() && holder().querySelector("img");
  const place = () => {
    const box = image().getBoundingClientRect();
    return { x: box.left + at.x * box.width, y: box.top + at.y * box.height };
  };
  const draw = () => {
    let cross = document.querySelector(".fs-cross");
    if (!image() || document.activeElement !== holder()) { if (cross) cross.remove(); return; }
    if (!cross) { cross = document.createElement("div"); cross.className = "fs-cross"; document.body.append(cross); }
    const point = place();
    cross.style.left = point.x + "px"; cross.style.top = point.y + "px";
  };
  const ready = () => {
    const frame = holder(), within = frame && frame.querySelector("button");
    if (within && within.tabIndex !== -1) within.tabIndex = -1;  // one stop of Tab is enough
    if (!frame || frame.dataset.keys) return;
    frame.dataset.keys = "1"; frame.tabIndex = 0;
    frame.setAttribute("role", "application");
    frame.setAttribute("aria-label", "Depth picture: arrow keys move the cross, Enter reads the depth there");
    frame.addEventListener("focus", draw); frame.addEventListener("blur", draw);
    frame.addEventListener("keydown", (event) => {
      if (event.target !== frame || !image()) return;
      const step = event.shiftKey ? 0.1 : 0.01;
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (moves[event.key]) {
        at = { x: Math.min(0.999, Math.max(0.001, at.x + step * moves[event.key][0])),
               y: Math.min(0.999, Math.max(0.001, at.y + step * moves[event.key][1])) };
        draw(); event.preventDefault();
      } else if (event.key === "Enter" || event.key === " ") {
        const point = place();
        image().dispatchEvent(new MouseEvent("click",
          { bubbles: true, clientX: point.x, clientY: point.y, view: window }));
        event.preventDefault();
      }
    });
  };
  addEventListener("scroll", draw, true); addEventListener("resize", draw);
  new MutationObserver(ready).observe(document.documentElement, { childList: true, subtree: true });
})();
</script>
"""


def theme() -> Any:
    """Gradio's base theme with this computer's fonts: nothing is fetched."""
    from gradio.themes import Base

    base = Base(primary_hue="teal", neutral_hue="slate", font=FONT, font_mono=MONO, radius_size="sm")
    strong = {"button_primary_background_fill": "*primary_700", "button_primary_background_fill_hover": "*primary_800"}
    return base.set(**strong, **{f"{name}_dark": value for name, value in strong.items()})
