"""Addresses: the one form of e-mail addresses, phone numbers, short codes and names of senders."""

import pytest

from storage.channels.addresses import (
    WITHHELD,
    InvalidAddress,
    is_sender_name,
    is_withheld,
    normalize,
    phone_addresses,
)

COUNTRY = "with \\+ and its country code"


@pytest.mark.parametrize(
    ("text", "region", "address"),
    [
        ("+49 (0)170 123 45 67", "", "+491701234567"),
        (" tel:+43-1-23456 ", "", "+43123456"),
        ("+43.1/23456", "DE", "+43123456"),
        ("+39 06 1234567", "", "+39061234567"),
        ("0170 1234567", "DE", "+491701234567"),
        ("0043 1 23456", "DE", "+43123456"),
        ("(202) 555-0143", "US", "+12025550143"),
        ("1 202 555 0143", "US", "+12025550143"),
        ("211234", "FO", "+298211234"),
        ("12345", "", "12345"),
        ("12345", "DE", "12345"),
        ("000567383", "DE", "+49567383"),
        ("BANK", "", "BANK"),
        ("Stra\u00dfen-Amt", "", "STRASSEN-AM"),
        ("my Bank 24", "US", "MY BANK 24"),
        ("Jane.Doe+x@Example.ORG", "", "jane.doe+x@example.org"),
        ("jane@B\u00fccher.example", "", "jane@xn--bcher-kva.example"),
    ],
)
def test_address_has_one_form(text: str, region: str, address: str) -> None:
    assert normalize(text, region) == address
    assert normalize(address, region) == address


@pytest.mark.parametrize(
    ("text", "region", "message"),
    [
        ("0170 1234567", "", f"{COUNTRY}, such as .+ phone_region"),
        ("01701234567890123", "DE", f"not a phone number of the region DE.+{COUNTRY}"),
        ("4917112345678", "DE", f"can be .494917112345678 or .4917112345678.+{COUNTRY}"),
        ("+43 1", "", "valid phone number"),
        ("+999 1234567", "", "valid phone number"),
        ("+49 171 1234567 or +49 171 1234568", "", "valid phone number"),
        ("12", "", "country code"),
        ("+1-800-FLOWERS", "", "valid phone number"),
        ("a name of a sender", "", "valid phone number"),
        ("ada@example", "", "valid email address"),
        ("a b@example.org", "", "valid email address"),
        ("Ada <ada@example.org>", "", "valid email address"),
        ("ada@-\u00fc.example", "", "valid email address"),
        (f"ada@{'x.' * 126}org", "", "valid email address"),
    ],
)
def test_uncertain_address_is_refused(text: str, region: str, message: str) -> None:
    with pytest.raises(InvalidAddress, match=message):
        normalize(text, region)


@pytest.mark.parametrize("text", [*sorted(WITHHELD), " Anonymous ", "UNKNOWN"])
def test_withheld_address_is_recognized(text: str) -> None:
    assert is_withheld(text)


def test_known_sender_is_not_withheld() -> None:
    assert not any(map(is_withheld, ("+4366696687", "BANK", "anonymous@example.org")))


def test_only_names_take_no_messages() -> None:
    shown = [normalize(text, "") for text in ("BANK", "12345", "+43 1 23456", "ada@example.org")]
    assert list(map(is_sender_name, shown)) == [True, False, False, False]


def test_digits_are_looked_for_in_each_region() -> None:
    assert phone_addresses("01701234567", ["DE", "AT"]) == ("01701234567", "+491701234567", "+431701234567")
    assert phone_addresses("4901701234567", []) == ("4901701234567", "+491701234567")
    assert phone_addresses("12345", []) == ("12345",)
