"""Whether a command that only reads may read *here*: paths, secrets, git, and the host's gate.

The verdict says what a command does; this says where it may look. It is pure, and it is no
boundary: a path that is made at run time is not seen here, and is left to the kernel's gate under
the host run, which allows the same folders.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.paths import PathUse
from sandboxed_tools.bash.verdict import Verdict, classify
from sandboxed_tools.tool.reason import Reason

__all__ = ["should_run_in_sandbox"]

_CONTAINER_NAME = re.compile(r"(?<![A-Za-z0-9_.~/-])/+workspace(?![A-Za-z0-9_.-])")
_HARMLESS = frozenset(
    {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout"}
)
_SECRET = re.compile(
    r"(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|\.netrc|\.git-credentials|\.npmrc|\.pypirc"
    r"|\.pgpass|\.my\.cnf|\.config/(?:gcloud|gh|hub)|\.cargo/credentials[^/]*|\.[a-z]*_history"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)[^/]*|shadow-?|gshadow-?|sudoers(?:\.d)?|\.password-store"
    r"|ssl/private|run/secrets|docker\.sock|containerd\.sock|krb5\.keytab|machine-id)(?:/|$)"
)
MAX_REASONS = 20


def should_run_in_sandbox(
    command: object,
    *,
    trusted_workspace: bool,
    workspace: PurePath | None,
    read_roots: Sequence[PurePath],
    gate_available: bool,
    extra_specs: Mapping[str, Spec] | None = None,
) -> tuple[Reason, ...]:
    """Why a command belongs in a container; empty when it may stay on the host.

    A command that is not read-only always belongs there, for the verdict's reasons. One that only
    reads does too when it starts git in a workspace that is not trusted, names a path outside
    ``workspace`` and ``read_roots`` (``~`` and climbing with ``..`` included) or a place of secrets
    there, spells the container's own name ``/workspace``, or when the host has no gate under it.
    Relative paths are taken from the workspace. Never raises; looks at nothing but its arguments.
    """
    verdict = classify(command, trusted_workspace=trusted_workspace, extra_specs=extra_specs)
    if not isinstance(command, str):
        return verdict.reasons
    if not verdict.read_only:
        return (*_git_reasons(verdict, trusted_workspace), *verdict.reasons)[:MAX_REASONS]
    roots = [_normal(str(root)) for root in read_roots]
    base = None if workspace is None else _normal(str(workspace))
    reasons: list[Reason] = list(_git_reasons(verdict, trusted_workspace))
    if not gate_available:
        reasons.append(
            Reason("no_gate", "this host has no second gate under a command, so none runs on it")
        )
    own = base is not None and _is_below(base, "/workspace")
    if not own and (match := _CONTAINER_NAME.search(command)) is not None:
        reasons.append(
            Reason("workspace_name", "names the container's /workspace", match.start(), match.end())
        )
    for use in verdict.paths:
        reason = _path_reason(use, base, roots)
        if reason is not None and reason not in reasons:
            reasons.append(reason)
    return tuple(reasons[:MAX_REASONS])


def _git_reasons(verdict: Verdict, trusted_workspace: bool) -> list[Reason]:
    if verdict.uses_git and trusted_workspace is not True:
        return [
            Reason("git_untrusted", "git in a workspace that is not trusted may run its programs")
        ]
    return []


def _path_reason(use: PathUse, base: str | None, roots: list[str]) -> Reason | None:
    text = use.text
    if text.startswith("~"):
        code = "secret" if _SECRET.search(text) else "outside_workspace"
        return Reason(code, f"reads {text!r}, in a home directory", use.start, use.end)
    if text in _HARMLESS or (text.startswith("/dev/fd/") and use.complete is False):
        return None
    if base is None and not text.startswith("/"):
        return Reason("outside_workspace", "there is no workspace", use.start, use.end)
    path = _normal(posixpath.join(base or "/", text))
    if base is not None and _is_inside(use, path, base):
        return None
    if _SECRET.search(path):
        return Reason("secret", f"reads {text!r}, a place of secrets", use.start, use.end)
    if any(_is_inside(use, path, root) for root in roots):
        return None
    return Reason(
        "outside_workspace",
        f"reads {text!r}, outside the workspace and its read roots",
        use.start,
        use.end,
    )


def _is_inside(use: PathUse, path: str, root: str) -> bool:
    """Whether the path is in ``root``; one that may go on must already be past its last slash."""
    if not use.complete and not use.text.endswith("/") and path == root:
        return False
    return _is_below(path, root)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root == "/" else root + "/")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
