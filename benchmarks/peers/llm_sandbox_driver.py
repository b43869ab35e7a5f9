"""llm-sandbox: a session for each call, a session that is kept, and its pool of kept containers."""

from __future__ import annotations

import sys
from collections.abc import Callable

from driver import EXIT, TEXT, nothing, require, serve

require("llm-sandbox", "docker")

from llm_sandbox import SandboxSession  # noqa: E402
from llm_sandbox.pool import PoolConfig, create_pool_manager  # noqa: E402

# Without the signal each stop takes the engine's grace of ten seconds; without the environment each
# session installs Python packages first.
CONFIG = {"network_mode": "none", "stop_signal": "SIGKILL", "entrypoint": "bash"}
OPTIONS = {"image": sys.argv[1], "lang": "python"}


def opened() -> SandboxSession:
    session = SandboxSession(runtime_configs=dict(CONFIG), skip_environment_setup=True, **OPTIONS)
    session.open()
    return session


def run_in(session: SandboxSession) -> None:
    result = session.execute_command(f"bash -c '{TEXT}'")
    assert (result.exit_code, result.stdout) == (EXIT, "hi\n"), result


def fresh() -> Callable[[], object]:
    session = opened()
    try:
        run_in(session)
    except BaseException:
        session.close()
        raise
    return session.close


kept = opened()


def again() -> Callable[[], object]:
    run_in(kept)
    return nothing


pool = create_pool_manager(
    config=PoolConfig(max_pool_size=2, min_pool_size=2),
    runtime_configs=dict(CONFIG),
    **OPTIONS,
)


def pooled() -> Callable[[], object]:
    session = SandboxSession(pool=pool, lang="python")
    session.open()
    run_in(session)
    return session.close


def close() -> None:
    kept.close()
    pool.close()


serve(
    "llm-sandbox",
    {
        "fresh": ("a session a call", fresh),
        "kept": ("a session that is kept", again),
        "pool": ("its pool, containers are reused", pooled),
    },
    close=close,
)
