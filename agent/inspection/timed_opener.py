"""Requests of `urllib.request` with one deadline each; follows redirections as `urlopen` does."""

import urllib.request
from http.client import HTTPResponse

from agent.http_deadline import TimedHttpConnection, TimedHttpsConnection


class _TimedHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpConnection, req)


class _TimedTlsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpsConnection, req)


TIMED_OPENER = urllib.request.build_opener(_TimedHandler, _TimedTlsHandler)
