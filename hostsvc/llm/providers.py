"""The settings of a model provider."""

from dataclasses import dataclass, field
from typing import Literal

from hostsvc.config_values import is_base_url
from hostsvc.model_prices import ConfiguredPrices
from supervisors.settings import require_between

# The field in which a server expects the limit of thinking tokens; the protocol itself defines none.
ThinkingField = Literal[
    "none",  # the limit is not sent
    "reasoning",  # {"reasoning": {"max_tokens": n}}: OpenRouter
    "thinking",  # {"thinking": {"type": "enabled", "budget_tokens": n}}: LiteLLM, Anthropic
    "thinking_token_budget",  # {"thinking_token_budget": n}: vLLM
]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The address of a model provider, how it is called, and the prices of its models by their names."""

    base_url: str
    api_key_env: str = ""
    timeout_seconds: float = 600.0
    max_retries: int = 2
    stream: bool = False
    thinking_field: ThinkingField = "none"
    prices: ConfiguredPrices = field(default_factory=ConfiguredPrices)

    def __post_init__(self) -> None:
        if not is_base_url(self.base_url):
            raise ValueError(
                "base_url must be http(s)://host[:port][/path] without user, password and query, such as "
                f"https://api.openai.com/v1, got {self.base_url!r}"
            )
        require_between("timeout_seconds", self.timeout_seconds, 0.1, 86_400)
        require_between("max_retries", self.max_retries, 0, 10)
