"""Training configs: what is read, and one sentence for everything that is wrong."""

import dataclasses
import math
from pathlib import Path

import pytest

from focalsweep_research.training.config import TrainingConfig, read_config
from focalsweep_research.training.ours import build_cost
from tests.errors import assert_one_sentence, message_of

GOOD = 'network = "sweepnet"\ncost = "reblur"\nsteps = 100\nbatch_size = 4\nlearning_rate = 1e-3\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_required_keys_suffice_and_the_rest_has_defaults(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, GOOD))
    assert (config.network, config.cost, config.steps, config.batch_size) == ("sweepnet", "reblur", 100, 4)
    assert config.learning_rate == 1e-3
    assert config.image_size == (256, 256)
    assert config.planes == 64
    assert config.network_options == {} and config.data == {}


def test_every_key_is_read(tmp_path: Path) -> None:
    text = GOOD + (
        'warmup_steps = 5\nweight_decay = 0\ngradient_clip = inf\nema_decay = 0.9\nprecision = "bfloat16"\nseed = 7\n'
        "validate_every = 10\nvalidation_samples = 8\ncheckpoint_every = 20\nlog_every = 1\nimage_size = [64, 96]\n"
        'planes = 32\naccumulate = 3\nfreeze_norms_at = 0.5\nstart_from = "shipped"\n'
        "[cost_options]\nnormalise = false\n"
        "[network_options]\nchannels = [16, 32]\n[data]\nframes = [2, 8]\nnoise = {low = 0, high = 1}\n"
    )
    config = read_config(write(tmp_path, text))
    assert config.gradient_clip == math.inf
    assert config.weight_decay == 0.0 and isinstance(config.weight_decay, float)
    assert config.image_size == (64, 96)
    assert config.network_options == {"channels": [16, 32]}
    assert config.data == {"frames": [2, 8], "noise": {"low": 0, "high": 1}}
    given = {line.split(" = ")[0].strip("[]") for line in text.splitlines()}
    assert {key.name for key in dataclasses.fields(TrainingConfig)} <= given


def test_a_config_survives_its_plain_form() -> None:
    config = TrainingConfig("papernet", "paper", 10, 2, 1e-3, image_size=(32, 48), data={"frames": [2, 3]})
    assert TrainingConfig.from_dict(config.to_dict(), "checkpoint.pt") == config


