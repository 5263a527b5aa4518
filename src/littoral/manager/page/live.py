"""The page's one element: HTML that is shown, changed in place when it changes, and that acts are sent from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import events, ui

Heard = Callable[[str, dict[str, str]], Awaitable[None]]
_MOST = 400_000  # characters of what one act may send


class Live(ui.element, component="live.js"):
    """Shows ``content``; ``heard`` is told the name and the fields of every act."""

    def __init__(self, content: str, heard: Heard) -> None:
        super().__init__()
        self._props["content"] = content
        self._heard = heard
        self.on("act", self._act)

    def show(self, content: str) -> None:
        """Change what has changed."""
        if content != self._props["content"]:
            self._props["content"] = content
            self.update()

    async def _act(self, event: events.GenericEventArguments) -> None:
        sent: Any = event.args
        if not isinstance(sent, dict) or not isinstance(sent.get("fields"), dict):
            return
        fields = {str(key): str(value)[:_MOST] for key, value in sent["fields"].items()}
        await self._heard(str(sent.get("act", "")), fields)
