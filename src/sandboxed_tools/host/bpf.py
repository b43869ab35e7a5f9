"""Assembling a seccomp filter: classic BPF over ``struct seccomp_data``, as bytes.

A filter is a list of rules in order; each names a system call, may ask for conditions on its
arguments, and says what happens when all of them hold. The first rule that holds decides; where
none does, the call is allowed. See seccomp(2) and Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.host.syscalls import AUDIT_ARCH, NEWEST_KNOWN, Machine, number_of

__all__ = ["ALLOW", "KILL_PROCESS", "NOTIFY", "Condition", "Rule", "assemble", "fail_with"]

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
NOTIFY: Final = 0x7FC00000

# BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_{JEQ,JGT}|BPF_K, BPF_ALU|BPF_AND|BPF_K, BPF_RET|BPF_K, BPF_JA
_LOAD, _JEQ, _JGT, _AND, _RETURN, _JUMP = 0x20, 0x15, 0x25, 0x54, 0x06, 0x05
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16

# linux/bpf_common.h: BPF_MAXINSNS
_MAX_INSTRUCTIONS = 4096


def fail_with(number: int) -> int:
    """The action that makes the call fail with this errno and do nothing."""
    return 0x00050000 | number


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the low 32 bits of an argument, masked, are one of ``values``, or none of them.

    Only the low half is looked at: every argument that the gate judges is a 32-bit number to the
    kernel, and comparing all 64 bits can be evaded by setting the upper half (CVE-2019-7303).
    """

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to one call when every condition holds."""

    call: str
    action: int
    conditions: tuple[Condition, ...] = ()


def _instruction(code: int, operand: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand & 0xFFFFFFFF)


def assemble(rules: Sequence[Rule], *, machine: Machine) -> bytes:
    """The program for this machine, as an array of ``struct sock_filter``.

    A call through a foreign architecture kills the process; a number above the newest known one
    fails with ENOSYS. Rules for calls that the machine does not have are left out.

    Raises:
        ValueError: the program is longer than the kernel takes, or a rule has too many conditions.
    """
    program = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_JEQ, AUDIT_ARCH[machine], if_true=1),
        _instruction(_RETURN, KILL_PROCESS),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_JGT, NEWEST_KNOWN, if_false=1),
        _instruction(_RETURN, fail_with(errno.ENOSYS)),
    ]
    for number, actions in _by_number(rules, machine):
        block = b"".join(_guarded(rule) for rule in actions) + _instruction(_RETURN, ALLOW)
        length = len(block) // 8
        if length > 255:
            raise ValueError(f"the rules for call {number} are too long for one jump")
        program += [_instruction(_JEQ, number, if_false=length), block]
    program.append(_instruction(_RETURN, ALLOW))
    result = b"".join(program)
    if len(result) // 8 > _MAX_INSTRUCTIONS:
        raise ValueError("the filter is longer than the kernel takes")
    return result


def _by_number(rules: Iterable[Rule], machine: Machine) -> Iterable[tuple[int, list[Rule]]]:
    grouped: dict[int, list[Rule]] = {}
    for rule in rules:
        number = number_of(rule.call, machine)
        if number is not None:
            grouped.setdefault(number, []).append(rule)
    return grouped.items()


def _guarded(rule: Rule) -> bytes:
    """The return of a rule, behind jumps that skip it when a condition does not hold."""
    code = _instruction(_RETURN, rule.action)
    for condition in reversed(rule.conditions):
        code = _condition(condition, skipped=len(code) // 8) + code
    return code


def _condition(condition: Condition, *, skipped: int) -> bytes:
    """Fall through when it holds, else jump over the ``skipped`` instructions that follow."""
    head = _instruction(_LOAD, _ARGUMENTS_AT + 8 * condition.argument)
    if condition.mask != 0xFFFFFFFF:
        head += _instruction(_AND, condition.mask)
    count = len(condition.values)
    tests = b""
    for index, value in enumerate(condition.values):
        left = count - 1 - index
        if condition.negated:
            tests += _instruction(_JEQ, value, if_true=left + skipped)
        elif left:
            tests += _instruction(_JEQ, value, if_true=left)
        else:
            tests += _instruction(_JEQ, value, if_false=skipped)
    return head + tests
