"""A command as a value: what to execute, never where."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sandboxed_tools.errors import FieldError, InvalidInput
from sandboxed_tools.tool.frames import FrameChannel

__all__ = ["MAX_ARGUMENTS_BYTES", "MAX_ARGUMENT_BYTES", "MAX_SCRIPT_BYTES", "Command"]

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Longest single argument or variable: Linux refuses more in execve (MAX_ARG_STRLEN, execve(2))."""

MAX_ARGUMENTS_BYTES = 1024 * 1024
"""All arguments and variables together: below the 2 MiB that an 8 MiB stack allows."""

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""Longest script; it is held in memory on both sides."""

SCRIPT_PATH = "/proc/self/fd/3"


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute: ``argv`` with exactly ``env`` as its environment.

    ``argv`` and ``env`` hold ``str``; lone surrogates stand for undecodable bytes (PEP 383).
    ``stdin`` is bytes, an async iterable of bytes for input of any length, or ``None`` for an
    empty input. ``cwd`` is a path inside the sandbox, ``None`` for the workspace or ``/``.
    ``script`` is a text that is too long for an argument: the process finds it, open for
    reading, as descriptor 3 (:data:`SCRIPT_PATH`), and nowhere in its arguments.
    ``channel`` takes frames out of stdout, as they come; they are no output.

    Raises:
        InvalidInput: no program; NUL bytes; an argument or variable of 128 KiB or more; a
            variable name that is empty or holds ``=``.
    """

    argv: tuple[str, ...]
    stdin: bytes | AsyncIterable[bytes] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    script: bytes | None = None
    channel: FrameChannel | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", tuple(self.argv))
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))
        errors = list(self._errors())
        if errors:
            raise InvalidInput(
                "The command cannot be executed: "
                + "; ".join(f"{item.path} {item.message}" for item in errors),
                fields=tuple(errors),
            )

    def _errors(self) -> list[FieldError]:
        errors: list[FieldError] = []
        if not self.argv or not self.argv[0]:
            errors.append(FieldError("argv.0", "names no program", "empty"))
        total = 0
        places = [(f"argv.{index}", text) for index, text in enumerate(self.argv)]
        places += [(f"env.{name}", f"{name}={value}") for name, value in self.env.items()]
        if self.cwd is not None:
            places.append(("cwd", self.cwd))
        for place, text in places:
            try:
                size = len(text.encode("utf-8", "surrogateescape"))
            except UnicodeEncodeError:
                errors.append(FieldError(place, "holds a lone surrogate", "encoding"))
                continue
            total += size + 1
            if "\0" in text:
                errors.append(FieldError(place, "holds a NUL byte", "nul"))
            if size > MAX_ARGUMENT_BYTES:
                errors.append(
                    FieldError(
                        place,
                        f"is {size} bytes long; the kernel takes at most {MAX_ARGUMENT_BYTES}",
                        "too_long",
                    )
                )
        for name in self.env:
            if not name or "=" in name:
                errors.append(FieldError(f"env.{name}", "is no variable name", "name"))
        if total > MAX_ARGUMENTS_BYTES:
            errors.append(
                FieldError(
                    "argv",
                    f"and the environment are {total} bytes; at most {MAX_ARGUMENTS_BYTES}",
                    "too_long",
                )
            )
        if self.script is not None and len(self.script) > MAX_SCRIPT_BYTES:
            errors.append(
                FieldError("script", f"is longer than {MAX_SCRIPT_BYTES} bytes", "too_long")
            )
        return errors
