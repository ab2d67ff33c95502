"""The execution of runs: the tools, the models, and the harness that `harness.kind` selects."""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hostsvc.config import Config
from hostsvc.llm.price_list import PriceList
from hostsvc.llm.providers import FILE_TYPES
from hostsvc.process_harness.harness import ProcessHarness, RunCredentials, open_workspace
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.run import Harness
from supervisors.events.feed import EventFeed
from supervisors.harness.builtin import BuiltinHarness
from supervisors.harness.spending import BudgetGuard
from supervisors.json_schema.checker import SchemaChecker, open_schema_checker
from supervisors.llm.catalog import ModelCatalog, Prices
from supervisors.llm.inbox_model import PROVIDER, InboxModel
from supervisors.llm.port import Model
from supervisors.maintenance.webhooks import ApprovalLink
from supervisors.outbound import Outbound
from supervisors.tools.parking import ResultAddresses
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts
from web.credentials.formats import ApprovalTokens, RunTokens
from web.ports import HarnessStatus

RUN_TOKEN_SPARE_SECONDS = 7200.0  # for the grace periods after the maximum time of a run


@dataclass(frozen=True, slots=True)
class Execution:
    """The parts that execute runs."""

    toolset: Toolset
    wakes: WakeContexts
    schema_checker: SchemaChecker
    prices: Prices
    models: ModelCatalog | None  # None: the agents' own code calls the models
    harness: Harness
    harness_status: Callable[[], HarnessStatus]
    providers: Mapping[str, Any]  # ChatModels, a module that is heavy to import


@asynccontextmanager
async def open_execution(
    config: Config,
    storage: Storage,
    feed: EventFeed,
    outbound: Outbound,
    clock: Clock,
    credentials: RunCredentials,
    trusted_until: Callable[[], float],
) -> AsyncIterator[Execution]:
    """Open tools, models and harness.

    Runs in processes of their own use the API with `credentials`, and may go on until `trusted_until`.
    """
    async with (
        open_schema_checker(clock) as checker,
        _open_models(config) as models,
    ):
        prices = price_list(config)
        catalog = _catalog(config, prices)
        toolset = Toolset(storage, clock, outbound, checker, catalog, credentials.results)
        wakes = WakeContexts(storage, clock, config.runs, _file_types(config))
        builtin = BuiltinHarness(
            stores=storage,
            wakes=wakes,
            budget_guard=BudgetGuard(storage.spending, prices, clock),
            prices=prices,
            toolset=toolset,
            schema_checker=checker,
            providers={PROVIDER: InboxModel(), **models},
            feed=feed,
            clock=clock,
            settings=config.runs,
            tracing=config.tracing,
            max_content_bytes=config.limits.span_metadata_bytes,
        )
        opening = _open_harness(config, storage, builtin, clock, credentials, trusted_until)
        async with opening as (harness, harness_status):
            yield Execution(toolset, wakes, checker, prices, catalog, harness, harness_status, models)


def price_list(config: Config) -> PriceList:
    """Return the prices of the configured providers, and the bundled ones."""
    return PriceList({name: provider.prices for name, provider in config.models.items()})


def run_credentials(
    config: Config, token_secret: str, address: str, clock: Clock, public: str = ""
) -> RunCredentials:
    """Return the API's address and an issuer of tokens; the API refuses a token once its run has ended.

    What comes days later comes to the `public` address, if there is one: that of this node may be gone.
    """
    tokens = RunTokens(token_secret)
    lifetime = timedelta(seconds=config.runs.max_seconds + RUN_TOKEN_SPARE_SECONDS)
    address, public = _reachable(address), _reachable(public or address)
    return RunCredentials(
        url=config.server.base_url or address,
        issue_token=lambda run_id: tokens.issue(run_id, clock.now(), lifetime),
        local_url=address,
        results=ResultAddresses(config.server.base_url or public, token_secret),
    )


def _reachable(address: str) -> str:
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def approval_link(base_url: str, token_secret: str) -> ApprovalLink:
    """Return the function that makes links to approvals, for people, at this address of the service."""
    tokens = ApprovalTokens(token_secret)

    def link(call_id: UUID, issued_at: datetime, expires_at: datetime | None) -> str:
        token = tokens.issue(call_id, issued_at, expires_at)
        return f"{base_url}/console/approvals/{call_id}#token={token}"

    return link


@asynccontextmanager
async def _open_models(config: Config) -> AsyncIterator[Mapping[str, Model]]:
    """Open the models of all providers, by the name of the provider."""
    if not config.models:
        yield {}
        return
    # Imported here because it is heavy, and an installation without providers never needs it.
    from hostsvc.llm.chat_models import connect

    async with connect(config.models, config.model_keys) as models:
        yield models


def _catalog(config: Config, prices: Prices) -> ModelCatalog | None:
    if config.harness.kind == "process":
        return None
    return ModelCatalog(frozenset({PROVIDER, *config.models}), config.runs.default_provider, prices)


@asynccontextmanager
async def _open_harness(
    config: Config,
    storage: Storage,
    builtin: BuiltinHarness,
    clock: Clock,
    credentials: RunCredentials,
    trusted_until: Callable[[], float],
) -> AsyncIterator[tuple[Harness, Callable[[], HarnessStatus]]]:
    if config.harness.kind == "process":
        async with open_workspace(config.harness, clock, os.environ, trusted_until) as workspace:
            harness = ProcessHarness(
                stores=storage,
                clock=clock,
                command=config.harness.command,
                run_settings=config.runs,
                credentials=credentials,
                workspace=workspace,
            )
            yield harness, workspace.status
        return
    yield builtin, lambda: HarnessStatus("builtin")


def _file_types(config: Config) -> Mapping[str, Collection[str]]:
    """Return the types of files that the built-in loop sends to the models of each provider."""
    if config.harness.kind == "process":
        return {}
    return {name: FILE_TYPES[provider.files] for name, provider in config.models.items()}
