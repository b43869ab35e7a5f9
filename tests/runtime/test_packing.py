"""What a Python function takes along into a container, and what keeps it out of there."""

from __future__ import annotations

import functools
import io
import logging
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import Field, SecretStr

from sandboxed_tools.errors import NotMovable, ToolDefinitionError
from sandboxed_tools.runtime.packing import pack
from sandboxed_tools.tool import AnyTool, Context, ToolInput, build_tool

SHORT = "short"
LONG = "long " * 100
TABLE = {"a": 1}
NESTED = {"inner": [{"api_key": "abcdef123456"}]}
PASSWORD = "hunter2 hunter2"
HARMLESS_NAME = "sk-" + "a1B2" * 8
SECRET = SecretStr("s")
log = logging.getLogger("a tool")


class Client:
    def __init__(self) -> None:
        self.token = "0123456789"

    def work(self, tool_input: In, ctx: Context[Any]) -> str:
        return self.token


client = Client()


class In(ToolInput):
    text: str = ""
    count: int = Field(default=1, ge=0)


@dataclass
class Point:
    x: int = 1


def helper(value: float) -> float:
    return math.sqrt(value) + Point().x


def tool(call: Callable[..., Any], *, schema: type[ToolInput] = In, **stated: Any) -> AnyTool:
    stated.setdefault("carry", (__name__,))
    return build_tool(name="Moves", description="x", input_schema=schema, call=call, **stated)


def unpacked(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301  packed by this very test


def repeat(tool_input: In, ctx: Context[Any]) -> str:
    log.info("called")
    return f"{SHORT} {tool_input.text * tool_input.count} {helper(4)}"


def test_functions_classes_numbers_short_texts_and_loggers_go_along() -> None:
    work, schema = unpacked(pack(tool(repeat)))
    assert work(schema(text="ab", count=2), None) == "short abab 3.0"


def test_the_packed_function_needs_nothing_of_the_module_that_it_was_written_in() -> None:
    packed = pack(tool(repeat))
    code = (
        "import pickle, sys\n"
        "work, schema = pickle.loads(sys.stdin.buffer.read())\n"
        'print(work(schema.model_validate_json(\'{"text": "ab"}\'), None))\n'
        "assert not [name for name in sys.modules if name.startswith('tests')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=packed, capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b"short ab 3.0\n"


def test_a_closure_goes_along_with_what_it_closes_over() -> None:
    number = 41

    def work(tool_input: In, ctx: Context[Any]) -> int:
        return number + tool_input.count

    function, schema = unpacked(pack(tool(work)))
    assert function(schema(), None) == 42


def uses_long(tool_input: In, ctx: Context[Any]) -> str:
    return LONG


def uses_table(tool_input: In, ctx: Context[Any]) -> int:
    return TABLE["a"]


def uses_client(tool_input: In, ctx: Context[Any]) -> str:
    return client.token


def by_default(tool_input: In, ctx: Context[Any], table: dict[str, int] = TABLE) -> int:
    return table["a"]


def through_helper(tool_input: In, ctx: Context[Any]) -> int:
    return uses_table(tool_input, ctx)


def through_nested(tool_input: In, ctx: Context[Any]) -> list[int]:
    return [(lambda: TABLE["a"])() for _ in range(2)]


class Holder(ToolInput):
    table: dict[str, int] = TABLE


def plain(tool_input: In, ctx: Context[Any]) -> int:
    return 1


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (uses_long, "LONG"),
        (uses_table, "TABLE"),
        (uses_client, "client"),
        (by_default, "table"),
        (through_helper, "TABLE"),
        (through_nested, "TABLE"),
        (client.work, "self"),
        (functools.partial(by_default, table={"a": 2}), "table"),
        ([].append, "append"),
    ],
)
def test_data_is_refused_by_name_unless_it_is_carried(call: Callable[..., Any], named: str) -> None:
    with pytest.raises(NotMovable, match=named):
        pack(tool(call))


def test_data_in_the_input_model_counts_as_captured() -> None:
    with pytest.raises(NotMovable, match="table"):
        pack(tool(plain, schema=Holder))


def test_carried_data_goes_along() -> None:
    work, schema = unpacked(pack(tool(uses_table, carry=(__name__, "TABLE"))))
    assert work(schema(), None) == 1


def uses_password(tool_input: In, ctx: Context[Any]) -> str:
    return PASSWORD


def uses_form(tool_input: In, ctx: Context[Any]) -> str:
    return HARMLESS_NAME


