"""A Toolbox's tools for LangChain. Needs ``pip install 'sandboxed-tools[langchain]'``.

::

    async with Toolbox(workspace="project") as box:
        agent = create_agent(model, tools=langchain_tools(box))
"""

from __future__ import annotations

from typing import Any, Final

from langchain_core.tools import StructuredTool, ToolException

from sandboxed_tools.errors import CallError, ConfigurationError
from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.tool import AnyTool

__all__ = ["langchain_tools"]

_TAKEN: Final = frozenset({"config", "run_manager", "callbacks", "self"})
"""Arguments that LangChain passes beside a tool's own, under the same names."""


def langchain_tools(box: Toolbox) -> list[StructuredTool]:
    """The tools, for as long as ``box`` is open. Asynchronous only: use ``ainvoke``.

    The text for the model is the content, the :class:`~sandboxed_tools.CallResult` the artifact. A
    call that is refused or fails becomes a tool message with the status ``error``; a sandbox that
    is not there raises ``SandboxUnavailable``, since no model can help that.

    Raises:
        ConfigurationError: a field of a tool has a name that LangChain keeps for itself.
    """
    return [_adapted(box, tool) for tool in box.tools]


def _adapted(box: Toolbox, tool: AnyTool) -> StructuredTool:
    schema = tool.json_schema()
    taken = _TAKEN & schema.get("properties", {}).keys()
    if taken:
        raise ConfigurationError(
            f"{tool.name} has the field {min(taken)}, a name that LangChain keeps for itself."
        )
    name = tool.name

    async def call(**fields: Any) -> tuple[str, CallResult[Any]]:
        try:
            result = await box.call(name, fields)
        except CallError as error:
            raise ToolException(error.for_model) from error
        if result.exec is not None and result.exec.status != "exited":
            raise ToolException(result.text)
        return result.text, result

    return StructuredTool(
        name=name,
        description=tool.description(),
        args_schema=schema,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
