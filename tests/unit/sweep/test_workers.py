"""Chunks on several cores: the same results in the same order, errors come through, torch's settings stay."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from focalsweep.sweep.workers import map_chunks

CPU = torch.ones(1)


@pytest.fixture
def two_cores() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_order_and_threads(two_cores: object) -> None:
    def work(k: int) -> tuple[int, int, bool]:
        return k * k, torch.get_num_threads(), torch.is_grad_enabled()

    results = list(map_chunks(work, range(7), 2, CPU))
    assert [square for square, _, _ in results] == [k * k for k in range(7)]
    assert {threads for _, threads, _ in results} == {1}
    assert not any(grad for _, _, grad in results)
    assert torch.get_num_threads() == 2
    assert torch.is_grad_enabled()


def test_errors_come_through(two_cores: object) -> None:
    def work(k: int) -> int:
        if k == 3:
            raise ValueError("chunk 3")
        return k

    with pytest.raises(ValueError, match="chunk 3"):
        list(map_chunks(work, range(5), 2, CPU))
    assert torch.get_num_threads() == 2


def test_inference_mode_is_handed_on(two_cores: object) -> None:
    with torch.inference_mode():
        assert list(map_chunks(lambda _: torch.is_inference_mode_enabled(), range(2), 2, CPU)) == [True, True]
    assert list(map_chunks(lambda _: torch.is_inference_mode_enabled(), range(2), 2, CPU)) == [False, False]


def test_gradients_stay_in_the_calling_thread(two_cores: object) -> None:
    weight = torch.ones(1, requires_grad=True)
    assert list(map_chunks(lambda _: torch.is_grad_enabled(), range(2), 2, weight)) == [True, True]
    with torch.no_grad():
        assert list(map_chunks(lambda _: torch.is_grad_enabled(), range(2), 2, weight)) == [False, False]


def test_one_worker_uses_all_cores(two_cores: object) -> None:
    assert list(map_chunks(lambda _: torch.get_num_threads(), range(2), 1, CPU)) == [2, 2]


def test_threads_to_come_keep_all_cores(two_cores: object) -> None:
    """A worker's setting is also torch's default for new threads: it is taken back."""
    list(map_chunks(lambda k: k, range(3), 2, CPU))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.ones, 3).result()
        assert pool.submit(torch.get_num_threads).result() == 2
