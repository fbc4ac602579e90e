"""A double of Mattermost: one server with one bot, and the people who write there.

    double = MattermostDouble()
    async with serve(double) as urls:            # the settings `url` and `websocket` of a mattermost channel
        ann = double.person("ann")
        room = double.channel("garden", ann)     # the bot is in it
        double.write(room, ann, "@semel hello")
        ...
        assert double.texts(room) == ["Hello yourself"]

In a process of its own, controlled over HTTP:

    semel-mattermost-double --port 8086      # prints the settings of a channel

Modelled, as https://docs.mattermost.com/api/reference documents it, and the server's source where that is silent;
tests/mattermost/test_mattermost_double.py has a table of requests and documented answers:

- the token, errors in Mattermost's words, 200 entries of a page at most
- posts: create with `root_id`, `file_ids`, `props` and `pending_post_id` (folded for 30 s, 500 while the first is being
  saved), 16,383 characters, patch, delete, pages (`per_page`, `page`, `before`, `since` with 1000 posts at most);
  posts of one millisecond; former texts, kept as deleted posts; archived channels; channels that the bot is not in
- files, reactions, typing, direct messages, people, teams
- the WebSocket: challenge, hello, numbered events, an event that is lost, connections that end or lose their login
- rate limits with their headers (`rate`)
- faults, before or after a request took effect: `semel.testing.mattermost.model.MattermostFault`

Not modelled: roles beyond `lacks`, group messages, slash commands, message attachments with buttons, clusters, and the
resumption of a WebSocket.
"""

from semel.testing.mattermost.double import BOT, TOKEN, MattermostDouble
from semel.testing.mattermost.model import MattermostFault
from semel.testing.mattermost.server import MattermostUrls, serve

__all__ = ["BOT", "TOKEN", "MattermostDouble", "MattermostFault", "MattermostUrls", "serve"]
