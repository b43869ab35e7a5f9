"""Files that hostile code may have made: confined access, views, changes."""

from sandboxed_tools.workspace.apply import Decision, apply_set, discard_set, recover, undo_set
from sandboxed_tools.workspace.change import HALF_DONE, Change, ChangeSet, FileFacts, SetState
from sandboxed_tools.workspace.change_diff import ChangeDiff, diff_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.check import Problem
from sandboxed_tools.workspace.confined import ConfinedTree, OpenFile
from sandboxed_tools.workspace.edit_journal import EditJournal
from sandboxed_tools.workspace.find import FindOptions, FoundFiles, find_files
from sandboxed_tools.workspace.remove import remove_tree
from sandboxed_tools.workspace.root import Place, WorkspaceRoot, check_workspace
from sandboxed_tools.workspace.state_cache import FileIdentity, FileState, FileStateCache
from sandboxed_tools.workspace.views import WorkspaceViews
from sandboxed_tools.workspace.walk import Walk, WalkBudget

__all__ = [
    "HALF_DONE",
    "Change",
    "ChangeDiff",
    "ChangeSet",
    "ChangeStore",
    "ConfinedTree",
    "Decision",
    "EditJournal",
    "FileFacts",
    "FileIdentity",
    "FileState",
    "FileStateCache",
    "FindOptions",
    "FoundFiles",
    "OpenFile",
    "Place",
    "Problem",
    "SetState",
    "Walk",
    "WalkBudget",
    "WorkspaceRoot",
    "WorkspaceViews",
    "apply_set",
    "check_workspace",
    "diff_set",
    "discard_set",
    "find_files",
    "recover",
    "remove_tree",
    "undo_set",
]
