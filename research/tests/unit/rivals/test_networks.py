"""The rivals' networks: sizes as published, shapes, orders, limits, and weights from files."""

import re
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch
from torch import nn

import focalsweep
from focalsweep import Camera, DepthGrid, FocalStack
from focalsweep.methods.method import uninformed
from focalsweep.methods.registry import GROUP, all_methods
from focalsweep_research.rivals.answer import Answer, FrameCountError, near_to_far
from focalsweep_research.rivals.networks import NETWORKS, VARIABLE, build, find_weights, load, predict, save
from tests.errors import assert_one_sentence, message_of

PUBLISHED_MILLIONS = {"ddff": 40.0, "defocusnet": 3.7, "aifdepthnet": 16.5, "aifdepthnet-aif": 16.5}
TINY = {
    "ddff": {"frames": 3, "width": 2},
    "defocusnet": {"width": 2},
    "aifdepthnet": {"width": 0.05, "frames": 3},
    "aifdepthnet-aif": {"width": 0.05, "frames": 3},
}
CAMERA = Camera(0.05, 2.8, 6e-5)
DISTANCES = (0.8, 1.2, 2.0)


def tiny(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build(name, **TINY[name]).eval()


def a_stack(height: int = 20, width: int = 27, channels: int = 3, seed: int = 0) -> FocalStack:
    images = torch.rand((1, 3, channels, height, width), generator=torch.Generator().manual_seed(seed))
    return FocalStack(images, DISTANCES, CAMERA).as_batch()


def in_order(stack: FocalStack, order: list[int]) -> FocalStack:
    return FocalStack(stack.images[:, order], stack.focus_distances[:, order], CAMERA).as_batch()


@pytest.mark.parametrize("name", NETWORKS)
def test_as_many_parameters_as_published(name: str) -> None:
    with torch.device("meta"):
        network = build(name)
    millions = sum(p.numel() for p in network.parameters()) / 1e6
    print(f"{name}: {millions:.2f} M, published {PUBLISHED_MILLIONS[name]} M")
    assert millions == pytest.approx(PUBLISHED_MILLIONS[name], rel=0.02)


@pytest.mark.parametrize("name", NETWORKS)
def test_any_size_and_any_order_of_frames(name: str) -> None:
    network, stack = tiny(name), a_stack()
    planes = DepthGrid.around(stack, 8)
    prediction = predict(network, stack, planes)
    assert prediction.depth.shape == (1, 20, 27)
    assert torch.isfinite(prediction.std).all() and (prediction.std > 0).all()
    assert (prediction.confidence >= 0).all() and (prediction.confidence <= 1).all()
    turned = predict(network, in_order(stack, [2, 0, 1]), planes)
    torch.testing.assert_close(turned.depth, prediction.depth)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_weight_has_a_gradient(name: str) -> None:
    network = tiny(name).train()
    answer: Answer = network(*near_to_far(a_stack(32, 32)))
    parts = (answer.depth, answer.blur, answer.sharp, answer.disparity, answer.metres)
    sum((part.square().sum() for part in parts if part is not None), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None and torch.isfinite(weight.grad).all(), key
    touched = [bool(weight.grad.abs().sum() > 0) for weight in network.parameters() if weight.grad is not None]
    assert sum(touched) > 0.8 * len(touched)  # tiny layers may have died behind a ReLU


def test_two_say_their_number_of_frames_and_defocusnet_takes_any() -> None:
    images = torch.rand(1, 2, 3, 16, 16)
    stack = FocalStack(images, DISTANCES[:2], CAMERA).as_batch()
    planes = DepthGrid.around(stack, 4)
    for name, title in (("ddff", "DDFF"), ("aifdepthnet", "AiFDepthNet")):
        words = message_of(lambda name=name: predict(tiny(name), stack, planes), FrameCountError)  # type: ignore[misc]
        assert_one_sentence(words, title, "3 frames", "has 2", "network_options.frames")
    assert predict(tiny("defocusnet"), stack, planes).depth.shape == (1, 16, 16)


def test_ddff_does_not_see_distances_and_the_others_do() -> None:
    stack = a_stack()
    other = FocalStack(stack.images, (0.5, 0.6, 5.0), CAMERA).as_batch()
    planes = DepthGrid.around(stack, 4)
    for name in ("ddff", "defocusnet", "aifdepthnet"):
        network = tiny(name)
        if name == "defocusnet":  # untrained, it may say less than nothing, which is cut
            first, second = (network(*near_to_far(s)).metres for s in (stack, other))
        else:
            first, second = (predict(network, s, planes).depth for s in (stack, other))
        assert torch.allclose(first, second) == (name == "ddff"), name


def test_defocusnet_joins_the_frames_by_their_maximum() -> None:
    """A frame twice changes no maximum, so no answer."""
    network, stack = tiny("defocusnet"), a_stack()
    pictures, distances = near_to_far(stack)
    twice = [0, 1, 2, 2]
    once, again = network(pictures, distances), network(pictures[:, twice], distances[:, twice])
    torch.testing.assert_close(once.metres, again.metres)
    torch.testing.assert_close(once.blur, again.blur[:, :3])


def test_defocusnet_knows_how_far_its_frames_are_focused() -> None:
    """The same pictures, focused twice as far away, are another stack."""
    network, stack = tiny("defocusnet"), a_stack()
    pictures, distances = near_to_far(stack)
    near, far = network(pictures, distances), network(pictures, 2 * distances)
    torch.testing.assert_close(near.blur, far.blur)
    assert not torch.allclose(near.metres, far.metres)


def test_aifdepthnet_answers_between_its_frames() -> None:
    stack = a_stack()
    network = tiny("aifdepthnet")
    answer: Answer = network(*near_to_far(stack))
    assert answer.sharp is not None
    assert min(DISTANCES) < answer.depth.min() and answer.depth.max() < max(DISTANCES)
    pictures, _ = near_to_far(stack)
    assert (answer.sharp <= pictures.amax(1) + 1e-6).all() and (answer.sharp >= pictures.amin(1) - 1e-6).all()
    # With a level volume both attentions are even: the mean distance, the mean picture, the distances' own spread.
    nn.init.zeros_(network.last.weight)  # type: ignore[union-attr,arg-type]
    level: Answer = network(*near_to_far(stack))
    assert level.sharp is not None and level.std is not None
    torch.testing.assert_close(level.depth, torch.full_like(level.depth, sum(DISTANCES) / 3))
    torch.testing.assert_close(level.sharp, pictures.mean(1))
    spread = torch.tensor(DISTANCES).std(correction=0).item()
    torch.testing.assert_close(level.std, torch.full_like(level.std, spread))


def test_infinity_and_gray_are_ordinary() -> None:
    stack = FocalStack(torch.rand(1, 3, 1, 16, 16), (0.5, 1.0, float("inf")), CAMERA).as_batch()
    pictures, distances = near_to_far(stack)
    assert pictures.shape == (1, 3, 3, 16, 16)
    assert distances.tolist() == [[0.5, 1.0, 10.0]]
    far = FocalStack(stack.images, (0.1, 5.0, float("inf")), CAMERA).as_batch()
    torch.testing.assert_close(near_to_far(far)[1], torch.tensor([[0.1, 5.0, 10.0]]))  # what is finite stays
    for name in NETWORKS:
        assert torch.isfinite(predict(tiny(name), stack, DepthGrid.around(stack, 4)).depth).all()


def test_a_method_that_is_not_sure_says_so() -> None:
    planes = DepthGrid.uniform_in_inverse_depth(0.5, 2.0, 31)
    prediction = uninformed(torch.full((1, 2, 2), 1.0), planes)
    assert prediction.std.mean().item() == pytest.approx(1.5 / 12**0.5, rel=1e-5)
    assert prediction.confidence.mean().item() == pytest.approx(3 / 31, rel=1e-5)


def test_weights_from_safetensors_and_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, stack = tiny("defocusnet", seed=5), a_stack()
    save(network, tmp_path / "defocusnet.safetensors", **TINY["defocusnet"])
    run = tmp_path / "runs" / "defocusnet"
    run.mkdir(parents=True)
    config = {"network": "defocusnet", "network_options": TINY["defocusnet"]}
    torch.save({"ema": network.state_dict(), "config": config}, run / "checkpoint.pt")
    expected = predict(network, stack, DepthGrid.around(stack, 4)).depth
    for path in (tmp_path / "defocusnet.safetensors", run, run / "checkpoint.pt"):
        found = predict(load("defocusnet", path), stack, DepthGrid.around(stack, 4)).depth
        torch.testing.assert_close(found, expected)
    for folder in (tmp_path, tmp_path / "runs"):
        monkeypatch.setenv(VARIABLE, str(folder))
        result = focalsweep.estimate_depth(stack, "defocusnet", planes=DepthGrid.around(stack, 4))
        torch.testing.assert_close(torch.from_numpy(result.depth), expected)
    assert find_weights("defocusnet") == run / "checkpoint.pt"


def test_missing_and_wrong_weights_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = a_stack()
    monkeypatch.delenv(VARIABLE, raising=False)
    words = message_of(lambda: focalsweep.estimate_depth(stack, "ddff"), FileNotFoundError)
    assert_one_sentence(words, "focalsweep train research/configs/ddff.toml", VARIABLE)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    words = message_of(lambda: find_weights("ddff"), FileNotFoundError)
    assert_one_sentence(words, str(tmp_path / "ddff.safetensors"))
    save(tiny("defocusnet"), tmp_path / "a.safetensors", width=2)
    save(tiny("defocusnet"), tmp_path / "b.safetensors", width=4)
    (tmp_path / "c.safetensors").write_bytes(b"nothing")
    (tmp_path / "d.pt").write_bytes(b"nothing")
    torch.save({"ema": {}, "config": {"network": "ddff", "network_options": {}}}, tmp_path / "e.pt")
    for name, file, part in (
        ("aifdepthnet", "a.safetensors", "another network"),
        ("defocusnet", "b.safetensors", "network_options"),
        ("defocusnet", "c.safetensors", "no safetensors file"),
        ("defocusnet", "d.pt", "no checkpoint"),
        ("defocusnet", "e.pt", "holds ddff"),
    ):
        assert_one_sentence(message_of(partial(load, name, tmp_path / file), ValueError), part, file)
    with pytest.raises(ValueError, match="it is one of ddff"):
        build("resnet")


def test_names_agree() -> None:
    """Every network is a method of the registry, and no rival hides one of ours."""
    ours = ("sweep", "argmin", "paper", "focus_measure")
    rivals = [name for name in all_methods() if name not in ours]
    assert tuple(all_methods())[: len(ours)] == ours
    assert set(NETWORKS) | {"suwajanakorn", "flat"} == set(rivals)
    entries = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    assert all(entries[name] is all_methods()[name] and entries[name].name == name for name in rivals)
    light = {name for name, method in all_methods().items() if not method.reads_displayed}
    assert light == {"sweep", "argmin", "suwajanakorn", "flat"}


def test_the_document_has_every_rival() -> None:
    text = (Path(__file__).parents[4] / "docs" / "baselines.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)
    assert set(rows) | {"sweep", "argmin", "paper", "flat"} == set(all_methods()) and len(set(rows)) == len(rows)


@pytest.mark.parametrize("name", NETWORKS)
def test_depth_has_all_its_digits_under_autocast(name: str) -> None:
    """What the last layer gave in half precision would be a number of half precision."""
    network = tiny(name)
    read = {"ddff": "disparity", "defocusnet": "metres"}.get(name, "depth")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        maps = getattr(network(*near_to_far(a_stack())), read)
    assert maps.dtype == torch.float32
    assert (maps.bfloat16().float() != maps).float().mean() > 0.9
