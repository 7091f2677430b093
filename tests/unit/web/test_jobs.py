"""Tasks in processes of their own: progress, failures, cancelling, time, crashes; and the line."""

import os
import time
from typing import Any

import pytest

from focalsweep.progress import Progress
from focalsweep.web.jobs import Done, Failed, Line, News, Running, TaskProcess


def add(say: Progress, a: int, b: int) -> int:
    say("adding", 0.5)
    return a + b


def fail(say: Progress) -> None:
    raise ValueError("a.jpg is odd: leave it out")


def break_down(say: Progress) -> None:
    raise KeyError("bug")


def crash(say: Progress) -> None:
    os._exit(3)


def sleep(say: Progress) -> None:
    say("sleeping", 0.0)
    time.sleep(60)


def hog(say: Progress) -> int:
    return len(bytes(2**30))


def last_news(job: TaskProcess, seconds: float = 60) -> tuple[News, list[News]]:
    heard: list[News] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        news = job.news()
        if news is not None:
            heard.append(news)
        if isinstance(news, Done | Failed):
            return news, heard
        time.sleep(0.01)
    raise AssertionError(f"no end after {seconds} s: {heard}")


def test_value_and_progress() -> None:
    job = TaskProcess(add, 2, 3, seconds=60)
    last, heard = last_news(job)
    assert last == Done(5)
    assert all(news == Running("adding", 0.5) for news in heard[:-1])
    assert job.news() == Done(5)
    assert TaskProcess(add, 2, 3, seconds=60).wait() == 5


@pytest.mark.parametrize(
    ("task", "words"),
    [(fail, "a.jpg is odd: leave it out"), (break_down, "fault of focalsweep"), (crash, "broke off")],
)
def test_failures_are_sentences(task: Any, words: str) -> None:
    last, _ = last_news(TaskProcess(task, seconds=60))
    assert isinstance(last, Failed) and words in last.sentence
    with pytest.raises(ValueError, match=words):
        TaskProcess(task, seconds=60).wait()


def test_cancel_ends_at_once() -> None:
    job = TaskProcess(sleep, seconds=60)
    start = time.monotonic()
    job.cancel()
    assert last_news(job)[0] == Failed("cancelled")
    assert time.monotonic() - start < 5
    assert not job._process.is_alive()


def test_memory_limit() -> None:
    """Also of the jobs that only look at settings: a hostile file ends its own job, with a sentence."""
    last, _ = last_news(TaskProcess(hog, seconds=60, memory=2**28))
    assert last == Failed("the photos need more memory than there is: give fewer or smaller ones")
    assert TaskProcess(hog, seconds=60, memory=2**31).wait() == 2**30


def test_time_limit() -> None:
    last, _ = last_news(TaskProcess(sleep, seconds=0.2))
    assert isinstance(last, Failed) and "stopped" in last.sentence


def test_first_come_first_served() -> None:
    line = Line(places=1, waiting=2)
    first, second, third = line.join(), line.join(), line.join()
    assert [line.ahead(ticket) for ticket in (first, second, third)] == [0, 1, 2]
    with pytest.raises(ValueError, match="3 others"):
        line.join()
    line.leave(second)
    line.leave(second)
    assert [line.ahead(ticket) for ticket in (first, third)] == [0, 1]
    line.leave(first)
    assert line.ahead(third) == 0
