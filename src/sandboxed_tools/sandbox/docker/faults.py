"""What the engine's client raises, as errors of this library."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault, EngineForbidden, ImageUnavailable

__all__ = ["ODD_ANSWERS", "engine_faults", "is_transient", "status_code"]

ODD_ANSWERS = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""What reading an answer raises that is JSON, or nearly, and not what the API promises."""


def status_code(error: BaseException) -> int | None:
    """The HTTP status of the engine's answer, if there was one."""
    if isinstance(error, APIError) and error.response is not None:
        return int(error.response.status_code)
    return None


def is_transient(error: BaseException) -> bool:
    """Whether asking again may help: nobody listened, or the engine was just going away.

    A timeout is not: the engine is busy with it, and asking again adds to that.
    """
    return isinstance(error, RequestsConnectionError) and not _is_forbidden(error)


@contextmanager
def engine_faults(doing: str) -> Iterator[None]:
    """Turn what docker-py raises inside into an error that says what was being done.

    Raises:
        EngineFault: the engine answered with a fault, or went away.
        EngineForbidden: this user may not talk to it.
        ImageUnavailable: the image is gone.
    """
    try:
        yield
    except ImageNotFound as error:
        raise ImageUnavailable(
            "the image went away from the engine while it was being used",
            operator_detail=str(error),
        ) from error
    except (DockerException, RequestException, OSError, RecursionError) as error:
        if _is_forbidden(error):
            raise EngineForbidden(
                "this user may not talk to the container engine", operator_detail=str(error)
            ) from error
        raise EngineFault(
            f"the container engine failed while {doing}: see 'sandboxed-tools doctor'",
            operator_detail=f"{type(error).__name__}: {error}",
        ) from error


def _is_forbidden(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EACCES:
            return True
        inner = next((item for item in error.args if isinstance(item, BaseException)), None)
        error = inner or error.__cause__ or error.__context__
        seen += 1
    return False