def uses_secret(tool_input: In, ctx: Context[Any]) -> str:
    return SECRET.get_secret_value()


def uses_nested(tool_input: In, ctx: Context[Any]) -> str:
    return str(NESTED)


def uses_environment(tool_input: In, ctx: Context[Any]) -> str:
    environment = os.environ
    return environment["HOME"]


def holds_a_key(tool_input: In, ctx: Context[Any]) -> str:
    return "ghp_0123456789abcdefghij"


def holds_bytes(tool_input: In, ctx: Context[Any]) -> bytes:
    return b"ghp_0123456789abcdefghij"


class Login(NamedTuple):
    user: str
    password: str


class Slotted:
    __slots__ = ("__api_key",)

    def __init__(self) -> None:
        self.__api_key = "plain words"


LOGIN = Login("me", "plain words")
SLOTTED = Slotted()


def uses_login(tool_input: In, ctx: Context[Any]) -> str:
    return LOGIN.password


def uses_slots(tool_input: In, ctx: Context[Any]) -> object:
    return SLOTTED


@pytest.mark.parametrize(
    "call",
    [
        *(uses_password, uses_form, uses_secret, uses_nested, uses_client, holds_a_key),
        *(holds_bytes, uses_login, uses_slots),
    ],
)
def test_what_looks_like_a_secret_is_refused_even_when_it_is_carried(
    call: Callable[..., Any],
) -> None:
    names = ("PASSWORD", "HARMLESS_NAME", "SECRET", "NESTED", "client", "LOGIN", "SLOTTED")
    with pytest.raises(NotMovable, match="secret"):
        pack(tool(call, carry=(__name__, *names)))


def test_a_value_of_a_secret_variable_of_this_process_is_refused_wherever_it_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain words")
    text = f"see: {os.environ['SOME_API_KEY']}"

    def work(tool_input: In, ctx: Context[Any]) -> str:
        return text

    with pytest.raises(NotMovable, match="secret"):
        pack(tool(work))
    monkeypatch.delenv("SOME_API_KEY")
    pack(tool(work))


def test_the_whole_environment_is_refused() -> None:
    environment = os.environ

    def work(tool_input: In, ctx: Context[Any]) -> str:
        return environment["PATH"]

    with pytest.raises(NotMovable):
        pack(tool(work, carry=(__name__, "environment")))


def test_what_cannot_be_pickled_is_refused_with_its_kind() -> None:
    lock = threading.Lock()
    stream = io.StringIO()

    def work(tool_input: In, ctx: Context[Any]) -> None:
        with lock:
            stream.write("x")

    with pytest.raises(NotMovable, match=r"lock.*name it in carry"):
        pack(tool(work))
    with pytest.raises(NotMovable, match="cannot travel"):
        pack(tool(work, carry=(__name__, "lock", "stream")))


def test_an_object_that_attacks_the_packing_side_is_data_and_not_reached(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            (tmp_path / "ran").touch()
            raise SystemExit(3)

    thing = Hostile()

    def work(tool_input: In, ctx: Context[Any]) -> Any:
        return thing

    with pytest.raises(NotMovable):
        pack(tool(work))
    assert not (tmp_path / "ran").exists()
    with pytest.raises(NotMovable, match="cannot travel"):
        pack(tool(work, carry=(__name__, "thing")))


def test_a_module_that_is_not_named_is_refused_and_named() -> None:
    with pytest.raises(NotMovable, match=__name__.replace(".", r"\.")):
        pack(tool(repeat, carry=()))


def test_a_tool_that_works_on_the_clients_own_state_is_refused() -> None:
    from sandboxed_tools.builtin import Glob

    with pytest.raises(NotMovable, match="client"):
        pack(Glob)


def test_carry_belongs_to_python_tools_and_is_no_single_text() -> None:
    with pytest.raises(ToolDefinitionError, match="carry"):
        tool(plain, carry="TABLE")


COUNTER = 1


def counts(tool_input: In, ctx: Context[Any]) -> int:
    return COUNTER


def test_what_has_changed_since_the_last_call_travels_as_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = tool(counts)
    first = pack(moves)
    assert pack(moves) is first
    monkeypatch.setitem(counts.__globals__, "COUNTER", 2)
    work, schema = unpacked(pack(moves))
    assert work(schema(), None) == 2
    monkeypatch.setattr(counts, "__code__", plain.__code__)
    work, schema = unpacked(pack(moves))
    assert work(schema(), None) == 1
