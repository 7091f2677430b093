"""Hostile visitors, without a browser: each is refused, nothing leaks, and the server still answers."""

import io
import json
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.e2e.browsing import Server, needs_gradio, page_server
from tests.e2e.running import Run, assert_refused, write_photos

pytestmark = needs_gradio
SECRET = "do not read this"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("web")
    (folder / "secret.txt").write_text(SECRET)
    with page_server(folder, attacked=True) as running:
        yield running


@pytest.fixture
def browser(server: Server) -> Iterator["Client"]:
    client = Client(server.address)
    yield client
    assert client.http.get("/config").status_code == 200, "the server answers no more"
    client.http.close()


class Client:
    """Speaks to the page as its own scripts do."""

    def __init__(self, address: str) -> None:
        import httpx

        self.http = httpx.Client(base_url=address, timeout=60)
        self.config = self.http.get("/config").json()
        self.session = f"s{id(self)}"

    def upload(self, files: dict[str, bytes]) -> list[str]:
        parts = [("files", (name, io.BytesIO(data))) for name, data in files.items()]
        answer = self.http.post("/gradio_api/upload", files=parts)
        assert answer.status_code == 200, answer.text
        return list(answer.json())

    def take(self, files: list[dict[str, Any]]) -> str:
        """Hand uploaded files to the page; all that it says in return."""
        drop = next(c["id"] for c in self.config["components"] if c["props"].get("elem_id") == "fs-drop")
        number = next(d["id"] for d in self.config["dependencies"] if d["targets"] == [[drop, "upload"]])
        body = {"data": [files], "fn_index": number, "session_hash": self.session, "trigger_id": drop}
        joined = self.http.post("/gradio_api/queue/join", json=body)
        if joined.status_code != 200:
            return joined.text
        with self.http.stream("GET", f"/gradio_api/queue/data?session_hash={self.session}") as stream:
            lines = [line for line in stream.iter_lines() if line.startswith("data:")]
        done = [json.loads(line[5:]) for line in lines]
        return json.dumps([news for news in done if news.get("msg") == "process_completed"])

    def give(self, files: dict[str, bytes]) -> str:
        paths = self.upload(files)
        return self.take([_file(path, name) for path, name in zip(paths, files, strict=True)])


def _file(path: str, name: str) -> dict[str, Any]:
    return {"path": path, "orig_name": name, "meta": {"_type": "gradio.FileData"}}


def photos(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(write_photos(folder, {}, {}, {}).iterdir())}


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def zip_slip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../../../tmp/slipped.jpg", b"x")
    return buffer.getvalue()


def test_good_photos_are_taken(browser: Client, tmp_path: Path) -> None:
    """The client speaks the page's language: what is refused below is refused for a reason."""
    assert "missing: type it in" in browser.give(photos(tmp_path / "shots"))


def tiff_of_pages(count: int) -> bytes:
    """Every page is the same strip of a black picture of 64 megapixels."""
    strip = zlib.compress(bytes(8000 * 8000), 9)
    start = 8 + len(strip)
    fields = {256: 8000, 257: 8000, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: 8000, 279: len(strip)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields.items())
    size = 2 + len(entries) + 4
    pages = b""
    for number in range(count):
        following = start + (number + 1) * size if number < count - 1 else 0
        pages += struct.pack("<H", len(fields)) + entries + struct.pack("<I", following)
    return b"II*\0" + struct.pack("<I", start) + strip + pages


