"""Checks of tool definitions, on source that is never imported."""

from sandboxed_tools.lint.check import check_file, check_text, find_files, fix_text, read_source
from sandboxed_tools.lint.finding import RULES, Edit, Finding
from sandboxed_tools.lint.sarif import sarif_log

__all__ = [
    "RULES",
    "Edit",
    "Finding",
    "check_file",
    "check_text",
    "find_files",
    "fix_text",
    "read_source",
    "sarif_log",
]
