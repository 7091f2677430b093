"""What a training run is told: a TOML file -> `TrainingConfig`. A key that is unknown or out of range is an error."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from focalsweep_research.training.kinds import known_networks


@dataclass(frozen=True)
class Rule:
    """What a value must be, as a test and in words."""

    fits: Callable[[Any], bool]
    words: str


def _whole(low: int, high: float = math.inf) -> Rule:
    words = f"a whole number of {low} or more" if high == math.inf else f"a whole number from {low} to {high:g}"
    return Rule(lambda value: type(value) is int and low <= value <= high, words)


def _number(fits: Callable[[float], bool], words: str) -> Rule:
    return Rule(lambda value: type(value) in (int, float) and fits(value), words)


def _one_of(*names: str) -> Rule:
    return Rule(lambda value: type(value) is str and value in names, " or ".join(f'"{name}"' for name in names))


def _is_size(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(n) is int and n >= 8 for n in value)


def _is_plain(value: Any) -> bool:
    """Whether it survives a checkpoint: TOML's dates and times do not."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return all(_is_plain(item) for item in value) if isinstance(value, list) else type(value) in (str, int, float, bool)


_ABOVE_ZERO = _number(lambda value: 0 < value < math.inf, "a number above 0")
_SIZE = Rule(_is_size, "two whole numbers of 8 or more, [height, width]")
_TABLE = Rule(lambda value: isinstance(value, dict) and _is_plain(value), "a table of texts, numbers, yes or no, lists")


def _key(rule: Rule, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"rule": rule})


