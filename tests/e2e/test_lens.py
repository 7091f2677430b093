"""`focalsweep calibrate` and `depth --lens` on photos of a plane through a curved field."""

from pathlib import Path

import numpy as np
import pytest

from tests.curved import CORNER, curvature, curved_plane, write_photos
from tests.e2e.running import Run, assert_refused, runner


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd)


@pytest.mark.slow
def test_a_profile_is_made_and_used(run: Run, tmp_path: Path) -> None:
    stack, _ = curved_plane()
    wall = write_photos(tmp_path / "wall", stack)
    stack, true = curved_plane((-0.15, 0.05), 0.9, seed=7)
    shots = write_photos(tmp_path / "shots", stack)
    profile = tmp_path / "lens.toml"

    done = run("calibrate", wall, "-o", profile)
    assert done.status == 0 and done.out.split() == [str(profile), str(profile.with_suffix(".png"))]
    assert "1/m at" in done.err and "blur" in done.err
    assert_refused(run("calibrate", wall, "-o", profile), "left alone", "--force")
    assert_refused(run("calibrate", wall, "-o", tmp_path / "new.toml", "--region", "1,2,3"), "--region must be")
    assert_refused(run("calibrate", wall, "-o", tmp_path / "new.toml", "--distance", "1,2"), "--distance must be")

    corners = curvature().numpy() > 0.7 * CORNER
    errors = {}
    for name, lens in (("off", "off"), ("with", profile)):
        done = run("depth", shots, "-o", tmp_path / name, "--lens", lens, "--no-sheet")
        assert done.status == 0
        assert ("lens profile lens.toml (50 mm): field curvature of +0.2" in done.err) == (name == "with")
        with np.load(tmp_path / name / "depth.npz") as saved:
            errors[name] = np.median(np.abs(saved["depth"] * true.numpy() - 1)[corners])
    assert errors["off"] > 0.15 and errors["with"] < 0.03

    refused = run("depth", shots, "-o", tmp_path / "no", "--lens", profile, "--focal-length-mm", "35")
    assert_refused(refused, "is of another lens (50 mm) than the photos (35 mm)", "--lens off")
    assert_refused(run("depth", shots, "-o", tmp_path / "no", "--lens", tmp_path / "none.toml"), "does not exist")
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "broken.toml").write_text("[lens\n")
    done = run("depth", shots, "-o", tmp_path / "folder", "--lens", folder, "--method", "argmin", "--no-sheet")
    assert done.status == 0 and "broken.toml" in done.err and "no lens profile in" in done.err
    assert not (tmp_path / "no").exists()
