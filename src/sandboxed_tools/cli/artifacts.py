"""Artifacts of a run of code: shown in terminals that can, and kept in files otherwise."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from sandboxed_tools.builtin import Artifact
from sandboxed_tools.cli.console import safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.tool.state import state_dir

__all__ = ["show_artifacts"]

_KITTY_CHUNK: Final = 4096
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SUFFIXES: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
}


def show_artifacts(artifacts: Sequence[Artifact], *, call_id: str) -> None:
    """Show images where the terminal can, keep the rest below the state folder, and say where.

    Raises:
        ConfigurationError: the files cannot be kept.
    """
    protocol = image_protocol(os.environ, is_terminal=sys.stdout.isatty())
    for number, artifact in enumerate(artifacts, start=1):
        if protocol is not None and artifact.media_type == "image/png":
            sys.stdout.write(inline_image(artifact.data, protocol))
            sys.stdout.flush()
            continue
        path = keep(artifact, folder=state_dir() / "artifacts" / call_id, number=number)
        stderr().print(safe(f"{artifact.name}: {path}", one_line=True))


def image_protocol(
    environment: Mapping[str, str], *, is_terminal: bool
) -> Literal["kitty", "iterm"] | None:
    """How this terminal is shown an image; ``None`` when it is not known to be able to."""
    if not is_terminal or environment.get("TMUX"):
        return None  # a multiplexer between us and the terminal garbles both protocols
    if environment.get("KITTY_WINDOW_ID") or environment.get("TERM") in (
        "xterm-kitty",
        "xterm-ghostty",
    ):
        return "kitty"
    if environment.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
        return "iterm"
    return None


def inline_image(data: bytes, protocol: Literal["kitty", "iterm"]) -> str:
    """The control sequence that shows a PNG. Base64 cannot end it, whatever the image holds."""
    encoded = base64.b64encode(data).decode("ascii")
    if protocol == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(data)}:{encoded}\x07\n"
    chunks = [encoded[at : at + _KITTY_CHUNK] for at in range(0, len(encoded), _KITTY_CHUNK)]
    parts = []
    for number, chunk in enumerate(chunks, start=1):
        head = "a=T,f=100," if number == 1 else ""
        parts.append(f"\x1b_G{head}m={int(number < len(chunks))};{chunk}\x1b\\")
    return "".join(parts) + "\n"


def keep(artifact: Artifact, *, folder: Path, number: int) -> Path:
    """Write an artifact into a folder of its call, under a harmless name; returns the path.

    The suffix says what the content is, whatever the name said.

    Raises:
        ConfigurationError: it cannot be written.
    """
    stem = _NAME.sub("_", Path(artifact.name).stem).strip("._-")[:60] or "artifact"
    suffix = _SUFFIXES.get(artifact.media_type, ".bin")
    path = folder / f"{number:02}-{stem}{suffix}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(artifact.data)
    except OSError as error:
        raise ConfigurationError(
            f"The artifact {number} cannot be kept in a file.", operator_detail=str(error)
        ) from error
    return path
