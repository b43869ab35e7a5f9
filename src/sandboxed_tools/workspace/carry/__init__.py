"""Copies of workspaces on engines that do not share our files."""

from sandboxed_tools.workspace.carry.view import CarriedView, carry

__all__ = ["CarriedView", "carry"]
