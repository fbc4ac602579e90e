"""Sign and verify webhooks according to Standard Webhooks.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

The signed content is `id.timestamp.body`, over the raw bytes. The header `webhook-signature` holds one or more
`v1,<base64>` signatures (HMAC-SHA256), separated by spaces, so that a sender can sign with an old and a new secret
while secrets are rotated.

Services that had webhooks before that standard sign the body alone: `verify_body`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

PREFIX = "whsec_"
MAX_CLOCK_DIFFERENCE_S = 300
"""Seconds by which a signed timestamp may differ from this machine's clock."""


class BadSecret(ValueError):
    """The secret is not `whsec_` followed by 24 to 64 bytes in base64."""


class BadSignature(Exception):
    """The signature is missing or wrong, or its timestamp is too far off. The text is safe to show to the sender."""


def decode_secret(secret: str) -> bytes:
    """Decode a `whsec_...` secret to its key. Raises BadSecret, whose text does not contain the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise BadSecret(
            f"{PREFIX} followed by 24 to 64 random bytes in base64 (make one with 'openssl rand -base64 32')"
        )
    return key


def sign(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """Make one `v1,...` signature. `timestamp`: seconds since the Unix epoch."""
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def headers(key: bytes | None, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the webhook headers of one attempt. Without a `key`, the signature is left out."""
    fields = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if key is not None:
        fields["webhook-signature"] = sign(key, id, timestamp, body)
    return fields


def verify(key: bytes, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Check the signatures and return the message's id. `headers` are the headers, with lower-case names.

    Raises BadSignature if no signature matches or the timestamp is too far from `now`.
    """
    id, stamp, signatures = (headers.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not (id and stamp and signatures):
        raise BadSignature("it needs the headers webhook-id, webhook-timestamp and webhook-signature")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise BadSignature("webhook-timestamp should be seconds since 1970-01-01T00:00:00Z")
    if abs(now - int(stamp)) > MAX_CLOCK_DIFFERENCE_S:
        raise BadSignature(f"webhook-timestamp is more than {MAX_CLOCK_DIFFERENCE_S} s away from this machine's clock")
    expected = sign(key, id, int(stamp), body).encode()
    matches = [hmac.compare_digest(expected, signature.encode()) for signature in signatures.split(" ")]
    if not any(matches):
        raise BadSignature("no signature in webhook-signature fits: is the secret the same on both sides?")
    return id


def verify_body(key: bytes, signature: str, body: bytes) -> bool:
    """Return whether `signature` is the HMAC-SHA256 of the body, in hex or base64, perhaps after `sha256=`."""
    digest = hmac.new(key, body, hashlib.sha256).digest()
    given = signature.strip().removeprefix("sha256=").encode()
    forms = (digest.hex().encode(), base64.b64encode(digest))
    return any(hmac.compare_digest(given, form) for form in forms)
