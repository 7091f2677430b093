"""The networks of the tables in docs/paper.md and docs/baselines.md: trained on equally many stacks, then measured.

    python research/scripts/tables.py ablation nyu --benchmark BENCHMARK --nyu NYU --stacks 24000 -o OUT

A table is a name of `PENDING` (tables/paper_report.py), which says which runs it shows. Each is trained once,
however many tables show it; a table is measured as soon as the last of its runs has ended. A second call goes on where
the first was stopped. OUT receives runs/, logs/, configs/ and results/.

One network of these rarely fills a GPU: several at a time do (`--at-a-time`), with NVIDIA's MPS running.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from focalsweep_research.cli.evaluate import read_names
from focalsweep_research.tables.paper_report import PENDING
from focalsweep_research.training.config import read_config

ROOT = Path(__file__).resolve().parents[1]
TABLES = [name for name, command in PENDING.items() if "=runs/" in command]
LEAST_SECONDS = 30  # a run that has less left is not begun
SEEDED = "-seed-"  # between a run's name and the seed of a repetition


class Experiments:
    """What is trained and measured where, until when."""

    def __init__(self, output: Path, folders: dict[str, Path | None], minutes: float) -> None:
        self.output, self._folders = output, folders
        self._began, self._ends = monotonic(), monotonic() + 60 * minutes
        for name in ("runs", "logs", "configs", "results"):
            (output / name).mkdir(parents=True, exist_ok=True)

    def train(self, name: str, stacks: int) -> None:
        """Train the run of this name, a config's with "-seed-2" after it or not, on so many stacks."""
        config = read_config(config_file(name))
        steps = max(1, round(stacks / config.batch_size))
        path = self.output / "configs" / f"{name}.toml"
        path.write_text(
            f"base = {json.dumps(str(config_file(name)))}\n"
            f"steps = {steps}\nwarmup_steps = {min(config.warmup_steps, steps // 4)}\n"
        )
        left = self._ends - monotonic()
        if left < LEAST_SECONDS:
            self.say(f"{name}: no time left")
            return
        command: list[str | Path] = ["train", path, "-o", self.output / "runs" / name, "--data", self.data_of(name)]
        command += ["--resume-if-any", "--cache", self.output / "cache", "--time-limit", f"{left / 60:.2f}"]
        _, seeded, seed = name.partition(SEEDED)
        self._run(name, [*command, *(["--seed", seed] if seeded else [])])

    def measure(self, table: str, repeated: dict[str, int], processes: int, without: list[str]) -> None:
        """Measure a table's methods but some, and those of its runs that there are."""
        words = [str(self.folder(word)) if word in self._folders else word for word in shlex.split(PENDING[table])]
        command: list[str | Path] = []
        for word in words:
            row, equals, folder = word.partition("=runs/")
            if not equals:
                listed = command and command[-1] == "--methods"
                command.append(";".join(name for name in read_names(word) if name not in without) if listed else word)
                continue
            command.pop()  # the --run before it
            for run in (self.output / "runs" / name for name in with_seeds(folder, repeated)):
                if (run / "checkpoint.pt").is_file():
                    command += ["--run", f"{row}={run}"]
        if table.startswith("nyu"):
            command += ["--cache", self.output / "cache"]
        if table in ("stack-size", "robustness") and self._folders["TEXTURES"]:
            command += ["--textures", self.folder("TEXTURES")]
        result = self.output / "results" / f"{table}.json"
        self._run(f"measuring-{table}", [*command, "-o", result], processes)

    def data_of(self, run: str) -> Path:
        """The folder of what a run trains on."""
        return self.folder("NYU" if read_config(config_file(run)).data["kind"] == "nyu" else "BENCHMARK")

    def folder(self, name: str) -> Path:
        folder = self._folders[name]
        if folder is None:
            raise typer.BadParameter(f"these tables need the stacks of {name}: give --{name.lower()} FOLDER")
        return folder

    def _run(self, name: str, arguments: list[str | Path], processes: int = 1) -> None:
        started, log = monotonic(), self.output / "logs" / f"{name}.log"
        begin = [sys.executable, "-m"]
        if processes > 1:
            begin += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
        command = [*begin, "focalsweep.cli.main", *(["--"] if processes > 1 else []), *map(str, arguments)]
        with log.open("a") as file:
            done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=_environment())
        steps = re.findall(r"at step (\d+)", log.read_text())  # fewer than asked for where the time was up
        outcome = f"failed, see {log}" if done.returncode else f"{steps[-1]} steps" if steps else "done"
        self.say(f"{name}: {outcome}, {monotonic() - started:.0f} s")

    def say(self, text: str) -> None:
        print(f"{monotonic() - self._began:5.0f} s  {text}", flush=True)


