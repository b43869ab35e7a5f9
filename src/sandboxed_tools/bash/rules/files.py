"""Programs over files, archives and data whose rule is more than a list of options."""

from __future__ import annotations

import re

from sandboxed_tools.bash.options import Spec, names
from sandboxed_tools.bash.rules.call import Call, is_version
from sandboxed_tools.bash.syntax import Argument

__all__ = [
    "check_7z",
    "check_bat",
    "check_compress",
    "check_dc",
    "check_dd",
    "check_openssl",
    "check_sqlite3",
    "check_tar",
    "check_tee",
    "check_unzip",
    "check_xmllint",
    "check_yq",
]

_TAR_FIRST = re.compile(r"-?(?=[tvzjJa]*f[tvzjJa]*$)(?=.*t)[tvzjJaf]+")
_TAR_OPTIONS = frozenset(
    {
        "-v",
        "-z",
        "-j",
        "-J",
        "-a",
        "-t",
        "-tv",
        "-tz",
        "-tvz",
        "-ztv",
        "--list",
        "--verbose",
        "--gzip",
        "--bzip2",
        "--xz",
        "--zstd",
        "--numeric-owner",
        "--full-time",
        "--force-local",
        "--wildcards",
    }
)
_UNZIP = re.compile(r"-[lvtpcZzq12sC]*[lvtpcZz][lvtpcZzq12sC]*")
_SEVEN_ZIP_OPTIONS = frozenset({"-slt", "-ba", "-bd", "-sccUTF-8", "-tzip", "-t7z", "-ttar"})
_DD = re.compile(r"(?:if|bs|ibs|cbs|count|skip|status|iflag|conv)=.*", re.DOTALL)
_SQL = re.compile(
    r"\s*(?:select\b|explain\b|pragma\s+(?:table_info|table_xinfo|index_list|index_info|foreign_key_list"
    r"|database_list|user_version|schema_version|page_count|page_size|encoding)\b[^=;]*;?\s*$"
    r"|\.(?:tables|schema|indexes|databases)(?:\s+\w+)?\s*$)",
    re.IGNORECASE,
)
_SQLITE_DATABASE = re.compile(r"file:([^?#%:]+)\?(?:mode=ro&)?immutable=1")
_SQL_REFUSED = re.compile(
    r"writefile|readfile|load_extension|\bedit\s*\(|fts3_tokenizer|fsdir|\bzipfile|\bvacuum|\battach|;\s*\S",
    re.IGNORECASE,
)
_SQLITE_FLAGS = frozenset(
    {
        "-header",
        "-noheader",
        "-csv",
        "-json",
        "-column",
        "-line",
        "-list",
        "-markdown",
        "-table",
        "-box",
        "-quote",
        "-tabs",
        "-bail",
        "-batch",
        "-html",
        "-ascii",
    }
)
_YQ = Spec(
    short="rcneCMPjyYN",
    short_value="opI",
    long=names(
        "raw-output compact-output null-input exit-status colors no-colors prettyPrint tojson"
        " yaml-output no-doc unwrapScalar"
    ),
    long_value=frozenset({"output-format", "input-format", "indent"}),
    unknown="operand",
    paths="after_first",
)
_BAT = Spec(
    short="ApnuPfS",
    short_value="lrHm",
    long=names(
        "plain show-all number list-languages list-themes unbuffered force-colorization"
        " no-paging chop-long-lines"
    ),
    long_value=names(
        "language line-range highlight-line style theme color decorations tabs wrap file-name"
        " paging terminal-width italic-text"
    ),
    long_optional=names(
        "language line-range highlight-line style theme color decorations tabs wrap file-name"
        " paging terminal-width italic-text"
    ),
)
_COMPRESS = Spec(
    short="cdltvqfkn123456789",
    long=names(
        "stdout to-stdout decompress uncompress list test quiet verbose keep force fast best"
    ),
)
_TEST_OR_LIST = names("-t -l -v -q --test --list --verbose --quiet")
_XMLLINT = Spec(
    long=names(
        "nonet noout format noblanks recover nowarning noent nsclean nocdata html version quiet"
    ),
    long_value=frozenset({"xpath"}),
    cluster=False,
)


