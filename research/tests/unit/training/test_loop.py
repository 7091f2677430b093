"""The loop: schedule, averages, resume, signals, time, processes, and that it learns."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from PIL import Image
from research.tests.unit.training.test_checkpoint import assert_same
from research.tests.unit.training.toy import silent, toy_config, toy_loss, toy_network, toy_source
from torch import Tensor, nn

from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training import loop, processes
from focalsweep_research.training.checkpoint import read_checkpoint
from focalsweep_research.training.loop import channels_last, learning_rate_at, make_optimizer, train, update_average
from tests.errors import assert_one_sentence, message_of

ROOT = Path(__file__).parents[4]


def log_of(folder: Path, kind: str = "loss") -> list[dict[str, Any]]:
    """Lines of the log that have the key `kind`."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if kind in line]


def run(folder: Path, network: nn.Module | None = None, *, resume: bool = False, **changes: Any) -> loop.Outcome:
    network = toy_network() if network is None else network
    return train(toy_config(**changes), network, toy_source, toy_loss, folder, resume=resume, console=silent())


def stop_after(batches: int) -> Callable[[int, int, torch.device], Sample]:
    """The toy's data, and SIGTERM with the last of so many batches."""

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        if step == batches - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return toy_source(step, batch_size, device)

    return source


# Schedule, optimiser, averages, layout


def test_convolutions_of_two_and_three_axes_are_laid_out_channels_last() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Unflatten(1, (8, 1)), nn.Conv3d(8, 5, (1, 3, 3)), nn.BatchNorm3d(5))
    picture = torch.rand((2, 3, 9, 10))
    before = network(picture)
    channels_last(network)
    assert network[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert network[2].weight.is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(network(picture), before, rtol=1e-5, atol=1e-5)


def test_the_schedule_is_a_ramp_and_half_a_cosine() -> None:
    config = toy_config(steps=110, warmup_steps=10, learning_rate=2.0)
    rates = [learning_rate_at(config, step) for step in range(110)]
    assert rates[:10] == pytest.approx([2.0 * (step + 1) / 10 for step in range(10)])
    assert rates[10:] == pytest.approx([1 + math.cos(math.pi * step / 100) for step in range(100)])
    assert learning_rate_at(config, 110) == pytest.approx(0, abs=1e-12)


def test_the_schedule_without_warm_up_starts_at_the_top() -> None:
    assert learning_rate_at(toy_config(warmup_steps=0, learning_rate=0.5), 0) == 0.5


def test_time_drives_the_cosine_where_it_is_ahead() -> None:
    config = toy_config(steps=100, warmup_steps=0, learning_rate=2.0)
    assert learning_rate_at(config, 10, 0.5) == pytest.approx(1.0)
    assert learning_rate_at(config, 50, 0.1) == pytest.approx(1.0)
    assert learning_rate_at(config, 10, 1.0) == pytest.approx(0, abs=1e-12)
    assert learning_rate_at(config, 10, 7.0) == pytest.approx(0, abs=1e-12)


def test_the_average_has_its_closed_form() -> None:
    average, network = nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)
    start, decay = average.weight.detach().clone(), 0.5
    weights = [torch.randn(1, 2) for _ in range(12)]
    for step, weight in enumerate(weights, start=1):
        network.weight.data.copy_(weight)
        update_average(average, network, decay, step)
    decays = [min(decay, (1 + step) / (10 + step)) for step in range(1, 13)]
    assert decays[0] < decay == decays[-1]
    expected = math.prod(decays) * start
    for k, weight in enumerate(weights):
        expected = expected + (1 - decays[k]) * math.prod(decays[k + 1 :]) * weight
    torch.testing.assert_close(average.weight.detach(), expected)


def test_the_average_copies_other_state() -> None:
    average, network = toy_network(batch_norm=True), toy_network(batch_norm=True)
    network(torch.rand(2, 6, 8, 8))
    update_average(average, network, 0.999, 1)
    for kept, current in zip(average.buffers(), network.buffers(), strict=True):
        assert torch.equal(kept, current)


