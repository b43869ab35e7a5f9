"""Understanding a Bash command without running it: parser, table of programs, verdict."""

from sandboxed_tools.bash.operator_specs import load_specs
from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.paths import PathUse
from sandboxed_tools.bash.placement import should_run_in_sandbox
from sandboxed_tools.bash.syntax import Argument, Assignment, Redirect, SimpleCommand
from sandboxed_tools.bash.verdict import PartVerdict, Verdict, classify, split_commands

__all__ = [
    "Argument",
    "Assignment",
    "PartVerdict",
    "PathUse",
    "Redirect",
    "SimpleCommand",
    "Spec",
    "Verdict",
    "classify",
    "load_specs",
    "should_run_in_sandbox",
    "split_commands",
]
