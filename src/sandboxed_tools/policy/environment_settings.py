"""The policy's fields as settings that are read from the environment, and from nowhere else."""

from __future__ import annotations

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from sandboxed_tools.policy.settings import Policy

__all__ = ["EnvironmentPolicy"]


class EnvironmentPolicy(Policy, BaseSettings):
    """What the environment states; reading it happens on construction."""

    model_config = SettingsConfigDict(
        env_prefix="SANDBOXED_TOOLS_",
        env_nested_delimiter="__",
        env_ignore_empty=False,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """No ``.env`` file and no secrets folder: a workspace could bring them along."""
        return (env_settings,)