def test_only_weights_decay() -> None:
    network = toy_network()
    optimizer = make_optimizer(toy_config(weight_decay=0.3), network)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name: decay[id(p)] for name, p in network.named_parameters()} == {
        name: 0.3 if p.ndim == 4 else 0.0 for name, p in network.named_parameters()
    }


def test_an_update_is_adamw_with_clipped_gradients(tmp_path: Path) -> None:
    network, twin = toy_network(), toy_network()
    run(tmp_path, network, steps=2, warmup_steps=1, gradient_clip=0.01, weight_decay=0.1)
    optimizer = make_optimizer(toy_config(weight_decay=0.1), twin)
    for step in range(2):
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 1e-2  # the peak in both
        optimizer.zero_grad()
        toy_loss(twin, toy_source(step, 2, torch.device("cpu")))[0].backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in twin.parameters() if p.grad is not None))
        assert norm > 0.01
        assert log_of(tmp_path)[step]["gradient_norm"] == pytest.approx(norm, rel=1e-5)
        for p in twin.parameters():
            p.grad *= 0.01 / norm
        optimizer.step()
    for a, b in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


# What a run leaves


def test_a_run_s_files(tmp_path: Path) -> None:
    network, console = toy_network(), silent()
    asked: list[tuple[int, int]] = []

    def validation(step: int, batch_size: int, device: torch.device) -> Sample:
        asked.append((step, batch_size))
        return toy_source(1000 + step, batch_size, device)

    def pictures(average: nn.Module) -> dict[str, Tensor]:
        assert not average.training and not torch.is_grad_enabled()
        return {"colour": torch.full((3, 4, 5), 0.5), "grey": torch.tensor([[[0.0, 2.0]]])}

    outcome = train(
        toy_config(validate_every=4, validation_samples=5, log_every=2),
        network,
        toy_source,
        toy_loss,
        tmp_path,
        validation_source=validation,
        pictures=pictures,
        console=console,
    )
    assert (outcome.status, outcome.step) == ("finished", 6)
    checkpoint = read_checkpoint(outcome.checkpoint)
    assert_same(checkpoint.network, dict(network.state_dict()))
    assert checkpoint.step == 6 and checkpoint.config == toy_config(validate_every=4, validation_samples=5, log_every=2)

    lines = log_of(tmp_path)
    assert [line["step"] for line in lines] == [2, 4, 6]
    for line in lines:
        assert set(line) == {
            "step",
            "loss",
            "learning_rate",
            "gradient_norm",
            "samples_per_second",
            "seconds",
            "figures",
        }
        assert line["figures"]["worst"] > line["loss"] > 0
        assert line["samples_per_second"] > 0
    assert asked == [(0, 2), (1, 2), (2, 2)] * 2  # at step 4 and at the end, always the same
    checks = log_of(tmp_path, "validation")
    assert [line["step"] for line in checks] == [4, 6]
    assert checks[-1]["validation"] == outcome.validation

    average = toy_network().eval()
    average.load_state_dict(checkpoint.ema)
    with torch.no_grad():
        losses = [toy_loss(average, toy_source(1000 + i, 2, torch.device("cpu")))[0].item() for i in range(3)]
    assert outcome.validation["loss"] == pytest.approx(np.mean(losses), rel=1e-5)

    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        f"{name}_000000{step}.png" for name in ("colour", "grey") for step in (4, 6)
    ]
    assert np.asarray(Image.open(tmp_path / "pictures/colour_0000006.png")).tolist() == [[[128] * 3] * 5] * 4
    assert np.asarray(Image.open(tmp_path / "pictures/grey_0000006.png")).tolist() == [[0, 255]]


def test_the_log_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        assert len(log_of(tmp_path)) == step
        return toy_source(step, batch_size, device)

    train(toy_config(), toy_network(), source, toy_loss, tmp_path, console=silent())


