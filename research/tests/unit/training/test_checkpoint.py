"""Checkpoints: whole or not at all, and never executed."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from research.tests.unit.training.toy import toy_config, toy_network

from focalsweep_research.training.checkpoint import Checkpoint, read_checkpoint, restore, write_checkpoint
from focalsweep_research.training.loop import make_optimizer
from tests.errors import assert_one_sentence, message_of


def toy_checkpoint() -> Checkpoint:
    config, network = toy_config(data={"frames": [2, 8]}, gradient_clip=float("inf")), toy_network(batch_norm=True)
    optimizer = make_optimizer(config, network)
    network(torch.rand(2, 6, 8, 8)).sum().backward()
    optimizer.step()
    average = toy_network(seed=1, batch_norm=True)
    return Checkpoint(network.state_dict(), average.state_dict(), optimizer.state_dict(), 3, 1.5, config)


def assert_same(one: Any, other: Any) -> None:
    """Equal in every tensor, bit for bit, and in every plain value."""
    if isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


def test_assert_same_can_fail() -> None:
    one, other = {"a": [torch.zeros(2), 1]}, {"a": [torch.zeros(2), 1]}
    assert_same(one, other)
    other["a"][0][1] = 1e-7  # type: ignore[index]
    with pytest.raises(AssertionError):
        assert_same(one, other)


def test_round_trip(tmp_path: Path) -> None:
    path, written = tmp_path / "checkpoint.pt", toy_checkpoint()
    write_checkpoint(path, written)
    read = read_checkpoint(path)
    for name in ("network", "ema", "optimizer", "step", "seconds"):
        assert_same(getattr(written, name), getattr(read, name))
    assert read.config == written.config
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_failed_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, written = tmp_path / "checkpoint.pt", toy_checkpoint()
    write_checkpoint(path, written)
    before = path.read_bytes()

    def fail(record: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk is full"):
        write_checkpoint(path, written)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, toy_checkpoint())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert_one_sentence(message_of(lambda: read_checkpoint(path), ValueError), str(path), "truncated")


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.sprung,)


@pytest.mark.parametrize("save", [torch.save, lambda trap, path: path.write_bytes(pickle.dumps(trap))])
def test_a_stranger_s_pickle_is_not_executed(tmp_path: Path, save: Any) -> None:
    path, sprung = tmp_path / "checkpoint.pt", tmp_path / "sprung"
    save({"network": Trap(sprung)}, path)
    assert_one_sentence(message_of(lambda: read_checkpoint(path), ValueError), str(path))
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists()  # the trap works


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"step": "three"}, ["'step'"]),
        ({"ema": None}, ["'ema'"]),
        ({"config": {"steps": 3}}, ["network is missing"]),
        ({"config": toy_config().to_dict() | {"stepz": 3}}, ["'stepz'"]),
    ],
)
def test_wrong_contents_are_refused(tmp_path: Path, change: dict[str, Any], parts: list[str]) -> None:
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, toy_checkpoint())
    torch.save(torch.load(path, weights_only=True) | change, path)
    assert_one_sentence(message_of(lambda: read_checkpoint(path), ValueError), str(path), *parts)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    assert_one_sentence(message_of(lambda: read_checkpoint(path), FileNotFoundError), str(path))
    torch.save([1, 2], path)
    assert_one_sentence(message_of(lambda: read_checkpoint(path), ValueError), str(path), "'network'")


def test_restore_wants_every_name_and_shape() -> None:
    network = toy_network()
    restore(network, toy_network(seed=1).state_dict(), "c.pt")
    assert_same(network.state_dict(), toy_network(seed=1).state_dict())
    good = network.state_dict()
    for state, parts in (
        ({k: v for k, v in good.items() if k != "0.bias"}, ["no weights '0.bias'"]),
        (good | {"0.bias": torch.zeros(3)}, ["'0.bias'", "(3,)", "(16,)"]),
        (good | {"extra": torch.zeros(3)}, ["'extra'"]),
    ):
        message = message_of(lambda state=state: restore(network, state, "c.pt"), ValueError)  # type: ignore[misc]
        assert_one_sentence(message, "c.pt", *parts)
