"""Imports point downwards, the public names exist, and `import focalsweep` is cheap."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import focalsweep
from focalsweep.methods.registry import all_methods

PACKAGE = Path(focalsweep.__file__).parent
LEVELS = (  # low to high: a room imports from lower levels only, and within itself
    {"errors", "progress", "threads", "version"},
    {"validation", "memory"},
    {"lenses"},
    {"types"},
    {"optics"},
    {"sweep", "model"},
    {"methods", "photos", "results"},
    {"trust"},
    {"estimate"},
    {"to_files", "from_files", "calibrate"},
    {"batch"},
    {"web"},
    {"cli"},
)
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
NEVER = {("model", "optics")}
RESEARCH = "focalsweep_research"
PAGE = {Path("web", f"{name}.py") for name in ("page", "answers", "events")}  # made of Gradio's parts
HEAVY = ("matplotlib", "gradio", "mitsuba", "rawpy", "ray", "scipy", "skimage", "cv2", "triton")


def room_of(path: Path, package: Path) -> str:
    """The folder or module directly under the package; "" for its __init__."""
    first = path.relative_to(package).parts[0].removesuffix(".py")
    return "" if first in ("__init__", "__main__") else first


def imported_rooms(path: Path, package: Path) -> set[str]:
    """Rooms of the package that a file imports, anywhere in it; "" stands for the package's own __init__."""
    name = package.name
    here = [name, *path.relative_to(package).parts[:-1]]
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*here[: len(here) - node.level + 1], *([base] if base else [])])
            modules |= {f"{base}.{alias.name}" for alias in node.names}
    inside = [module.split(".") for module in modules if module == name or module.startswith(f"{name}.")]
    rooms = {parts[1] if len(parts) > 1 else "" for parts in inside}
    return {
        room if room in LEVEL or (package / room).is_dir() or (package / f"{room}.py").is_file() else ""
        for room in rooms
    }


def violations(package: Path) -> list[str]:
    """Every import of the package that does not point downwards."""
    found = []
    for path in sorted(package.rglob("*.py")):
        room = room_of(path, package)
        if room == "":
            continue  # the public names may come from everywhere
        where = path.relative_to(package)
        if RESEARCH in path.read_text():
            found.append(f"{where} names {RESEARCH}, which is another package")
        if room not in LEVEL:
            found.append(f"{where}: the room {room!r} has no level")
            continue
        for other in sorted(imported_rooms(path, package) - {room}):
            if other == "":
                if LEVEL[room] < LEVEL["batch"]:
                    found.append(f"{where} imports the package itself, which imports everything")
            elif other not in LEVEL:
                found.append(f"{where} imports {other!r}, which has no level")
            elif LEVEL[other] >= LEVEL[room] or (room, other) in NEVER:
                found.append(f"{where} imports {other}, which is not below {room}")
    return found


def test_imports_point_downwards() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("optics/psf.py", "from focalsweep.sweep.costs import ReblurCost"),
        ("optics/psf.py", "def f():\n    from focalsweep.sweep import costs"),
        ("types.py", "import focalsweep.optics.psf"),
        ("types.py", "from focalsweep.optics import psf"),
        ("types.py", "from focalsweep import optics"),
        ("types.py", "from .optics import psf"),
        ("sweep/costs.py", "from ..estimate import estimate_depth"),
        ("sweep/costs.py", "from .. import estimate"),
        ("sweep/costs.py", "from focalsweep import Camera"),
        ("model/blocks.py", "from focalsweep.sweep.costs import ReblurCost"),
        ("model/blocks.py", "from focalsweep.optics.psf import Disk"),
        ("photos/reading.py", "from focalsweep.results.result import DepthResult"),
        ("estimate.py", "from focalsweep.batch.one_stack import work_on"),
        ("estimate.py", "from focalsweep.to_files import Job"),
        ("methods/sweep.py", "from focalsweep.photos.reading import load_stack"),
        ("batch/one_stack.py", "from focalsweep.cli.main import main"),
        ("estimate.py", "from focalsweep_research.metrics.errors import mae"),
        ("helpers.py", "import torch"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, line: str) -> None:
    package = tmp_path / "focalsweep"
    for good, text in {
        "__init__.py": "from focalsweep.estimate import estimate_depth",
        "types.py": "import torch",
        "optics/psf.py": "from focalsweep.types import Camera",
        "sweep/costs.py": "from focalsweep.optics.psf import Disk\nfrom . import volume",
        "sweep/volume.py": "from .costs import ReblurCost\nfrom ..types import Camera",
        "estimate.py": "from focalsweep.sweep.costs import ReblurCost",
        "cli/main.py": "from focalsweep import estimate\nimport focalsweep\nfrom focalsweep import load_stack",
    }.items():
        (package / good).parent.mkdir(parents=True, exist_ok=True)
        (package / good).write_text(text)
    assert violations(package) == []
    (package / file).parent.mkdir(exist_ok=True)
    (package / file).write_text(line)
    assert len(violations(package)) == 1


