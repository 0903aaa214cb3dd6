#!/usr/bin/env python3
"""Stands between the command and an S3 server, and does once what networks and other users do.

usage: s3-proxy.py SERVER FOLDER     prints its own URL

The file FOLDER/mode says what happens to the next request that it is about; then it is removed:
  fail       a part is answered with status 500, as often as it is sent
  stall      a part waits for `go`
  lost       the last request of an upload reaches the server, its answer does not come back
  taken      another object gets the name just before the last request of an upload
  replaced   another object gets the name when a part of the object is copied
Requests for URL/-/WORD are for the proxy itself. A wait of more than a minute fails:
  stall      sets the mode
  stalled    waits until a part waits
  go         lets the part go on
"""
import http.client
import http.server
import pathlib
import sys
import threading

import boto3

server, folder = sys.argv[1], pathlib.Path(sys.argv[2])
place = server.removeprefix("http://")
PATIENCE = 60
stalled, may_go = threading.Event(), threading.Event()
client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        mode = folder / "mode"
        if self.path.startswith("/-/"):
            self.control(self.path.removeprefix("/-/"), mode)
            return
        what = mode.read_text() if mode.exists() else ""
        is_part = "partNumber=" in self.path
        is_copy = "x-amz-copy-source" in self.headers
        is_last = self.command == "POST" and "uploadId=" in self.path
        is_last = is_last or (self.command == "PUT" and not is_part)
        if what == "fail" and is_part:
            self.answer(500, [], b"")
            return
        if what == "stall" and is_part:
            mode.unlink(missing_ok=True)
            stalled.set()
            may_go.wait(PATIENCE)
        if (what == "taken" and is_last) or (what == "replaced" and is_copy):
            mode.unlink()
            key = self.path.split("?")[0].removeprefix("/bucket/")
            client.put_object(Bucket="bucket", Key=key, Body=b"of somebody else")
        connection = http.client.HTTPConnection(place)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        found = connection.getresponse()
        headers, data = found.getheaders(), found.read()
        if what == "lost" and is_last:
            mode.unlink()
            self.close_connection = True
            return
        self.answer(found.status, headers, data)

    def control(self, word, mode):
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

    def answer(self, status, headers, data):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
            elif name.lower() == "content-length" and self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward


proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(f"http://127.0.0.1:{proxy.server_port}", flush=True)
proxy.serve_forever()