def _environment() -> dict[str, str]:
    """Of a process among several on one GPU: more threads than one each would be in each other's way."""
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def config_file(run: str) -> Path:
    """The config of a run; a repetition's is that of the run that it repeats."""
    return ROOT / "configs" / f"{run.partition(SEEDED)[0]}.toml"


def with_seeds(run: str, repeated: dict[str, int]) -> list[str]:
    """A run and its repetitions: sweepnet-nyu, sweepnet-nyu-seed-1 ..."""
    return [run, *(f"{run}{SEEDED}{seed}" for seed in range(1, repeated.get(run, 1)))]


def runs_of(table: str, repeated: dict[str, int]) -> list[str]:
    """Names of the runs that a table shows, each that of its config."""
    return [name for run in re.findall(r"=runs/([\w-]+)", PENDING[table]) for name in with_seeds(run, repeated)]


def read_repeated(texts: list[str]) -> dict[str, int]:
    """Of "sweepnet-nyu=3"."""
    try:
        return {name: int(count) for name, count in (text.split("=") for text in texts)}
    except ValueError:
        raise typer.BadParameter(f"--repeat is NAME=COUNT, but is {' '.join(texts)}") from None


def main(
    tables: Annotated[list[str], typer.Argument(help=f"Of {', '.join(TABLES)}.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all of it.")],
    benchmark: Annotated[Path | None, typer.Option(help="What focalsweep render made.")] = None,
    nyu: Annotated[Path | None, typer.Option(help="NYU Depth V2.")] = None,
    stacks: Annotated[int, typer.Option(min=1, help="That each network sees.")] = 216_184,
    textures: Annotated[Path | None, typer.Option(help="For generated scenes, as in focalsweep evaluate.")] = None,
    without: Annotated[str, typer.Option(help="Methods that are measured elsewhere, as in focalsweep evaluate.")] = "",
    repeat: Annotated[list[str] | None, typer.Option(help="NAME=3: with three seeds, one row with its spread.")] = None,
    at_a_time: Annotated[int, typer.Option(min=1, help="Trainings side by side.")] = 1,
    processes: Annotated[int, typer.Option(min=1, help="That share the stacks of a measurement.")] = 1,
    minutes: Annotated[float, typer.Option(help="After which trainings end in good order.")] = 1e6,
) -> None:
    """Train and measure what the tables show."""
    unknown = [table for table in tables if table not in TABLES]
    if unknown:
        raise typer.BadParameter(f"no table of networks is called {unknown[0]}: it is one of {', '.join(TABLES)}")
    folders = {"BENCHMARK": benchmark, "NYU": nyu, "TEXTURES": textures}
    experiments = Experiments(
        output.resolve(), {name: path and path.resolve() for name, path in folders.items()}, minutes
    )
    repeated = read_repeated(repeat or [])
    names = dict.fromkeys(name for table in tables for name in runs_of(table, repeated))
    for name in names:  # asked for now, not after the first hour
        experiments.data_of(name)
    for word in {word for table in tables for word in PENDING[table].split() if word in folders}:
        experiments.folder(word)
    with ThreadPoolExecutor(at_a_time) as trainings:
        begun = {name: trainings.submit(experiments.train, name, stacks) for name in names}
        for table in tables:
            for name in runs_of(table, repeated):
                begun[name].result()
            experiments.measure(table, repeated, processes, read_names(without))


if __name__ == "__main__":
    typer.run(main)
