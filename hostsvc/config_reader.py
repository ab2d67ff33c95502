"""Reads the configuration from a TOML file, overridden by variables `HOSTSVC__SECTION__KEY`.

The marshmallow schema of each section is derived from its settings, and all errors are reported together.
"""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import orjson
from marshmallow import EXCLUDE, Schema, ValidationError, post_load, validates_schema
from marshmallow.exceptions import SCHEMA
from marshmallow.fields import Boolean, Dict, Field, Float, Nested, Raw, String
from marshmallow.validate import OneOf, Regexp

from hostsvc.config import MODELS, NOT_KEYS, REMOVED_KEYS, Config
from hostsvc.llm.providers import PRICES_TAKE, ConfiguredPrices, ProviderSettings, parse_prices
from hostsvc.otlp_receiver import read_otlp_settings
from storage.model import Source
from supervisors.llm.inbox_model import PROVIDER

DEFAULT_FILE = Path("config.toml")
ENVIRONMENT_PREFIX = "HOSTSVC__"
STRAY_PREFIX = "HOSTSVC_"
CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"  # set by systemd, which copies LoadCredential= there
CREDENTIAL_PREFIX = "hostsvc_"  # put by systemd before the names if a credential is a directory
TEST_PREFIX = "HOSTSVC_TEST_"  # read by the tests alone, which start services
# Of the client, and of a run, from which somebody may call hostsvc.
OTHER_VARIABLES = frozenset(
    {"HOSTSVC_URL", "HOSTSVC_API_KEY", "HOSTSVC_RUN_TOKEN", "HOSTSVC_AGENT_ID", "HOSTSVC_RUN_ID"}
)
PROVIDER_NAME = Regexp(
    re.compile(rf"(?!{PROVIDER}\Z)[a-z0-9][a-z0-9_.-]{{0,63}}\Z"),
    error="must have another name: the name of a provider consists of lowercase letters, digits and _.-, "
    f"and is not {PROVIDER}",
)
NOT_A_SECTION = "must be a section: write its name in brackets, and its keys below it"
ANY_URL = "http://localhost"  # base_url is the one key without a default

KeyPath = tuple[str, ...]


class VariableText(str):
    """The text of a variable, which separates the items of a list by commas."""

    __slots__ = ()


@dataclass(slots=True)
class ConfigErrors:
    """The errors found so far, and the sections that they are in (blank: the whole file)."""

    messages: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)

    def add(self, section: str, message: str) -> None:
        self.messages.append(message)
        self.sections.add(section)


def read_config(file: Path | None, environment: Mapping[str, str]) -> tuple[Config, ConfigErrors]:
    """Read `file` (None: config.toml in this directory, if it exists), then the environment variables.

    A file in `$CREDENTIALS_DIRECTORY` stands for the variable of its name, unless that is set.
    Return the configuration, with defaults for each section that has an error, and all errors.
    """
    errors = ConfigErrors()
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    environment = {**_read_credentials(environment.get(CREDENTIALS_DIRECTORY, ""), errors), **environment}
    values = {} if file is None else _read_toml(file, errors)
    variables = _add_variables(values, environment)
    try:
        config: Config = schema_of(Config()).load(values)
    except ValidationError as error:
        for path, message in _flat(error.messages_dict):
            variable = next((name for key, name in variables.items() if key[: len(path)] == path), None)
            errors.add(path[0], f"{variable or file or 'the environment'}: {'.'.join(path)} {message}")
        sections: Any = error.valid_data
        config = replace(Config(), **{key: sections[key] for key in sections.keys() - errors.sections})
    if "harness" not in errors.sections:
        for missing in config.harness.missing():
            errors.add("harness", f'harness.{missing} must be set because harness.kind is "process"')
    try:
        config = replace(config, otlp=read_otlp_settings(environment))
    except ValueError as error:
        errors.add("", str(error))
    if not errors.sections & {"mail", "server"}:
        for missing in config.mail.missing(config.server.base_url):
            errors.add("mail", missing)
    keys = {
        name: environment[provider.api_key_env]
        for name, provider in config.models.items()
        if environment.get(provider.api_key_env)
    }
    origins = (*([] if file is None else [str(file)]), *variables.values())
    return replace(config, model_keys=MappingProxyType(keys), origins=origins), errors


