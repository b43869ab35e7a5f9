"""What well-known functions do to the world, by their dotted names."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CONNECTS",
    "EVALUATES",
    "OPAQUE",
    "OPENING",
    "READS",
    "SPAWNS",
    "WRITES",
    "kind_of",
    "kind_of_method",
]

READS: Final = "reads"
WRITES: Final = "writes"
SPAWNS: Final = "spawns"
CONNECTS: Final = "connects"
EVALUATES: Final = "evaluates"
OPAQUE: Final = "opaque"

_CHANGES: Final = (WRITES, SPAWNS, CONNECTS, EVALUATES)

OPENING: Final = {
    "open": 1,
    "io.open": 1,
    "codecs.open": 1,
    "gzip.open": 1,
    "bz2.open": 1,
    "lzma.open": 1,
    "tarfile.open": 1,
    "wave.open": 1,
    "aiofiles.open": 1,
    "anyio.open_file": 1,
    "trio.open_file": 1,
    "os.fdopen": 1,
    "gzip.GzipFile": 1,
    "bz2.BZ2File": 1,
    "lzma.LZMAFile": 1,
    "tarfile.TarFile": 1,
    "zipfile.ZipFile": 1,
    "zipfile.ZipFile.open": 1,
    "pathlib.Path.open": 0,
    "anyio.Path.open": 0,
    "trio.Path.open": 0,
}
"""Functions whose mode says whether they write, and the position of the mode."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The longest name that is a beginning of a dotted name counts; ``None`` is without effect.
_BY_NAME: Final[dict[str, str | None]] = {
    **dict.fromkeys(
        _words(
            "eval exec compile __import__ importlib.import_module"
            " importlib.util.spec_from_file_location runpy code.InteractiveConsole"
            " code.InteractiveInterpreter code.interact pickle.load pickle.loads"
            " pickle.Unpickler marshal.load marshal.loads dill.load dill.loads"
            " cloudpickle.load cloudpickle.loads jsonpickle.decode joblib.load yaml.load"
            " yaml.load_all yaml.unsafe_load yaml.full_load ctypes cffi types.FunctionType"
            " types.CodeType timeit pandas.eval pandas.read_pickle numexpr.evaluate"
            " sympy.sympify sympy.parse_expr"
        ),
        EVALUATES,
    ),
    **dict.fromkeys(
        _words(
            "subprocess pty multiprocessing pexpect plumbum sh invoke webbrowser git.Repo"
            " os.system os.popen os.fork os.forkpty os.startfile anyio.run_process"
            " anyio.open_process trio.run_process trio.lowlevel.open_process"
            " asyncio.create_subprocess_exec asyncio.create_subprocess_shell"
            " asyncio.subprocess.create_subprocess_exec"
            " asyncio.subprocess.create_subprocess_shell"
            " concurrent.futures.ProcessPoolExecutor"
        ),
        SPAWNS,
    ),
    **dict.fromkeys(
        _words(
            "requests httpx aiohttp socket ssl socketserver urllib.request urllib3 ftplib"
            " smtplib imaplib poplib telnetlib nntplib http.client http.server xmlrpc"
            " paramiko asyncssh fabric docker boto3 botocore websockets websocket grpc redis"
            " pymongo psycopg psycopg2 asyncpg pymysql aiomysql mysql openai anthropic"
            " kubernetes elasticsearch pika kafka zmq ldap3 pycurl httplib2"
            " sqlalchemy.create_engine asyncio.open_connection asyncio.open_unix_connection"
            " asyncio.start_server asyncio.start_unix_server anyio.connect_tcp"
            " anyio.connect_unix anyio.create_tcp_listener anyio.create_udp_socket"
            " trio.open_tcp_stream trio.open_unix_socket logging.handlers.HTTPHandler"
            " logging.handlers.SMTPHandler logging.handlers.SocketHandler"
            " logging.handlers.SysLogHandler"
        ),
        CONNECTS,
    ),
    **dict.fromkeys(
        _words(
            "shutil tempfile shelve dbm send2trash logging.FileHandler logging.handlers"
            " numpy.save numpy.savez numpy.savez_compressed numpy.savetxt joblib.dump"
            " signal.pthread_kill signal.raise_signal py_compile compileall"
            " pathlib.Path.replace anyio.Path.replace trio.Path.replace"
        ),
        WRITES,
    ),
    **dict.fromkeys(
        _words(
            "shutil.which shutil.disk_usage shutil.get_terminal_size tempfile.gettempdir"
            " socket.gethostname linecache.getline glob.glob glob.iglob filecmp fileinput"
            " PIL.Image.open tokenize.open sqlite3.connect importlib.resources"
            " importlib.metadata pandas.read_csv pandas.read_json pandas.read_parquet"
            " pandas.read_excel numpy.load numpy.loadtxt sys.stdin platform input psutil pwd"
            " grp"
        ),
        READS,
    ),
    **dict.fromkeys(
        _words(
            "json re math cmath statistics itertools functools collections datetime"
            " textwrap hashlib hmac base64 binascii fnmatch difflib string operator"
            " dataclasses decimal fractions random secrets uuid time calendar zoneinfo copy"
            " heapq bisect struct array zlib html unicodedata enum abc typing types"
            " contextlib contextvars warnings traceback inspect pprint shlex mimetypes"
            " ipaddress urllib.parse http.HTTPStatus csv io.StringIO io.BytesIO tomllib"
            " ast.parse ast.literal_eval ast.walk logging sys.stdout sys.stderr sys.exit"
            " threading queue concurrent.futures.ThreadPoolExecutor numbers locale gettext"
            " pydantic wcmatch subprocess.list2cmdline shutil.ignore_patterns"
            " socket.inet_aton socket.inet_ntoa socket.inet_pton socket.inet_ntop"
            " socket.htons socket.ntohs socket.htonl socket.ntohl multiprocessing.cpu_count"
            " multiprocessing.current_process multiprocessing.pool.ThreadPool"
            " multiprocessing.dummy yaml.safe_load yaml.dump yaml.safe_dump pathlib.PurePath"
            " pathlib.PurePosixPath pathlib.PureWindowsPath str int float bytes bytearray"
            " list dict set frozenset tuple bool"
        )
    ),
}