@dataclass(frozen=True)
class TrainingConfig:
    """All settings of a run but the machine's; stored in its checkpoints.

    Args:
        network: which network is trained.
        cost: which cost volume it reads; "none" for networks that read the frames.
        steps: updates of the weights in the whole run.
        batch_size: stacks in memory at a time, in each process: under torchrun a step sees this many times the
            processes.
        accumulate: batches that each process adds up for a step, where more do not fit into memory at a time.
        learning_rate: the highest, after the warm-up; the schedule ends at 0.
        warmup_steps: steps of linear rise before the cosine.
        weight_decay: AdamW's, on weights of two axes or more (never on biases and norms).
        gradient_clip: the gradient's largest norm; inf for none.
        ema_decay: of the averaged weights, which are those that validation sees.
        freeze_norms_at: share of the run after which batch norms keep the statistics that they have by then.
        precision: of the network's arithmetic; the weights stay float32.
        seed: of the loop's own randomness (dropout); the data's is in `data`.
        validate_every, checkpoint_every, log_every: steps.
        validation_samples: rounded up to whole batches.
        image_size: height, width of the training pictures, pixels.
        planes: of the sweep.
        cost_options: keywords of the cost, for ablations: outlier_removal, normalise, neighbourhood_sigma_px ...
        start_from: weights to begin with: "shipped", those of the package, or the folder of another run; "" for none.
        network_options: keywords of the network's constructor, which checks them.
        data: where stacks come from (kind: generator, stacks, or what another package adds) and its settings, which it
            checks.
    """

    network: str = _key(Rule(lambda value: True, "the name of a network"))
    cost: str = _key(_one_of("paper", "reblur", "none"))
    steps: int = _key(_whole(1))
    batch_size: int = _key(_whole(1))
    learning_rate: float = _key(_ABOVE_ZERO)
    accumulate: int = _key(_whole(1), 1)
    warmup_steps: int = _key(_whole(0), 0)
    weight_decay: float = _key(_number(lambda value: 0 <= value < math.inf, "a number of 0 or more"), 0.0)
    gradient_clip: float = _key(_number(lambda value: value > 0, "a number above 0, or inf for none"), 1.0)
    ema_decay: float = _key(_number(lambda value: 0 <= value < 1, "a number of 0 or more and below 1"), 0.999)
    freeze_norms_at: float = _key(_number(lambda value: 0 <= value <= 1, "a number from 0 to 1"), 1.0)
    precision: str = _key(_one_of("bfloat16", "float32"), "float32")
    seed: int = _key(_whole(0, 2**31 - 1), 0)
    validate_every: int = _key(_whole(1), 1000)
    validation_samples: int = _key(_whole(1), 64)
    checkpoint_every: int = _key(_whole(1), 1000)
    log_every: int = _key(_whole(1), 50)
    image_size: tuple[int, int] = _key(_SIZE, (256, 256))
    planes: int = _key(_whole(2, 512), 64)
    cost_options: dict[str, Any] = field(default_factory=dict, metadata={"rule": _TABLE})
    start_from: str = _key(Rule(lambda value: type(value) is str, "a text"), "")
    network_options: dict[str, Any] = field(default_factory=dict, metadata={"rule": _TABLE})
    data: dict[str, Any] = field(default_factory=dict, metadata={"rule": _TABLE})

    def __post_init__(self) -> None:
        networks = known_networks()
        if self.network not in networks:
            names = " or ".join(f'"{name}"' for name in networks)
            raise ValueError(f"network must be {names}, but is {self.network!r}")
        for key in fields(self):
            value, rule = getattr(self, key.name), key.metadata["rule"]
            if not rule.fits(value):
                raise ValueError(f"{key.name} must be {rule.words}, but is {value!r}")
        if self.warmup_steps >= self.steps:
            raise ValueError(
                f"warmup_steps must be fewer than steps ({self.steps}), but is {self.warmup_steps}: "
                "shorten the warm-up or lengthen the run"
            )
        if networks[self.network].reads_costs == (self.cost == "none"):
            reads = "no cost volume: set cost to" if self.cost != "none" else "a cost volume: cost must not be"
            raise ValueError(f'{self.network} reads {reads} "none", but cost is {self.cost!r}')
        object.__setattr__(self, "image_size", tuple(self.image_size))
        for name in (
            "learning_rate",
            "weight_decay",
            "gradient_clip",
            "ema_decay",
            "freeze_norms_at",
        ):  # TOML's 1 for 1.0
            object.__setattr__(self, name, float(getattr(self, name)))

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], origin: str | Path) -> TrainingConfig:
        """Checked settings; `origin` (the file they come from) begins every error."""
        keys = {key.name: key for key in fields(cls)}
        for name in settings:
            if name not in keys:
                near = difflib.get_close_matches(name, keys, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(keys)}"
                raise ValueError(f"{origin}: unknown key {name!r} (= {settings[name]!r}): {remedy}")
        for name, key in keys.items():
            required = key.default is MISSING and key.default_factory is MISSING
            if required and name not in settings:
                raise ValueError(f"{origin}: {name} is missing: add it, {key.metadata['rule'].words}")
        try:
            return cls(**settings)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain settings, for a checkpoint; `from_dict` reads them back."""
        return asdict(self) | {"image_size": list(self.image_size)}


def read_config(path: str | Path) -> TrainingConfig:
    """The config in a TOML file.

    Its `base`, another file (as seen from its folder), has the keys that it leaves out; tables are joined key by key.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file: give a training config, such as configs/sweepnet.toml")
    files: list[Path] = []
    settings = _read_with_base(path, files)
    return TrainingConfig.from_dict(settings, " on ".join(map(str, files)))


def _read_with_base(path: Path, files: list[Path]) -> dict[str, Any]:
    """The settings of a file and its bases; `files` are those read before it, and receive it."""
    try:
        settings = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no valid TOML: {error}") from None
    files.append(path)
    if "base" not in settings:
        return settings
    base = settings.pop("base")
    if not isinstance(base, str):
        raise ValueError(f"{path}: base must be the path of another config, but is {base!r}")
    below = path.parent / base
    if not below.is_file():
        raise FileNotFoundError(f"{path}: its base {base!r} is not a file: give its path as seen from {path.parent}")
    if any(below.samefile(file) for file in files):
        chain = " on ".join(map(str, [*files, base]))
        raise ValueError(f"{path}: base goes round in a circle, {chain}: leave it out of one of them")
    return _joined(_read_with_base(below, files), settings)


def _joined(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both, table by table; what both have is as `above` has it."""
    both = [key for key in above if isinstance(below.get(key), dict) and isinstance(above[key], dict)]
    return {**below, **above, **{key: _joined(below[key], above[key]) for key in both}}
