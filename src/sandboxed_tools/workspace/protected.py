"""Changes that need an explicit yes, because a program on the host acts on the file by itself.

A hook, an editor's task, a start-up file or a CI definition runs with the rights of whoever opens
the project next. A link that leaves the workspace makes later writers leave it too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["Exists", "protected_reason"]

_ANYWHERE: Final = (
    *(".husky", ".devcontainer", ".idea", ".vscode", ".fleet", ".zed", ".cargo"),
    *(".envrc", ".direnv", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", ".tool-versions", "mise.toml"),
    *(".mise.toml", "rust-toolchain*", "*.pth", "sitecustomize.py", "usercustomize.py"),
    *(".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".gitmodules"),
    *(".devcontainer.json", "*.code-workspace", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua"),
    *(".dir-locals.el",),
)
_START_UP: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"),
    *(".login", ".logout", ".inputrc", ".gitconfig", ".ssh", ".pypirc", ".netrc"),
    *(".pam_environment", ".xprofile", ".xinitrc", ".xsession", "config.fish"),
)
_AGENTS: Final = (
    *(".mcp.json", "mcp.json", ".claude", ".claude.json", "claude.md", "claude.local.md"),
    *("agents.md", "gemini.md", ".gemini", ".codex", ".cursor", ".cursorrules", ".windsurf"),
    *(".windsurfrules", ".aider*", ".continue", ".copilot", "copilot-instructions.md", ".roo"),
    *(".roomodes", ".clinerules", ".kiro", ".opencode", "opencode.json", ".goosehints", ".junie"),
    *(".amazonq", "sandboxed-tools.toml", "defaults.lock"),
)
_CI: Final = (
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".gitlab-ci", ".circleci"),
    *(".travis.yml", "appveyor.yml", ".appveyor.yml", "azure-pipelines.yml", ".azure-pipelines"),
    *("jenkinsfile", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker", ".woodpecker.yml"),
    *(".buildkite", ".cirrus.yml", ".semaphore", ".forgejo/workflows", ".gitea/workflows", ".ci"),
)
_GIT_ORDINARY: Final = (
    *(["objects"], ["refs"], ["logs"], ["index"], ["head"], ["orig_head"], ["commit_editmsg"]),
    ["packed-refs"],
)
"""What every commit writes, as the one name that follows ``.git``."""

Exists = Callable[[Parts], bool]


def protected_reason(
    change: Change, *, was_there: Exists, is_there: Exists, extra: tuple[str, ...] = ()
) -> str | None:
    """Why a change is held for an explicit yes, in words; ``None`` when it is not.

    ``was_there`` tells whether the workspace held a path before the call, ``is_there`` whether it
    does afterwards. ``extra`` are further patterns, of one name or of names joined by slashes, that
    are looked for at any depth. Case does not count, because file systems may fold it.
    """
    text = change.path.decode("utf-8", "surrogateescape").casefold()
    names = text.split("/")
    for index, name in enumerate(names):
        if name == ".git":
            had_repository = was_there((*change.parts[: index + 1], b"HEAD"))
            if not had_repository or names[index + 1 : index + 2] not in _GIT_ORDINARY:
                return "it belongs to a git repository's configuration, or makes a repository"
    if _leaves(change):
        return "it is a link that leaves the workspace"
    for patterns, reason in (
        (_ANYWHERE, "a tool runs it, or is configured by it, when the project is opened"),
        (_START_UP, "a shell or a tool reads it when it starts"),
        (_AGENTS, "it configures an agent, or this sandbox"),
        (_CI, "it defines what a CI system runs"),
        (extra, "the policy protects it"),
    ):
        if patterns and _pattern(patterns).search(text) is not None:
            return reason
    for index, name in enumerate(names[:-1]):
        if name in ("bin", "scripts") and is_there((*change.parts[:index], b"pyvenv.cfg")):
            return "it is a program of a virtual environment"
    return None


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of these names, or names side by side, in a path. Wildcards stay in a name."""
    spelled = (
        re.escape(pattern.casefold()).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        for pattern in patterns
    )
    return re.compile(f"(?:^|/)(?:{'|'.join(spelled)})(?=/|\\Z)", re.DOTALL)


def _leaves(change: Change) -> bool:
    """Whether the change leaves a link that leads out, by its text alone."""
    after = change.after
    if after is None or after.kind != "symlink" or after.target is None:
        return False
    if change.before is not None and change.before.target == after.target:
        return False
    if after.target.startswith(b"/"):
        return True
    depth = len(change.parts) - 1
    went_down = False
    for name in after.target.split(b"/"):
        if name in (b"", b"."):
            continue
        if name == b"..":
            depth -= 1
            # Up again after a name that may itself be a link: it leads where that one leads.
            if went_down or depth < 0:
                return True
        else:
            went_down = True
    return False
