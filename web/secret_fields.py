"""Fields about secrets for code and tools: their names, their values, and the headers that carry them."""

import re
from typing import Any

from marshmallow import ValidationError, validate

from web.fields import JsonObject, ListOf, Text, printable, wording

MAX_NAME_CHARACTERS = 128
MAX_VALUE_BYTES = 65_536
MAX_ENVIRONMENT_SECRETS = 24  # with the longest values they fit what the kernel takes as an environment
MAX_HEADERS = 20
MAX_HEADER_CHARACTERS = 64
NAME_TEXT = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_CHARACTERS - 1}}}")
HEADER_TEXT = re.compile(rf"[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,{MAX_HEADER_CHARACTERS}}}")

# Variables that the service sets, that the system reads when a program starts, or with which common
# interpreters and libraries load code, leave their checks or choose another server.
RESERVED_NAME = re.compile(
    r"HOSTSVC_.*|PATH|HOME|PWD|OLDPWD|SHELL|USER|LOGNAME|TMPDIR|TEMP|TMP|TERM|TZ|LANG|LANGUAGE|LC_.*"
    r"|LD_.*|DYLD_.*|GCONV_PATH|GLIBC_.*|LOCPATH|NLSPATH|MALLOC_.*|RES_OPTIONS|HOSTALIASES|LOCALDOMAIN"
    r"|IFS|ENV|PS[0-4]|BASH_.*|SHELLOPTS|CDPATH|PROMPT_COMMAND"
    r"|PYTHON.*|NODE_.*|NPM_CONFIG_.*|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|GEM_.*|BUNDLE_.*|PHPRC"
    r"|JAVA_.*|_JAVA_OPTIONS|JDK_.*|CLASSPATH|LUA_.*|GODEBUG|GOTRACEBACK|DOTNET_.*|CORECLR_.*"
    r"|GIT_.*|SSH_.*|OPENSSL_.*|SSL_.*|SSLKEYLOGFILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|(HTTPS?|FTP|ALL|NO)_PROXY",
    re.IGNORECASE,
)

# Headers that the service sets itself, or that decide how a request is read or passed on.
RESERVED_HEADER = re.compile(
    r"accept-encoding|connection|content-.*|expect|forwarded|host|idempotency-key|keep-alive|proxy-.*|te"
    r"|trailer|traceparent|tracestate|transfer-encoding|upgrade|via|webhook-.*|x-forwarded-.*|x-http-.*",
    re.IGNORECASE,
)


class SecretName(Text):
    """The name of a secret, which is also the name of an environment variable."""

    default_error_messages = wording(
        name="Enter the name of an environment variable: letters, digits and _, not a digit first, "
        f"no more than {MAX_NAME_CHARACTERS} characters.",
        reserved='"{input}" is reserved for the system; choose another name, such as MY_{input}.',
    )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        name = super()._deserialize(value, attr, data, **options)
        if not NAME_TEXT.fullmatch(name):
            raise self.make_error("name")
        if RESERVED_NAME.fullmatch(name):
            raise self.make_error("reserved", input=name)
        return name


class SecretValue(Text):
    """The value of a secret, unchanged; no message repeats any of it."""

    default_error_messages = wording(long=f"Ensure this field has no more than {MAX_VALUE_BYTES} bytes.")

    def __init__(self, **options: Any) -> None:
        super().__init__(blank=False, max_length=MAX_VALUE_BYTES, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if len(text) <= MAX_VALUE_BYTES < len(text.encode()):  # else it has too many characters
            raise self.make_error("long")
        return text


class SecretNames(ListOf[str]):
    """Names of secrets; a repeated one counts once."""

    def __init__(self, **options: Any) -> None:
        most = "Ensure this field has no more than {max} elements."
        length = validate.Length(max=MAX_ENVIRONMENT_SECRETS, error=most)
        super().__init__(SecretName(), validate=length, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> list[str | None]:
        return list(dict.fromkeys(super()._deserialize(value, attr, data, **options)))


class SecretHeaders(JsonObject):
    """An object of headers, each with the name of the secret that is its value."""

    default_error_messages = wording(
        invalid='Expected a dictionary of items but got type "{type}".',
        many=f"Ensure this field has no more than {MAX_HEADERS} headers.",
        header="Enter the name of a header: letters, digits and -.",
        reserved="The service sets this header itself, or it decides how the request is read.",
        repeated="Headers do not differ by case; this one is given twice.",
    )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> dict[str, str]:
        headers = super()._deserialize(value, attr, data, **options)
        if len(headers) > MAX_HEADERS:
            raise self.make_error("many")
        names = SecretName()
        messages: dict[str, Any] = {}
        checked: dict[str, str] = {}
        taken: set[str] = set()
        for header, name in headers.items():
            try:
                self._check_header(header, taken)
                checked[header] = names.deserialize(name)
            except ValidationError as error:
                messages[printable(header)] = error.messages
        if messages:
            raise ValidationError(messages)
        return checked

    def _check_header(self, header: str, taken: set[str]) -> None:
        if not HEADER_TEXT.fullmatch(header):
            raise self.make_error("header")
        if RESERVED_HEADER.fullmatch(header):
            raise self.make_error("reserved")
        if header.lower() in taken:
            raise self.make_error("repeated")
        taken.add(header.lower())
