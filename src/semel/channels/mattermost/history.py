"""Read a channel's posts page by page, the newest first (https://docs.mattermost.com/api/reference, "Get posts for a
channel").

The next page has what comes before a post of this one (`before`), so posts that are written meanwhile shift nothing.
Only if the posts of one millisecond fill more than a page, their pages are numbered (`page`). `since` is no way to read
a history: it gives at most 1000 posts, and has no pages. It serves for changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from semel.channels.mattermost.address import is_id
from semel.channels.mattermost.transport import MattermostReply
from semel.text.json_types import Json, list_at, object_at

PAGE_SIZE = 100
"""Posts of one page; Mattermost gives 200 at most."""


class NotAPage(Exception):
    """An answer is not a page of posts."""


async def list_posts(
    read: Callable[[str], Awaitable[MattermostReply]], channel: str, since_ms: float
) -> AsyncIterator[Json]:
    """Yield the posts of a channel that were written after `since_ms` (ms since 1970), the newest first.

    `read`: makes a GET and returns a successful answer, or raises. Raises NotAPage.
    """
    before, page_number = "", 0
    seen: set[str] = set()
    while True:
        page = read_page(await read(f"/channels/{channel}/posts?per_page={PAGE_SIZE}&page={page_number}{before}"))
        if not page and before and not page_number:
            raise NotAPage("Mattermost gave an empty page where there are older posts")
        unseen = [post for post in page if post["id"] not in seen]
        for post in unseen:
            if post["create_at"] <= since_ms:
                return
            yield post
        if not unseen:
            return
        seen |= {post["id"] for post in page}
        anchor = _find_anchor(page)
        if anchor is None:
            page_number += 1
        else:
            before, page_number = f"&before={anchor}", 0


def _find_anchor(page: list[Json]) -> str | None:
    """Return the oldest post of a page that is younger than its last; None if all are of one millisecond.

    Before a post means before its millisecond, which the last post may share with the next page's first.
    """
    last = page[-1]
    return next((str(post["id"]) for post in reversed(page) if post["create_at"] > last["create_at"]), None)


def read_page(reply: MattermostReply) -> list[Json]:
    """Return the posts of a page in its order. Raises NotAPage."""
    posts = object_at(reply.data, "posts")
    order = list_at(reply.data, "order")
    if not isinstance(reply.data, dict) or not isinstance(reply.data.get("order"), list):
        raise NotAPage("Mattermost's answer is no page of posts")
    page = [posts.get(id) for id in order if isinstance(id, str)]
    if len(page) != len(order):
        raise NotAPage("Mattermost's page names posts oddly")
    for post in page:
        created = post.get("create_at") if isinstance(post, dict) else None
        if not isinstance(post, dict) or not is_id(post.get("id")) or not isinstance(created, int):
            raise NotAPage("Mattermost's page lacks a post that it names")
    return [post for post in page if isinstance(post, dict)]
