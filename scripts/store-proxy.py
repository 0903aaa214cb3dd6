#!/usr/bin/env python3
"""Stands between the command and a store (S3, Google's or Azure's), and does once what networks and other users do.

usage: store-proxy.py s3|gs|az SERVER FOLDER     prints its own URL

The file FOLDER/mode says what happens to the next request that it is about; then it is removed:
  fail       a piece is answered with status 500, as often as it is sent
  flaky      a piece is answered with status 503, once
  stall      a piece waits for `go`
  lost       the last request of an upload reaches the server, its answer does not come back
  lost-new   the same for what is new of an append, which Google's store has as an object of its own
  cut        the answer to the last request, or Azure's list of blocks, comes back without its end, once
  taken      another object gets the name just before the last request of an upload
  replaced   another object gets the name before what is new of an append is sent, or, in S3, before a part is copied
Requests for URL/-/WORD are for the proxy itself. A wait of more than a minute fails:
  stall      sets the mode
  stalled    waits until a piece waits
  go         lets the piece go on
  token      answers a service account that asks for a token; what it sends goes to FOLDER/assertions

fake-gcs-server takes the question how much of an upload has arrived for its end. The proxy counts the bytes, and
answers it as the store does.
"""
import http.client
import http.server
import json
import pathlib
import re
import sys
import threading
import urllib.parse

store, server, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
place = urllib.parse.urlsplit(server).netloc
PATIENCE = 60
THEIRS = b"of somebody else"
stalled, may_go = threading.Event(), threading.Event()
arrived = {}  # bytes of each upload, by the address of its session


def put_theirs(key):
    """Writes the object of somebody else, with the client library of the store."""
    if store == "s3":
        import boto3

        client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
        client.put_object(Bucket="bucket", Key=key, Body=THEIRS)
    elif store == "gs":
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        where = {"api_endpoint": server}
        client = storage.Client(project="p", credentials=AnonymousCredentials(), client_options=where)
        client.bucket("bucket").blob(key).upload_from_string(THEIRS)
    else:
        from azure.storage.blob import BlobBlock, BlobServiceClient

        text = (folder / "connection").read_text()
        client = BlobServiceClient.from_connection_string(text, api_version="2023-11-03")
        blob = client.get_blob_client("bucket", key)
        # A list of blocks drops all others of the name; Azurite knows that of no other request. All IDs of a name are
        # of one length.
        block = "theirs".ljust(32)
        blob.stage_block(block, THEIRS)
        blob.commit_block_list([BlobBlock(block_id=block)])


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        mode = folder / "mode"
        if self.path.startswith("/-/"):
            self.control(self.path.removeprefix("/-/"), mode, body)
            return
        what = mode.read_text() if mode.exists() else ""
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", self.headers.get("content-range", ""))
        if store == "s3":
            is_piece = "partNumber=" in self.path
            is_last = self.command == "POST" and "uploadId=" in self.path
            is_last = is_last or (self.command == "PUT" and not is_piece)
            is_added = "x-amz-copy-source" in self.headers
        elif store == "gs":
            is_whole = self.command == "POST" and "uploadType=multipart" in self.path
            is_piece = is_whole or (self.command == "PUT" and span is not None)
            is_end = is_whole or (is_piece and int(span[2]) + 1 == int(span[3]))
            is_last = self.path.split("?")[0].endswith("/compose") or (is_end and "shale-append" not in self.path)
            is_added = self.command == "POST" and "uploadType=" in self.path and "shale-append" in self.path
            if self.command == "PUT" and span is None and arrived.get(self.path, 0) >= 0:
                have = arrived.get(self.path, 0)
                self.answer(308, [("range", f"bytes=0-{have - 1}")] if have else [], b"")
                return
        else:
            is_piece = self.command == "PUT" and "comp=block&" in self.path
            is_last = self.command == "PUT" and "comp=blocklist" in self.path
            is_added = is_piece
        is_list = self.command == "GET" and "comp=blocklist" in self.path
        if is_piece and what in ("fail", "flaky"):
            if what == "flaky":
                mode.unlink()
            self.answer(500 if what == "fail" else 503, [], b"")
            return
        if is_piece and what == "stall":
            mode.unlink(missing_ok=True)
            stalled.set()
            may_go.wait(PATIENCE)
        if (what == "taken" and is_last) or (what == "replaced" and is_added):
            mode.unlink()
            put_theirs((folder / "key").read_text())
        connection = http.client.HTTPConnection(place)
        # Azure's signature covers the path with the account; the host is not part of it. Google's server answers
        # with addresses of the host that it was asked as.
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        found = connection.getresponse()
        headers, data = found.getheaders(), found.read()
        if is_piece and span and found.status < 400:
            # An upload that ended is asked about at the server.
            arrived[self.path] = int(span[2]) + 1 if int(span[2]) + 1 < int(span[3]) else -1
        is_new = store == "gs" and is_end and "shale-append" in self.path
        if (what == "lost" and is_last) or (what == "lost-new" and is_new):
            mode.unlink()
            self.close_connection = True
            return
        if what == "cut" and (is_list or (is_last and data)):
            mode.unlink()
            self.close_connection = True
            self.answer(found.status, headers, data, data[: len(data) // 2])
            return
        self.answer(found.status, headers, data)

    def control(self, word, mode, body):
        if word == "token":
            with (folder / "assertions").open("ab") as file:
                file.write(body + b"\n")
            token = json.dumps({"access_token": "a-token", "expires_in": 3600}).encode()
            self.answer(200, [("content-type", "application/json")], token)
            return
        is_done = True
        if word == "stall":
            stalled.clear()
            may_go.clear()
            mode.write_text("stall")
        elif word == "stalled":
            is_done = stalled.wait(PATIENCE)
        else:
            may_go.set()
        self.answer(200 if is_done else 504, [], b"")

    def answer(self, status, headers, data, sent=None):
        self.send_response_only(status)
        is_head = self.command == "HEAD"
        for name, value in headers:
            name = name.lower()
            if name == "content-length" and is_head:
                self.send_header(name, value)
            elif name not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if not is_head:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        if not is_head:
            self.wfile.write(data if sent is None else sent)

    def log_message(self, *_):
        pass

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward


proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(f"http://127.0.0.1:{proxy.server_port}", flush=True)
proxy.serve_forever()
