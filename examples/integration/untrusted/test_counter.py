"""A test suite that nobody has read. It needs its cache, and that is all that it gets."""

import os
import socket
import unittest


class Cache:
    """The few words of Redis that this suite needs."""

    def __init__(self) -> None:
        self._socket = socket.create_connection(("cache", 6379), timeout=5)
        self._answers = self._socket.makefile("rb")

    def __call__(self, *words: str) -> str:
        parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
        self._socket.sendall("".join(parts).encode())
        head = self._answers.readline().decode().strip()
        if head.startswith("$"):
            return self._answers.readline().decode().strip()
        return head[1:]

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class CounterTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cache = Cache()
        self.addCleanup(self.cache.close)

    def test_counts(self) -> None:
        self.cache("DEL", "visits")
        assert [self.cache("INCR", "visits") for _ in range(3)] == ["1", "2", "3"]

    def test_writes_its_report_where_it_likes(self) -> None:
        with open("report.txt", "w") as file:
            file.write(f"counted to {self.cache('INCR', 'visits')}\n")

    def test_phones_home(self) -> None:
        """What it would do if it could."""
        reached = []
        for host in ("198.51.100.7", "169.254.169.254", "172.17.0.1", "example.com"):
            try:
                socket.create_connection((host, 80), timeout=3).close()
                reached.append(host)
            except OSError:
                pass
        assert reached == []
        assert "DEPLOY_TOKEN" not in os.environ


if __name__ == "__main__":
    unittest.main()
