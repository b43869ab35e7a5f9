"""git in a workspace that the operator trusts: subcommands that read, each with its own options.

A repository's configuration names programs that git runs (``core.fsmonitor``, ``filter.*.clean``,
``diff.*.textconv``, …), and no switch turns all of them off, so in an untrusted workspace git is
never read-only. Even in a trusted one the command line may not name programs, other repositories,
files to write or hosts. See git(1), gitattributes(5), git-config(1).
"""

from __future__ import annotations

import re
from dataclasses import replace

from sandboxed_tools.bash.options import Operands, Spec, match_options, names
from sandboxed_tools.bash.paths import is_folder_below
from sandboxed_tools.bash.rules.call import Call

__all__ = ["check_git"]


# Not --diff-merges and --remerge-diff: merging again writes objects (log-tree.c, tmp_objdir).
_DIFF = Spec(
    short="puswbazRWcimrtq",
    short_value="SGlI",
    short_optional="UMCBDX",
    long=names(
        "patch no-patch raw stat numstat shortstat summary name-only name-status cached"
        " staged check color no-color word-diff color-words patch-with-stat patch-with-raw"
        " minimal patience histogram no-renames find-renames find-copies find-copies-harder"
        " full-index binary text exit-code quiet ignore-space-at-eol ignore-cr-at-eol"
        " ignore-space-change ignore-all-space ignore-blank-lines function-context no-ext-diff"
        " no-textconv no-prefix no-index merge-base relative no-relative pickaxe-all"
        " pickaxe-regex ignore-submodules submodule dirstat compact-summary no-color-moved"
        " color-moved root cc no-commit-id stdin pretty no-indent-heuristic indent-heuristic"
        " ita-invisible-in-index break-rewrites irreversible-delete abbrev no-abbrev"
        " combined-all-paths"
    ),
    long_value=names("src-prefix dst-prefix line-prefix inter-hunk-context diff-algorithm"),
    long_optional=names(
        "stat color word-diff color-words find-renames find-copies unified abbrev relative"
        " submodule ignore-submodules dirstat diff-filter color-moved diff-algorithm"
        " stat-width stat-name-width stat-count pretty format word-diff-regex"
        " ws-error-highlight break-rewrites anchored"
    ),
    paths="none",
)
_LOG = replace(
    _DIFF,
    short=_DIFF.short + "gFEPh",
    short_value=_DIFF.short_value + "nL",
    numeric=True,
    long=_DIFF.long
    | names(
        "oneline graph all decorate no-decorate merges no-merges first-parent reverse follow"
        " abbrev-commit no-abbrev-commit topo-order date-order author-date-order branches tags"
        " remotes cherry cherry-pick cherry-mark left-right left-only right-only boundary"
        " full-history simplify-merges simplify-by-decoration dense sparse walk-reflogs"
        " relative-date parents children source full-diff log-size count no-walk all-match"
        " invert-grep regexp-ignore-case extended-regexp fixed-strings perl-regexp no-notes"
        " notes no-max-parents no-min-parents ancestry-path use-mailmap no-mailmap mailmap"
        " clear-decorations show-pulls not objects objects-edge header timestamp"
        " no-expand-tabs expand-tabs reflog dd unpacked"
    ),
    long_value=_DIFF.long_value
    | names(
        "max-count skip since after until before author committer grep date format pretty"
        " min-parents max-parents exclude glob diff-filter encoding"
    ),
    long_optional=_DIFF.long_optional
    | names("decorate date branches tags remotes notes no-walk glob exclude ancestry-path"),
)
_REFS = Spec(
    short="arvil",
    long=names(
        "list all remotes verbose show-current no-color color column no-column ignore-case"
        " no-abbrev omit-empty"
    ),
    long_value=names("contains no-contains merged no-merged points-at sort format"),
    long_optional=names(
        "color column abbrev sort format contains no-contains merged no-merged points-at"
    ),
    paths="none",
)
_SUBCOMMANDS: dict[str, Spec] = {
    "status": Spec(
        short="sbvz",
        short_optional="uM",
        long=names(
            "short branch porcelain long verbose ignored no-column column ahead-behind"
            " no-ahead-behind renames no-renames show-stash untracked-files"
        ),
        long_optional=names(
            "porcelain untracked-files ignored ignore-submodules column find-renames"
        ),
        paths="none",
    ),
    "diff": _DIFF,
    "diff-tree": _DIFF,
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "rev-list": _LOG,
    "shortlog": replace(
        _LOG,
        short=_LOG.short + "ne",
        short_value="SGLI",
        long=_LOG.long | names("summary numbered email committer"),
        long_optional=_LOG.long_optional | names("group"),
    ),
    "blame": Spec(
        short="ltsewcfnpkb",
        short_value="LS",
        short_optional="MC",
        long=names(
            "porcelain line-porcelain root incremental show-email show-name show-number"
            " show-stats first-parent color-lines color-by-age"
        ),
        long_value=names("date since ignore-rev ignore-revs-file"),
        long_optional=names("date since abbrev ignore-rev ignore-revs-file"),
        paths="none",
    ),
    "ls-files": Spec(
        short="cdoimstuvzfk",
        short_value="xX",
        long=names(
            "cached deleted others ignored stage unmerged killed modified exclude-standard"
            " full-name error-unmatch directory no-empty-directory eol deduplicate debug"
            " abbrev"
        ),
        long_value=names("exclude exclude-from with-tree format"),
        long_optional=names("exclude exclude-from with-tree abbrev format"),
        paths="none",
    ),
    "ls-tree": Spec(
        short="rtdlz",
        long=names("name-only name-status full-name full-tree abbrev long object-only"),
        long_optional=names("abbrev format"),
        paths="none",
    ),
    "cat-file": Spec(
        short="ptse",
        long=names(
            "batch batch-check batch-all-objects buffer follow-symlinks unordered"
            " allow-unknown-type"
        ),
        long_optional=names("batch batch-check"),
        paths="none",
    ),
    "branch": _REFS,
    "tag": replace(_REFS, short="il", short_optional="n"),
    "for-each-ref": replace(
        _REFS,
        short="spv",
        long=_REFS.long | names("shell perl python tcl"),
        long_value=_REFS.long_value | names("count exclude"),
        long_optional=_REFS.long_optional | names("count exclude"),
    ),
    "show-ref": Spec(
        short="dqsh",
        long=names("heads tags head dereference hash verify quiet branches"),
        long_optional=names("hash abbrev"),
        paths="none",
    ),
    "show-branch": Spec(
        short="ar", long=names("all remotes current list no-name sha1-name topics"), paths="none"
    ),
    "rev-parse": Spec(
        short="q",
        long=names(
            "show-toplevel show-prefix show-cdup git-dir git-common-dir absolute-git-dir"
            " verify short abbrev-ref symbolic symbolic-full-name is-inside-work-tree"
            " is-inside-git-dir is-bare-repository is-shallow-repository all branches tags"
            " remotes quiet show-superproject-working-tree show-object-format no-revs"
            " revs-only no-flags flags not local-env-vars shared-index-path"
        ),
        long_value=names("git-path default"),
        long_optional=names(
            "short abbrev-ref branches tags remotes path-format disambiguate exclude"
            " show-object-format since until"
        ),
        paths="none",
    ),
    "merge-base": Spec(
        short="a", long=names("all octopus independent is-ancestor fork-point"), paths="none"
    ),
    "name-rev": Spec(
        long=names("name-only tags all always no-undefined"),
        long_value=names("refs exclude"),
        long_optional=names("refs exclude"),
        paths="none",
    ),
    # Not --dirty, nor --broken since git 2.46: they write the index, whatever GIT_OPTIONAL_LOCKS
    # says (builtin/describe.c).
    "describe": Spec(
        long=names("tags all always long exact-match contains first-parent abbrev debug"),
        long_value=names("match exclude candidates"),
        long_optional=names("abbrev match exclude candidates"),
        paths="none",
    ),
    "count-objects": Spec(short="vH", long=names("verbose human-readable"), paths="none"),
    "var": Spec(short="l", paths="none"),
    "check-ignore": Spec(
        short="qvzn", long=names("quiet verbose stdin non-matching no-index"), paths="none"
    ),
    "check-attr": Spec(short="az", long=names("all stdin cached"), paths="none"),
    "check-ref-format": Spec(long=names("branch normalize allow-onelevel"), paths="none"),
    "cherry": Spec(short="v", long=names("abbrev"), paths="none"),
    "verify-pack": Spec(short="vs", paths="none"),
    "symbolic-ref": Spec(
        short="q", long=names("short quiet recurse no-recurse"), max_operands=1, paths="none"
    ),
    "grep": Spec(
        short="nilLchHowvEFGPaIzpWqr",
        short_value="eABCmf",
        numeric=True,
        long=names(
            "line-number ignore-case files-with-matches name-only files-without-match count"
            " word-regexp invert-match extended-regexp basic-regexp fixed-strings perl-regexp"
            " text cached untracked no-index exclude-standard no-exclude-standard"
            " recurse-submodules full-name only-matching column heading break color no-color"
            " show-function function-context all-match and or not quiet recursive no-recursive"
            " null"
        ),
        long_value=names("max-depth threads after-context before-context context max-count"),
        long_optional=names(
            "color max-depth threads after-context before-context context max-count"
        ),
        paths="none",
    ),
    "version": Spec(long=names("build-options"), max_operands=0, paths="none"),
    "hash-object": Spec(short_value="t", long=names("stdin stdin-paths no-filters"), paths="none"),
}
_SUBCOMMANDS["annotate"] = _SUBCOMMANDS["blame"]
_GLOBAL = frozenset(
    {
        "--no-pager",
        "-P",
        "--no-optional-locks",
        "--literal-pathspecs",
        "--no-replace-objects",
        "--glob-pathspecs",
        "--icase-pathspecs",
        "--noglob-pathspecs",
        "--no-lazy-fetch",
    }
)
_CONFIG = Spec(
    short="lz",
    long=names(
        "list get get-all get-regexp show-origin show-scope name-only global local system"
        " worktree null bool int bool-or-int path includes no-includes get-urlmatch"
    ),
    long_value=names("type default"),
    long_optional=names("type default"),
    paths="none",
)
_CONFIG_READS = frozenset({"--list", "-l", "--get", "--get-all", "--get-regexp", "--get-urlmatch"})
_LAST_WITHOUT_VALUE = frozenset(
    {"--merged", "--no-merged", "--contains", "--no-contains", "--points-at"}
)
_TEXT_VALUES = names("-L -S -G -I -e --grep --author --committer --format --pretty --date --since")
_RUNS_GPG = re.compile(r"%[^%a-zA-Z]*G|%\([^)]*signature")


