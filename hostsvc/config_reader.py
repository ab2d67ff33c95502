"""Reads the configuration from a TOML file, overridden by variables `HOSTSVC__SECTION__KEY`.

Reading goes on after an error, so that all errors can be reported together.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from hostsvc.config import MODELS, SECTIONS, SUBSECTIONS, Config, ConfigError
from hostsvc.config_values import parser_for
from hostsvc.llm.providers import ProviderSettings
from supervisors.llm.inbox_model import PROVIDER

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
STRAY_PREFIX = "HOSTSVC_"
TEST_PREFIX = "HOSTSVC_TEST_"  # read by the tests alone, which start services
# The environment of a run, from which somebody may call hostsvc.
OTHER_VARIABLES = frozenset({"HOSTSVC_URL", "HOSTSVC_RUN_TOKEN", "HOSTSVC_AGENT_ID", "HOSTSVC_RUN_ID"})
PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key with its unparsed value; `origin` is the file or the environment variable it stands in."""

    section: str
    key: str
    value: object
    origin: str
    is_text: bool = False  # from a variable, so any type is written as text


@dataclass(slots=True)
class ConfigErrors:
    """The errors found so far, and the sections that they are in (blank: the whole file)."""

    messages: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)

    def add(self, section: str, message: str) -> None:
        self.messages.append(message)
        self.sections.add(section.partition(".")[0])


def read_config(file: Path | None, environment: Mapping[str, str]) -> tuple[Config, ConfigErrors]:
    """Read `file` (None: config.toml in this directory, if it exists), then the environment variables.

    Return the valid part of the configuration, with defaults for the rest, and all errors.
    """
    errors = ConfigErrors()
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    file_entries = [] if file is None else list(_file_entries(file, errors))
    variables = list(_environment_entries(environment, errors))
    origins = (*([] if file is None else [str(file)]), *(entry.origin for entry in variables))
    config = Config(origins=origins)
    provider_entries: list[ConfigEntry] = []
    for entry in (*file_entries, *variables):
        if entry.section not in (*SECTIONS, *SUBSECTIONS):
            provider_entries.append(entry)
            continue
        try:
            config = _with_entry(config, entry)
        except ConfigError as error:
            errors.add(entry.section, str(error))
    if "harness" not in errors.sections:
        for missing in config.harness.missing():
            errors.add("harness", f'harness.{missing} must be set because harness.kind is "process"')
    providers = _providers(provider_entries, errors)
    keys = {
        name: environment[provider.api_key_env]
        for name, provider in providers.items()
        if environment.get(provider.api_key_env)
    }
    models, model_keys = MappingProxyType(providers), MappingProxyType(keys)
    return replace(config, models=models, model_keys=model_keys), errors


