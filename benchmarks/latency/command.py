"""The one command that everything runs."""

TEXT = "echo hi; exit 3"
ARGV = ("bash", "-c", TEXT)
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
EXIT = 3
