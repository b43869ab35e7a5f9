"""The table: every program that may be read-only, with what it may be given; and the builtins.

An entry is a :class:`~sandboxed_tools.bash.options.Spec` or a function. What is not here is
refused. Each entry was written against the manual's list of options: an option is left out when it
writes, deletes, runs a program, connects, or reads further options from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sandboxed_tools.bash.builtins import BUILTINS
from sandboxed_tools.bash.options import Spec, names
from sandboxed_tools.bash.rules import files, starters, system
from sandboxed_tools.bash.rules.awk import check_awk
from sandboxed_tools.bash.rules.call import Rule
from sandboxed_tools.bash.rules.find import check_find
from sandboxed_tools.bash.rules.git import check_git
from sandboxed_tools.bash.rules.sed import check_sed

__all__ = ["NEVER", "TABLE"]


_READS_FILES = Spec(anything=True, unknown="any")
_TEXT_ONLY = Spec(anything=True, unknown="any", paths="none")
_GREP = Spec(
    anything=True,
    unknown="any",
    short="EFGPhHilLnoqrRsvwxcIabTUyz",
    paths="after_first",
    text=names("-e --regexp --include --exclude --exclude-dir --label"),
    first_given_by=names("-e -f --regexp --file"),
)
_JQ = Spec(
    anything=True,
    unknown="any",
    paths="after_first",
    text=names("--arg --argjson"),
    first_given_by=names("-f --from-file"),
)

_ONLY_READ_FILES = names(
    "cat head tail wc ls dir vdir tac rev nl fold fmt pr expand unexpand paste join comm cmp"
    " diff od hexdump hd stat du realpath readlink md5sum sha1sum sha224sum sha256sum"
    " sha384sum sha512sum b2sum cksum sum base32 base64 basenc cut tsort column namei bc"
    " users uptime"
)
_ONLY_COMPUTE = names(
    "echo tr seq expr factor numfmt basename dirname true false : pwd sleep yes printenv id"
    " groups whoami logname w uname nproc arch free tty which whereis type"
    " help locale lscpu lsmod times break continue mountpoint"
)
# Options whose value names no file, for the rules about paths: ``cut -d/`` opens no folder.
_TEXT_VALUES = {
    "cut": "-d --delimiter --output-delimiter",
    "paste": "-d --delimiters",
    "join": "-t",
    "column": "-s --separator -o --output-separator",
    "nl": "-s --number-separator",
    "tac": "-s --separator",
    "hexdump": "-e --format",
    "hd": "-e --format",
    "ls": "-I --ignore --hide",
    "du": "--exclude",
    "diff": "-x --exclude -I --ignore-matching-lines -L --label",
    "stat": "-c --format --printf",
}
_SORT = Spec(
    short="bdfghinMRVrcCmsuz",
    short_value="kt",
    long=names(
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort"
        " ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse"
        " version-sort check merge stable unique zero-terminated debug"
    ),
    long_value=names("key field-separator sort parallel batch-size files0-from"),
    long_optional=names("key field-separator sort parallel batch-size files0-from check"),
    text=names("-t -k --key --field-separator"),
)
_RG = Spec(
    dashed=names("-e --regexp -g --glob -r --replace"),
    text=names("-e --regexp -g --glob --iglob -r --replace"),
    first_given_by=names("-e --regexp -f --file --files --type-list"),
    short="bcFHIhilLnNopPqsSuUvVwxa0.",
    short_value="ABCdeEfgjmMrtT",
    long=names(
        "after-context before-context auto-hybrid-regex no-auto-hybrid-regex binary no-binary"
        " block-buffered byte-offset case-sensitive column no-column count count-matches crlf"
        " debug trace files files-with-matches files-without-match fixed-strings follow"
        " glob-case-insensitive heading no-heading hidden no-hidden ignore-case include-zero"
        " invert-match json line-buffered line-number no-line-number line-regexp"
        " max-columns-preview multiline multiline-dotall no-config no-filename no-ignore"
        " no-ignore-dot no-ignore-exclude no-ignore-files no-ignore-global no-ignore-parent"
        " no-ignore-vcs no-messages no-mmap mmap no-require-git no-unicode null null-data"
        " one-file-system only-matching no-pcre2-unicode passthru pcre2 pretty quiet"
        " search-zip-none smart-case sort-files stats stop-on-nonmatch text trim type-list"
        " unrestricted vimgrep with-filename word-regexp version ignore no-follow no-text"
    ),
    long_value=names(
        "after-context before-context context color colors context-separator dfa-size-limit"
        " encoding engine field-context-separator field-match-separator file glob iglob"
        " ignore-file max-columns max-count max-depth maxdepth max-filesize path-separator"
        " regex-size-limit regexp replace sort sortr threads type type-add type-clear type-not"
    ),
    long_optional=names(
        "after-context before-context context color colors context-separator dfa-size-limit"
        " encoding engine field-context-separator field-match-separator file glob iglob"
        " ignore-file max-columns max-count max-depth maxdepth max-filesize path-separator"
        " regex-size-limit regexp replace sort sortr threads type type-add type-clear type-not"
    ),
    paths="after_first",
)
_FD = Spec(
    short="HIusigalLp0qhVF1",
    short_value="deEtSocj",
    long=names(
        "hidden no-ignore no-ignore-vcs no-ignore-parent unrestricted case-sensitive"
        " ignore-case glob regex fixed-strings absolute-path follow full-path print0 quiet"
        " show-errors one-file-system prune strip-cwd-prefix"
    ),
    long_value=names(
        "max-depth min-depth exact-depth exclude type extension size changed-within"
        " changed-before owner color threads max-results base-directory search-path and"
    ),
    long_optional=names(
        "max-depth min-depth exact-depth exclude type extension size changed-within"
        " changed-before owner color threads max-results base-directory search-path and"
    ),
    paths="after_first",
)
_BINARY_TOOL = Spec(
    short="aAbBcCdDefFghHiIlnNopPrRsStTuvVwWxz",
    long=names(
        "demangle dynamic extern-only all headers section-headers symbols wide file-header"
        " program-headers sections syms relocs dyn-syms segments disassemble disassemble-all"
        " reloc dynamic-reloc full-contents source no-show-raw-insn print-size print-file-name"
        " undefined-only defined-only numeric-sort size-sort reverse-sort notes version-info"
        " private-headers archive-headers info"
    ),
    at=False,
    unknown="operand",
)

_PROGRAMS: dict[str, Rule] = {
    **dict.fromkeys(_ONLY_READ_FILES, _READS_FILES),
    **dict.fromkeys(_ONLY_COMPUTE, _TEXT_ONLY),
    **{name: replace(_READS_FILES, text=names(text)) for name, text in _TEXT_VALUES.items()},
    **dict.fromkeys(names("grep egrep fgrep"), _GREP),
    "jq": _JQ,
    "pgrep": Spec(
        anything=True,
        unknown="any",
        paths="after_first",
        first_given_by=names("-F --pidfile"),
    ),
    # Versions only: these run code, or read settings from the workspace, in any other form.
    **dict.fromkeys(
        names(
            "gcc g++ cc c++ clang clang++ ld as gdb cmake ninja bash dash sh zsh curl wget"
            " rsync ssh ruby perl lua make gmake vim nano emacs psql mysql"
            " php"
        ),
        system.exactly(r"--version"),
    ),
    # Not -v: it makes Python talkative, and then it runs what its standard input says.
    **dict.fromkeys(names("python3 python python2"), system.exactly("--version|-VV?|--help")),
    **dict.fromkeys(names("node nodejs"), system.exactly("--version|-v|--help")),
    **dict.fromkeys(names("perl ruby lua php"), system.exactly(r"--version|-v")),
    **dict.fromkeys(names("make gmake"), system.exactly(r"--version|-v")),
    **dict.fromkeys(names("ssh tmux strace"), system.exactly(r"-V")),
    **dict.fromkeys(names("ldd man systemctl apt apt-get docker"), system.exactly(r"--version")),
    "zip": system.exactly(r"-v|--version"),
    "sh": system.exactly("--version"),
    # Text and files.
    "sed": check_sed,
    **dict.fromkeys(names("awk gawk mawk nawk original-awk"), check_awk),
    "sort": _SORT,
    "uniq": Spec(
        short="cdDiuz",
        short_value="fsw",
        numeric=False,
        max_operands=1,
        long=names("count repeated all-repeated group ignore-case unique zero-terminated"),
        long_value=names("skip-fields skip-chars check-chars"),
        long_optional=names("skip-fields skip-chars check-chars all-repeated group"),
    ),
    "shuf": Spec(
        short="erz",
        short_value="in",
        long=names("echo repeat zero-terminated"),
        long_value=names("input-range head-count random-source"),
        long_optional=names("input-range head-count random-source"),
    ),
    "iconv": Spec(
        short="cls",
        short_value="ft",
        long=names("list silent"),
        long_value=names("from-code to-code"),
        long_optional=names("from-code to-code"),
    ),
    "xxd": Spec(
        short="abCdeEipruvh",
        short_value="cglos",
        cluster=False,
        max_operands=1,
        permute=False,
    ),
    "tree": Spec(
        short="adflxshDFqNQpugtcrUviACSnJX",
        short_value="LPIH",
        text=names("-P -I -H --charset --timefmt"),
        attached=False,
        long=names(
            "dirsfirst filesfirst noreport matchdirs ignore-case prune si du gitignore inodes"
            " device metafirst fromfile nolinks"
        ),
        long_value=names("filelimit charset timefmt sort"),
        long_optional=names("filelimit charset timefmt sort"),
    ),
    "file": Spec(
        short="bchikLlnNrSv0",
        short_value="eFP",
        long=names(
            "brief mime mime-type mime-encoding dereference no-dereference no-pad no-buffer"
            " print0 extension keep-going raw list no-sandbox"
        ),
        long_value=names("separator exclude"),
        long_optional=names("separator exclude"),
    ),
    "strings": Spec(
        short="aw",
        short_value="netN",
        numeric=True,
        at=False,
        long=names("all print-file-name"),
        long_value=names("bytes radix encoding"),
        long_optional=names("bytes radix encoding"),
    ),
    "less": Spec(
        short="nNSRFXiIEeGgmMqQrsuUwWV",
        plus=False,
        long=names(
            "LINE-NUMBERS chop-long-lines RAW-CONTROL-CHARS quit-if-one-screen no-init"
            " IGNORE-CASE ignore-case squeeze-blank-lines"
        ),
    ),
    "more": Spec(short="dflcsu", numeric=True, plus=False),
    "rg": _RG,
    **dict.fromkeys(names("fd fdfind"), _FD),
    **dict.fromkeys(names("bat batcat"), files.check_bat),
    "zgrep": Spec(
        short="EFGPiclLnhHqsvwxo",
        short_value="ABCem",
        unknown="never",
        paths="after_first",
        text=names("-e"),
        first_given_by=names("-e"),
    ),
    "find": check_find,
    "zipinfo": Spec(short="12smlvhMtTzC", max_operands=None, unknown="operand"),
    "sdiff": Spec(
        short="BbdilstEZWa",
        short_value="wI",
        text=names("-I"),
        long=names("suppress-common-lines left-column ignore-case text"),
        long_value=names("width"),
        long_optional=names("width"),
    ),
    "dc": files.check_dc,
    "getfacl": Spec(short="acdnpRLPt", long=names("absolute-names omit-header numeric recursive")),
    "lsattr": Spec(short="RVadlpv"),
    "shasum": Spec(short="btUc01", short_value="a", long=names("check binary text status warn")),
    # Archives and data.
    "tar": files.check_tar,
    "unzip": files.check_unzip,
    **dict.fromkeys(
        names("gzip gunzip pigz bzip2 bunzip2 xz unxz zstd unzstd"), files.check_compress
    ),
    **dict.fromkeys(
        names("zcat bzcat xzcat zstdcat"), Spec(short="fqvk", long=names("force quiet"))
    ),
    **dict.fromkeys(names("7z 7za 7zr"), files.check_7z),
    "yq": files.check_yq,
    "xmllint": files.check_xmllint,
    "openssl": files.check_openssl,
    "sqlite3": files.check_sqlite3,
    "dd": files.check_dd,
    "tee": files.check_tee,
    **dict.fromkeys(names("nm size readelf objdump"), _BINARY_TOOL),
    # The machine.
    "date": system.check_date,
    "cal": Spec(short="13jmsyh", numeric=True, max_operands=3, paths="none", unknown="never"),
    "ps": system.check_ps,
    "ip": system.check_ip,
    "ss": Spec(
        short="naleompistuwx460HOdTh",
        long=names(
            "numeric all listening extended memory processes info summary tcp udp raw unix options"
            " no-header oneline ipv4 ipv6"
        ),
        # A filter may name a host, which is looked up.
        words=names(
            "state exclude established listening connected synchronized all time-wait close-wait"
        ),
        unknown="never",
        paths="none",
    ),
    "df": Spec(
        short="ahHiklPTv",
        short_value="Btx",
        long=names("all human-readable si inodes local portability total print-type no-sync"),
        long_value=names("block-size type exclude-type"),
        long_optional=names("block-size type exclude-type output"),
    ),
    "who": Spec(
        short="abdHlmpqrsTtuw",
        long=names("all boot dead heading login process count runlevel short time users mesg"),
    ),
    "lsof": system.check_lsof,
    "lsblk": Spec(
        short="abdefiJlmnOpPrsStz",
        short_value="oIxM",
        paths="none",
        unknown="never",
        long=names("all bytes nodeps fs json list noheadings paths pairs raw tree"),
        long_value=names("output"),
        long_optional=names("output"),
    ),
    "findmnt": Spec(short="aAbDfiJlnPrRu", short_value="otT", unknown="never", paths="none"),
    "mount": system.exactly(r"|-l|(?:-l\x1f)?-t\x1f[a-z0-9,]+"),
    "hostname": system.exactly(r"|-s"),
    "sysctl": system.exactly(r"(?:-n\x1f)?[a-z][a-z0-9_.]*(?:\x1f[a-z][a-z0-9_.]*)*|-a"),
    "dmesg": Spec(
        short="TkxtuPH",
        short_value="lf",
        long=names("ctime human kernel decode nopager notime userspace"),
        long_value=names("level facility color since until"),
        long_optional=names("level facility color since until"),
        max_operands=0,
    ),
    "getconf": system.exactly(r"-a|[A-Z][A-Z0-9_]*(?:\x1f[A-Za-z0-9_./]+)?"),
    "getent": system.check_getent,
    "vmstat": Spec(short="asdmnwtf", numeric=True, unknown="never", paths="none"),
    "top": system.exactly(r"-b\x1f?-?n\x1f?[0-9]{1,3}|-bn\x1f?[0-9]{1,3}|-n\x1f?[0-9]{1,3}\x1f-b"),
    **dict.fromkeys(
        names("dpkg dpkg-query"),
        Spec(
            short="lLsSWp",
            short_value="f",
            unknown="never",
            paths="none",
            long=names("list listfiles status search show print-architecture get-selections"),
            long_optional=names("showformat"),
            requires=names(
                "-l -L -s -S -W -p --list --listfiles --status --search --show"
                " --print-architecture --get-selections --version"
            ),
        ),
    ),
    "pstree": Spec(short="acghlnpsStTuU", numeric=False, unknown="never", paths="none"),
    "pidof": Spec(short="csx", unknown="never", paths="none"),
    "tput": system.exactly(r"cols|lines|colors"),
    "stty": system.exactly(r"-a|-g|size|speed|"),
    "lspci": Spec(short="vnkmtbDP", unknown="never", max_operands=0, paths="none"),
    "lsusb": Spec(short="vtV", unknown="never", max_operands=0, paths="none"),
    **dict.fromkeys(
        names("lsipc lslocks lsns"),
        Spec(short="bJnrulmqsgtcp", short_value="o", max_operands=0, paths="none", unknown="never"),
    ),
    "netstat": system.exactly(r"-[atulpesi46rwx]*n[atulpesi46rwxn]*"),
    # Programs that start others.
    "env": starters.check_env,
    "nice": starters.check_nice,
    "timeout": starters.check_timeout,
    "stdbuf": starters.check_stdbuf,
    "xargs": starters.check_xargs,
    "git": check_git,
}

TABLE: Mapping[str, Rule] = MappingProxyType({**_PROGRAMS, **BUILTINS})
"""Every known name. Operators may add names; these can not be replaced."""

NEVER = names(
    "sh bash dash zsh ksh mksh fish csh tcsh busybox toybox sudo su doas pkexec runuser"
    " chroot unshare nsenter nohup setsid setpriv flock script watch parallel ionice chrt"
    " taskset prlimit strace ltrace gdb perl python python2 python3 ruby node nodejs lua php"
    " tclsh expect eval source . exec trap alias bind complete compgen enable let local"
    " readonly typeset declare coproc fc getopts hash suspend vi vim ed emacs nano ssh scp"
    " sftp rsync curl wget nc ncat socat telnet docker podman kubectl make npm npx yarn pnpm"
    " pip cargo go mvn gradle rm mv cp ln tee touch mkdir rmdir chmod chown truncate install"
    " dd mount umount kill pkill killall if then else elif fi for while until do done case"
    " esac select function time in"
)
"""Names that can not be added either: they write, connect, or run what they are given."""
