"""A person at the sandbox's consent page: opens an address, answers, is sent back.

Run with an address, and maybe an answer, it is a browser for BROWSER.
"""

from __future__ import annotations

import re
import sys
from urllib.parse import urljoin

import httpx


def sent_back(url: str, answer: str = "allow") -> str:
    """The address to which the browser is sent once the person has answered; it is not opened."""
    with httpx.Client(timeout=120) as browser:
        page = browser.get(url)
        key = re.search(r'name="question" value="([^"]+)"', page.text)
        assert key is not None, page.text
        form = {"question": key[1], "answer": answer}
        back = browser.post(urljoin(url, "/oauth/authorize"), data=form)
    assert back.status_code == 303, back.text
    return back.headers["location"]


def agree(url: str, answer: str = "allow") -> str:
    """The page on which the browser ends that follows."""
    page = httpx.get(sent_back(url, answer), timeout=120)
    return page.text


if __name__ == "__main__":
    agree(*sys.argv[1:])
