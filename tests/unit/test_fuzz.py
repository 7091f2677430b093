"""The targets of `make fuzz` on their seeds, on damaged ones, and on all that a fuzzer ever broke them with."""

from pathlib import Path

import numpy as np
import pytest

from fuzz import seeds, targets
from tests.e2e.browsing import needs_gradio

CRASHES = sorted(path for path in (Path(targets.__file__).parent / "crashes").glob("*/*") if path.is_file())
ROUNDS = 60
pytestmark = needs_gradio  # uploads are parsed by a package that comes with it


@pytest.mark.parametrize("target", targets.TARGETS)
def test_seeds_and_damage(target: str) -> None:
    run = targets.TARGETS[target]
    random = np.random.default_rng(len(target))
    for seed in seeds.seeds(target):
        run(seed)
        for _ in range(ROUNDS // len(seeds.seeds(target))):
            run(damaged(random, seed))


def damaged(random: np.random.Generator, data: bytes) -> bytes:
    """Bytes are others, cut out, or there twice."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 5)):
        place = int(random.integers(len(changed)))
        changed[place] = random.integers(256)
    start, length = int(random.integers(len(changed))), int(random.integers(0, 30))
    if random.random() < 0.5:
        del changed[start : start + length]
    else:
        changed[start:start] = changed[start : start + length] * int(random.integers(1, 20))
    return bytes(changed)


def test_seeds_are_good() -> None:
    """A fuzzer that begins with what is refused at once finds little."""
    from focalsweep.photos.exif import tags_of
    from focalsweep.photos.microscopy import read_hyperstack

    (place := Path(targets._scratch()) / "seed.tif").write_bytes(seeds.seeds("microscope_file")[0])
    found = read_hyperstack(place)
    assert found is not None and found.step == pytest.approx(1.5e-6) and found.numerical_aperture == 0.4
    assert all(tags_of(data) for data in seeds.seeds("exif"))


@pytest.mark.parametrize("crash", CRASHES, ids=lambda path: f"{path.parent.name}/{path.name[:16]}")
def test_what_was_broken_once(crash: Path) -> None:
    targets.TARGETS[crash.parent.name](crash.read_bytes())


def test_a_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(targets, "read_stack_file", fails)
    with pytest.raises(KeyError):
        targets.TARGETS["stack_toml"](b"")
