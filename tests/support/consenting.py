"""A user at the sandbox's consent page: opens the page, answers, and follows the redirect.

Run with an address and an optional answer, this module is a browser for BROWSER.
"""

from __future__ import annotations

import re
import sys
from urllib.parse import urljoin

import httpx


def sent_back(url: str, answer: str = "allow") -> str:
    """Answer the consent page, and return the address of the redirect without opening it."""
    with httpx.Client(timeout=120) as browser:
        page = browser.get(url)
        key = re.search(r'name="question" value="([^"]+)"', page.text)
        assert key is not None, page.text
        form = {"question": key[1], "answer": answer}
        back = browser.post(urljoin(url, "/oauth/authorize"), data=form)
    assert back.status_code == 303, back.text
    return back.headers["location"]


def agree(url: str, answer: str = "allow") -> str:
    """Answer the consent page, follow the redirect, and return the text of the last page."""
    page = httpx.get(sent_back(url, answer), timeout=120)
    return page.text


if __name__ == "__main__":
    agree(*sys.argv[1:])