def check_tar(call: Call) -> None:
    """``tar`` lists one archive whose name has no host in it (``host:x.tar`` runs ssh)."""
    arguments = list(call.arguments)
    if [item.literal for item in arguments] in (["--version"], ["--help"]):
        return
    archive: Argument | None = None
    lists = False
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        text = argument.literal
        index += 1
        if text is None:
            if argument.may_begin_with("-") or archive is None or not argument.is_one_word:
                raise call.refuse(
                    "expansion", f"{argument.shape!r} is not known in advance", argument
                )
        elif (text.startswith("-") or index == 1) and _TAR_FIRST.fullmatch(text):
            if text.startswith("-") and not text.endswith("f"):
                raise call.refuse("option", "-f is followed by its value", argument)
            lists = True
            archive, index = _archive(call, arguments, index)
        elif text == "-f" or text == "--file":
            archive, index = _archive(call, arguments, index)
        elif text.startswith("--file="):
            archive = _no_host(call, argument, text[7:])
            call.path(argument, text[7:])
        elif text in _TAR_OPTIONS:
            lists = lists or text == "--list" or ("t" in text and not text.startswith("--"))
        elif text.startswith("-") or index == 1:
            raise call.refuse("option", f"{text} is not known to only read", argument)
    if archive is None or not lists:
        raise call.refuse(
            "option", "only listing (-t) of a named archive (-f) is known to only read"
        )


def _archive(call: Call, arguments: list[Argument], index: int) -> tuple[Argument, int]:
    if index >= len(arguments):
        raise call.refuse("option", "no archive is named")
    archive = arguments[index]
    if archive.literal is None:
        if not archive.is_one_word or ":" in archive.shape or "/" not in archive.head:
            raise call.refuse(
                "expansion", "an archive's name that is not known in advance", archive
            )
    else:
        _no_host(call, archive, archive.literal)
    call.path(archive)
    return archive, index + 1


def _no_host(call: Call, argument: Argument, name: str) -> Argument:
    if ":" in name.partition("/")[0] or (name.startswith("-") and name != "-"):
        raise call.refuse("operand", "an archive on another host", argument)
    return argument


def check_unzip(call: Call) -> None:
    arguments = call.arguments
    if [item.literal for item in arguments] in (["-v"], ["--help"], ["-h"]):
        return
    if not arguments or not _UNZIP.fullmatch(arguments[0].literal or ""):
        raise call.refuse("option", "only lists or prints with -l, -v, -t, -p, -c or -Z first")
    for argument in arguments[1:]:
        if argument.may_begin_with("-"):
            if argument.literal is None or not _UNZIP.fullmatch(argument.literal):
                raise call.refuse(
                    "option", f"{argument.shape!r} is not known to only read", argument
                )
        else:
            call.path(argument)


def check_7z(call: Call) -> None:
    texts = call.literals()
    if not texts or texts[0] not in ("l", "t", "i"):
        raise call.refuse("operand", "only l (list) and t (test) are known to only read")
    for text, argument in zip(texts[1:], call.arguments[1:], strict=True):
        if text.startswith(("-", "@")):
            if text not in _SEVEN_ZIP_OPTIONS:
                raise call.refuse("option", f"{text} is not known to only read", argument)
        else:
            call.path(argument)


def check_dd(call: Call) -> None:
    for argument in call.arguments:
        text = call.literal(argument)
        if not _DD.fullmatch(text):
            raise call.refuse("operand", f"{text!r} is not known to only read", argument)
        if text.startswith("if="):
            call.path(argument, text[3:])


def check_tee(call: Call) -> None:
    for argument in call.arguments:
        if call.literal(argument) != "/dev/null":
            raise call.refuse("operand", "writes to what it is given", argument)


def check_sqlite3(call: Call) -> None:
    """``sqlite3 -readonly -safe 'file:NAME?immutable=1' QUERY``, and nothing less.

    Without ``-readonly`` it creates the file, without ``-safe`` a query can write files, and
    without ``immutable`` a database in WAL mode, which the file itself decides, gets ``-shm`` and
    ``-wal`` files beside it although it is opened read-only (sqlite.org/wal.html, "Read-Only
    Databases").
    """
    texts = call.literals()
    if texts in (["--version"], ["-version"]):
        return
    flags = {text for text in texts if text.startswith("-")}
    if not {"-readonly", "-safe"} <= flags:
        raise call.refuse("option", "only reads with both -readonly and -safe")
    odd = flags - _SQLITE_FLAGS - {"-readonly", "-safe"}
    if odd:
        raise call.refuse("option", f"{min(odd)} is not known to only read")
    operands = [item for item in call.arguments if not item.head.startswith("-")]
    if len(operands) < 2:
        raise call.refuse("operand", "no query, so commands are read from elsewhere")
    database = _SQLITE_DATABASE.fullmatch(operands[0].head)
    if database is None:
        raise call.refuse(
            "operand", "may write beside the database unless it is immutable=1", operands[0]
        )
    call.path(operands[0], database[1])
    for operand in operands[1:]:
        if not _SQL.match(operand.head) or _SQL_REFUSED.search(operand.head):
            raise call.refuse("script", "a query that is not one plain select", operand)


