"""The one list of methods: names with settings, functions, those of other packages."""

import math
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

from focalsweep import DepthGrid, DepthPrediction, FocalStack, Options, estimate_depth, register_method
from focalsweep.estimate import predict
from focalsweep.methods import registry
from focalsweep.methods.method import Method, uninformed
from focalsweep.methods.registry import all_methods, choose_method, describe_methods
from tests.errors import assert_one_sentence, message_of
from tests.rendering import render_plane

GRID = DepthGrid.uniform_in_inverse_depth(0.5, 2.0, 64)


def wall(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    distance = float(options.settings.get("at", 1.5))
    return uninformed(torch.full((len(stack.images), *stack.size), distance), planes)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


def test_ours_come_first_and_say_what_they_do() -> None:
    names = list(all_methods())
    assert names[:4] == ["sweep", "argmin", "paper", "focus_measure"]
    assert all(method.name == name and method.about for name, method in all_methods().items())
    assert all(f"{name}: " in describe_methods() for name in names)


def test_settings_of_planes() -> None:
    assert choose_method("sweep").grid() is None and choose_method("sweep").grid(GRID) is GRID
    choice = choose_method("argmin:planes=80,psf=sampled")
    assert (choice.label, choice.plane_count) == ("argmin:planes=80,psf=sampled", 80)
    assert choice.settings == {"psf": "sampled"}
    finer = choice.grid(GRID)
    assert finer is not None and finer.count == 80
    assert finer.depths[[0, -1]].tolist() == pytest.approx([0.5, 2.0])
    papers = choose_method("paper:range=0.1-3,spacing=depth,size=full").grid(GRID)
    assert papers is not None and torch.equal(papers.depths, DepthGrid.uniform_in_depth().depths)
    endless = choose_method("sweep:range=0.5-inf").grid()
    assert endless is not None and endless.depths[-1] == math.inf


def test_settings_change_what_a_method_does() -> None:
    stack = render_plane("dslr", 1.3, size=40).stack
    disk, sampled = (predict(stack, name, GRID).depth for name in ("argmin", "argmin:psf=sampled"))
    assert not torch.equal(disk, sampled)
    of_paper = predict(stack, "argmin:cost=paper", GRID)
    assert not torch.equal(of_paper.depth, disk) and of_paper.confidence.unique().numel() == 1
    result = estimate_depth(stack, "argmin:planes=16,range=0.9-2")
    assert result.planes.count == 16 and result.record["method"] == "argmin:planes=16,range=0.9-2"
    assert result.depth.min() >= 0.9 - 1e-6 and result.depth.max() <= 2 + 1e-6


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("swep", ["'swep'", "sweep, argmin"]),
        ("sweep:psf", ["sweep", "'psf'", "spacing, psf"]),
        ("sweep:size=full", ["'size=full'", "planes, range"]),
        ("sweep:psf=square", ["psf", "disk or sampled", "'square'"]),
        ("sweep:planes=1", ["planes", "2 to 512", "'1'"]),
        ("sweep:planes=many", ["planes", "'many'"]),
        ("sweep:range=3-1", ["range", "0.1-3", "'3-1'"]),
        ("sweep:range=near-far", ["range", "'near-far'"]),
    ],
)
def test_what_is_no_method_gets_one_sentence(method: str, words: list[str]) -> None:
    assert_one_sentence(message_of(lambda: choose_method(method), ValueError), *words)


def test_neither_name_nor_function() -> None:
    bad: Any = 3
    assert_one_sentence(message_of(lambda: choose_method(bad), TypeError), "method", "3")


def test_a_registered_function_is_known_everywhere() -> None:
    register_method("wall", wall, about="a wall", settings={"at": ((), "metres")})
    stack = render_plane("dslr", 1.3, size=24).stack
    assert (estimate_depth(stack, "wall").depth == 1.5).all()
    assert (estimate_depth(stack, "wall:at=2.5,planes=8").depth == 2.5).all()
    assert "wall: a wall" in describe_methods()
    for name, words in (("wall", ["wall", "already", "another name"]), ("a wall", ["letters", "'a wall'"]), ("", [])):
        assert_one_sentence(message_of(lambda name=name: register_method(name, wall), ValueError), *words)  # type: ignore[misc]


def test_methods_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """By entry point; one that cannot be loaded is told and does not take the others along."""
    entries = [
        EntryPoint("wall", f"{__name__}:wall", registry.GROUP),
        EntryPoint("whole", f"{__name__}:WHOLE", registry.GROUP),
        EntryPoint("sweep", f"{__name__}:wall", registry.GROUP),  # ours stays ours
        EntryPoint("broken", "no_such_package:method", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    registry._of_other_packages.cache_clear()
    try:
        with pytest.warns(UserWarning, match="broken of another package"):
            found = all_methods()
        assert found["wall"].predict is wall and found["whole"] is WHOLE
        assert found["sweep"].predict is not wall and "broken" not in found
    finally:
        registry._of_other_packages.cache_clear()


WHOLE = Method("whole", "a method with all its parts", wall, weights=("sweepnet",))
