"""How long an address waits after wrong passwords."""

from focalsweep.web.passwords import AT_ONCE, FREE_TRIES, LONGEST_WAIT, MOST_ADDRESSES, Attempts


def try_once(attempts: Attempts, address: str = "10.0.0.1", wrong: bool = True) -> float:
    wait = attempts.begin(address)
    if not wait:
        attempts.end(address, wrong)
    return wait


def test_the_wait_doubles_up_to_a_bound_and_ends_with_the_right_one() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    assert [try_once(attempts) for _ in range(FREE_TRIES)] == [0.0] * FREE_TRIES
    waits = []
    for _ in range(12):
        waits.append(attempts.begin("10.0.0.1"))
        now[0] += waits[-1]
        assert try_once(attempts) == 0.0
    assert waits == [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, LONGEST_WAIT, *[LONGEST_WAIT] * 3]
    assert try_once(attempts, "10.0.0.2") == 0.0  # another address
    now[0] += LONGEST_WAIT
    assert try_once(attempts, wrong=False) == 0.0
    assert [try_once(attempts) for _ in range(FREE_TRIES)] == [0.0] * FREE_TRIES


def test_one_try_at_a_time_and_not_too_many_of_all() -> None:
    attempts = Attempts(lambda: 0.0)
    assert attempts.begin("a") == 0.0 and attempts.begin("a") > 0
    assert [attempts.begin(str(i)) for i in range(AT_ONCE)].count(0.0) == AT_ONCE - 1
    attempts.end("a", wrong=True)
    assert attempts.begin("b") == 0.0


def test_a_network_of_ipv6_is_one_address() -> None:
    attempts = Attempts(lambda: 0.0)
    for i in range(FREE_TRIES):
        assert try_once(attempts, f"2001:db8::{i}") == 0.0
    assert try_once(attempts, "2001:db8::ffff") > 0 and try_once(attempts, "2001:db8:0:1::1") == 0.0


def test_addresses_that_are_remembered_are_bounded() -> None:
    attempts = Attempts(lambda: 0.0)
    for i in range(MOST_ADDRESSES + 500):
        try_once(attempts, f"host{i}")
    assert len(attempts._records) == MOST_ADDRESSES