def check_dc(call: Call) -> None:
    """``dc -e`` with plain numbers and operators: its ``!`` runs a program."""
    texts = call.literals()
    if len(texts) != 2 or texts[0] != "-e" or not re.fullmatch(r"[0-9 .+*/%^pknfvdr_-]+", texts[1]):
        raise call.refuse("script", "is known to only read with -e and plain numbers")


def check_yq(call: Call) -> None:
    """``yq``, of which there are two: only options that mean no harm in either."""
    for operand in call.spec(_YQ).operands:
        if operand.literal is not None and re.search(
            r"system|split_doc|shell-completion", operand.literal
        ):
            raise call.refuse("script", "an expression that may run a program", operand)


def check_compress(call: Call) -> None:
    """``gzip``, ``xz`` and the like: to standard output, or only a test or a list.

    With ``xz``, ``bzip2`` and ``zstd`` the last of ``-d``, ``-t`` and ``-l`` wins, so ``-t`` with
    ``-d`` decompresses into a file. bzip2 as its authors publish it tells its version, and then
    goes on with the files that it is given.
    """
    if is_version(call):
        return
    options = call.spec(_COMPRESS).options
    if not call.arguments or options & {"-c", "--stdout", "--to-stdout"}:
        return
    tests_or_lists = options & {"-t", "-l", "--test", "--list"}
    if call.name in ("bzip2", "bunzip2"):
        # It lists nothing; pbzip2, which may go by this name, takes -l for a limit of load.
        tests_or_lists -= {"-l", "--list"}
    if not tests_or_lists or not options <= _TEST_OR_LIST:
        raise call.refuse("option", "only reads with -c, or with nothing but -t or -l")


def check_bat(call: Call) -> None:
    found = call.spec(_BAT)
    for value in found.values:
        if value.option == "--paging" and value.literal != "never":
            raise call.refuse("option", "paging runs a pager", value.argument)
    if found.operands and found.operands[0].literal == "cache":
        raise call.refuse("operand", "the subcommand cache writes", found.operands[0])


def check_xmllint(call: Call) -> None:
    """``xmllint --nonet``; after ``--version`` it goes on and loads what it is given."""
    if is_version(call):
        return
    found = call.spec(_XMLLINT)
    if "--nonet" not in found.options:
        raise call.refuse("option", "loads from the network without --nonet")
    for operand in found.operands:
        if "://" in operand.shape or (operand.may_begin_with("h") and operand.literal is None):
            raise call.refuse("operand", "a document named by an address", operand)


def check_openssl(call: Call) -> None:
    first, *rest = call.arguments or (None,)
    if first is None:
        raise call.refuse("operand", "reads commands")
    name = call.literal(first)
    inner = Call(f"openssl {name}", first, tuple(rest), call.context)
    if name == "version":
        inner.spec(Spec(short="abdefpvr", cluster=False, max_operands=0))
        return
    if name not in _OPENSSL:
        raise call.refuse("operand", f"{name!r} is not known to only read", first)
    flags, values = _OPENSSL[name]
    words = list(rest)
    while words:
        word = words.pop(0)
        text = inner.literal(word)
        if text in values and words:
            value = words.pop(0)
            if ":" in inner.literal(value) or value.head.startswith("-"):
                raise inner.refuse("operand", "a value that may be an address", value)
            inner.path(value)
        elif text.startswith("-") and text not in flags:
            raise inner.refuse("option", f"{text} is not known to only read", word)
        elif not text.startswith("-"):
            if name != "dgst":
                raise inner.refuse("operand", f"{text!r} is not known to only read", word)
            inner.path(word)


_OPENSSL = {
    "x509": (
        names(
            "-noout -text -subject -issuer -dates -startdate -enddate -serial -fingerprint"
            " -sha256 -sha1 -pubkey -modulus -purpose -email -hash -subject_hash -issuer_hash"
            " -ocsp_uri"
        ),
        frozenset({"-in", "-inform", "-checkend", "-ext"}),
    ),
    "req": (
        names("-noout -text -subject -pubkey -modulus"),
        frozenset({"-in", "-inform"}),
    ),
    "dgst": (
        names("-sha1 -sha224 -sha256 -sha384 -sha512 -md5 -hex -r -c -sha3-256 -sha3-512"),
        frozenset(),
    ),
    "asn1parse": (frozenset({"-i", "-dump"}), frozenset({"-in", "-inform", "-offset", "-length"})),
}
