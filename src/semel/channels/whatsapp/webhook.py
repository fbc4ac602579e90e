"""Check a request of Meta: its signature, over the raw bytes, with the app's secret.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint. What is not
answered with 200 comes again for days, so a request is refused only if it is not Meta's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from semel.channels import signature
from semel.channels.webhook_in import WebhookRefused
from semel.text.json_types import Json
from semel.text.wellformed import scrub


class UnreadableBody(Exception):
    """The body is signed, but is no JSON object. The message says why, for people."""


def read_request(app_secret: str, headers: Mapping[str, str], body: bytes) -> Json:
    """Check the signature, and return the payload. Raises WebhookRefused or UnreadableBody."""
    fields = {name.lower(): value for name, value in headers.items()}
    given = fields.get("x-hub-signature-256", "")
    if not given:
        raise WebhookRefused(401, "it needs the header X-Hub-Signature-256", "bad-signature")
    if not signature.verify_body(app_secret.encode(), given, body):
        detail = "the signature is wrong: is app_secret the one of the app that sends the webhooks?"
        raise WebhookRefused(401, detail, "bad-signature")
    try:
        payload = scrub(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise UnreadableBody(f"the body is not JSON ({error})") from None
    if not isinstance(payload, dict):
        raise UnreadableBody("the body is no JSON object")
    return payload
