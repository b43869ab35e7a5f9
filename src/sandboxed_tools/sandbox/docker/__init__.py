"""The Docker backend."""

from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.sandbox.docker.engine import Engine, find_engine

__all__ = ["DockerSandbox", "Engine", "StopRequest", "find_engine"]
