"""Asking the engine what it sees of this machine, without making anything."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import docker
import docker.errors
import docker.types

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = ["path_question"]


def path_question(engine: Engine) -> Callable[[str], bool]:
    """A question that is asked with a path: does the engine have it, our mounts included?

    The engine checks the source of a bind before it looks for the image (moby,
    ``daemon/create.go``). So a container of an image that cannot exist is asked for: a refusal of
    the mount means no, a missing image means yes, and neither leaves anything behind.

    An engine with another kernel sees nothing of ours, even where it shares folders with us, as a
    virtual machine may: neither overlays nor owners are there what they are on a disk.

    Raises, when it is asked:
        EngineFault: the engine gave neither answer.
    """

    def ask(path: str) -> bool:
        if engine.desktop or engine.facts.get("kernel", os.uname().release) != os.uname().release:
            return False
        api = engine.api()
        image = f"sandboxed-tools/none-{secrets.token_hex(16)}:none"
        mounts = [docker.types.Mount("/mnt", path, type="bind", read_only=True)]
        try:
            host = api.create_host_config(mounts=mounts, network_mode="none")
            api.create_container(image, ["none"], host_config=host)
        except docker.errors.ImageNotFound:
            return True
        except docker.errors.APIError as error:
            if error.status_code == 400:
                return False
            raise EngineFault(
                "The engine could not say which files it sees.", operator_detail=str(error)
            ) from error
        finally:
            api.close()
        raise EngineFault("The engine made a container of an image that does not exist.")

    return ask
