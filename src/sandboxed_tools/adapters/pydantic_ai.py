"""A Toolbox's tools for pydantic-ai. Needs ``pip install 'sandboxed-tools[pydantic-ai]'``.

::

    async with Toolbox(workspace="project") as box:
        agent = Agent(model, toolsets=[pydantic_ai_toolset(box)])
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import FunctionToolset, ModelRetry, Tool, ToolFailed, ToolReturn

from sandboxed_tools.errors import CallError, InvalidInput
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import AnyTool

__all__ = ["pydantic_ai_toolset"]


def pydantic_ai_toolset(box: Toolbox) -> FunctionToolset[Any]:
    """The tools, for as long as ``box`` is open.

    The text for the model is the return value, the :class:`~sandboxed_tools.CallResult` its
    metadata. A wrong input is a retry; any other refusal or failure is a failed result. A sandbox
    that is not there raises ``SandboxUnavailable``, since no model can help that. A tool that may
    not run beside others is a barrier for the calls of one message.
    """
    return FunctionToolset(tools=[_adapted(box, tool) for tool in box.tools])


def _adapted(box: Toolbox, tool: AnyTool) -> Tool[Any]:
    name = tool.name

    async def call(**fields: Any) -> ToolReturn[Any]:
        try:
            result = await box.call(name, fields)
        except InvalidInput as error:
            raise ModelRetry(error.for_model) from error
        except CallError as error:
            raise ToolFailed(error.for_model) from error
        if result.exec is not None and result.exec.status != "exited":
            raise ToolFailed(result.text)
        return ToolReturn(return_value=result.text, metadata=result)

    return Tool.from_schema(
        call,
        name=name,
        description=tool.description(),
        json_schema=tool.json_schema(),
        sequential=tool.stated_value("is_concurrency_safe") is not True,
    )
