"""The filter as the kernel would read it, for both machines, by a small interpreter."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.host.bpf import (
    ALLOW,
    KILL_PROCESS,
    NOTIFY,
    Condition,
    Rule,
    assemble,
    fail_with,
)
from sandboxed_tools.host.seccomp_rules import REFUSED, WATCHED, filter_program
from sandboxed_tools.host.syscalls import AUDIT_ARCH, NEWEST_KNOWN, NUMBERS, Machine, number_of

MACHINES: tuple[Machine, ...] = ("x86_64", "aarch64")
EPERM = fail_with(errno.EPERM)
ENOSYS = fail_with(errno.ENOSYS)


def decide(
    program: bytes,
    number: int,
    *arguments: int,
    machine: Machine = "x86_64",
    arch: int | None = None,
) -> int:
    """What the kernel would do with this call (Documentation/networking/filter.rst)."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    arch = AUDIT_ARCH[machine] if arch is None else arch
    data = struct.pack("=iIQ6Q", number, arch, 0, *(item & 2**64 - 1 for item in padded))
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    for _ in range(len(code) + 1):
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x15:
            at += if_true if accumulator == operand else if_false
        elif operation == 0x25:
            at += if_true if accumulator > operand else if_false
        else:
            assert operation == 0x06
            return int(operand)
    raise AssertionError("the program does not end")


def _number(name: str, machine: Machine = "x86_64") -> int:
    number = number_of(name, machine)
    assert number is not None
    return number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("notify", [True, False])
@pytest.mark.parametrize("abi", range(1, 8))
def test_every_listed_call_is_refused_and_every_other_known_one_decided(
    machine: Machine, notify: bool, abi: int
) -> None:
    program = filter_program(machine=machine, landlock_abi=abi, notify=notify)
    for name in REFUSED:
        number = number_of(name, machine)
        if number is not None:
            assert decide(program, number, machine=machine) == (NOTIFY if notify else EPERM), name
    for name in WATCHED:
        number = number_of(name, machine)
        if number is None or (abi < 3 and name in {"truncate", "openat2"}):
            continue
        assert decide(program, number, machine=machine) == (NOTIFY if notify else ALLOW), name


@pytest.mark.parametrize("machine", MACHINES)
def test_foreign_architectures_are_killed_and_unknown_calls_do_not_exist(machine: Machine) -> None:
    program = filter_program(machine=machine, landlock_abi=7, notify=True)
    # i386, arm, and the other machine
    for arch in (0x40000003, 0x40000028, *(a for m, a in AUDIT_ARCH.items() if m != machine)):
        assert decide(program, 1, machine=machine, arch=arch) == KILL_PROCESS
    # A call newer than the list, an x32 call, and a negative number.
    for number in (NEWEST_KNOWN + 1, 0x40000000, 0x40000000 + 90, -1):
        assert decide(program, number, machine=machine) == ENOSYS


@given(high=st.integers(0, 2**32 - 1))
def test_the_upper_half_of_an_argument_changes_nothing(high: int) -> None:
    program = filter_program(machine="x86_64", landlock_abi=7, notify=False)
    tiocsti = 0x5412 | high << 32
    assert decide(program, _number("ioctl"), 0, tiocsti) == fail_with(errno.ENOTTY)
    assert decide(program, _number("ioctl"), 0, 0x5413 | high << 32) == ALLOW
    assert decide(program, _number("socket"), 2 | high << 32, 1, 0) == EPERM
    assert decide(program, _number("clone"), 0x10000000 | high << 32) == EPERM


@given(flags=st.integers(0, 2**31 - 1))
def test_opening_is_watched_exactly_when_it_could_write(flags: int) -> None:
    program = filter_program(machine="x86_64", landlock_abi=7, notify=True)
    writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) != 0
    assert (decide(program, _number("openat"), 0, 0, flags) == NOTIFY) is writes


def test_old_landlock_is_made_up_for() -> None:
    program = filter_program(machine="x86_64", landlock_abi=2, notify=True)
    assert decide(program, _number("truncate")) == EPERM
    assert decide(program, _number("openat"), 0, 0, os.O_RDONLY | os.O_TRUNC) == EPERM
    assert decide(program, _number("openat2")) == ENOSYS
    assert decide(program, _number("kill"), 1, 9) == NOTIFY
    newest = filter_program(machine="x86_64", landlock_abi=7, notify=True)
    assert decide(newest, _number("kill"), 1, 9) == ALLOW


def test_numbers_are_known_and_none_is_twice_in_the_table() -> None:
    for column in (0, 1):
        numbers = [pair[column] for pair in NUMBERS.values() if pair[column] is not None]
        assert len(numbers) == len(set(numbers))
        assert all(number is not None and number <= NEWEST_KNOWN for number in numbers)


@given(
    values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
    other=st.integers(0, 2**32 - 1),
    mask=st.integers(0, 2**32 - 1),
    negated=st.booleans(),
)
def test_conditions_hold_as_they_say(
    values: list[int], other: int, mask: int, negated: bool
) -> None:
    first = Condition(1, tuple(values), mask=mask, negated=negated)
    second = Condition(2, (7,))
    program = assemble([Rule("kill", EPERM, (first, second))], machine="x86_64")
    for value in (*values, other):
        holds = ((value & mask) in values) is not negated
        assert (decide(program, _number("kill"), 0, value, 7) == EPERM) is holds
        assert decide(program, _number("kill"), 0, value, 8) == ALLOW