def check_git(call: Call) -> None:
    call.context.git_calls.append(call.word)
    arguments = list(call.arguments)
    if [item.literal for item in arguments] in (["--version"], ["version"], ["-v"], ["--help"]):
        call.context.git_calls.pop()
        return
    if not call.context.trusted_workspace:
        raise call.refuse("git", "a repository that is not trusted may name programs that git runs")
    while arguments and (arguments[0].head.startswith("-") or arguments[0].literal is None):
        text = arguments[0].literal
        if text in _GLOBAL:
            arguments = arguments[1:]
        elif text == "-C" and len(arguments) > 1 and is_folder_below(arguments[1]):
            arguments = arguments[2:]
        else:
            raise call.refuse(
                "option", f"{text or 'an option'} is not known to only read", arguments[0]
            )
    if not arguments:
        raise call.refuse("operand", "no subcommand")
    name = call.literal(arguments[0])
    inner = Call(f"git {name}", arguments[0], tuple(arguments[1:]), call.context)
    if name in _LISTS:
        _LISTS[name](inner)
        return
    spec = _SUBCOMMANDS.get(name)
    if spec is None:
        raise call.refuse(
            "option", f"the subcommand {name!r} is not known to only read", arguments[0]
        )
    if arguments[-1].literal in _LAST_WITHOUT_VALUE:
        inner = Call(inner.name, inner.word, inner.arguments[:-1], inner.context)
    found = _match(inner, spec)
    lists = "--list" in found.options or (name == "tag" and "-l" in found.options)
    if name in ("branch", "tag") and found.operands and not lists:
        raise inner.refuse("operand", "a name without --list makes it", found.operands[0])
    if name == "hash-object" and not inner.arguments:
        raise inner.refuse("operand", "nothing to hash")


