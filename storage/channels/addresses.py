"""Addresses of contacts, each in the one form that is stored and compared.

An e-mail address is in lower case, with its domain in ASCII. A phone number is in E.164 form, such as
`+43123456`. A short code is its digits. The name of a sender, such as `BANK`, is in upper case: a carrier may
show it in place of a number. No two of these forms look alike.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

import idna
import phonenumbers
from phonenumbers import PhoneNumber, ValidationResult

EMAIL_TEXT = re.compile(
    r"(?=[^@]{1,64}@)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]"
)
PHONE_TEXT = re.compile(r"(tel:)?[\s(]*\+?[\s(]*[0-9][0-9\s()./\u2010-\u2013-]*")
SHORT_CODE = re.compile(r"[0-9]{3,6}")
NOT_DIGITS = re.compile(r"[^0-9]")

MAX_ADDRESS_LENGTH = 254
MAX_SENDER_NAME_LENGTH = 11  # of a sender that a carrier shows by name
REGIONS = frozenset(phonenumbers.SUPPORTED_REGIONS)

# Texts that gateways send in place of an address that the sender withheld. The numbers spell such words on
# the keys of a phone, and no subscriber has them.
WITHHELD = frozenset(
    {
        "",
        "<>",
        "anonymous",
        "blocked",
        "private",
        "restricted",
        "unavailable",
        "unknown",
        "withheld",
        "+266696687",
        "+7378742833",
        "+2562533",
        "+8656696",
        "+86282452253",
    }
)

BAD_EMAIL = "Enter a valid email address."
BAD_PHONE = "Enter a valid phone number, such as +43 1 234567."
NO_COUNTRY = (
    "Enter the phone number with + and its country code, such as +43 1 234567, "
    "or set phone_region of the organization."
)
BAD_NATIONAL = "This is not a phone number of the region {region}. Enter it with + and its country code."
AMBIGUOUS = "This can be {one} or {other}. Enter the phone number with + and its country code."
BAD_ADDRESS = "Enter a valid phone number, such as +43 1 234567, or a valid email address."


class InvalidAddress(ValueError):
    """A text is no address; the message says what to enter."""


def is_withheld(text: str) -> bool:
    """Return whether a gateway sent this text because the sender withheld its address."""
    return text.strip().casefold() in WITHHELD


def is_email(address: str) -> bool:
    return "@" in address


def is_sender_name(address: str) -> bool:
    """Return whether the address is only the name of a sender, which nothing can be sent to."""
    return not is_email(address) and any(map(str.isalpha, address))


def needs_region(text: str) -> bool:
    """Return whether the text is a phone number that depends on a region, as it has no country code."""
    return PHONE_TEXT.fullmatch(text.strip()) is not None and "+" not in text


def normalize(text: str, region: str) -> str:
    """Return the address that the text means: of an e-mail, a phone or a named sender.

    `region` is that of phone numbers without a country code, "" if there is none. Raise InvalidAddress.
    """
    text = text.strip()
    if is_email(text):
        return normalize_email(text)
    if PHONE_TEXT.fullmatch(text):
        return normalize_phone(text, region)
    is_named = any(map(str.isalpha, text)) and text.isprintable() and not text.startswith("+")
    if is_named and len(text) <= MAX_SENDER_NAME_LENGTH:
        return text.upper()[:MAX_SENDER_NAME_LENGTH].strip()  # upper() may add letters
    raise InvalidAddress(BAD_ADDRESS)


def normalize_email(text: str) -> str:
    """Return the e-mail address in lower case, with its domain in ASCII. Raise InvalidAddress."""
    local_part, _, domain = text.strip().rpartition("@")
    if not domain.isascii():
        try:
            domain = idna.encode(domain, uts46=True).decode()
        except idna.IDNAError as error:
            raise InvalidAddress(BAD_EMAIL) from error
    address = f"{local_part}@{domain}".lower()
    if len(address) > MAX_ADDRESS_LENGTH or not EMAIL_TEXT.fullmatch(address):
        raise InvalidAddress(BAD_EMAIL)
    return address


def normalize_phone(text: str, region: str) -> str:
    """Return the phone number in E.164 form, or the digits of a short code. Raise InvalidAddress."""
    text = text.strip()
    if not PHONE_TEXT.fullmatch(text):
        raise InvalidAddress(BAD_PHONE)
    if "+" in text:
        number = _parse(text, None)
        if number is None:
            raise InvalidAddress(BAD_PHONE)
        return _e164(number)
    return _normalize_national(text, NOT_DIGITS.sub("", text), region)


def phone_addresses(digits: str, regions: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses that digits to look for can mean: with a country code, or in one of `regions`."""
    readings = [(f"+{digits}", ""), *((digits, region) for region in regions)]
    addresses = [digits]
    for text, region in readings:
        with suppress(InvalidAddress):
            addresses.append(normalize_phone(text, region))
    return tuple(addresses)


def _normalize_national(text: str, digits: str, region: str) -> str:
    """Return the address of a number without a country code. Only a number that is certain is accepted."""
    national = _parse(text, region) if region else None
    is_certain = national is not None and phonenumbers.is_valid_number(national)
    if SHORT_CODE.fullmatch(digits) and not is_certain:
        return digits
    if not region:
        raise InvalidAddress(NO_COUNTRY)
    if national is None:
        raise InvalidAddress(BAD_NATIONAL.format(region=region))
    international = _parse(f"+{digits}", None)
    if (
        international is not None
        and international.country_code == national.country_code
        and international.national_number != national.national_number
        and phonenumbers.is_valid_number(international)
    ):
        raise InvalidAddress(AMBIGUOUS.format(one=_e164(national), other=_e164(international)))
    return _e164(national)


def _parse(text: str, region: str | None) -> PhoneNumber | None:
    """Return the number; None if it has no country code, or cannot be dialled because of its length."""
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    reason = phonenumbers.is_possible_number_with_reason(number)
    return number if reason == ValidationResult.IS_POSSIBLE else None


def _e164(number: PhoneNumber) -> str:
    """Return the form that means itself: each reading of a number drops one more zero at its beginning."""
    text = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    again = _parse(text, None)
    if again is None:
        raise InvalidAddress(BAD_PHONE)
    return text if again == number else _e164(again)
