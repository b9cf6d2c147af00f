import HTTPServer
import Runtime

extension Metric {
    static let clients: [Metric] = [
        .counters(
            "rest_requests_total", by: "operation", "REST requests for data: `read` and `write`.",
            action: "Load. Plan capacity by it."
        ) { [("read", $0.gateway.reads.current), ("write", $0.gateway.writes.current)] },
        .gauge(
            "streams", "Open event streams.",
            action: "Load. Drops to 0 at once: a proxy or the network cut the streams."
        ) { $0.gateway.streams.current },
        .counter(
            "streams_opened_total", "Event streams that were opened.",
            action: "Grows faster than the number of clients: a proxy ends idle streams. Raise its timeout."
        ) { $0.gateway.streamsOpened.current },
        .counters(
            "stream_resumes_total", by: "outcome",
            """
            Event streams and listens that named the entry they had seen: `continued` after it; `compared` by hashes, \
            which is less work for a small value; or `fresh` with the whole value.
            """,
            action: """
                Mostly `fresh`: the log is kept for too short a time for clients that return. Raise the namespace's \
                retention.
                """
        ) {
            [
                ("continued", $0.gateway.streamsResumed.current + $0.gateway.listensResumed.current),
                ("compared", $0.gateway.resumesCompared.current), ("fresh", $0.gateway.resumesFresh.current),
            ]
        },
        .counters(
            "events_total", by: "transport",
            "Events that were sent to event streams (`sse`) and to listens of sessions (`ws`).",
            action: "Load. Plan capacity by it."
        ) { [("sse", $0.gateway.streamEvents.current), ("ws", $0.gateway.listenEvents.current)] },
        .counter(
            "conflations_total", "Times that the events of a slow reader were replaced by the whole value.",
            action: """
                Alert `PathmirrorListenersConflated`: clients are too slow for their data. Let them listen to less; \
                where values are large, raise `--stream-buffer`.
                """
        ) { $0.gateway.conflations.current },
        .gauge(
            "sessions", "Open realtime sessions.",
            action: "Load. At twice `--max-connections` new sessions are refused."
        ) { $0.gateway.sessions.current },
        .counter(
            "sessions_opened_total", "Realtime sessions that were opened.",
            action: """
                Grows faster than the number of clients: clients reconnect. Look at `pathmirror_rate_limited_total` and at \
                the proxy.
                """
        ) { $0.gateway.sessionsOpened.current },
        .gauge(
            "listens", "Listens of realtime sessions.", action: "Load. Plan capacity by it."
        ) { $0.gateway.listens.current },
        .gauge(
            "transactions_waiting", "Transactions of realtime sessions that wait for their slot.",
            action: """
                Stays above 0: many clients compete for one path. Use `increment`, or spread the writes over more \
                paths.
                """
        ) { $0.gateway.waitingTransactions.current },
        .gauge(
            "log_readers", "Readers of `/.log`.", action: "At 128 new readers are refused."
        ) { $0.gateway.logReadings.current },
        .counters(
            "rate_limited_total", by: "limit", "Requests and messages over a rate.",
            action: "One client does too much, or the rate is too low: [rates](limits.md#rates)."
        ) { sources in sources.rateLimited.map { ($0.limit, $0.count) } },
        .counters(
            "http_errors_total", by: "class", "Requests that were answered with 4xx or 5xx.",
            action: "`5xx` grows: the log has the reason. `4xx` grows: credentials, rules or a client changed."
        ) { [("4xx", $0.gateway.clientErrors.current), ("5xx", $0.gateway.serverErrors.current)] },
    ]

    static let connections: [Metric] = [
        .gauge(
            "connections", "Open connections of clients.",
            action: "Near `--max-connections` or the limit of open files: raise both."
        ) { $0.server.activeConnections },
        .counter(
            "connections_opened_total", "Connections of clients that were accepted.",
            action: "As many as requests: the proxy or the clients keep no connection open."
        ) { $0.server.accepted },
        .counter(
            "http_requests_total", "HTTP requests that were received.",
            action: "Load, and the base of `pathmirror_http_errors_total`."
        ) { $0.server.requests },
        .counters(
            "http_refused_total", by: "reason",
            "Requests that were refused before a handler saw them, and connections that were closed.",
            action: """
                `malformed` (or too large), `slow` (late, or does not read), `bound` (connections or memory) or `address` \
                (connections of one address): an attack, a scanner, or a proxy that `--trusted-proxies` does not name.
                """
        ) {
            [
                ("malformed", $0.server.parseErrors), ("slow", $0.server.timeouts), ("bound", $0.server.rejected),
                ("address", $0.server.overAddressLimit),
            ]
        },
        .counter(
            "received_bytes_total", "Bytes that were received from clients.", action: "Traffic, and its cost."
        ) { $0.server.bytesIn },
        .counter(
            "sent_bytes_total", "Bytes that were sent to clients.", action: "Traffic, and its cost."
        ) { $0.server.bytesOut },
        .counters(
            "tls_handshakes_total", by: "outcome", "TLS handshakes.",
            action: """
                `failed` grows: check the certificate and the clients' authorities. Many `full`, few `resumed`: \
                handshakes take processor time; let clients keep connections open.
                """
        ) {
            $0.withTLS {
                [
                    ("full", max(0, $0.handshakes - $0.resumedHandshakes)), ("resumed", $0.resumedHandshakes),
                    ("failed", $0.failedHandshakes),
                ]
            }
        },
        .gauge(
            "tls_certificate_expiry_timestamp_seconds", "When the certificate expires, in seconds since 1970.",
            action: "Alert `PathmirrorCertificateExpires` two weeks before: renew it, and send SIGHUP."
        ) { $0.certificateExpiresAt.map { Int($0) } },
    ]

    static let bounds: [Metric] = [
        .seconds(
            "longest_stall_seconds", by: "thread",
            """
            The longest time, in the last minute or two, that one step kept an event loop or a committer from \
            its other work.
            """,
            action: "Over 0.1: the machine lacks processor time or memory (swap). The log names the step."
        ) { sources in sources.stalls.map { ($0.thread, $0.seconds) } },
        .gauge(
            "request_memory_bytes", "Memory of request bodies, messages and their parsed values.",
            action: "Near `--request-memory`: raise it, or lower `--max-body`."
        ) { $0.requestMemory.taken },
        .counter(
            "request_memory_refused_total",
            "Requests and messages that were refused because this memory was exhausted.",
            action: "Grows: see `pathmirror_request_memory_bytes`."
        ) { $0.requestMemory.refused },
        .gauge(
            "output_queued_bytes", "Bytes of responses and streams that clients have not read yet.",
            action: "Near `--request-memory`: some clients do not read. Find their addresses."
        ) { $0.output.queued },
        .counter(
            "output_refused_total",
            "Responses that were refused, and connections that were closed, because too many unread bytes were queued.",
            action: "Grows: see `pathmirror_output_queued_bytes`."
        ) { $0.output.refused },
    ]
}