def test_configs_are_frozen() -> None:
    config = TrainingConfig("papernet", "paper", 10, 2, 1e-3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.steps = 20  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("learning_rate", "learning_rat", ["learning_rat'", "0.001", "did you mean learning_rate"]),
        ("steps = 100", "steps = 100\nzzz = 3", ["'zzz'", "3", "batch_size"]),
        ("steps = 100\n", "", ["steps is missing", "whole number"]),
        ("steps = 100", "steps = 0", ["steps", "but is 0", "1 or more"]),
        ("steps = 100", "steps = 1e5", ["steps", "100000.0", "whole number"]),
        ("steps = 100", 'steps = "many"', ["steps", "'many'"]),
        ("batch_size = 4", "batch_size = true", ["batch_size", "True", "whole number"]),
        ("batch_size = 4", "batch_size = -2", ["batch_size", "-2"]),
        ('"sweepnet"', '"sweepnt"', ["network", "'sweepnt'", '"sweepnet" or "papernet"']),
        ('"sweepnet"', "3", ["network", "3", '"papernet"']),
        ('"reblur"', '"blur"', ["cost", "'blur'", '"paper" or "reblur"']),
        ("1e-3", "0", ["learning_rate", "but is 0", "above 0"]),
        ("1e-3", "nan", ["learning_rate", "nan"]),
        ("1e-3", "inf", ["learning_rate", "inf"]),
        ("1e-3", '"fast"', ["learning_rate", "'fast'"]),
        ("1e-3", "1e-3\nwarmup_steps = 100", ["warmup_steps", "steps (100)", "is 100"]),
        ("1e-3", "1e-3\nwarmup_steps = -1", ["warmup_steps", "-1"]),
        ("1e-3", "1e-3\nweight_decay = -0.1", ["weight_decay", "-0.1"]),
        ("1e-3", "1e-3\ngradient_clip = 0.0", ["gradient_clip", "0.0", "inf for none"]),
        ("1e-3", "1e-3\nema_decay = 1.0", ["ema_decay", "1.0", "below 1"]),
        ("1e-3", '1e-3\nprecision = "float16"', ["precision", "'float16'", '"bfloat16"']),
        ("1e-3", "1e-3\nseed = -1", ["seed", "-1"]),
        ("1e-3", "1e-3\nvalidate_every = 0", ["validate_every", "0"]),
        ("1e-3", "1e-3\nvalidation_samples = 0", ["validation_samples", "0"]),
        ("1e-3", "1e-3\ncheckpoint_every = 0.5", ["checkpoint_every", "0.5"]),
        ("1e-3", "1e-3\nlog_every = []", ["log_every", "[]"]),
        ("1e-3", "1e-3\nimage_size = 256", ["image_size", "256", "[height, width]"]),
        ("1e-3", "1e-3\nimage_size = [256, 4]", ["image_size", "[256, 4]"]),
        ("1e-3", "1e-3\nplanes = 1", ["planes", "1", "from 2 to 512"]),
        ("1e-3", "1e-3\ndata = 5", ["data", "5", "table"]),
        ("1e-3", "1e-3\n[data]\nday = 2024-01-01", ["data", "2024", "table"]),
        ("1e-3", "1e-3\nnetwork_options = [1]", ["network_options", "[1]", "table"]),
        ("steps = 100", "steps 100", ["no valid TOML"]),
    ],
)
def test_errors_name_file_key_value_and_remedy(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    assert_one_sentence(message_of(lambda: read_config(path), ValueError), str(path), *parts)


def test_an_absent_file(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert_one_sentence(message_of(lambda: read_config(path), FileNotFoundError), str(path), "configs/")


def test_a_base_has_what_the_file_leaves_out(tmp_path: Path) -> None:
    """Key by key, in tables too, over several bases in several folders; a list is replaced whole."""
    (tmp_path / "below").mkdir()
    (tmp_path / "base.toml").write_text(
        GOOD + "seed = 3\n[cost_options]\nnormalise = false\n[data]\nframes = [2, 8]\nnoise = {low = 0, high = 1}\n"
    )
    (tmp_path / "below" / "middle.toml").write_text('base = "../base.toml"\nsteps = 200\n[data]\nframes = [4]\n')
    path = write(tmp_path, 'base = "below/middle.toml"\nplanes = 32\n[data]\nrays = 8\nnoise = {high = 2}\n')
    expected = TrainingConfig(
        "sweepnet", "reblur", 200, 4, 1e-3, seed=3, planes=32, cost_options={"normalise": False},
        data={"frames": [4], "rays": 8, "noise": {"low": 0, "high": 2}},
    )  # fmt: skip
    assert read_config(path) == expected
    assert "base" not in expected.to_dict()


def test_a_table_in_place_of_a_value_and_the_other_way_round(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(GOOD + "[data]\nframes = 3\nnoise = {low = 0}\n")
    path = write(tmp_path, 'base = "base.toml"\n[data]\nframes = {fewest = 2}\nnoise = 5\n')
    assert read_config(path).data == {"frames": {"fewest": 2}, "noise": 5}


@pytest.mark.parametrize(
    ("text", "error", "parts"),
    [
        ('base = "none.toml"', FileNotFoundError, ["run.toml", "base 'none.toml' is not a file", "as seen from"]),
        ("base = 3", ValueError, ["run.toml", "base must be the path of another config", "but is 3"]),
        ('base = "run.toml"', ValueError, ["run.toml", "base goes round in a circle"]),
        ('base = "one.toml"', ValueError, ["circle", "run.toml on ", "one.toml on ", "two.toml", "one.toml:"]),
        ('base = "broken.toml"', ValueError, ["broken.toml is no valid TOML"]),
        ('base = "good.toml"\nstep = 3', ValueError, ["run.toml on ", "good.toml", "'step'", "did you mean steps"]),
        ('base = "wrong.toml"', ValueError, ["run.toml on ", "wrong.toml", "steps", "but is 0"]),
    ],
)
def test_a_bad_base_is_one_sentence(tmp_path: Path, text: str, error: type[Exception], parts: list[str]) -> None:
    files = {
        "one": 'base = "two.toml"', "two": 'base = "one.toml"', "broken": "steps 100", "good": GOOD,
        "wrong": GOOD.replace("100", "0"),
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / f"{name}.toml").write_text(content)
    assert_one_sentence(message_of(lambda: read_config(write(tmp_path, text)), error), *parts)


CONFIGS = sorted((Path(__file__).parents[4] / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_of_the_repository_are_read(path: Path) -> None:
    build_cost(read_config(path))
    assert f"focalsweep train configs/{path.name} -o " in path.read_text().splitlines()[0]
