"""Files that hostile code may have made: confined access, views, changes."""

from sandboxed_tools.workspace.confined import ConfinedTree, OpenFile
from sandboxed_tools.workspace.find import FindOptions, FoundFiles, find_files
from sandboxed_tools.workspace.remove import remove_tree
from sandboxed_tools.workspace.root import Place, WorkspaceRoot, check_workspace
from sandboxed_tools.workspace.state_cache import FileIdentity, FileState, FileStateCache
from sandboxed_tools.workspace.views import WorkspaceViews
from sandboxed_tools.workspace.walk import Walk, WalkBudget

__all__ = [
    "ConfinedTree",
    "FileIdentity",
    "FileState",
    "FileStateCache",
    "FindOptions",
    "FoundFiles",
    "OpenFile",
    "Place",
    "Walk",
    "WalkBudget",
    "WorkspaceRoot",
    "WorkspaceViews",
    "check_workspace",
    "find_files",
    "remove_tree",
]
