"""Images that a test makes for itself."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from docker.errors import NotFound

if TYPE_CHECKING:
    import docker

__all__ = ["built_image"]


@contextmanager
def built_image(
    api: docker.APIClient, reference: str, dockerfile: str, files: Mapping[str, bytes] | None = None
) -> Iterator[str]:
    """Build an image from a Dockerfile and the files beside it; it is removed at the end."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, content in {"Dockerfile": dockerfile.encode(), **(files or {})}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    context.seek(0)
    try:
        events = api.build(
            fileobj=context, custom_context=True, tag=reference, rm=True, forcerm=True, decode=True
        )
        assert not [event for event in events if "error" in event]
        yield reference
    finally:
        with suppress(NotFound):  # it could not be built
            api.remove_image(reference, force=True)