def _match(call: Call, spec: Spec) -> Operands:
    found = match_options(spec, call.name, call.arguments)
    if "--help" in found.options:
        raise call.refuse("option", "--help runs man, or the browser of the configuration")
    for argument in call.arguments:
        if _RUNS_GPG.search(argument.shape):
            raise call.refuse("option", "a format that checks signatures runs a program", argument)
    for value in found.values:
        if value.option in ("--format", "--pretty") and value.literal is None:
            raise call.refuse("expansion", "a format that is not known in advance", value.argument)
    patterns = _TEXT_VALUES - ({"-S"} if call.name in ("git blame", "git annotate") else set())
    searches = call.name == "git grep" and not found.options & {"-e", "-f"}
    paths = [(operand, operand.shape) for operand in found.operands[searches:]]
    paths += [(v.argument, v.shape) for v in found.values if v.option not in patterns]
    for argument, shape in paths:
        if shape == ".." or shape.startswith(("/", "~", "../")) or "/../" in shape:
            call.path(argument, shape)
    return found


def _first(call: Call) -> str | None:
    if not call.arguments:
        return None
    return call.literal(call.arguments[0])


def _rest(call: Call, count: int = 1) -> Call:
    return Call(call.name, call.word, call.arguments[count:], call.context)


def _remote(call: Call) -> None:
    first = _first(call)
    if first in ("get-url",):
        _match(_rest(call), Spec(long=names("push all"), max_operands=1, paths="none"))
    elif first == "show" and len(call.arguments) > 1 and call.arguments[1].literal == "-n":
        _match(_rest(call), Spec(short="n", paths="none"))
    elif first is not None and (first not in ("-v", "--verbose") or len(call.arguments) > 1):
        raise call.refuse("operand", "changes or asks a remote", call.arguments[0])


