"""Artifacts on the command line: shown where that is possible, kept under harmless names else."""

from __future__ import annotations

import base64
import json
import re
import stat
from pathlib import Path

import pytest
from tests.cli.command_line import command_line

from sandboxed_tools.builtin import Artifact
from sandboxed_tools.cli.artifacts import image_protocol, inline_image, keep
from sandboxed_tools.errors import ConfigurationError

PNG = b"\x89PNG\r\n\x1a\n" + b"\x1b\\\x07" * 5000


def artifact(name: str, data: bytes) -> Artifact:
    return Artifact(name=name, data=base64.b64encode(data))


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, None),
    ],
)
def test_images_are_shown_only_where_the_terminal_is_known_to_show_them(
    environment: dict[str, str], protocol: str | None
) -> None:
    assert image_protocol(environment, is_terminal=True) == protocol
    assert image_protocol(environment, is_terminal=False) is None


def test_the_content_of_an_image_cannot_leave_its_control_sequence() -> None:
    iterm = inline_image(PNG, "iterm")
    assert iterm.count("\x1b") == 1
    assert iterm.index("\x07") == len(iterm) - 2
    kitty = inline_image(PNG, "kitty")
    chunks = re.findall(r"\x1b_G(?:a=T,f=100,)?m=([01]);([A-Za-z0-9+/=]*)\x1b\\", kitty)
    assert base64.b64decode("".join(chunk for _, chunk in chunks)) == PNG
    assert [more for more, _ in chunks] == ["1"] * (len(chunks) - 1) + ["0"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("figure-1.png", "01-figure-1.png"),
        ("a/b/.bashrc", "01-bashrc.png"),
        ("x\x1b[2J\n;rm -rf.sh", "01-x_2J_rm_-rf.png"),
        ("é", "01-artifact.png"),
        ("x" * 300 + ".exe", "01-" + "x" * 60 + ".png"),
    ],
)
def test_files_get_harmless_names_with_the_suffix_of_their_content(
    tmp_path: Path, name: str, kept: str
) -> None:
    path = keep(artifact(name, PNG), folder=tmp_path / "new", number=1)
    assert path.name == kept
    assert path.read_bytes() == PNG
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_or_link_is_never_written_to(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "01-x.png").symlink_to(target)
    with pytest.raises(ConfigurationError):
        keep(artifact("x", PNG), folder=tmp_path, number=1)
    assert target.read_text() == "precious"


@pytest.mark.engine
def test_a_call_on_the_command_line_shows_the_value_and_keeps_the_artifacts(
    python_image: str,
) -> None:
    code = "import os\nopen(os.environ['ARTIFACTS'] + '/note', 'w').write('kept')\n6 * 7"
    done = command_line("call", "ExecuteCode", json.dumps({"code": code}))
    assert done.code == 0, done.errors
    assert "42" in done.text
    found = re.search(r"note: (\S+)", done.errors)
    assert found is not None, done.errors
    assert Path(found.group(1)).read_text() == "kept"
    shown = command_line("call", "--json", "ExecuteCode", json.dumps({"code": code})).object
    assert shown["output"]["value"] == "42"
    assert shown["exit_code"] == 0
    assert "frames" not in shown
