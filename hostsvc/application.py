"""The API of a process that leads: its settings, and the parts that it is built over."""

from aiohttp import web

from hostsvc.config import Config
from hostsvc.execution import Execution
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.registry import Registry
from supervisors.events.feed import EventFeed
from supervisors.timeline.timelines import Timelines
from web.app import build_app
from web.ports import Health
from web.settings import WebSettings


async def web_settings(config: Config, storage: Storage) -> WebSettings:
    """Return the settings of the API. Secrets that the configuration leaves out are those of the instance."""
    return WebSettings(
        token_secret=config.accounts.token_secret or await storage.instance.token_secret(),
        operator_token=config.operator.token or await storage.instance.operator_token(),
        open_metrics=config.operator.open_metrics,
        signup_open=config.accounts.signup == "open",
        token_days=config.accounts.token_days,
        signups_per_hour=config.limits.signups_per_hour,
        organizations_per_user=config.limits.organizations_per_user,
        body_bytes=config.limits.body_bytes,
        attachment_bytes=config.limits.attachment_bytes,
        span_metadata_bytes=config.limits.span_metadata_bytes,
        streams_per_caller=config.limits.streams_per_caller,
        streams=config.limits.streams,
        event_streams_per_caller=config.limits.event_streams_per_caller,
        tags_per_agent=config.limits.tags_per_agent,
        requests_per_minute=config.limits.requests_per_minute,
        anonymous_requests_per_minute=config.limits.anonymous_requests_per_minute,
        trusted_proxies=config.server.trusted_proxies,
        base_url=config.server.base_url,
    )


def build_application(
    config: Config,
    settings: WebSettings,
    storage: Storage,
    registry: Registry,
    execution: Execution,
    feed: EventFeed,
    clock: Clock,
    health: Health,
) -> web.Application:
    """Build the API over the parts that are open."""
    return build_app(
        storage=storage,
        registry=registry,
        feed=feed,
        status_reader=registry.status,
        timelines=Timelines(
            storage.phase_events, storage.mark_events, registry.status, clock, config.retention.events
        ),
        toolbox=execution.toolbox,
        wakes=execution.wakes,
        clock=clock,
        prices=execution.prices,
        models=execution.models,
        schema_checker=execution.schema_checker,
        settings=settings,
        health=health,
        harness_status=execution.harness_status,
    )
