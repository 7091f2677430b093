"""The table of flags is whole, every flag in it exists, and no sentence of the library has a flag in it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
import typer

import focalsweep
from focalsweep.cli.main import app
from focalsweep.cli.words import FLAGS, FLAGS_OF_OTHERS, PHRASES, WORDS
from focalsweep.web import words as labels

PACKAGE = Path(focalsweep.__file__).parent
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if "cli" not in path.relative_to(PACKAGE).parts]
SAYS = re.compile(r"Sentence|\w*Error")
FLAG = re.compile(r"--[A-Za-z]")
PYTHON_ALONE = {
    "camera": "an argument of FocalStack",
    "count": "an argument of DepthGrid",
    "mode": "an argument of measure_alignment",
}
"""What neither the command line nor the page can get wrong."""
NOT_ON_THE_PAGE = {
    "alignment",
    "distances",
    "lens",
    "region",
    "save_alignment",
    "calibrate",
    "known_distance",
    "step",
    "pixel_size",
    "numerical_aperture",
    "positions",
    "align",
    "method",
    "device",
    "video_frames",
    "overwrite",
    "address",
    "cores",
    "host",
    "port",
    "auth",
    "exports",
}
OTHER_PROGRAMS = {  # whose flags are named: CSS, git, recipes, Ray
    "web/style.py": "--",
    "version.py": "--short",
    "model/weights.py": "focalsweep train",
    "batch/on_ray.py": "ray start --head",
}


def test_every_flag_exists_where_it_is_said() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for command, flags in {"depth": FLAGS, **FLAGS_OF_OTHERS}.items():
        known = {flag for parameter in commands[command].params for flag in parameter.opts}
        assert set(flags.values()) <= known, command
    names = [name for flags in (FLAGS, PHRASES, *FLAGS_OF_OTHERS.values()) for name in flags]
    assert len(names) == len(set(names)) == len(WORDS)


def test_every_option_of_depth_has_a_name() -> None:
    options = typer.main.get_command(app).commands["depth"].params  # type: ignore[attr-defined]
    flags = {flag for parameter in options for flag in parameter.opts if flag.startswith("--")}
    assert flags - set(FLAGS.values()) == {"--json", "--quiet"}  # no sentence is about these


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every setting that a sentence names."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        filled = {keyword.arg for keyword in node.keywords} | {"value", "rule"}
        if not SAYS.fullmatch(called):
            continue
        texts = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("remedy", "rule"))]
        for text in texts:
            for part in ast.walk(text):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and is_template(part.value):
                    for _, name, form, _ in Formatter().parse(part.value):
                        if name and name not in filled:
                            yield node.lineno, f"{name}:{form}" if form else name


def is_template(text: str) -> bool:
    try:
        list(Formatter().parse(text))
    except ValueError:
        return False
    return "{" in text


def all_names() -> dict[str, str]:
    """Every setting that the library names, and where; also in templates that are constants of a module."""
    found = {name: f"{path.name}:{line}" for path in FILES for line, name in names_in(path.read_text())}
    constants = ['align="none"', "address=local"]  # of `overlap` and `on_ray`
    return found | dict.fromkeys(constants, "a constant")


def test_every_setting_that_is_named_has_a_flag_or_a_phrase() -> None:
    names = all_names()
    assert {"focal_length", "relative=True", "stack.toml", "memory"} <= set(names)
    for name, place in names.items():
        assert {name, name.partition("=")[0]} & {*WORDS, *PYTHON_ALONE}, f"{place} names {name}"


def test_every_setting_that_is_named_has_a_label_or_a_phrase() -> None:
    for name, place in all_names().items():
        known = {*labels.WORDS, *NOT_ON_THE_PAGE, *PYTHON_ALONE}
        assert {name, name.partition("=")[0]} & known, f"{place} names {name}"
        assert "=" not in name or name in labels.WORDS or name.partition("=")[0] in NOT_ON_THE_PAGE, place


def test_names_are_found() -> None:
    source = 'raise InputError("{a} is {value}, not {b:g}", b=1, remedy=f"give {{c}}" if x else "{d=True}, {e}", e=2)'
    assert {name for _, name in names_in(source)} == {"a", "c", "d=True"}


def flags_in(source: str) -> list[str]:
    """Strings with a flag in them, comments of the code left out."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in strings if id(node) not in documents and FLAG.search(node.value)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_sentence_of_the_library_has_a_flag(path: Path) -> None:
    allowed = OTHER_PROGRAMS.get(str(path.relative_to(PACKAGE).as_posix()))
    for text in flags_in(path.read_text()):
        assert allowed and allowed in text, text


def test_flags_are_found() -> None:
    assert flags_in('"""--said."""\nx = f"{a}: --no-refine"\n# --y\nz = "a -- b"') == [": --no-refine"]


def test_templates_are_no_f_strings() -> None:
    """What a user wrote may have braces: it fills a template, and is never part of one."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if called in ("Sentence", "InputError", "InputTypeError", "InputFileExistsError", "ClusterError"):
                assert not (node.args and isinstance(node.args[0], ast.JoinedStr)), f"{path.name}:{node.lineno}"