ATTACKS: dict[str, tuple[dict[str, bytes], str]] = {
    "zip slip": ({"a.zip": zip_slip(), "b.zip": zip_slip()}, "unpack it"),
    "page": ({"a.html": b"<script>alert(1)</script>", "b.jpg": b"x"}, "a.html is no picture"),
    "program": ({"a.exe": b"MZ", "b.jpg": b"x"}, "a.exe is no picture"),
    "svg": ({"a.svg": b"<svg onload='alert(1)'/>", "b.jpg": b"x"}, "a.svg is no picture"),
    "stack.toml that leads outside": (
        {"stack.toml": b'[[frame]]\nfile = "../../secret.txt"\n[[frame]]\nfile = "/etc/passwd"\n', "a.jpg": b"x"},
        "is no file of this folder",
    ),
    "stack.toml that is no TOML": ({"stack.toml": b"\xff\xfe[[[", "a.jpg": b"x"}, "no valid TOML"),
    "many pages": ({"a.tif": tiff_of_pages(61)}, "61 frames are too many"),
    "video that is a list of addresses": (
        {"a.mp4": b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://127.0.0.1:1/a.ts\n#EXT-X-ENDLIST\n"},
        "cannot be read as a video",
    ),
    "video that is a list of files": (
        {"a.avi": b"ffconcat version 1.0\nfile /etc/passwd\n"},
        "cannot be read as a video",
    ),
    "video that is a call": (
        {"a.mov": b"v=0\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 9 RTP/AVP 26\r\n"},
        "cannot be read as a video",
    ),
    "one file": ({"a.jpg": b"\xff\xd8\xff"}, "one picture only"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_refused_with_a_sentence(browser: Client, server: Server, attack: str) -> None:
    files, words = ATTACKS[attack]
    sentence = browser.give(files)
    assert words in sentence, sentence
    assert SECRET not in sentence and str(server.temporary) not in sentence.replace("uploads", "")


@pytest.mark.parametrize(
    "contents",
    [
        png_that_claims(60_000, 60_000),
        png_that_claims(2**31 - 1, 2**31 - 1),
        b"MZ\x90\x00" + bytes(2000),
        b"<html><script>alert(1)</script></html>",
        b"",
        b"GIF89a" + bytes(100),
        b"\xff\xd8\xff\xe1\xff\xffExif\0\0II*\0\xff\xff\xff\xff" + bytes(100),
        b"II*\0\x08\0\0\0\xff\xff" + b"\x00\x01\x04\x00\xff\xff\xff\xff\0\0\0\0" * 50,
    ],
    ids=["bomb", "huge", "program", "page", "empty", "gif", "exif", "tiff"],
)
def test_bombs_and_wrong_types_end_in_a_sentence(browser: Client, contents: bytes, tmp_path: Path) -> None:
    """Whether refused when given or when worked on is the reader's business: the same sentences as elsewhere."""
    from focalsweep.web.jobs import TaskProcess
    from focalsweep.web.limits import Limits
    from focalsweep.web.tasks import estimate

    files = {"a.png": contents, "b.png": contents}
    browser.give(files)
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    job = TaskProcess(estimate, folder, tmp_path / "out", {}, True, Limits(), "cpu", seconds=60)
    with pytest.raises(ValueError, match=r"a\.png"):
        job.wait()
    assert not (tmp_path / "out").exists()


def test_known_folders_do_not_lead_outside(browser: Client, server: Server) -> None:
    """Where its own upload lies, a visitor is told: from there, no way leads to what else is there."""
    (mine,) = browser.upload({"a.jpg": b"x"})
    root = Path(mine).parents[4]
    assert root.parent == server.temporary and browser.http.get(f"/gradio_api/file={mine}").status_code == 200
    secret = server.temporary.parent / "secret.txt"
    for path in (f"{Path(mine).parent}/../../../../{secret.name}", f"{root}/visitors", f"{root}/uploads", str(secret)):
        answer = browser.http.get(f"/gradio_api/file={path.replace('..', '%2e%2e')}")
        assert answer.status_code in (403, 404) and SECRET not in answer.text
        sentence = browser.take([_file(path, "a.jpg"), _file(path, "b.jpg")])
        assert SECRET not in sentence and "missing: type it in" not in sentence
    assert secret.read_text() == SECRET and (root / "uploads").is_dir()


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.xml", "a.js", "a.htm.jpg"])
def test_uploaded_pages_are_not_shown_as_pages(browser: Client, name: str) -> None:
    """A link to one that is sent to another visitor runs nothing: it is saved, or shown as a broken picture."""
    (path,) = browser.upload({name: b"<script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script>"})
    answer = browser.http.get(f"/gradio_api/file={path}")
    shown = answer.headers["content-disposition"].startswith("inline")
    assert answer.headers["content-type"] == ("image/jpeg" if shown else "application/octet-stream")
    assert shown == (name == "a.htm.jpg") and answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8888"])
def test_other_pages_can_send_nothing(browser: Client, server: Server, origin: str) -> None:
    """A form or script of a page elsewhere, in a browser on this computer."""
    before = len(list(server.temporary.rglob("*")))
    headers = {"origin": origin, "content-type": "text/plain"}
    body = json.dumps({"data": [], "fn_index": 0, "session_hash": "theirs"})
    assert browser.http.post("/gradio_api/queue/join", content=body, headers=headers).status_code == 403
    uploaded = browser.http.post("/gradio_api/upload", files={"files": b"x"}, headers={"origin": origin})
    assert uploaded.status_code == 403 and len(list(server.temporary.rglob("*"))) == before
    asked = browser.http.options("/config", headers={"origin": origin, "access-control-request-method": "GET"})
    assert asked.status_code == 403 and "access-control-allow-origin" not in asked.headers


@pytest.mark.parametrize(
    "path",
    ["run-history/buckets", "run-history/connect", "info", "openapi.json", "deep_link", "queue/status", "vibe-code/"],
)
def test_gradio_routes_that_the_page_does_not_use(browser: Client, path: str) -> None:
    for method in ("GET", "POST"):
        assert browser.http.request(method, f"/gradio_api/{path}").status_code == 404


def test_a_message_that_is_too_large(browser: Client) -> None:
    assert browser.http.post("/gradio_api/queue/join", content=b" " * (2**20 + 1)).status_code == 413


def test_an_upload_that_breaks_off(browser: Client, server: Server) -> None:
    """What has come of it stays in the page's own folder, and counts as used space."""
    address = browser.http.base_url
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n' + b"y" * 2**20
    connection = HTTPConnection(address.host, address.port, timeout=30)
    connection.putrequest("POST", "/gradio_api/upload")
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", str(2**27))
    connection.endheaders()
    connection.send(body)
    connection.close()
    others = [path for path in server.temporary.iterdir() if not path.name.startswith(("focalsweep-", "pymp-"))]
    assert others == []
    assert browser.http.get("/config").status_code == 200  # the server has been through it
    time.sleep(1)
    assert "ClientDisconnect" not in server.log.read_text()


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.txt", "/proc/self/environ", "http://example.invalid/a.jpg"])
@pytest.mark.parametrize("link", [{}, {"url": "http://example.invalid/a.jpg"}], ids=["", "link"])
def test_a_file_that_was_never_uploaded(browser: Client, path: str, link: dict[str, str]) -> None:
    sentence = browser.take([_file(path, "a.jpg") | link, _file(path, "b.jpg") | link])
    assert "root:" not in sentence and SECRET not in sentence and "missing: type it in" not in sentence


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=../../../../etc/passwd",
        "/gradio_api/file=%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/file=/etc/passwd",
        "/static/../../../../etc/passwd",
        "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/gradio_api/file=http://127.0.0.1:1/",
        "/gradio_api/proxy=http://127.0.0.1:1/",
    ],
)
def test_paths_outside_are_not_served(browser: Client, path: str) -> None:
    answer = browser.http.get(path)
    assert answer.status_code in (400, 403, 404, 405, 422), answer.status_code
    assert "root:" not in answer.text


def test_the_secret_beside_the_uploads_is_not_served(browser: Client, server: Server) -> None:
    secret = server.temporary.parent / "secret.txt"
    assert secret.read_text() == SECRET
    answer = browser.http.get(f"/gradio_api/file={secret}")
    assert answer.status_code in (403, 404) and SECRET not in answer.text


@pytest.mark.parametrize(
    "name", ["../../escaped.png", "..\\escaped.png", "/tmp/escaped.png", "<img src=x onerror=a>.png"]
)
def test_names_do_not_lead_outside(browser: Client, server: Server, name: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(buffer, "png")
    sentence = browser.give({name: buffer.getvalue(), "b.png": buffer.getvalue()})
    assert "<img" not in sentence
    found = [path for path in server.temporary.parent.rglob("*escaped*") if path.is_file()]
    assert all(server.temporary in path.parents for path in found)
    assert not Path("/tmp/escaped.png").exists()


def test_a_body_that_is_too_large(browser: Client) -> None:
    address = browser.http.base_url
    connection = HTTPConnection(address.host, address.port, timeout=30)
    connection.request("POST", "/gradio_api/upload", body=b"x", headers={"Content-Length": str(2**40)})
    assert connection.getresponse().status == 413
    connection.close()


def test_another_host_name_is_turned_away(browser: Client) -> None:
    """A page elsewhere whose name was pointed at this computer."""
    assert browser.http.get("/config", headers={"host": "evil.example"}).status_code == 421
    assert browser.http.get("/config", headers={"host": "localhost:1"}).status_code == 200


def test_the_page_names_no_other_host(browser: Client) -> None:
    answer = browser.http.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "fonts.googleapis" not in answer.text and "cdn" not in answer.text.lower()
    assert browser.config.get("analytics_enabled") is False


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.invalid"])
def test_other_addresses_need_a_password(host: str, run: Run) -> None:
    assert_refused(run("web", "--host", host, "--no-browser"), f"--host {host}", "--auth")
    assert_refused(run("web", "--host", host, "--auth", "anna", "--no-browser"), "--auth must be a name and a password")


def test_a_password_is_asked_for(tmp_path: Path) -> None:
    import httpx

    with page_server(tmp_path, "--auth", "anna:secret") as server, httpx.Client(base_url=server.address) as http:
        assert http.get("/config").status_code == 401
        assert http.post("/gradio_api/upload", files={"files": b"x"}).status_code == 401
        assert http.post("/login", data={"username": "anna", "password": "wrong"}).status_code == 400
        assert http.post("/login", data={"username": "anna", "password": "secret"}).status_code == 200
        assert http.get("/config").status_code == 200
