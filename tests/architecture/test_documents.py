"""What documents name is there: files, functions and tests, and the road in at most ten steps."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from focalsweep.cli.main import app

ROOT = Path(__file__).parents[2]
PACKAGES = {"focalsweep": ROOT / "src" / "focalsweep", "focalsweep_research": ROOT / "research" / "focalsweep_research"}
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\.\*)?")
FOLDERS = ("src", "tests", "research", "benchmarks", "configs", "examples", "docs")


@cache
def members(module: Path) -> dict[str, set[str]]:
    """What a module defines; of classes their methods and fields as well."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {name for part in node.body for name in _names(part)}
        else:
            found |= {name: set() for name in _names(node)}
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def module_of(parts: list[str]) -> tuple[Path, list[str]] | None:
    """The file or folder of a dotted name, and what is left of the name; the product's package may be left out."""
    package, rest = (PACKAGES[parts[0]], parts[1:]) if parts[0] in PACKAGES else (PACKAGES["focalsweep"], parts)
    for count in range(len(rest), 0, -1):
        place = package.joinpath(*rest[:count])
        if place.is_dir() or place.with_suffix(".py").is_file():
            return (place if place.is_dir() else place.with_suffix(".py")), rest[count:]
    return None


def is_defined(name: str) -> bool:
    """Whether a module has this dotted name, "results.result.DepthResult.save"; "methods.*" is a whole room."""
    found = module_of(name.removesuffix(".*").split("."))
    if found is None:
        return False
    place, rest = found
    if not rest or place.is_dir():
        return not rest
    known = members(place)
    return rest[0] in known and (len(rest) == 1 or rest[1] in known[rest[0]])


def road() -> list[list[str]]:
    """Rows of the table of steps: number, what happens, where."""
    text = (ROOT / "docs" / "architecture.md").read_text().split("## The road")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0].isdecimal()]


def missing_of_the_road(where: str) -> list[str]:
    """Of a cell "`photos/reading.py`: `open_photos`, `Photos`": files and names that are not there.

    A name stands behind the file that has it, or belongs to one of the files before it.
    """
    missing, files = [], [PACKAGES["focalsweep"] / "estimate.py"]
    for name in CODE.findall(where):
        if name.endswith(".py"):
            files.append(PACKAGES["focalsweep"] / name)
            missing += [] if files[-1].is_file() else [name]
            continue
        first, _, rest = name.partition(".")
        known = [members(file)[first] for file in files if file.is_file() and first in members(file)]
        if not known or (rest and not any(rest in inside for inside in known)):
            missing.append(name)
    return missing


def test_the_road_has_at_most_ten_steps_and_they_are_there() -> None:
    steps = road()
    assert [int(step[0]) for step in steps] == list(range(1, len(steps) + 1)) and 5 <= len(steps) <= 10
    assert {step[0]: missing_of_the_road(step[2]) for step in steps} == {step[0]: [] for step in steps}
    assert all(".py`" in step[2] or "`_" in step[2] for step in steps)


def test_a_step_that_is_gone_is_noticed() -> None:
    assert (
        missing_of_the_road("`photos/photo_stack.py`: `Photos`, `Photos.register`, `photos/reading.py`: `open_photos`")
        == []
    )
    assert missing_of_the_road("`photos/gone.py`: `open_photos`") == ["photos/gone.py", "open_photos"]
    assert missing_of_the_road("`photos/reading.py`: `open_fotos`, `Photos.fly`") == ["open_fotos", "Photos.fly"]


