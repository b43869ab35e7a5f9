"""What one call may use. Every limit is finite by default and stays finite."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sandboxed_tools.errors import InvalidLimits

__all__ = ["Limits", "parse_size"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))?\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNIT = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}


def parse_size(value: object) -> object:
    """Turn ``"512m"``, ``"1.5GiB"`` or ``"65536"`` into bytes; pass anything else on.

    Units are powers of 1024, with or without ``B`` or ``iB``, in either case.

    Raises:
        ValueError: the text is not a size (``"9e99"``, ``"-1"``, ``"lots"``).
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError("a size is a whole number of bytes, or a number with k, m, g or t: 512m")
    whole, fraction, unit = match.groups()
    scale = _UNIT[unit.lower()]
    return int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a limit is a number")
    return value


def _finite(value: object) -> object:
    value = _refuse_bool(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a limit is finite")
    return value


def _size(value: object) -> object:
    return parse_size(_finite(value))


Size = Annotated[int, BeforeValidator(_size)]
Count = Annotated[int, BeforeValidator(_finite)]
Seconds = Annotated[float, BeforeValidator(_finite)]

MAX_WALL_S = 24 * 3600.0


class Limits(BaseModel):
    """Limits of one call. Sizes are bytes and may be written ``"512m"``; times are seconds.

    Attributes:
        memory_bytes: memory of the whole container, swap included; 16 MiB to 1 TiB.
        cpus: processor time as a share of one core, enforced by period and quota; at least 0.1,
            because a smaller quota makes a container that the engine cannot kill.
        pids: processes and threads; at most 512, because killing more takes over five seconds.
        wall_s: seconds from the start of the command to its end by timeout; at most a day.
        idle_s: seconds without any output before the call ends; ``None`` means ``wall_s``.
        output_kept_bytes: kept for each stream, half from its head and half from its tail.
        output_total_bytes: both streams together; more ends the call as ``output_limit``.
        tmp_bytes, tmp_inodes: size of ``/tmp`` (and of ``HOME`` in it); counts as memory.
        file_bytes: the largest single file that the command may write.
        open_files: file descriptors for each process.
        changes_bytes, changes_entries: what the call may change in a copy-on-write workspace.

    Raises:
        InvalidLimits: from :meth:`of`; pydantic's ``ValidationError`` from the constructor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: Size = Field(default=512 * MIB, ge=16 * MIB, le=TIB)
    cpus: Seconds = Field(default=1.0, ge=0.1, le=1024)
    pids: Count = Field(default=128, ge=8, le=512)
    wall_s: Seconds = Field(default=120.0, gt=0, le=MAX_WALL_S)
    idle_s: Seconds | None = Field(default=None, gt=0, le=MAX_WALL_S)
    output_kept_bytes: Size = Field(default=MIB, ge=256, le=GIB)
    output_total_bytes: Size = Field(default=64 * MIB, ge=KIB, le=TIB)
    tmp_bytes: Size = Field(default=128 * MIB, ge=MIB, le=TIB)
    tmp_inodes: Count = Field(default=8192, ge=16, le=10_000_000)
    file_bytes: Size = Field(default=GIB, ge=0, le=TIB)
    open_files: Count = Field(default=1024, ge=16, le=1_048_576)
    changes_bytes: Size = Field(default=GIB, ge=0, le=TIB)
    changes_entries: Count = Field(default=200_000, ge=0, le=10_000_000)

    @classmethod
    def of(cls, **values: Any) -> Limits:
        """Build limits from outside values, with an error that a person can act on.

        Raises:
            InvalidLimits: names each limit that cannot be used and what it may be.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            parts = (
                f"{'.'.join(str(place) for place in item['loc'])}: "
                f"{item['msg'].removeprefix('Value error, ')}"
                for item in error.errors(include_url=False, include_input=False)
            )
            raise InvalidLimits("; ".join(parts)) from None

    def tightened(self, ceiling: Limits) -> Limits:
        """The smaller of both, limit by limit. ``idle_s=None`` counts as ``wall_s``."""
        smaller = {
            name: min(getattr(self, name), getattr(ceiling, name))
            for name in type(self).model_fields
            if name != "idle_s"
        }
        idles = [value for value in (self.idle_s, ceiling.idle_s) if value is not None]
        smaller["idle_s"] = min(idles) if idles else None
        return self.model_copy(update=smaller)
