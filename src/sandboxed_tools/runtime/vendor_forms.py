"""What a Toolbox can say and take in the forms of the model vendors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from sandboxed_tools.runtime.executor import Executor
from sandboxed_tools.runtime.vendor_calls import run_anthropic, run_openai
from sandboxed_tools.tool import AnyTool
from sandboxed_tools.tool.vendor_schemas import OpenAIApi, to_anthropic, to_openai

__all__ = ["VendorForms"]


class VendorForms(ABC):
    """The part of :class:`~sandboxed_tools.Toolbox` that speaks to the vendors' APIs."""

    @property
    @abstractmethod
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that exist right now."""

    @abstractmethod
    def executor(self) -> Executor:
        """Many calls at once."""

    def to_anthropic(self) -> list[dict[str, Any]]:
        """The tools as ``tools=`` of the Messages API takes them."""
        return [to_anthropic(tool) for tool in self.tools]

    def to_openai(self, *, api: OpenAIApi = "responses") -> list[dict[str, Any]]:
        """The tools as ``tools=`` of the Responses or the Chat Completions API takes them."""
        return [to_openai(tool, api=api) for tool in self.tools]

    async def handle_anthropic(self, blocks: Iterable[Any]) -> list[dict[str, Any]]:
        """Carry out the ``tool_use`` blocks among ``blocks``; ``tool_result`` blocks, in order.

        Nothing that a model can write as input raises: what is refused or fails is an answer with
        ``is_error``.

        Raises:
            InvalidInput: a block has no id or no name.
        """
        return await run_anthropic(self.executor(), blocks)

    async def handle_openai(self, calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Carry out the function calls among ``calls``, of either API; their outputs, in order.

        An error's text begins with ``Error:``; nothing that a model can write as arguments raises.

        Raises:
            InvalidInput: a call has no id or no name.
        """
        return await run_openai(self.executor(), calls)
