"""The image folders travel in the wheel, unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from sandboxed_tools.sandbox.docker.images import IMAGE_NAMES, image_tag

CHECKOUT = Path(__file__).parents[3]


def test_an_installation_from_a_wheel_has_the_same_image_versions(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        # Unpacking as an installer does: zipfile itself drops the modes.
        for item in archive.infolist():
            if not item.is_dir():
                os.chmod(installed / item.filename, (item.external_attr >> 16) & 0o777 | 0o600)
    script = (
        "from sandboxed_tools.sandbox.docker import images\n"
        "print(images.__file__)\n"
        "for name in images.IMAGE_NAMES: print(images.image_tag(name))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    place, *tags = done.stdout.splitlines()
    assert place.startswith(str(installed))
    assert tags == [image_tag(name) for name in IMAGE_NAMES]
