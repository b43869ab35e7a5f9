"""Changes that need an explicit yes, because a program on the host acts on the file by itself.

A hook, an editor's task, a start-up file or a CI definition runs with the rights of whoever opens
the project next. A link that leaves the workspace makes later writers leave it too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.folded import folded
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.way_out import LinkAt, leads_out

__all__ = ["Exists", "holds_protected", "protected_reason"]

_ANYWHERE: Final = (
    *(".husky", ".devcontainer", ".idea", ".vscode", ".fleet", ".zed", ".cargo"),
    *(".envrc", ".direnv", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", ".tool-versions", "mise.toml"),
    *(".mise.toml", "rust-toolchain*", "*.pth", "sitecustomize.py", "usercustomize.py"),
    # A changed one has the environment's own Python take its library from somewhere else.
    "pyvenv.cfg",
    *(".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".gitmodules"),
    *(".devcontainer.json", "*.code-workspace", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua"),
    *(".dir-locals.el", ".dir-locals-2.el", ".lvimrc", ".local.vimrc", ".helix", ".vs", ".nova"),
    *(".kateproject*", ".vimspector.json", ".gdbinit", ".lldbinit"),
    # Other version controls have hooks and aliases in their repositories, too.
    *(".hg", ".jj", ".bzr", ".pijul", "_darcs"),
    *(".githooks", ".git-hooks", ".huskyrc*", ".simple-git-hooks*", ".overcommit.yml"),
    *("lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*", ".yarn/releases"),
    *(".yarn/plugins", ".bundle", ".mise", "mise.*.toml", ".mise.*.toml", "mise/config*.toml"),
    # Interpreters that read a file of the folder in which they are started.
    *(".rprofile", ".renviron", ".rdata", ".irbrc", ".pryrc", ".ghci", ".ocamlinit", ".iex.exs"),
    ".erlang",
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
    *(".amazonq", ".agents", ".agent", "agent.md", "agents.override.md", ".qwen", "qwen.md"),
    *(".crush", ".crush.json", "crush.json", "crush.md", ".trae", ".augment*", ".kilocode*"),
    *(".openhands", ".factory", "warp.md", ".rules", "sandboxed-tools.toml", "defaults.lock"),
    ".sandboxed-tools-*",
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

_IN_REPOSITORY: Final = frozenset(
    ["head", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "info"]
)
"""What makes a folder of any name a repository (gitrepository-layout(5)), or configures it."""

_DEEPEST: Final = 3
"""``objects/info/alternates``: names of what matters in a repository. Looking at more would let a
deep tree of such names cost its depth for each of its names."""

Exists = Callable[[Parts], bool]


def protected_reason(
    change: Change,
    *,
    was_there: Exists,
    is_there: Exists,
    link_at: LinkAt = lambda _: None,
    extra: tuple[str, ...] = (),
) -> str | None:
    """Why a change is held for an explicit yes, in words; ``None`` when it is not.

    ``was_there`` tells whether the workspace held a path before the call, ``is_there`` whether it
    does afterwards, and ``link_at`` what links say then. ``extra`` are further patterns, of one
    name or of names joined by slashes, that are looked for at any depth. Neither case counts, nor
    what else file systems may overlook in a name.
    """
    text = folded(change.path)
    names = text.split("/")
    if _configures_git(change, names, was_there=was_there, is_there=is_there):
        return "it belongs to a git repository's configuration, or makes a repository"
    if _leaves(change, link_at):
        return "it is a link that leaves the workspace"
    if _is_link(change) and _on_the_way((*_ANYWHERE, *_CI, *extra)).search(text) is not None:
        return "it is a link in the place of a folder that holds what is protected"
    for patterns, reason in (
        (_ANYWHERE, "a tool runs it, or is configured by it, when the project is opened"),
        (_START_UP, "a shell or a tool reads it when it starts"),
        (_AGENTS, "it configures an agent, or this sandbox"),
        (_CI, "it defines what a CI system runs"),
        (extra, "the policy protects it"),
    ):
        if patterns and _pattern(patterns).search(text) is not None:
            return reason
    for index in range(max(0, len(names) - 2), len(names)):
        is_folder_of_programs = names[index] in ("bin", "scripts")
        if is_folder_of_programs and is_there((*change.parts[:index], b"pyvenv.cfg")):
            return "it is a program of a virtual environment"
    return None


def holds_protected(names: Iterable[Parts], extra: tuple[str, ...]) -> bool:
    """Whether a policy protects any of these paths, as when a folder goes with all it holds."""
    if not extra:
        return False
    pattern = _pattern(extra)
    return any(pattern.search(folded(b"/".join(parts))) is not None for parts in names)


def _configures_git(
    change: Change, names: list[str], *, was_there: Exists, is_there: Exists
) -> bool:
    for index, name in enumerate(names):
        if name == ".git":
            folder, below = change.parts[: index + 1], names[index + 1 :]
            if not was_there((*folder, b"HEAD")):
                return True
        elif (
            len(names) - index <= _DEEPEST
            and name in _IN_REPOSITORY
            and _is_repository(change.parts[:index], is_there)
        ):
            # A bare repository: git takes any folder for one that is laid out so.
            folder, below = change.parts[:index], names[index:]
            if not _is_repository(folder, was_there):
                return True
        else:
            continue
        if below[:1] not in _GIT_ORDINARY or below[:2] == ["objects", "info"]:
            return True
        # Through a link git would write what it logs and packs somewhere else.
        if _is_link(change):
            return True
    return False


def _is_repository(folder: Parts, exists: Exists) -> bool:
    if not exists((*folder, b"HEAD")):
        return False
    has_own = exists((*folder, b"objects")) and exists((*folder, b"refs"))
    return has_own or exists((*folder, b"commondir"))


def _is_link(change: Change) -> bool:
    return change.after is not None and change.after.kind == "symlink"


@functools.cache
def _on_the_way(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Finds a path that ends where the last name of one of these patterns is still to come."""
    heads = {
        pattern.rsplit("/", count)[0]
        for pattern in patterns
        for count in range(1, pattern.strip("/").count("/") + 1)
    }
    return re.compile(
        f"{_pattern(tuple(sorted(heads))).pattern}\\Z" if heads else "(?!)", re.DOTALL
    )


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of these names, or names side by side, in a path. Wildcards stay in a name."""
    spelled = (
        re.escape(pattern.casefold()).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        for pattern in patterns
    )
    return re.compile(f"(?:^|/)(?:{'|'.join(spelled)})(?=/|\\Z)", re.DOTALL)


def _leaves(change: Change, link_at: LinkAt) -> bool:
    """Whether the change leaves a link that leads out."""
    after = change.after
    if after is None or after.kind != "symlink" or after.target is None:
        return False
    if change.before is not None and change.before.target == after.target:
        return False
    return leads_out(change.parts, after.target, link_at)
