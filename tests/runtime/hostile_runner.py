#!/usr/bin/python3
# The runner of a malicious image: answers as its call asks it to, in the frames of the protocol.
import json
import os
import pickle
import sys
from typing import Any

CANARY = "/tmp/st-unpickled-on-the-host"


class Pickled:
    def __reduce__(self) -> Any:
        return (os.system, (f"touch {CANARY}",))


def send(token: str, kind: str, payload: bytes) -> None:
    pieces = [payload[at : at + 3072] for at in range(0, len(payload), 3072)] or [b""]
    for number, piece in enumerate(pieces, start=1):
        letter = kind if number == len(pieces) else kind.lower()
        os.write(1, b"\x1e" + f"{token}{letter}{len(piece):04x}".encode() + piece)


def main() -> None:
    head, _, rest = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(head)
    token = request["token"]
    if request["kind"] == "code":
        attack = json.loads(rest)["code"].removeprefix("# ")
    else:
        attack = json.loads(rest[: request["input_bytes"]])["text"]
    answers = {
        "pickle": b"R" + pickle.dumps(Pickled()),
        "pickle as error": b"X" + pickle.dumps(Pickled()),
        "deep": b"R" + b"[" * 100_000 + b"]" * 100_000,
        "deep error": b"X" + b"[" * 100_000,
        "bomb": b"R[" + b"[]," * 3_000_000 + b"[]]",
        "digits": b"R" + b"9" * 5_000_000,
        "nan": b"RNaN",
        "infinity": b"R[1e999, Infinity]",
        "no text": b'R"\xff\xfe"',
        "twice": b'R{"text": "a", "text": 1, "more": 1}',
        "wrong": b'R{"text": 5}',
        "empty": b"R",
        "error": b'X{"type": "' + b"x" * 100_000 + b'"}',
        "error fields": b'X{"type": "T", "module": "m", "message": "", "traceback": "", "a": 1}',
        "lack": b'M{"what": ["package"], "name": {}}',
        "code": b'C{"exit_code": 0, "value": null, "error": null, "left_out": [], '
        b'"artifacts": [{"name": "../../x", "data": "!!!!"}]}',
        "big artifact": b'C{"exit_code": 0, "value": null, "error": null, "left_out": [], '
        b'"artifacts": [{"name": "x", "data": "' + b"A" * 9_000_000 + b'"}]}',
        "many artifacts": b'C{"exit_code": 0, "value": null, "error": null, "left_out": [], '
        b'"artifacts": [' + b",".join([b'{"name": "x", "data": ""}'] * 100_000) + b"]}",
        "exit": b'C{"exit_code": 99999999999999999999, "value": null, "error": null, '
        b'"artifacts": [], "left_out": []}',
    }
    if attack == "endless":
        while True:
            send(token, "R", b"x" * 3000)
    if attack == "one endless frame":
        while True:
            os.write(1, b"\x1e" + f"{token}r{3000:04x}".encode() + b"x" * 3000)
    if attack == "progress":
        for number in range(200_000):
            send(token, "P", b"[" * (number % 300))
        send(token, "R", b'{"text": "after"}')
        return
    if attack == "escapes":
        send(token, "L", b"\x1b]0;owned\x07\x1b[2Jline")
        text = {
            "type": "\x1b[31mT",
            "module": "m",
            "message": "\x1b]8;;http://x\x07",
            "traceback": "\x1b[2J",
        }
        send(token, "X", json.dumps(text).encode())
        return
    if attack == "silence":
        return
    send(token, answers[attack][:1].decode(), answers[attack][1:])


main()
