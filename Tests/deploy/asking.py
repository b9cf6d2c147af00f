"""Requests through the proxy."""

import http.client
import json

SECONDS = 30


def connect(proxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)


def ask(proxy, method, path, body=None, headers=None, **options):
    connection = connect(proxy)
    connection.request(method, path, body, headers or {}, **options)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def seen(proxy, method, path, body=None, headers=None, **options):
    response, content = ask(proxy, method, path, body, headers, **options)
    assert response.status == 200, content
    return json.loads(content)