def _stash(call: Call) -> None:
    first = _first(call)
    if first not in ("list", "show"):
        raise call.refuse("operand", "changes the stash", call.arguments[0] if first else None)
    _match(_rest(call), replace(_LOG, long=_LOG.long | names("include-untracked only-untracked")))


def _reflog(call: Call) -> None:
    first = _first(call)
    if first in ("show", "list"):
        _match(_rest(call), _LOG)
        return
    if first == "exists":
        _match(_rest(call), Spec(max_operands=1, paths="none"))
        return
    found = _match(call, _LOG)
    if any(operand.literal != "HEAD" for operand in found.operands):
        raise call.refuse("operand", "a subcommand that may change the reflog", found.operands[0])


def _config(call: Call) -> None:
    found = _match(call, _CONFIG)
    if not found.options & _CONFIG_READS and (
        len(found.operands) != 1
        or not re.fullmatch(
            r"[A-Za-z0-9-]+(?:\.[^\s=]+)?\.[A-Za-z0-9-]+", call.literal(found.operands[0])
        )
    ):
        raise call.refuse("operand", "sets or edits the configuration")


def _worktree(call: Call) -> None:
    if _first(call) != "list":
        raise call.refuse("operand", "changes working trees")
    _match(
        _rest(call),
        Spec(short="vz", long=names("porcelain verbose"), max_operands=0, paths="none"),
    )


def _notes(call: Call) -> None:
    if _first(call) not in ("list", "show"):
        raise call.refuse("operand", "changes notes")
    _match(_rest(call), Spec(max_operands=1, paths="none"))


_LISTS = {
    "remote": _remote,
    "stash": _stash,
    "reflog": _reflog,
    "config": _config,
    "worktree": _worktree,
    "notes": _notes,
}