def test_rooms_of_the_document_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text().split("## Rooms")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    told = {name for cell in cells for name in CODE.findall(cell)}
    rooms = PACKAGES["focalsweep"].iterdir()
    there = {path.stem for path in rooms if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert told == there - {"__init__"}


def moved() -> dict[str, list[list[str]]]:
    """Rows of docs/moved.md that end with a test (what was, where it is, tests), by the heading above them."""
    found: dict[str, list[list[str]]] = {}
    for section in (ROOT / "docs" / "moved.md").read_text().split("\n## ")[1:]:
        heading, *lines = section.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        found[heading] = [row for row in rows[2:] if len(row) == 3]  # below the table's head
    return found


def lost_names(cell: str) -> list[str]:
    """Names of a cell that no module has; one without its module is of the module before it, or beside that."""
    lost, before = [], ""
    for name in CODE.findall(cell):
        if not NAME.fullmatch(name):
            continue  # a file, a command, a value
        parents = [before, before.rpartition(".")[0], before.rpartition(".")[0].rpartition(".")[0]]
        candidates = [name, *(f"{parent}.{name}" for parent in parents if parent)]
        found = next((candidate for candidate in candidates if is_defined(candidate)), None)
        if found is None:
            lost.append(name)
        elif "." in found or before == "":
            before = found.removesuffix(".*")
    return lost


def test_what_moved_is_where_the_document_says() -> None:
    rows = moved()["Functions"]
    assert len(rows) > 30
    lost = {was: lost_names(now) for was, now, _ in rows}
    assert {was: names for was, names in lost.items() if names} == {}


def test_tests_of_what_moved_are_there() -> None:
    lost = []
    for was, _, tests in (row for rows in moved().values() for row in rows):
        folder, named = Path(), CODE.findall(tests)
        assert named, f"{was}: no test is named"
        for name in named:
            path = Path(name) if "/" in name else folder / name  # the second of a folder has its name alone
            folder = path.parent
            lost += [] if any(ROOT.glob(str(path))) else [name]
    assert lost == []


def test_a_name_that_moved_again_is_noticed() -> None:
    assert lost_names("`methods.registry.all_methods`, `choose_method`; `model.weights`, `sweepnet.SweepNet`") == []
    assert lost_names("`photos.frames.read_stack`, `.pictures`, `fs.x(stack)`") == []
    assert lost_names("`methods.registry.all_method`, `methods.gone.*`, `photos.reading.Photos.fly`") == [
        "methods.registry.all_method", "methods.gone.*", "photos.reading.Photos.fly",
    ]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_document_names_are_there(document: Path) -> None:
    """In commands and in the text; and links between documents."""
    text, here = document.read_text(), document.parent
    paths = re.findall(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w\.(?:py|toml|md|png|json)\b", text)
    lost = {path for path in paths if "NAME" not in path and not (ROOT / path).exists()}
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    assert lost | {link for link in links if not (here / link).exists()} == set()


def lost_references(text: str, names: set[str]) -> set[str]:
    """Documents and code that a comment or a docstring names, and that are nowhere in the repository."""
    named = set(re.findall(r"(?<![\w{}*])((?:[\w-]+/)*[\w-]+\.(?:md|tex|py))\b", text))
    return {name for name in named if not any(path == name or path.endswith(f"/{name}") for path in names)}


def test_code_refers_to_documents_and_files_that_are_there() -> None:
    folders = ("src", "research", "benchmarks", "examples")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if "tests" not in path.parts]
    names = {str(path.relative_to(ROOT)) for path in [*files, *DOCUMENTS, *(ROOT / "tests").rglob("*.py")]}
    names |= {str(path.relative_to(ROOT)) for path in (*(ROOT / "src").rglob("*.md"), *ROOT.glob("*.py"))}
    lost = {str(path.relative_to(ROOT)): lost_references(path.read_text(), names) for path in files}
    assert {path: found for path, found in lost.items() if found} == {}
    assert lost_references("see plan.md, `kernels.py` and sweep/costs.py", names) == {"plan.md", "kernels.py"}


def commands_in(text: str) -> list[str]:
    """Calls of the command line in a document: in backquotes, which a line may break, and in blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    called = [re.sub(r"^.*focalsweep\.cli\.main (-- )?", "focalsweep ", call) for call in (*lines, *spans)]
    return [call for call in called if re.match(r"focalsweep [a-z]+( |$)", call)]


def unknown_parts(call: str) -> list[str]:
    """The command, or the options of it, that the command line does not have."""
    _, name, *words = call.split()
    group: Any = typer.main.get_command(app)
    if name not in group.commands:
        return [name]
    command, words = group.commands[name], [*words, ""]
    if hasattr(command, "commands"):
        if words[0].startswith("-") or not words[0]:
            return []
        if words[0] not in command.commands:
            return [words[0]]
        command = command.commands[words[0]]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    return [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_are_understood(document: Path) -> None:
    wrong = {call: unknown_parts(call) for call in commands_in(document.read_text())}
    assert {call: parts for call, parts in wrong.items() if parts} == {}


def test_a_command_that_is_gone_is_noticed() -> None:
    text = "`focalsweep deep x` and `focalsweep\ndepth x --relativ`\n```sh\nfocalsweep bench speedy  # slow\n```\n"
    assert [unknown_parts(call) for call in commands_in(text)] == [["speedy"], ["deep"], ["--relativ"]]
