"""Images: stored, listed in the pet, and served so that no browser runs them."""

from __future__ import annotations

import httpx
import pytest

from petsync.models import Pet
from petsync.sandbox import Sandbox

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
LIMIT = 10 * 1024 * 1024


def upload(api: httpx.Client, content: bytes, **fields: str) -> httpx.Response:
    files = {"file": ("pic.html", content, "text/html")}
    return api.post("/pet/1/uploadImage", files=files, data=fields)


@pytest.fixture(autouse=True)
def rex(api: httpx.Client, standard: Sandbox) -> None:
    standard.reset([Pet(id=1, name="Rex", photo_urls=("first",))])


def test_upload_adds_a_photo(api):
    """An upload appends the image's address to photoUrls, and the address returns the image without
    a token.
    """
    answer = upload(api, PNG, additionalMetadata="von Lück")
    assert answer.status_code == 200
    assert "von Lück" in answer.json()["message"]
    first, url = api.get("/pet/1").json()["photoUrls"]
    assert first == "first"
    image = httpx.get(url)
    assert (image.content, image.headers["content-type"]) == (PNG, "image/png")
    assert image.headers["content-disposition"].startswith("inline")


def test_upload_in_xml(api):
    """The response is an ApiResponse in XML if the client asks for XML."""
    answer = api.post(
        "/pet/1/uploadImage", files={"file": PNG}, headers={"accept": "application/xml"}
    )
    assert answer.headers["content-type"] == "application/xml"
    assert "<ApiResponse><code>200</code>" in answer.text


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jfif", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a<script>", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "application/octet-stream"),
        (b"<html><script>alert(1)</script>", "application/octet-stream"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_type_comes_from_the_content(api, content, media):
    """The type of an image is detected from its content, not from the upload; unknown content is a
    download.
    """
    upload(api, content)
    image = httpx.get(api.get("/pet/1").json()["photoUrls"][-1])
    assert image.headers["content-type"] == media
    assert image.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in image.headers["content-security-policy"]
    place = image.headers["content-disposition"].partition(";")[0]
    assert place == ("attachment" if media.endswith("octet-stream") else "inline")


def test_nothing_to_upload(api):
    """The file is optional: without one nothing is stored, with or without a form."""
    for answer in (
        api.post("/pet/1/uploadImage"),
        api.post("/pet/1/uploadImage", files={"additionalMetadata": (None, "x")}),
    ):
        assert answer.status_code == 200
    assert api.get("/pet/1").json()["photoUrls"] == ["first"]


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413), (LIMIT * 2, 413)])
def test_size_limit(api, size, status):
    """10 MiB are accepted; one byte more is 413 and changes nothing."""
    assert upload(api, PNG.ljust(size, b"\0")).status_code == status
    assert len(api.get("/pet/1").json()["photoUrls"]) == (2 if status == 200 else 1)


def test_size_limit_without_a_length(api):
    """A body without an announced length has the same limit."""
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    chunks = iter([head, *[b"x" * 1024 * 1024] * 12, b"\r\n--b--\r\n"])
    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert api.post("/pet/1/uploadImage", content=chunks, headers=kind).status_code == 413


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"x", "application/octet-stream", 415),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b"--b\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b", 400),
    ],
)
def test_broken_uploads(api, content, kind, status):
    """Another media type is 415, and an invalid form is 400."""
    answer = api.post("/pet/1/uploadImage", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["code"] == status


def test_unknown_pet(api):
    """An image for an unknown pet is 404 and is not stored."""
    assert api.post("/pet/2/uploadImage", files={"file": PNG}).status_code == 404
    assert httpx.get(f"{api.base_url}images/1").status_code == 404


@pytest.mark.parametrize("number", ["0", "99", "x", "9" * 30])
def test_unknown_image(api, number):
    """An unknown image number is 404."""
    assert api.get(f"/images/{number}").status_code == 404