def stray_variables(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each variable that looks like a setting and is none."""
    known = ["__".join(path).upper() for path in _key_paths(schema_of(Config()))]
    expected = OTHER_VARIABLES | {provider.api_key_env for provider in config.models.values()}
    for name in sorted(environment.keys() - expected):
        if name.startswith(STRAY_PREFIX) and not name.startswith((ENVIRONMENT_PREFIX, TEST_PREFIX)):
            nearest = get_close_matches(name.removeprefix(STRAY_PREFIX).upper(), known, n=1)
            form = f"settings have the form {ENVIRONMENT_PREFIX}SECTION__KEY"
            hint = f"did you mean {ENVIRONMENT_PREFIX}{nearest[0]}?" if nearest else form
            yield f"the variable {name} is not a setting and has no effect; {hint}"


def _key_paths(schema: Schema, section: KeyPath = ()) -> Iterator[KeyPath]:
    for name, key in schema.fields.items():
        if isinstance(key, Nested):
            yield from _key_paths(key.schema, (*section, name))
        elif name != MODELS:
            yield (*section, name)


def _read_toml(file: Path, errors: ConfigErrors) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        errors.add("", f"{file}: cannot be read: {error.strerror}")
    except ValueError as error:  # TOMLDecodeError, or UnicodeDecodeError
        errors.add("", f"{file}: is not valid TOML: {error}")
    return {}


def _read_credentials(directory: str, errors: ConfigErrors) -> dict[str, str]:
    """Return the contents of the files in a directory by their names, without the ends of last lines."""
    try:
        files = [file for file in Path(directory).iterdir() if file.is_file()] if directory else []
        return {file.name.removeprefix(CREDENTIAL_PREFIX): file.read_text().rstrip("\r\n") for file in files}
    except (OSError, UnicodeDecodeError) as error:
        errors.add("", f"{CREDENTIALS_DIRECTORY}: {directory} cannot be read: {error}")
        return {}


def _add_variables(values: dict[str, Any], environment: Mapping[str, str]) -> dict[KeyPath, str]:
    """Put the texts of all variables into `values`, and return the names of the variables by their keys."""
    variables: dict[KeyPath, str] = {}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        *sections, key = path = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
        variables[path] = name
        table: Any = values
        for section in sections:
            table = table.setdefault(section, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):  # else the file has a value where a section belongs: the schema says so
            table[key] = VariableText(environment[name])
    return variables


def _flat(messages: Mapping[str, Any], section: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each message of marshmallow with the path to its key."""
    for name, below in messages.items():
        path = section if name == SCHEMA else (*section, name)
        if isinstance(below, dict):
            yield from _flat(below, path)
        else:
            yield from ((path, message) for message in below)


class SettingsSchema(Schema):
    """The schema of a section: makes settings of its keys, with `defaults` for those that are not given."""

    class Meta:
        unknown = EXCLUDE  # refused below, with the names that are known

    error_messages = {"type": NOT_A_SECTION}  # noqa: RUF012 -- declared by marshmallow
    defaults: ClassVar[Any]

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def refuse_unknown_names(self, _data: object, given: object, **_options: Any) -> None:
        unknown = given.keys() - self.fields.keys() if isinstance(given, dict) else ()
        if unknown:
            raise ValidationError({name: [self._unknown(name)] for name in sorted(unknown)})

    def _unknown(self, name: str) -> str:
        if name in REMOVED_KEYS:
            return f"was removed: {REMOVED_KEYS[name]}"
        nearest = get_close_matches(name, self.fields, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"is unknown; known are {', '.join(self.fields)}{hint}"

    @post_load
    def make_settings(self, values: dict[str, Any], **_options: Any) -> object:
        return _with_values(self.defaults, values)


def schema_of(defaults: Any) -> Schema:
    """Derive the schema of a section, or of the whole configuration, from its settings."""
    hints = get_type_hints(type(defaults))
    keys = {
        setting.name: _field_of(setting, hints[setting.name], defaults)
        for setting in fields(defaults)
        if setting.name not in NOT_KEYS
    }
    name = f"{type(defaults).__name__}Schema"
    schema: Schema = type(name, (SettingsSchema,), {"defaults": defaults, **keys})()
    return schema


def _field_of(setting: "dataclasses.Field[Any]", hint: Any, defaults: Any) -> Field[Any]:
    if setting.name == MODELS:
        provider = Nested(schema_of(ProviderSettings(ANY_URL)))
        return Providers(String(validate=PROVIDER_NAME), provider, error_messages={"invalid": NOT_A_SECTION})
    if get_origin(hint) is Literal:
        return String(validate=OneOf(get_args(hint), error="must be one of {choices}, got {input!r}"))
    if hint not in FIELDS:
        return Nested(schema_of(getattr(defaults, setting.name)))
    takes, make_field = FIELDS[hint]
    return make_field(
        required=setting.default is MISSING and setting.default_factory is MISSING,
        validate=lambda value: _with_values(defaults, {setting.name: value}),
        error_messages=dict.fromkeys(("invalid", "special", "too_large"), f"must be {takes}")
        | {"required": "must be set"},
    )


def _with_values(defaults: Any, values: Mapping[str, Any]) -> Any:
    """Return settings with these values. Raise ValidationError if they refuse a key."""
    try:
        return replace(defaults, **values)
    except ValueError as error:  # its message begins with the key
        key, _, reason = str(error).partition(" ")
        raise ValidationError(reason, key) from error


class Providers(Dict):
    """The model providers: a section for each, named by the operator."""

    def _deserialize(self, value: Any, *args: Any, **options: Any) -> Any:
        try:
            providers = super()._deserialize(value, *args, **options)  # type: ignore[no-untyped-call] # marshmallow's
            return MappingProxyType(providers)
        except ValidationError as error:
            if not isinstance(error.messages, dict):
                raise
            messages = {name: below.get("key") or below["value"] for name, below in error.messages.items()}
            raise ValidationError(messages) from error


class Converted(Raw):
    """A value that a function makes of one from the file or of the text of a variable."""

    def __init__(self, convert: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.convert = convert

    def _deserialize(self, value: Any, *args: Any, **options: Any) -> Any:
        try:
            return self.convert(value)
        except (TypeError, ValueError) as error:
            raise ValidationError(self.error_messages["invalid"]) from error


def _integer(value: Any) -> int:
    return int(str(value))  # refuses 1.5 and true


def _path(value: Any) -> Path:
    if not str(value).strip():
        raise ValueError(value)
    return Path(value)


def _list_of(convert: Callable[[str], Any], collection: Callable[[list[Any]], Any], value: Any) -> Any:
    if isinstance(value, VariableText):
        in_json = value.lstrip().startswith("[")
        value = orjson.loads(value.encode()) if in_json else [*filter(None, map(str.strip, value.split(",")))]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(value)
    return collection([convert(item) for item in value])


def _prices(value: Any) -> ConfiguredPrices:
    # orjson takes no subclass of str.
    return parse_prices(orjson.loads(value.encode()) if isinstance(value, str) else value)


# By the type of a setting: what messages say that it takes, and its field.
FIELDS: Mapping[Any, tuple[str, Callable[..., Field[Any]]]] = {
    str: ("text", String),
    int: ("an integer", partial(Converted, _integer)),
    bool: ("true or false", Boolean),
    float: ("a number", Float),
    Path: ("a path", partial(Converted, _path)),
    tuple[str, ...]: ("a list of texts", partial(Converted, partial(_list_of, str, tuple))),
    frozenset[Source]: (
        f"a list of sources ({', '.join(Source)})",
        partial(Converted, partial(_list_of, Source, frozenset)),
    ),
    tuple[IPv4Network | IPv6Network, ...]: (
        'a list of networks such as "10.0.0.0/8"',
        partial(Converted, partial(_list_of, ip_network, tuple)),
    ),
    ConfiguredPrices: (PRICES_TAKE, partial(Converted, _prices)),
}