# What else they offer only arranges calls.
_EVENT_LOOPS: Final = _words("asyncio anyio trio")

_OS_SPAWNS: Final = ("exec", "spawn", "posix_spawn")
_OS_WRITES: Final = _words(
    "remove unlink rmdir removedirs mkdir makedirs rename renames replace link symlink"
    " chmod lchmod fchmod chown lchown fchown truncate ftruncate utime mkfifo mknod write"
    " pwrite writev pwritev sendfile copy_file_range splice kill killpg putenv unsetenv"
    " setxattr removexattr chdir fchdir chroot umask nice setuid setgid seteuid setegid"
    " setpriority"
)
_OS_READS: Final = _words(
    "listdir scandir walk fwalk stat lstat fstat statvfs fstatvfs readlink getcwd getcwdb"
    " access getenv getenvb environ environb read pread readv getxattr listxattr getlogin"
    " uname getloadavg sched_getaffinity get_terminal_size isatty ttyname"
)
_OS_PURE: Final = _words(
    "fspath fsencode fsdecode sep pathsep linesep getpid getppid getuid geteuid getgid"
    " getegid cpu_count close closerange dup urandom get_exec_path PathLike DirEntry"
    " strerror times"
)
_OS_PATH_PURE: Final = _words(
    "join basename dirname split splitext splitdrive normpath normcase isabs commonpath"
    " commonprefix sep"
)
_ENVIRON_WRITES: Final = _words("update setdefault pop popitem clear __setitem__ __delitem__")