@pytest.mark.parametrize("installed", [True, False])
def test_tensorboard_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    seen: dict[str, list[int]] = {}

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            assert folder == str(tmp_path / "tensorboard") and purge_step == 1

        def add_scalar(self, name: str, value: float, step: int) -> None:
            seen.setdefault(name, []).append(step)

        def close(self) -> None:
            seen["closed"] = []

    module = types.SimpleNamespace(SummaryWriter=Writer) if installed else None
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    console = silent()
    train(toy_config(steps=3), toy_network(), toy_source, toy_loss, tmp_path, console=console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.count("TensorBoard") == (0 if installed else 1)
    if installed:
        assert seen["train/loss"] == seen["train/learning_rate"] == seen["train/worst"] == [1, 2, 3]
        assert "closed" in seen


def test_bfloat16_is_used_and_weights_stay_float32(tmp_path: Path) -> None:
    kinds = set()

    def loss(network: nn.Module, sample: Sample) -> tuple[Tensor, dict[str, Tensor]]:
        depth = network(sample.stack.images.flatten(1, 2))
        kinds.add(depth.dtype)
        return (depth.squeeze(1).float() - sample.depth).abs().mean(), {}

    network = toy_network()
    train(toy_config(steps=3, precision="bfloat16"), network, toy_source, loss, tmp_path, console=silent())
    assert kinds == {torch.bfloat16}
    assert {p.dtype for p in network.parameters()} == {torch.float32}


# Resume


def test_resume_repeats_the_trajectory_bit_for_bit(tmp_path: Path) -> None:
    def network() -> nn.Module:
        return toy_network(dropout=0.3, batch_norm=True)

    whole, parts = network(), network()
    run(tmp_path / "whole", whole)
    config = toy_config()
    outcome = train(config, parts, stop_after(3), toy_loss, tmp_path / "parts", console=silent())
    assert (outcome.status, outcome.step) == ("stopped", 3)
    resumed = toy_network(seed=9, dropout=0.3, batch_norm=True)
    torch.rand(17)  # the state of the generator does not matter
    outcome = run(tmp_path / "parts", resumed, resume=True)
    assert (outcome.status, outcome.step) == ("finished", 6)
    for one, other in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    one, other = (read_checkpoint(tmp_path / name / "checkpoint.pt") for name in ("whole", "parts"))
    for name in ("network", "ema", "optimizer"):
        assert_same(getattr(one, name), getattr(other, name))
    logs = [[line["loss"] for line in log_of(tmp_path / name)] for name in ("whole", "parts")]
    assert logs[0] == logs[1] and len(logs[0]) == 6


def test_dropout_differs_from_step_to_step_and_by_seed(tmp_path: Path) -> None:
    drawn: dict[int, list[float]] = {}
    for seed in (0, 1):

        def loss(network: nn.Module, sample: Sample, seed: int = seed) -> tuple[Tensor, dict[str, Tensor]]:
            drawn.setdefault(seed, []).append(torch.rand(()).item())
            return toy_loss(network, sample)[0], {}

        train(toy_config(seed=seed), toy_network(), toy_source, loss, tmp_path / str(seed), console=silent())
    assert len({*drawn[0], *drawn[1]}) == 12


def test_the_log_of_lost_steps_is_cut(tmp_path: Path) -> None:
    train(toy_config(), toy_network(), stop_after(3), toy_loss, tmp_path, console=silent())
    with (tmp_path / "log.jsonl").open("a") as file:  # a crash after the checkpoint
        file.write('{"step": 4, "loss": 1}\n{"step": 5, "lo')
    run(tmp_path, resume=True)
    assert [line["step"] for line in log_of(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_resume_counts_on_and_a_finished_run_stays_finished(tmp_path: Path) -> None:
    path = run(tmp_path).checkpoint
    before = read_checkpoint(path)
    again = run(tmp_path, toy_network(seed=3), resume=True)
    assert (again.status, again.step) == ("finished", 6)
    assert again.seconds > before.seconds > 0
    assert_same(read_checkpoint(path).network, before.network)


@pytest.mark.parametrize(
    ("resume", "changes", "error", "parts"),
    [
        (False, {}, ValueError, ["exists", "resume"]),
        (True, {"learning_rate": 0.02}, ValueError, ["learning_rate = 0.01", "0.02"]),
        (True, {"data": {"frames": 3}}, ValueError, ["data", "{'frames': 3}"]),
    ],
)
def test_resume_errors(
    tmp_path: Path, resume: bool, changes: dict[str, Any], error: type[Exception], parts: list[str]
) -> None:
    run(tmp_path)
    before = (tmp_path / "log.jsonl").read_text()
    message = message_of(lambda: run(tmp_path, resume=resume, **changes), error)
    assert_one_sentence(message, str(tmp_path / "checkpoint.pt"), *parts)
    assert (tmp_path / "log.jsonl").read_text() == before


def test_resume_without_a_checkpoint_or_with_another_network(tmp_path: Path) -> None:
    assert_one_sentence(message_of(lambda: run(tmp_path, resume=True), FileNotFoundError), "checkpoint.pt")
    run(tmp_path)
    other = nn.Sequential(nn.Conv2d(6, 1, 1))
    assert_one_sentence(message_of(lambda: run(tmp_path, other, resume=True), ValueError), "'1.bias'", "another")


def test_settings_that_leave_the_trajectory_may_change(tmp_path: Path) -> None:
    train(toy_config(), toy_network(), stop_after(3), toy_loss, tmp_path, console=silent())
    assert run(tmp_path, resume=True, log_every=3, checkpoint_every=2, validate_every=5).step == 6


# How a run ends


def test_sigterm_leaves_a_checkpoint_and_exit_status_0(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "research.tests.unit.training.toy", str(tmp_path), "--steps", "1000000"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "log.jsonl").exists() or (tmp_path / "log.jsonl").read_text().count("\n") < 3:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out.strip() == "stopped"
    checkpoint = read_checkpoint(tmp_path / "checkpoint.pt")
    assert checkpoint.step == log_of(tmp_path)[-1]["step"] >= 3


def test_signals_act_as_before_when_the_run_is_over(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    train(toy_config(), toy_network(), stop_after(2), toy_loss, tmp_path / "stopped", console=silent())
    run(tmp_path / "finished")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and its children with it: not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "seconds_apart", "interrupts"),
    [(signal.SIGINT, 1.0, True), (signal.SIGINT, 0.1, False), (signal.SIGTERM, 5.0, False)],
)
def test_a_second_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, seconds_apart: float, interrupts: bool
) -> None:
    clock = [0.0]
    monkeypatch.setattr(processes, "monotonic", lambda: clock[0])

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        if step == 1:
            signal.raise_signal(number)
            clock[0] += seconds_apart
            signal.raise_signal(number)
        return toy_source(step, batch_size, device)

    def session() -> loop.Outcome:
        return train(toy_config(), toy_network(), source, toy_loss, tmp_path, console=silent())

    if interrupts:
        with pytest.raises(KeyboardInterrupt):
            session()
        assert signal.getsignal(number) is signal.default_int_handler
    else:
        assert (session().status, read_checkpoint(tmp_path / "checkpoint.pt").step) == ("stopped", 2)


def test_a_run_outside_the_main_thread(tmp_path: Path) -> None:
    outcomes: list[loop.Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(tmp_path)))
    thread.start()
    thread.join()
    assert outcomes[0].status == "finished"


