"""A double of WhatsApp's Cloud API: one business phone number, and the people who write to it.

In a test's own process:

    double = WhatsAppDouble()
    double.person("16505551234", "Ann")
    async with serve(double) as url:                  # the `api` setting of a whatsapp channel
        double.callback = "http://127.0.0.1:8420/v1/hooks/whatsapp"
        double.write("16505551234", "hello")
        ...
        assert double.texts("16505551234") == ["Hello yourself"]

Without a `callback`, `double.take_requests()` returns the requests that Meta would post.

In a process of its own, controlled over HTTP (to try a bot without Meta):

    python -m semel.testing.whatsapp --port 8085      # prints the lines of semel.toml
    curl -d '{"person": "16505551234", "text": "hello"}' http://127.0.0.1:8085/control/write
    curl -d '{"address": "16505551234"}' http://127.0.0.1:8085/control/texts

Modelled, as Meta documents it (tests/whatsapp/test_whatsapp_double.py names the page of each case):

- POST NUMBER/messages: text, image, audio, video, document, reaction, interactive (buttons, lists), template, the
  context of a reply, `biz_opaque_callback_data`, "read" with the typing indicator; to people, and to groups
- POST NUMBER/media, GET of a media id, the download for five minutes, GET NUMBER, GET debug_token, `appsecret_proof`
- limits: 4,096 characters of text, 1,024 of a caption and of a text with buttons, 3 buttons of 20 characters, 10 rows
  of 24, types and sizes of media, 512 characters of `biz_opaque_callback_data`, the variables of templates
- errors by code with their HTTP status; later ones as a `failed` status (no WhatsApp there; a reaction to what is no
  message, is a reaction itself or is older than 30 days)
- the 24 hours after a person wrote last: refused in the answer or, as `window_answer` says, by a `failed` status
- rate limits, if `limits` is set: one message to a person in six seconds after 45, and 80 messages a second
- webhooks: signed, several messages and statuses in one request, repeated until they are answered with 200, in any
  order if `shuffle` is set, `sent`, `delivered` and `read`; the request that confirms the address
- faults of calls, before or after they took effect: `WhatsAppDouble.fail`

Not modelled: catalogs, flows, calls, payments, quality ratings, messaging limits of a portfolio, several numbers, media
by link, encryption, mTLS.
"""

from semel.testing.whatsapp.double import WhatsAppDouble
from semel.testing.whatsapp.model import APP_SECRET, NUMBER_ID, TOKEN, VERIFY_TOKEN
from semel.testing.whatsapp.server import serve

__all__ = ["APP_SECRET", "NUMBER_ID", "TOKEN", "VERIFY_TOKEN", "WhatsAppDouble", "serve"]
