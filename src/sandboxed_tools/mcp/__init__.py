"""The tools over the Model Context Protocol: on standard input and output, and over HTTP."""

from sandboxed_tools.mcp.http import HttpAddress, serve_http
from sandboxed_tools.mcp.options import ServerOptions
from sandboxed_tools.mcp.server import build_server
from sandboxed_tools.mcp.sessions import Sessions
from sandboxed_tools.mcp.stdio import PrivateEnds, private_ends, serve_stdio

__all__ = [
    "HttpAddress",
    "PrivateEnds",
    "ServerOptions",
    "Sessions",
    "build_server",
    "private_ends",
    "serve_http",
    "serve_stdio",
]