def lists_of_methods(package: Path) -> list[str]:
    """Files that list methods by name beside the registry: literals with two of its names or more."""
    names, found = set(all_methods()), []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else getattr(node, "keys", [])
            words = {part.value for part in parts if isinstance(part, ast.Constant)}
            if len(words & names) > 1 and room_of(path, package) != "methods":
                found.append(f"{path.relative_to(package)}:{node.lineno}")
    return found


def test_methods_are_listed_in_the_registry_alone(tmp_path: Path) -> None:
    assert lists_of_methods(PACKAGE) == []
    (tmp_path / "planted.py").write_text('METHODS = ("sweep", "argmin")\nNAMES = {"paper": 1, "sweep": 2}')
    assert lists_of_methods(tmp_path) == ["planted.py:1", "planted.py:2"]


def private_names(folder: Path) -> list[str]:
    """Files that use names of the product that begin with an underscore."""
    private = re.compile(r"focalsweep(\.\w+)*\._(?!_)|from focalsweep(\.\w+)* import [^\n]*\b_[a-z]|\._unchecked\b")
    return [path.name for path in sorted(folder.rglob("*.py")) if private.search(path.read_text())]


def test_research_uses_what_a_user_can_use(tmp_path: Path) -> None:
    research = PACKAGE.parents[1] / "research"
    assert [private_names(research / name) for name in (RESEARCH, "scripts")] == [[], []]
    (tmp_path / "planted.py").write_text("from focalsweep.estimate import predict, _fused")
    (tmp_path / "another.py").write_text("stack = stack._unchecked(images=images)")
    assert private_names(tmp_path) == ["another.py", "planted.py"]


def run_python(code: str) -> str:
    """The output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = run_python(
        "import sys, torch; before = set(sys.modules); import focalsweep; print(*(set(sys.modules) - before))"
    )
    heavy = {module.split(".")[0] for module in loaded.split()} & set(HEAVY)
    assert heavy == set()
    assert "focalsweep" in loaded.split()


def test_import_time_beyond_torch() -> None:
    code = (
        "import time, torch, numpy; start = time.perf_counter(); import focalsweep; print(time.perf_counter() - start)"
    )
    assert min(float(run_python(code)) for _ in range(2)) < 2.0


def test_public_names_exist() -> None:
    assert len(set(focalsweep.__all__)) == len(focalsweep.__all__)
    for name in focalsweep.__all__:
        assert hasattr(focalsweep, name), name
    promised = {"Camera", "FocalStack", "DepthGrid", "coc_px", "cost_volume", "estimate_depth", "load_stack"}
    assert promised <= set(focalsweep.__all__)


def test_every_module_is_importable() -> None:
    modules = [
        ".".join(("focalsweep", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.stem != "__main__"
        and "kernel" not in str(path)  # kernels need Triton
        and (find_spec("gradio") or path.relative_to(PACKAGE) not in PAGE)
    ]
    run_python("import importlib\n" + "\n".join(f"importlib.import_module({module!r})" for module in modules))
