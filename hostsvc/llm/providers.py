"""The settings of a model provider, and the prices that the configuration gives for its models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from supervisors.llm.catalog import ModelCall
from supervisors.llm.port import IMAGE_TYPES, PDF_TYPE
from supervisors.settings import Bounded, between

ANY_MODEL = "*"
MAX_USD = 1_000_000
MILLION = 1_000_000
PRICES_TAKE = (
    'a table such as {"gpt-4o" = {input = 2.5, output = 10.0, cached = 1.25}}, in USD per million tokens '
    "(as a variable: in JSON); a name that contains a dot or a colon is quoted"
)
NEEDED, KINDS = ("input", "output"), ("input", "output", "cached")

# The field in which a server expects the limit of thinking tokens; the protocol itself defines none.
ThinkingField = Literal[
    "none",  # the limit is not sent
    "reasoning",  # {"reasoning": {"max_tokens": n}}: OpenRouter
    "thinking",  # {"thinking": {"type": "enabled", "budget_tokens": n}}: LiteLLM, Anthropic
    "thinking_token_budget",  # {"thinking_token_budget": n}: vLLM
]

# The files of messages that a server's models read.
FileKinds = Literal["none", "images", "images_and_pdfs"]
FILE_TYPES: Mapping[FileKinds, frozenset[str]] = MappingProxyType(
    {"none": frozenset(), "images": IMAGE_TYPES, "images_and_pdfs": IMAGE_TYPES | {PDF_TYPE}}
)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What one model costs, in USD per million tokens. `cached` is the price of cached input tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def cost_of(self, call: ModelCall) -> Decimal:
        """Return the exact cost of the call in USD."""
        uncached = max(call.input_tokens - call.cached_tokens, 0)
        total = uncached * self.input + call.cached_tokens * self.cached + call.output_tokens * self.output
        return total / MILLION


@dataclass(frozen=True, slots=True)
class ConfiguredPrices:
    """The prices of one provider, by the name of the model; `*` stands for all other models."""

    by_model: Mapping[str, ModelPrice] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, model: str) -> ModelPrice | None:
        """Return the price of a model; None if the configuration gives none."""
        return self.by_model.get(model) or self.by_model.get(ANY_MODEL)


@dataclass(frozen=True, slots=True)
class ProviderSettings(Bounded):
    """The address of a model provider, how it is called, and the prices of its models by their names."""

    base_url: str
    api_key_env: str = ""
    timeout_seconds: float = between(600.0, 0.1, 86_400)
    max_retries: int = between(2, 0, 10)
    stream: bool = False
    thinking_field: ThinkingField = "none"
    files: FileKinds = "none"
    prices: ConfiguredPrices = field(default_factory=ConfiguredPrices)

    def __post_init__(self) -> None:
        if not is_base_url(self.base_url):
            raise ValueError(
                "base_url must be http(s)://host[:port][/path] without user, password and query, such as "
                f"https://api.openai.com/v1, got {self.base_url!r}"
            )
        Bounded.__post_init__(self)


def is_base_url(text: str) -> bool:
    """Return whether this is http(s)://host[:port][/path] without user, query or fragment."""
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # UnicodeError is a subclass
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and port_is_valid
        and "@" not in parts.netloc
        and not parts.query
        and not parts.fragment
        and text.isprintable()
        and " " not in text
    )


def parse_prices(value: object) -> ConfiguredPrices:
    """Parse a table of prices. Raise ValueError if it is not one."""
    if not isinstance(value, dict):
        raise ValueError(value)
    return ConfiguredPrices(MappingProxyType({model: _price(price) for model, price in value.items()}))


def _price(value: object) -> ModelPrice:
    if not isinstance(value, dict) or not set(NEEDED) <= value.keys() <= set(KINDS):
        raise ValueError(value)
    given = {kind: _usd(price) for kind, price in value.items()}
    return ModelPrice(given["input"], given["output"], given.get("cached", given["input"]))


def _usd(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_USD:
        raise ValueError(value)
    return Decimal(str(value))