def test_the_time_limit_ends_run_and_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        clock[0] += 0.7
        return toy_source(step, batch_size, device)

    monkeypatch.setattr(loop, "perf_counter", lambda: clock[0])
    config = toy_config(steps=10**6, warmup_steps=5, validate_every=10**6)

    def session(minutes: float, resume: bool) -> loop.Outcome:
        return train(
            config,
            toy_network(),
            source,
            toy_loss,
            tmp_path,
            validation_source=toy_source,
            time_limit_minutes=minutes,
            resume=resume,
            console=silent(),
        )

    outcome = session(1.0, resume=False)
    assert outcome.status == "time limit"
    assert outcome.step == 86  # the first that ends past 60 s: 86 * 0.7 = 60.2
    assert outcome.seconds == pytest.approx(60.2)
    assert "loss" in outcome.validation
    assert read_checkpoint(outcome.checkpoint).step == 86
    rates = [line["learning_rate"] for line in log_of(tmp_path)]
    assert max(rates) > 0.95 * config.learning_rate
    assert rates[43] == pytest.approx(0.5 * config.learning_rate, rel=0.02)  # half the time, half a cosine
    assert rates[-1] < 0.001 * config.learning_rate

    assert session(1.0, resume=True).step == 86  # its time is over
    clock[0] += 1000  # what passes between two sittings does not count
    assert session(2.0, resume=True).seconds == pytest.approx(120.4)


