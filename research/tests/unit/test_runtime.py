"""The protocol of times: what is timed, on small pictures; never how long it takes."""

import pytest
import torch

from focalsweep import DepthGrid
from focalsweep.estimate import predict
from focalsweep.methods.registry import all_methods, choose_method
from focalsweep_research.protocols import runtime
from focalsweep_research.protocols.runtime import NAMES, evaluate_runtime, parts_of, peak_on_cpu
from focalsweep_research.tables.tables import table_of
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "SIZE_PX", 32)


def test_every_method_of_the_registry_has_a_row() -> None:
    """But the wall, and the network that stands there already under another training."""
    assert {choose_method(name).method.name for name in NAMES} == set(all_methods()) - {"aifdepthnet-aif", "flat"}
    assert "argmin:cost=paper" in NAMES


def test_times_memory_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "peak_on_cpu", lambda name: 5_000_000)
    names = ["sweep", "argmin", "argmin:cost=paper", "focus_measure", "defocusnet"]
    record = evaluate_runtime(names, CPU, lambda _: None, 0.01)
    rows = {row["method"]: row for row in record["rows"]}
    assert list(rows) == names
    for row in rows.values():
        assert row["total_ms"] > 0 and row["peak_mb"] == 5 and row["seconds"]["total"]["runs"] == 3
        assert ("sweep_ms" in row) == ("network_ms" in row) == (row["method"] not in ("focus_measure", "defocusnet"))
    assert rows["sweep"]["million_parameters"] == pytest.approx(2.55, abs=0.01)
    assert rows["defocusnet"]["million_parameters"] == pytest.approx(3.72, abs=0.01)
    assert "4278.0" in table_of(record).markdown()


def test_parts_are_those_of_the_method() -> None:
    """What the network makes of the sweep is what the whole gives."""
    stack = runtime.a_stack(CPU)
    assert stack.images.shape == (1, 5, 3, 32, 32)
    with torch.no_grad():
        parts = parts_of("argmin:cost=paper", stack)
        assert parts.sweep and parts.network and parts.sweep().shape == (1, 64, 32, 32)
        torch.testing.assert_close(1 / parts.network().inverse_depth, parts.total().depth)
        parts = parts_of("paper:size=full", stack)
        assert parts.sweep and parts.network and parts.sweep().shape == (1, 64, 32, 32)
        torch.testing.assert_close(parts.network().depth, parts.total().depth)
        parts = parts_of("argmin", stack)
        whole = predict(stack, "argmin", DepthGrid.around(stack.one_of_batch(0), 64))
        assert parts.sweep and parts.network
        torch.testing.assert_close(parts.network()[0], whole.depth)
        torch.testing.assert_close(parts.network()[2], whole.confidence)
        torch.testing.assert_close(parts.total().depth, whole.depth)


def test_memory_of_a_process_of_its_own() -> None:
    assert 1e6 < peak_on_cpu("focus_measure") < 1e9


def test_unknown_methods_are_refused() -> None:
    message = message_of(lambda: evaluate_runtime(["magic"], CPU, lambda _: None), ValueError)
    assert_one_sentence(message, "'magic'", "argmin:cost=paper")