_METHOD_WRITES: Final = _words(
    "write write_text write_bytes writelines unlink rmdir mkdir touch rename symlink_to"
    " hardlink_to link_to chmod lchmod rmtree executemany executescript commit truncate"
    " extractall writestr to_csv to_excel to_parquet to_sql to_pickle to_feather savefig"
    " send_signal terminate"
)
_METHOD_READS: Final = _words(
    "read read_text read_bytes readlines readline iterdir glob rglob stat lstat exists"
    " is_file is_dir is_symlink resolve samefile walk readlink owner group is_mount"
)
_METHOD_CONNECTS: Final = _words(
    "urlopen connect connect_ex sendall sendto urlretrieve sendmail send_message"
    " create_connection open_connection"
)
_METHOD_SPAWNS: Final = _words("run_process open_process Popen create_subprocess_exec")
_METHOD_EVALUATES: Final = _words("exec_module load_module runcode runsource")
_PURE: Final = _words(
    "abs all any ascii bin bool bytes bytearray callable chr complex dict divmod enumerate"
    " filter float format frozenset getattr hasattr hash hex id int isinstance issubclass"
    " iter len list map max memoryview min next object oct ord pow print property range repr"
    " reversed round set setattr slice sorted str sum super tuple type vars zip Path"
    " PurePath PurePosixPath append extend join split rsplit strip lstrip rstrip splitlines"
    " startswith endswith replace lower upper items keys values get add update pop"
    " setdefault count index find rfind encode decode sort insert remove discard casefold"
    " title capitalize swapcase removeprefix removesuffix partition rpartition translate"
    " zfill ljust rjust center isdigit isalpha isalnum isspace isidentifier isupper islower"
    " isprintable isascii isdecimal isnumeric hexdigest digest with_suffix with_name"
    " with_stem relative_to is_relative_to joinpath as_posix as_uri is_absolute match"
    " fullmatch search finditer findall group groups groupdict sub subn isoformat strftime"
    " strptime timestamp total_seconds most_common intersection union difference issubset"
    " issuperset copy tolist close fileno flush seek tell fetchone fetchall fetchmany cursor"
    " progress log resource model_dump model_dump_json model_copy"
)


def kind_of(name: str) -> str | None:
    """What the function ``name`` does; ``None`` where it is known to do nothing to the world."""
    name = name.removeprefix("builtins.").replace("posixpath.", "os.path.")
    module, _, last = name.rpartition(".")
    if last.endswith(("Error", "Exception", "Warning", "Expired", "error")):
        return None
    if name.startswith("os.") and name not in _BY_NAME:
        return _of_os(name.removeprefix("os."))
    if not module and name not in _BY_NAME:
        return None if name in _PURE else OPAQUE
    by_method = kind_of_method(last)
    prefix = name
    while prefix and prefix not in _BY_NAME:
        prefix = prefix.rpartition(".")[0]
    if not prefix:
        only_arranges = name.partition(".")[0] in _EVENT_LOOPS and by_method == OPAQUE
        return None if only_arranges else by_method
    kind = _BY_NAME[prefix]
    # What was opened for reading may still be written to.
    return by_method if kind == READS and prefix != name and by_method in _CHANGES else kind


def _of_os(name: str) -> str | None:
    module, _, last = name.rpartition(".")
    if module == "path":
        return None if last in _OS_PATH_PURE else READS
    if module in ("environ", "environb"):
        return WRITES if last in _ENVIRON_WRITES else READS
    if module:
        return kind_of_method(last)
    if last.startswith(_OS_SPAWNS):
        return SPAWNS
    if last in _OS_WRITES:
        return WRITES
    if last in _OS_READS:
        return READS
    return None if last in _OS_PURE or last.startswith("O_") else OPAQUE


def kind_of_method(last: str) -> str | None:
    """What a method of this name does, whatever it is a method of."""
    for names, kind in (
        (_METHOD_WRITES, WRITES),
        (_METHOD_CONNECTS, CONNECTS),
        (_METHOD_SPAWNS, SPAWNS),
        (_METHOD_EVALUATES, EVALUATES),
        (_METHOD_READS, READS),
    ):
        if last in names:
            return kind
    return None if last in _PURE or last.endswith(("Error", "Exception")) else OPAQUE