def test_a_real_clock_ends_a_run_too(tmp_path: Path) -> None:
    run(tmp_path / "first")  # what torch loads at the first step takes its time
    config = toy_config(steps=10**6)
    folder = tmp_path / "timed"
    outcome = train(config, toy_network(), toy_source, toy_loss, folder, time_limit_minutes=1 / 60, console=silent())
    assert outcome.status == "time limit"
    assert outcome.seconds >= 1
    rates = [line["learning_rate"] for line in log_of(folder)]
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] < 0.5 * config.learning_rate


@pytest.mark.parametrize("minutes", [0.0, -1.0, math.nan])
def test_a_time_limit_is_positive(tmp_path: Path, minutes: float) -> None:
    config = toy_config()
    message = message_of(
        lambda: train(config, toy_network(), toy_source, toy_loss, tmp_path, time_limit_minutes=minutes), ValueError
    )
    assert_one_sentence(message, "time limit", f"{minutes:g}")


@pytest.mark.parametrize(("log_every", "checkpoint_every"), [(1, 1), (50, 3), (50, 50)])
def test_a_loss_that_is_not_finite_names_its_step(tmp_path: Path, log_every: int, checkpoint_every: int) -> None:
    def loss(network: nn.Module, sample: Sample) -> tuple[Tensor, dict[str, Tensor]]:
        value, _ = toy_loss(network, sample)
        calls.append(1)
        return value * (math.nan if len(calls) == 5 else 1.0), {}

    calls: list[int] = []
    config = toy_config(steps=20, log_every=log_every, checkpoint_every=checkpoint_every)
    message = message_of(
        lambda: train(config, toy_network(), toy_source, loss, tmp_path, console=silent()), FloatingPointError
    )
    assert_one_sentence(message, "step 5", "loss is nan", "learning_rate below 0.01")
    path = tmp_path / "checkpoint.pt"
    if checkpoint_every == 50:
        assert not path.exists()
    else:  # the last good one
        checkpoint = read_checkpoint(path)
        assert checkpoint.step == {1: 4, 3: 3}[checkpoint_every]
        assert all(bool(torch.isfinite(value).all()) for value in checkpoint.network.values())


def test_a_gradient_that_is_not_finite_names_its_step(tmp_path: Path) -> None:
    def loss(network: nn.Module, sample: Sample) -> tuple[Tensor, dict[str, Tensor]]:
        zero = network(sample.stack.images.flatten(1, 2)).mean() * 0
        return zero.abs().sqrt(), {}  # 0, with an infinite slope

    message = message_of(
        lambda: train(toy_config(), toy_network(), toy_source, loss, tmp_path, console=silent()), FloatingPointError
    )
    assert_one_sentence(message, "step 1", "gradient's norm is nan")


# Several processes, and that it learns


def two_processes(folder: Path, *options: str) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*torchrun, "--max-restarts", "1", "-m", "research.tests.unit.training.toy", str(folder), *options]


def start(command: list[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def assert_same_curve(one: Path, two: Path) -> None:
    """The same steps, each once, with the same loss and gradient but for rounding, and the same last validation."""
    ours, theirs = log_of(one), log_of(two)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs] == list(range(1, len(ours) + 1))
    for a, b in zip(ours, theirs, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], abs=1e-4)
    validated = [log_of(folder, "validation")[-1]["validation"]["loss"] for folder in (one, two)]
    assert validated[0] == pytest.approx(validated[1], abs=1e-5)


def train_alone(folder: Path, **changes: Any) -> nn.Module:
    network = toy_network()
    train(toy_config(**changes), network, toy_source, toy_loss, folder, validation_source=toy_source, console=silent())
    return network


