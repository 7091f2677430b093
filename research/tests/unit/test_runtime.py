"""The protocol of times: what is timed, on small pictures; never how long it takes."""

import pytest
import torch

from focalsweep import DepthGrid
from focalsweep.pipeline import METHODS
from focalsweep_research.protocols import runtime
from focalsweep_research.protocols.runtime import NAMES, evaluate_runtime, parts_of, peak_on_cpu
from focalsweep_research.tables.tables import table_of
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "SIZE_PX", 32)


def test_every_method_of_the_package_has_a_row() -> None:
    assert set(NAMES) == {*METHODS, "argmin-paper"} - {"aifdepthnet-aif"}


def test_times_memory_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "peak_on_cpu", lambda name: 5_000_000)
    names = ["sweep", "argmin", "argmin-paper", "focus_measure", "defocusnet"]
    record = evaluate_runtime(names, CPU, lambda _: None, 0.01)
    rows = {row["method"]: row for row in record["rows"]}
    assert list(rows) == names
    for row in rows.values():
        assert row["total_ms"] > 0 and row["peak_mb"] == 5 and row["seconds"]["total"]["runs"] == 3
        assert ("sweep_ms" in row) == ("network_ms" in row) == (row["method"] not in ("focus_measure", "defocusnet"))
    assert rows["sweep"]["million_parameters"] == pytest.approx(1.66, abs=0.01)
    assert rows["defocusnet"]["million_parameters"] == pytest.approx(3.72, abs=0.01)
    assert "4278.0" in table_of(record).markdown()


def test_parts_are_those_of_the_method() -> None:
    """What the network makes of the sweep is what the whole gives."""
    stack = runtime.a_stack(CPU)
    assert stack.images.shape == (1, 5, 3, 32, 32)
    with torch.no_grad():
        parts = parts_of("argmin-paper", stack)
        assert parts.sweep and parts.network and parts.sweep().shape == (1, 64, 32, 32)
        torch.testing.assert_close(parts.network().inverse_depth, parts.total().inverse_depth)
        parts, whole = parts_of("argmin", stack), METHODS["argmin"](stack, DepthGrid.around(stack.one_of_batch(0), 64))
        assert parts.sweep and parts.network
        torch.testing.assert_close(parts.network()[0], whole.depth)
        torch.testing.assert_close(parts.network()[2], whole.confidence)
        torch.testing.assert_close(parts.total().depth, whole.depth)


def test_memory_of_a_process_of_its_own() -> None:
    assert 1e6 < peak_on_cpu("focus_measure") < 1e9


def test_unknown_methods_are_refused() -> None:
    message = message_of(lambda: evaluate_runtime(["magic"], CPU, lambda _: None), ValueError)
    assert_one_sentence(message, "'magic'", "argmin-paper")
