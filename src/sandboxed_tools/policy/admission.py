"""How much of a machine all contained calls together may use, as an operator states it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sandboxed_tools.tool.limits import Count, Seconds, Size

__all__ = ["AdmissionPolicy"]

Calls = Annotated[Count, Field(ge=1, le=65_536)]
Duration = Annotated[Seconds, Field(gt=0, le=366 * 86_400)]
Bytes = Annotated[Size, Field(ge=0)]


class AdmissionPolicy(BaseModel):
    """Bounds on all contained calls together; what is not stated has the library's default.

    Attributes:
        calls: contained calls at once, in one process.
        calls_on_machine: contained calls at once, in all processes of this installation.
        queue: calls that wait for their turn, in one process.
        queue_s: the longest wait, in seconds.
        free_memory_bytes, free_disk_bytes: what must stay free on the host, or calls wait.
        load_per_cpu: the load, divided by the processors, from which on calls wait.
        cgroup_parent: the control group below which the engine puts every container.
        per_s: the time, in seconds, that the budget is for; an hour when omitted.
        budget_calls, budget_container_s, budget_cpu_s: most that may be used within that time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    calls: Calls | None = None
    calls_on_machine: Calls | None = None
    queue: Annotated[Count, Field(ge=0, le=65_536)] | None = None
    queue_s: Duration | None = None
    free_memory_bytes: Bytes | None = None
    free_disk_bytes: Bytes | None = None
    load_per_cpu: Annotated[Seconds, Field(gt=0)] | None = None
    # Without "..": the engine joins it to its own root of control groups.
    cgroup_parent: (
        Annotated[str, Field(max_length=256, pattern=r"^/?[\w-][\w.-]*(/[\w-][\w.-]*)*$")] | None
    ) = None
    per_s: Duration | None = None
    budget_calls: Calls | None = None
    budget_container_s: Duration | None = None
    budget_cpu_s: Duration | None = None