def test_two_processes_are_one_with_the_double_batch(tmp_path: Path) -> None:
    process = start(two_processes(tmp_path / "two", "--steps", "5"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.count("finished") == 2  # the lines of two processes may run together
    network = train_alone(tmp_path / "one", steps=5, batch_size=4)
    assert_same_curve(tmp_path / "one", tmp_path / "two")
    weights = read_checkpoint(tmp_path / "two" / "checkpoint.pt").network
    for name, value in network.state_dict().items():
        torch.testing.assert_close(weights[name], value, atol=1e-4, rtol=1e-3)


def test_batches_added_up_are_one_large_batch(tmp_path: Path) -> None:
    train_alone(tmp_path / "large", batch_size=6, validation_samples=6)
    train_alone(tmp_path / "added", batch_size=2, accumulate=3, validation_samples=6)
    assert_same_curve(tmp_path / "large", tmp_path / "added")
    assert read_checkpoint(tmp_path / "added" / "checkpoint.pt").batches == 3
    train_alone(tmp_path / "small", batch_size=2)
    assert log_of(tmp_path / "small")[1]["loss"] != pytest.approx(log_of(tmp_path / "added")[1]["loss"], abs=1e-4)


def test_a_killed_process_costs_the_steps_since_the_checkpoint(tmp_path: Path) -> None:
    """torchrun starts both anew, and the curve goes on as if nothing had been."""
    folder = tmp_path / "two"
    options = ["--steps", "30", "--checkpoint-every", "5", "--pause", "0.05", "--resume-if-any"]
    process = start(two_processes(folder, *options))
    path = folder / "log.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("loss") >= 12, process)
    children = [child for child in psutil.Process(process.pid).children() if "toy" in " ".join(child.cmdline())]
    assert len(children) == 2
    children[1].kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "exitcode: -9" in err
    assert not any(child.is_running() for child in children)
    train_alone(tmp_path / "one", steps=30, batch_size=2, accumulate=2)
    assert_same_curve(tmp_path / "one", folder)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    config = toy_config(steps=6, accumulate=2)
    folder = tmp_path / "two"
    assert train(config, toy_network(), stop_after(5), toy_loss, folder, console=silent()).status == "stopped"
    options = ("--steps", "6", "--accumulate", "2", "--resume-if-any")
    process = start(two_processes(folder, *options))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    train_alone(tmp_path / "one", steps=6, accumulate=2)
    assert_same_curve(tmp_path / "one", folder)


def test_batches_that_cannot_be_shared_are_refused() -> None:
    team = processes.Team("cpu")
    team.size = 4
    assert team.share(8) == 2
    assert_one_sentence(message_of(lambda: team.share(6), ValueError), "6 batches", "4 processes")


def test_processes_that_found_different_checkpoints_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = processes.Team("cpu")
    team.check_same(10, tmp_path)  # alone
    team.size = 2
    other = torch.tensor([20, -20])
    monkeypatch.setattr(processes.dist, "all_reduce", lambda ends, *_, **__: ends.copy_(torch.maximum(ends, other)))
    team.check_same(20, tmp_path)
    message = message_of(lambda: team.check_same(10, tmp_path), ValueError)
    assert_one_sentence(message, str(tmp_path), "from step 10 to step 20", "share")


def test_restarts_that_torchrun_cannot_do_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "WORLD_SIZE": "2",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }.items():
        monkeypatch.setenv(name, value)
    message = message_of(processes.Team("cpu").__enter__, ValueError)
    assert_one_sentence(message, "--max-restarts", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")


def test_resume_if_any_starts_a_run_and_then_goes_on(tmp_path: Path) -> None:
    config = toy_config()
    for resume, status in (("if any", "stopped"), ("if any", "finished")):
        source = stop_after(3) if status == "stopped" else toy_source
        outcome = train(config, toy_network(), source, toy_loss, tmp_path, resume=resume, console=silent())  # type: ignore[arg-type]
        assert outcome.status == status
    assert [line["step"] for line in log_of(tmp_path)] == [1, 2, 3, 4, 5, 6]


def wait_for(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_overfits_one_batch(tmp_path: Path) -> None:
    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        return toy_source(0, batch_size, device)

    config = toy_config(steps=300, warmup_steps=10, weight_decay=0.0, log_every=20, ema_decay=0.9)
    outcome = train(config, toy_network(), source, toy_loss, tmp_path, validation_source=source, console=silent())
    assert log_of(tmp_path)[0]["loss"] > 0.15
    assert outcome.validation["loss"] < 0.02
