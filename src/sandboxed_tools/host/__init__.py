"""Running a command that only looks on the host, behind a gate that lets it do nothing else."""

from sandboxed_tools.host.gate import GateStatus, gate_status
from sandboxed_tools.host.live import OutputSink
from sandboxed_tools.host.report import Denial
from sandboxed_tools.host.runner import HostOutcome, bash_command, run_on_host
from sandboxed_tools.host.scratch import remove_stale_scratch

__all__ = [
    "Denial",
    "GateStatus",
    "HostOutcome",
    "OutputSink",
    "bash_command",
    "gate_status",
    "remove_stale_scratch",
    "run_on_host",
]
