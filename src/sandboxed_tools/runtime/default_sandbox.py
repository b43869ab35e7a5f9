"""The sandbox that a Toolbox makes for itself when it is given none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandboxed_tools.policy import AdmissionPolicy
from sandboxed_tools.sandbox.contract import SharedAmongCallers

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.admission import AdmissionLimits
    from sandboxed_tools.sandbox.budget import Budget
    from sandboxed_tools.sandbox.host_guard import HostLimits
    from sandboxed_tools.sandbox.machine_slots import MachineSlots

__all__ = ["open_default_sandbox"]

SLOTS_FOLDER = "slots"


def open_default_sandbox(
    *,
    protected: tuple[str, ...] = (),
    warm: bool = True,
    admission: AdmissionPolicy | None = None,
) -> SharedAmongCallers:
    """The Docker backend on the engine that answers here. Blocking; nothing is started yet.

    ``warm`` starts containers ahead of calls, which a program that makes one call has no use for.

    ``protected`` are further patterns of paths whose changes are never applied without a yes.
    ``admission`` is what the operator lets all contained calls use together.

    Raises:
        EngineNotFound, EngineForbidden: with what was tried and what to do.
        ConfigurationError: the state folder cannot be used.
    """
    # Imported late: the docker client takes 110 ms to import, and host calls never need it.
    from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
    from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
    from sandboxed_tools.sandbox.docker.sight import path_question
    from sandboxed_tools.workspace import WorkspaceViews

    engine = find_engine()
    views = WorkspaceViews(
        engine_sees=path_question(engine), carrier=DockerCarrier(engine), protected=protected
    )
    stated = admission or AdmissionPolicy()
    return DockerSandbox(
        engine,
        views=views,
        warm=warm,
        cgroup_parent=stated.cgroup_parent or "",
        admission=_gate(stated),
        machine=_machine(stated),
        host=_host(stated),
        budget=_budget(stated),
    )


def _gate(stated: AdmissionPolicy) -> AdmissionLimits:
    from sandboxed_tools.sandbox.admission import AdmissionLimits

    names = {"calls": stated.calls, "queue": stated.queue, "queue_s": stated.queue_s}
    return AdmissionLimits(**_known(names))


def _machine(stated: AdmissionPolicy) -> MachineSlots | None:
    from sandboxed_tools.sandbox.machine_slots import MachineSlots
    from sandboxed_tools.tool.state import state_dir

    if stated.calls_on_machine is None:
        return None
    return MachineSlots(state_dir() / SLOTS_FOLDER, count=stated.calls_on_machine)


def _host(stated: AdmissionPolicy) -> HostLimits:
    from sandboxed_tools.sandbox.host_guard import HostLimits

    # Whoever states the memory in bytes means it: the share of the whole is the default's.
    share = None if stated.free_memory_bytes is None else 0.0
    names = {
        "memory_bytes": stated.free_memory_bytes,
        "memory_share": share,
        "disk_bytes": stated.free_disk_bytes,
        "load_per_cpu": stated.load_per_cpu,
    }
    return HostLimits(**_known(names))


def _budget(stated: AdmissionPolicy) -> Budget | None:
    from sandboxed_tools.sandbox.budget import Budget

    bounds = {
        "calls": stated.budget_calls,
        "container_s": stated.budget_container_s,
        "cpu_s": stated.budget_cpu_s,
    }
    if not _known(bounds):
        return None
    return Budget(**_known({**bounds, "per_s": stated.per_s}))


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
