"""The port to addresses of tenants."""

from storage.ids import new_id
from supervisors.outbound import OutboundCall


def test_repr_of_a_call_shows_neither_body_nor_secret() -> None:
    call = OutboundCall("call-1", new_id(), "https://a.example/", b'{"key": "hunter2"}', secret="whsec_abc")

    assert "https://a.example/" in repr(call)
    assert "hunter2" not in repr(call)
    assert "whsec_abc" not in repr(call)
