"""Wrong passwords: each takes a while, and after some of them an address has to wait."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

WRONG_SECONDS = 1.0  # until a wrong password is answered
FREE_TRIES = 5
LONGEST_WAIT = 900.0  # seconds, after many
FORGOTTEN_AFTER = 3600.0
MOST_ADDRESSES = 10_000  # that are remembered
AT_ONCE = 16  # passwords that are looked at, of all addresses


@dataclass
class _Record:
    wrong: int = 0
    until: float = 0.0
    last: float = 0.0
    trying: bool = False


class Attempts:
    """Who tried how often. One try of an address at a time, so that many at once are no way round."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._trying = 0

    def begin(self, address: str) -> float:
        """0: it may try, and `end` must follow; otherwise the seconds that it has to wait."""
        now, name = self._clock(), _network(address)
        record = self._records.get(name)
        if record is None or (now - record.last > FORGOTTEN_AFTER and not record.trying):
            record = self._records[name] = _Record()
        self._records.move_to_end(name)
        while len(self._records) > MOST_ADDRESSES:
            self._records.popitem(last=False)
        if now < record.until:
            return record.until - now
        if record.trying or self._trying >= AT_ONCE:
            return WRONG_SECONDS
        record.trying, record.last = True, now
        self._trying += 1
        return 0.0

    def end(self, address: str, wrong: bool) -> None:
        now, name = self._clock(), _network(address)
        self._trying -= 1
        record = self._records.get(name, _Record())
        record.trying, record.last = False, now
        record.wrong = record.wrong + 1 if wrong else 0
        if record.wrong >= FREE_TRIES:
            record.until = now + min(LONGEST_WAIT, 2.0 ** (record.wrong - FREE_TRIES + 2))


def _network(address: str) -> str:
    """Of IPv6 the first 64 bits: whoever has one such address has all of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
