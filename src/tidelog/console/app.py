"""The web application: which page answers which address, and what comes of an error.

Pages are computed on the event loop, one at a time: each does little work, and what it reads is
used by one thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidelog.console.access import HEADERS, Access, Entrance, Refusal
from tidelog.console.asked import Asked
from tidelog.console.group_pages import group_page, groups_page
from tidelog.console.overview_pages import partitions_page, topic_page, topics_page
from tidelog.console.partition_pages import (
    batches_page,
    check_page,
    partition_page,
    plans_page,
    transactions_page,
)
from tidelog.console.record_pages import record_page, records_page
from tidelog.console.rendering import STATIC_TYPES, Answer, render, static_file
from tidelog.console.service_page import service_page
from tidelog.errors import InvalidArgument, TidelogError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tidelog.console.desk import Desk
    from tidelog.console.watch import Watch

    PageOf = Callable[[Desk, Asked], Answer]

_PARTITION: Final = "/topics/{topic}/{partition}"
PAGES: Final[dict[str, PageOf]] = {
    "/topics": topics_page,
    "/partitions": partitions_page,
    "/groups": groups_page,
    "/group": group_page,
    "/service": service_page,
    "/topics/{topic}": topic_page,
    _PARTITION: partition_page,
    f"{_PARTITION}/records": records_page,
    f"{_PARTITION}/records/{{offset}}": record_page,
    f"{_PARTITION}/batches": batches_page,
    f"{_PARTITION}/transactions": transactions_page,
    f"{_PARTITION}/plans": plans_page,
    f"{_PARTITION}/check": check_page,
}
"""The pages, by the addresses that they answer."""


class Pages:
    """Answers requests from the desk, while its watch keeps what it knows fresh."""

    def __init__(self, desk: Desk, watch: Watch) -> None:
        self._desk = desk
        self._watch = watch

    def answer(self, page: PageOf, asked: Asked) -> Response:
        """Return a page.

        What is damaged or unreadable is shown in a page like any other.
        """
        with self._watch.lock:
            try:
                self._watch.freshen()
                answer = page(self._desk, asked)
            except UnknownTopicOrPartition as error:
                answer = _notice("Not found", str(error), 404)
            except InvalidArgument as error:
                answer = _notice("That cannot be asked", str(error), 400)
            except (TidelogError, OSError) as error:
                answer = _notice("This cannot be read now", str(error), 200)
        return self._response(answer)

    def not_found(self) -> Response:
        """Return the page for an address that none answers."""
        return self._response(_notice("Not found", "There is no page at this address.", 404))

    def _response(self, answer: Answer) -> Response:
        text = render(answer, paths=self._desk.paths, now_ms=self._desk.clock.now_ms())
        return Response(text, answer.status, media_type="text/html")


def make_app(desk: Desk, watch: Watch, access: Access) -> ASGIApp:
    """Return the application; ``access`` decides who is answered."""
    pages = Pages(desk, watch)

    def endpoint(page: PageOf) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return pages.answer(page, Asked(request.path_params, request.query_params))

        return answer

    async def start(_: Request) -> Response:
        return RedirectResponse("/topics", 303)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC_TYPES:
            return pages.not_found()
        return Response(static_file(name), media_type=STATIC_TYPES[name])

    async def missing(_: Request, __: Exception) -> Response:
        return pages.not_found()

    routes = [Route("/", start), Route("/static/{name}", static)]
    routes += [Route(path, endpoint(page)) for path, page in PAGES.items()]
    app = Starlette(routes=routes, exception_handlers={404: missing})
    app.router.redirect_slashes = False
    return _Gate(app, access)


class _Gate:
    """Lets requests through to the pages, and puts the headers on every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there are no websockets, and nothing to start or stop

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        app = self._answer_to(scope) or self._app
        await app(scope, receive, send_with_headers)

    def _answer_to(self, scope: Scope) -> Response | None:
        """Return what a request gets that does not come to the pages."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        query = scope["query_string"].decode("latin-1")
        decided = self._access.decide(scope["method"], scope["path"], query, headers)
        if isinstance(decided, Refusal):
            return Response(
                decided.reason + "\n", decided.status, dict(decided.headers), "text/plain"
            )
        if isinstance(decided, Entrance):
            return RedirectResponse(decided.location, 303, {"set-cookie": decided.cookie})
        return None


def _notice(title: str, text: str, status: int) -> Answer:
    return Answer("notice.html", {"title": title, "text": text}, status)
