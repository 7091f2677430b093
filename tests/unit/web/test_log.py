"""A log that cannot be flooded."""

import io
import sys

from focalsweep.web.log import LINES_A_MINUTE, LONGEST_LINE, BoundedLog, bounded_errors


def test_lines_a_minute_and_their_length_are_bounded() -> None:
    now, out = [0.0], io.StringIO()
    log = BoundedLog(out, lambda: now[0])
    for number in range(10_000):
        print(f"{number} " + "x" * 5000, file=log)
    assert len(out.getvalue()) < LINES_A_MINUTE * (LONGEST_LINE + 10)
    now[0] = 61.0
    print("later", file=log)
    *_, told, last = out.getvalue().splitlines()
    assert told == f"focalsweep: {10_000 - LINES_A_MINUTE} more lines like these were left out" and last == "later"


def test_a_line_without_end_takes_no_memory() -> None:
    log = BoundedLog(io.StringIO())
    for _ in range(10_000):
        log.write("x" * 1000)
    assert len(log._part) <= 2 * LONGEST_LINE


def test_standard_error_is_given_back() -> None:
    before = sys.stderr
    with bounded_errors():
        assert sys.stderr is not before
    assert sys.stderr is before
