"""Chunks of a sweep side by side on the cores of a CPU.

Torch splits each operation over the cores and waits for all of them after every one, thousands of times a sweep. Chunks
of planes do not depend on each other, so it is faster to give each core its own chunk and let it run alone, above all
where a core is sometimes taken away by others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def map_chunks(
    function: Callable[[Chunk], Result], chunks: Iterable[Chunk], workers: int, *tensors: Tensor
) -> Iterator[Result]:
    """`function` of every chunk, in order, by up to `workers` threads.

    `tensors` are what it computes from: on a GPU, or where a gradient is asked for, all stays in this thread.
    """
    cores = torch.get_num_threads()
    wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if wants_gradient or tensors[0].is_cuda or workers == 1:
        yield from map(function, chunks)
        return
    inference = torch.is_inference_mode_enabled()

    def run(chunk: Chunk) -> Result:
        with torch.inference_mode(inference), torch.no_grad():  # both are states of a thread
            return function(chunk)

    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(run, chunks)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)  # a worker's setting is also the default of threads to come