def stray_variables(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable that looks like a setting and is none."""
    expected = OTHER_VARIABLES | {provider.api_key_env for provider in config.models.values()}
    for name in sorted(environment.keys() - expected):
        if name.startswith(STRAY_PREFIX) and not name.startswith((ENVIRONMENT_PREFIX, TEST_PREFIX)):
            hint = nearest_variable(name) or f"; settings have the form {ENVIRONMENT_PREFIX}SECTION__KEY"
            yield f"the variable {name} is not a setting and has no effect{hint}"


def nearest_variable(name: str) -> str:
    """Return a question that suggests the most similar variable, or nothing if none is similar."""
    known = {each.removeprefix(ENVIRONMENT_PREFIX): each for each in variable_names()}
    matches = get_close_matches(name.removeprefix(STRAY_PREFIX).lstrip("_").upper(), known, n=1)
    return f"; did you mean {known[matches[0]]}?" if matches else ""


def nearest_name(name: str, known: Collection[str]) -> str:
    """Return a question that suggests the most similar key or section, or nothing if none is similar."""
    matches = get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def _file_entries(file: Path, errors: ConfigErrors) -> Iterator[ConfigEntry]:
    for section, keys in _read_toml(file, errors).items():
        if section not in SECTIONS and section != MODELS:
            known = ", ".join((*SECTIONS, f"{MODELS}.<provider>"))
            hint = nearest_name(section, (*SECTIONS, MODELS))
            errors.add(section, f"{file}: unknown section [{section}]; the sections are {known}{hint}")
        elif not isinstance(keys, dict):
            errors.add(section, f"{file}: {section} is a section: write [{section}] and its keys below it")
        elif section == MODELS:
            yield from _file_provider_entries(file, keys, errors)
        else:
            yield from _file_section_entries(file, section, keys, errors)


def _file_section_entries(
    file: Path, section: str, keys: Mapping[str, Any], errors: ConfigErrors
) -> Iterator[ConfigEntry]:
    for key, value in keys.items():
        name = f"{section}.{key}"
        if name not in SUBSECTIONS:
            yield ConfigEntry(section, key, value, str(file))
        elif isinstance(value, dict):
            yield from _file_section_entries(file, name, value, errors)
        else:
            errors.add(section, f"{file}: {name} is a section: write [{name}] and its keys below it")


def _file_provider_entries(
    file: Path, tables: Mapping[str, Any], errors: ConfigErrors
) -> Iterator[ConfigEntry]:
    for name, keys in tables.items():
        if not isinstance(keys, dict):
            errors.add(
                MODELS,
                f"{file}: {MODELS} contains a section for each provider: "
                f"write [{MODELS}.<provider>] above {name}",
            )
            continue
        if not keys:
            errors.add(MODELS, f"{file}: {MODELS}.{name} is empty: set at least base_url")
        for key, value in keys.items():
            yield ConfigEntry(f"{MODELS}.{name}", key, value, str(file))


def _read_toml(file: Path, errors: ConfigErrors) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        errors.add("", f"{file}: cannot be read: {error.strerror}")
    except ValueError as error:  # TOMLDecodeError, or UnicodeDecodeError
        errors.add("", f"{file}: is not valid TOML: {error}")
    return {}


def _environment_entries(environment: Mapping[str, str], errors: ConfigErrors) -> Iterator[ConfigEntry]:
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if section == MODELS:
            provider, _, key = key.partition("__")
            section = f"{MODELS}.{provider}"
        elif section not in SECTIONS:
            key = ""
        elif f"{section}.{key.partition('__')[0]}" in SUBSECTIONS:
            subsection, _, key = key.partition("__")
            section = f"{section}.{subsection}"
        if name == name.upper() and key:
            yield ConfigEntry(section, key, environment[name], name, is_text=True)
            continue
        errors.add(
            section,
            f"{name} must have the form {ENVIRONMENT_PREFIX}SECTION__KEY in capitals; "
            f"SECTION is one of {', '.join(SECTIONS).upper()} or {MODELS.upper()}__PROVIDER"
            f"{nearest_variable(name)}",
        )


def variable_names() -> list[str]:
    """Return the names of all variables but those of model providers."""
    names = []
    for section in (*SECTIONS, *SUBSECTIONS):
        settings: Any = Config()
        for part in section.split("."):
            settings = getattr(settings, part)
        keys = (each.name for each in fields(settings) if f"{section}.{each.name}" not in SUBSECTIONS)
        names += [f"{ENVIRONMENT_PREFIX}{section.replace('.', '__')}__{key}".upper() for key in keys]
    return names


def _with_entry(config: Config, entry: ConfigEntry) -> Config:
    section, _, subsection = entry.section.partition(".")
    settings = getattr(config, section)
    part = getattr(settings, subsection) if subsection else settings
    value = _parse(type(part), entry)
    try:
        part = replace(part, **{entry.key: value})
        settings = replace(settings, **{subsection: part}) if subsection else part
        return replace(config, **{section: settings})
    except ValueError as error:  # its message begins with the key
        raise ConfigError(f"{entry.origin}: {entry.section}.{error}") from error


def _providers(entries: list[ConfigEntry], errors: ConfigErrors) -> dict[str, ProviderSettings]:
    """Build each provider once all of its keys are known: file and variables may each set some of them."""
    by_section: dict[str, list[ConfigEntry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    providers = {}
    for section, of_provider in by_section.items():
        try:
            providers[section.removeprefix(f"{MODELS}.")] = _provider(section, of_provider)
        except ConfigError as error:
            for message in error.messages:
                errors.add(MODELS, message)
    return providers


def _provider(section: str, entries: list[ConfigEntry]) -> ProviderSettings:
    """Build the provider from its keys, of which there is at least one. Raise ConfigError."""
    keys: dict[str, Any] = {}
    messages: list[str] = []
    for entry in entries:
        try:
            keys[entry.key] = _parse(ProviderSettings, entry)
        except ConfigError as error:
            messages.append(str(error))
    name, location = section.removeprefix(f"{MODELS}."), f"{entries[0].origin}: {section}"
    if name == PROVIDER or not PROVIDER_NAME.fullmatch(name):
        messages.append(
            f"{location}: the name of a provider must consist of lowercase letters, digits and _.-, "
            f"and must not be {PROVIDER}"
        )
    if not any(entry.key == "base_url" for entry in entries):
        messages.append(f"{location}.base_url is missing: set it to the address of the provider")
    if messages:
        raise ConfigError(*messages)
    try:
        return ProviderSettings(**keys)
    except ValueError as error:
        raise ConfigError(f"{location}.{error}") from error


def _parse(settings: type, entry: ConfigEntry) -> Any:
    """Return the entry's value as the type that `settings` declares. Raise ConfigError if it does not fit."""
    hints = get_type_hints(settings)
    if entry.key not in hints:
        raise ConfigError(
            f"{entry.origin}: unknown key {entry.section}.{entry.key}; "
            f"[{entry.section}] has {', '.join(hints)}{nearest_name(entry.key, hints)}"
        )
    is_secret = not next(setting.repr for setting in fields(settings) if setting.name == entry.key)
    parser = parser_for(hints[entry.key])
    try:
        return parser.from_text(str(entry.value)) if entry.is_text else parser.from_toml(entry.value)
    except ValueError as error:
        given = "" if is_secret else f", got {entry.value!r}"
        raise ConfigError(
            f"{entry.origin}: {entry.section}.{entry.key} must be {parser.takes}{given}"
        ) from error
