"""What the image with Python is built from beside its Dockerfile: the package's own runner, and the
packages that it needs in exactly the client's versions.

They are copied from where the client has them installed: no index is asked, and both sides speak
about the same pydantic. So they fit only an engine of the client's own kind of machine.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import sys
from importlib import metadata, resources
from pathlib import Path

from sandboxed_tools.errors import ImageUnavailable

__all__ = ["MINOR", "check_machine", "python_context", "python_digest"]

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
PACKAGES = ("anyio", "cloudpickle", "pydantic")
_OWN_FOLDERS = ("tool", "inside")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "amd64": "amd64"}


def check_machine(architecture: str) -> None:
    """Refuse an engine that cannot use this client's packages.

    Raises:
        ImageUnavailable: another processor, or a client on another C library than Debian's.
    """
    here = platform.machine()
    if _ARCHITECTURES.get(here, here) != architecture:
        raise ImageUnavailable(
            f"the engine runs on {architecture}, this program on {here}: the image for Python "
            "tools is made from this program's own packages and would not start there"
        )
    if platform.libc_ver()[0] != "glibc":
        raise ImageUnavailable(
            "this program runs on another C library than Debian's, so its packages cannot be "
            "copied into the image for Python tools"
        )


@functools.cache
def python_context() -> dict[str, bytes]:
    """Every file of the context, by its path below ``site``.

    Raises:
        ImageUnavailable: a package is not installed in a way that can be copied.
    """
    files = _own_files()
    for name in sorted(_distributions()):
        files |= _files_of(name)
    return files


@functools.cache
def python_digest() -> str:
    """What tells one context from another, without reading the packages."""
    digest = hashlib.sha256(MINOR.encode())
    for place, content in sorted(_own_files().items()):
        digest.update(f"{place} {len(content)}\n".encode() + content)
    for name in sorted(_distributions()):
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    return digest.hexdigest()


def _own_files() -> dict[str, bytes]:
    root = Path(str(resources.files("sandboxed_tools")))
    paths = [root / "errors.py"]
    for folder in _OWN_FOLDERS:
        paths += sorted((root / folder).glob("*.py"))
    files = {f"sandboxed_tools/{path.relative_to(root)}": path.read_bytes() for path in paths}
    files["sandboxed_tools/__init__.py"] = files.pop("sandboxed_tools/inside/package_init.py")
    return files


def _distributions() -> set[str]:
    """The packages and what they need, as far as it is installed here."""
    found: set[str] = set()
    left = list(PACKAGES)
    while left:
        name = left.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            if name in PACKAGES:
                raise ImageUnavailable(
                    f"the package {name} is not installed here: install sandboxed-tools again"
                ) from None
            continue
        found.add(name)
        for requirement in wanted:
            match = _NAME.match(requirement)
            if match is not None and "extra ==" not in requirement:
                left.append(match.group())
    return found


def _files_of(name: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for entry in metadata.files(name) or ():
        place = entry.as_posix()
        if place.startswith("..") or "__pycache__" in place or entry.suffix == ".pyc":
            continue
        files[place] = Path(str(entry.locate())).read_bytes()
    if not files:
        raise ImageUnavailable(
            f"the package {name} is installed here in a way that cannot be copied into an image: "
            "install it from a wheel"
        )
    return files
