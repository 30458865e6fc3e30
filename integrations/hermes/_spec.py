"""What a Hermes agent is built from: what its gateway puts into a signature, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom import AgentSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["HermesSpec", "arguments_from", "hermes_spec"]

ROUTE = ("api_key", "base_url", "provider", "api_mode")
"""The runtime settings that make it another agent. A command, a pool of credentials and the like come
with the same provider, and go to the agent without being looked at."""


class HermesSpec(AgentSpec):
    """An `AgentSpec` with what else goes to `AIAgent(…)`, should this very turn build one.

    `arguments` are no part of the signature, nor of a `repr` or a pickle: another value of one of them
    is no reason to build another agent. What has to reach an agent that is there already is set on
    `turn.agent`.
    """

    arguments: Mapping[str, Any]

    def __init__(
        self,
        model: str,
        runtime: Mapping[str, Any] | None = None,
        toolsets: Collection[str] = (),
        system_prompt: str = "",
        extra: Mapping[str, Any] | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model, runtime, toolsets, system_prompt, extra)
        object.__setattr__(self, "arguments", dict(arguments or {}))


def hermes_spec(
    model: str,
    runtime: Mapping[str, Any],
    *,
    enabled_toolsets: Collection[str] | None = None,
    ephemeral_prompt: str | None = None,
    cache_keys: Mapping[str, Any] | None = None,
    user_id: str | None = None,
    user_id_alt: str | None = None,
    **arguments: Any,
) -> HermesSpec:
    """Make the spec of a turn.

    Args:
        model: names the model.
        runtime: what the gateway resolved for it. `api_key`, `base_url`, `provider` and `api_mode`
            count; whatever else is in there goes to the agent, and does not.
        enabled_toolsets: their names. `None` is all that there are, which is not the same as none.
        ephemeral_prompt: the system prompt that comes with the chat, if one does.
        cache_keys: values of the configuration that an agent is built with: what the gateway's
            `_extract_cache_busting_config(config)` returns.
        user_id: who writes. Where several share a chat, memory providers tell them apart by agent.
        user_id_alt: the same, by another name.
        **arguments: anything else that `AIAgent(…)` takes: `max_iterations`, `platform`, `chat_id`,
            `reasoning_config`, `fallback_model`, …. No part of the signature.
    """
    route = {name: runtime[name] for name in ROUTE if runtime.get(name)}
    others = {name: value for name, value in runtime.items() if name not in ROUTE}
    extra: dict[str, Any] = {
        "all_toolsets": enabled_toolsets is None,
        "cache_keys": dict(cache_keys or {}),
        "user_id": str(user_id or ""),
        "user_id_alt": str(user_id_alt or ""),
    }
    if callable(route.get("api_key")):
        # One that fetches a token for every request: it goes to the agent, and who it is counts.
        others["api_key"] = fetch = route.pop("api_key")
        named = fetch if hasattr(fetch, "__qualname__") else type(fetch)
        extra["api_key_from"] = f"{named.__module__}.{named.__qualname__}"
    toolsets = () if enabled_toolsets is None else enabled_toolsets
    return HermesSpec(
        model, route, toolsets, ephemeral_prompt or "", extra, arguments={**others, **arguments}
    )


def arguments_from(spec: AgentSpec | Mapping[str, Any] | None) -> dict[str, Any]:
    """Turn a spec into arguments of `AIAgent(…)`. One that `hermes_spec` did not make will do, too."""
    if spec is None:
        return {}
    if not isinstance(spec, AgentSpec):
        names = ("model", "runtime", "toolsets", "system_prompt", "extra")
        spec = AgentSpec(**{name: spec[name] for name in names if name in spec})
    arguments: dict[str, Any] = {"model": spec.model, **spec.runtime}
    if not spec.extra.get("all_toolsets"):
        arguments["enabled_toolsets"] = list(spec.toolsets)
    if spec.system_prompt:
        arguments["ephemeral_system_prompt"] = spec.system_prompt
    for name in ("user_id", "user_id_alt"):
        if spec.extra.get(name):
            arguments[name] = spec.extra[name]
    return {**arguments, **getattr(spec, "arguments", {})}
