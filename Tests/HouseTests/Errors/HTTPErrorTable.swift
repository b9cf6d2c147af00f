/// The causes and fixes of the errors that HTTP clients receive. docs/reference/errors.md is printed from them and from the sources.
enum HTTPErrorTable {
    static let sections = [everyEndpoint, paths, bodies, queries, realtime, feeds, functions, log, tokens, connections]

    private static let everyEndpoint = ErrorSection(
        title: "Access and availability",
        introduction: "All endpoints send these errors.",
        rows: [
            ErrorRow(
                "permission_denied", "Permission denied",
                cause:
                    "The rules deny the request, or the endpoint needs another [credential](security.md#credentials).",
                fix: "`pathmirror rules explain` names the rule; see [the runbook](../runbook.md#rules-refuse-clients)."
            ),
            ErrorRow(
                "token_invalid", "Could not parse auth token.",
                cause: "The gateway can't verify the token or secret; its log has the reason at level `debug`.",
                fix: "`pathmirror token inspect` shows the token; compare its issuer and audience with the options."),
            ErrorRow(
                "token_expired", "Auth token is expired", cause: "The token's `exp` has passed.",
                fix: "Fetch a new token. If the token is new, set the clocks right."),
            ErrorRow(
                "token_uncheckable", "The auth token can't be checked at the moment. Try again later.",
                cause: "The gateway can't fetch the issuer's keys.",
                fix: "Check the network path from the gateway to `--jwks-url`; retry."),
            ErrorRow(
                "token_for_feed", "This token is valid only for a feed",
                cause: "A feed's token in a request that is not for its feed.",
                fix: "Use the token of a user or an administrator."),
            ErrorRow(
                "override_invalid", "auth_variable_override must be a JSON object or null",
                cause: "The override has another type.", fix: "Send an object such as `{\"uid\":\"ada\"}`, or `null`."),
            ErrorRow(
                "override_refused", "auth_variable_override is for administrators only",
                cause: "The caller is not an administrator.",
                fix: "Send the override with an administrator's credential."),
            ErrorRow(
                "namespace_invalid", "ns must be a namespace: letters, digits, - and _, at most 64",
                cause: "`ns` is not a name of a namespace.", fix: "Correct `ns`."),
            ErrorRow(
                "namespace_unknown", "There is no namespace \"…\" here",
                cause: "The namespace does not exist, and the gateway creates none.",
                fix: "Correct the name, or create it: `pathmirror namespace create`."),
            ErrorRow(
                "namespace_follows",
                "The namespace follows an upstream database and is read-only. Write to the upstream.",
                cause: "The namespace [follows](follow.md#read-only-namespaces) another database. Nothing was written.",
                fix: "Write to the upstream, or end following: `pathmirror follow rm`."),
            ErrorRow(
                "namespace_moving", "The namespace is being moved to another database. Try again later.",
                cause: "A move is in progress. Nothing was written.", fix: "Retry after `Retry-After`."),
            ErrorRow(
                "database_unavailable", "The database is unavailable. Try again later.",
                cause:
                    "PostgreSQL can't be reached or rejected the request; the log has the reason. Nothing was written.",
                fix: "Retry after `Retry-After`; see [the runbook](../runbook.md#pathmirrordatabasedown)."),
            ErrorRow(
                "outcome_unknown",
                "The connection to the database was lost during the commit: the write may have been committed or not. Read the data before trying again.",
                cause: "PostgreSQL did not confirm the commit within `--commit-deadline`.",
                fix: "Read the data, then decide whether to repeat the write ([lost commits](outages.md#lost-commits))."
            ),
            ErrorRow(
                "writes_waiting", "Too many writes are waiting. Try again later.",
                cause: "The gateway's queue is full. Nothing was written.",
                fix: "Retry after `Retry-After`; see [slow commits](../runbook.md#pathmirrorslowcommits)."),
            ErrorRow(
                "gateway_stopping", "The gateway is shutting down.", "The gateway is stopping",
                cause: "The gateway ends. Nothing was written.", fix: "Retry; another gateway answers."),
            ErrorRow(
                "data_damaged", "Internal server error",
                cause: "The database has data that Pathmirror never writes; the log has the details.",
                fix: "`pathmirror log verify`, then restore the namespace from a backup."),
            ErrorRow(
                "rate_exceeded", "Too many requests",
                cause: "The caller exceeds a [rate](limits.md#rates), or its address has too many connections.",
                fix: "Retry after `Retry-After`; the operator may raise the rate."),
            ErrorRow(
                "memory_exhausted", "The server is receiving too much at once. Try again later.",
                cause: "The bodies of all requests exceed `--request-memory`.",
                fix: "Retry after `Retry-After`; see [the runbook](../runbook.md#requests-are-refused)."),
            ErrorRow(
                "streams_exhausted", "Too many streams are open",
                cause: "The gateway has reached its [limit of streams](limits.md#streams).",
                fix: "Close streams, or add gateways."),
            ErrorRow(
                "seq_not_applied", "This gateway has not applied seq … yet",
                cause: "The seq of `X-Pathmirror-Min-Seq` did not arrive within 10 s.",
                fix: "Retry; if it lasts, see [the runbook](../runbook.md#pathmirrortaillagging)."),
            ErrorRow(
                "seq_invalid", "X-Pathmirror-Min-Seq must be a seq: a whole number",
                cause: "The header is not a seq.", fix: "Send the `X-Pathmirror-Seq` of an earlier response."),
            ErrorRow(
                "page_refused", "Pages of \"…\" may not use this gateway…",
                "A page without an origin may not use this gateway: …",
                cause: "A web page of an origin that is not permitted sent the request.",
                fix: "`--allow-origin` permits the page ([web pages](security.md#web-pages))."),
            ErrorRow(
                "host_refused", "… is not a name of this machine, and pathmirror dev accepts no other names: …",
                cause: "The request calls `dev` by a foreign name.", fix: "Use `localhost`, or `--allow-origin`."),
            ErrorRow(
                "endpoint_unknown", "There is nothing at this path",
                cause: "The path begins with `.` and is not an endpoint of the gateway.", fix: "Correct the path."),
            ErrorRow(
                "method_invalid", "The method must be …", cause: "The endpoint does not have the method.",
                fix: "Use a method that the text names."),
            ErrorRow(
                "override_method_invalid", "The method override must be GET, PUT, POST, PATCH or DELETE",
                cause: "`X-HTTP-Method-Override` has another value.", fix: "Correct the header."),
        ])

    private static let paths = ErrorSection(
        title: "Paths and parameters",
        introduction: "Paths and parameters of [REST](rest.md) and [event streams](streaming.md).",
        rows: [
            ErrorRow(
                "json_suffix_missing", "append .json to your request URI to use the REST API.",
                cause: "The path lacks `.json`. The body is plain text.", fix: "Append `.json` to the path."),
            ErrorRow(
                "path_invalid", "Invalid path: Invalid token in path",
                cause: "A key has a forbidden character or is too long, or the percent-encoding is invalid.",
                fix: "Correct the path ([paths](rest.md#paths))."),
            ErrorRow(
                "path_too_deep", "Invalid path: more than … levels deep", cause: "The path has too many keys.",
                fix: "Shorten the path."),
            ErrorRow(
                "parameters_encoding", "Invalid query parameters: not percent-encoded UTF-8",
                cause: "The query string is not valid.", fix: "Encode each value as UTF-8, percent-encoded."),
            ErrorRow(
                "parameter_invalid", "print must be pretty or silent", "format must be export",
                "callback must be a JavaScript function name", "… must be true or false",
                "timeout must be a number with ms, s or min, and at most 15min",
                "writeSizeLimit must be tiny, small, medium, large or unlimited",
                cause: "A [parameter](rest.md#parameters) has another value.",
                fix: "Send a value that the text names."),
            ErrorRow(
                "parameter_of_other_method", "if-match is not supported on GET",
                "if-match is only supported on PUT and DELETE",
                "Querying related parameters not supported on this request type",
                "shallow and callback are not supported on streams",
                cause: "A header or parameter belongs to another kind of request.", fix: "Omit it."),
            ErrorRow(
                "precondition_failed", "The value does not have the ETag of if-match",
                cause: "The value has changed. A caller that may read it gets the current value instead of this text.",
                fix: "Read the value and its ETag again, then retry ([ETags](rest.md#etags))."),
        ])

    private static let bodies = ErrorSection(
        title: "Bodies",
        introduction: "Bodies of PUT, POST and PATCH. Nothing was written.",
        rows: [
            ErrorRow(
                "body_missing", "Error: No data supplied.", cause: "The body is empty.",
                fix: "Send JSON; `null` removes the value."),
            ErrorRow(
                "json_invalid", "Invalid data; couldn't parse … …",
                cause: """
                    The body is not JSON or not UTF-8 (`JSON object, array, or value.`), or the body of a PATCH is not an object \
                    (`JSON object. Are you sending a JSON object with valid key names?`).
                    """,
                fix: "Correct the body at the line and column in the text."),
            ErrorRow(
                "key_invalid",
                "Invalid data; couldn't parse key beginning at …:…. Key value can't be empty or contain $ # [ ] / or . (…)",
                cause: "A key has a forbidden character or is too long.", fix: "Rename the key."),
            ErrorRow(
                "value_invalid", "Invalid data; …",
                cause:
                    "The tree is too deep, a number is out of range, a string is too long, or a server value, priority or `.value` is invalid.",
                fix: "Correct the value at the line and column in the text ([values](rest.md#values))."),
            ErrorRow(
                "update_overlaps", "Invalid data; … is in the update twice",
                "Invalid data; … is an ancestor of … in the same update",
                cause: "Two paths of a PATCH overlap.", fix: "Remove one of the paths."),
            ErrorRow(
                "priority_invalid", "A priority must be a number or a string.",
                "There is no value at … that could have a priority.",
                cause: "The priority has another type, or its path has no value.",
                fix: "Write the value first, and a number or a string as its priority."),
            ErrorRow(
                "write_too_large",
                "Data to write exceeds the maximum size that can be modified with a single request.",
                cause: "The write exceeds `writeSizeLimit`, or the body is too large after decompression.",
                fix: "Split the write, or send another `writeSizeLimit`."),
            ErrorRow(
                "encoding_unsupported", "The content encoding must be gzip, deflate or identity",
                cause: "`Content-Encoding` has another value.", fix: "Send one of these encodings."),
            ErrorRow(
                "encoding_damaged", "The body is not valid … data", cause: "The compressed body is damaged.",
                fix: "Compress the body again."),
            ErrorRow(
                "write_superseded", "The write was refused before, and later writes of the client have been committed.",
                "The write was not committed.",
                cause:
                    "A repeated [named write](websocket.md#writes-that-come-again) came after later writes of its writer.",
                fix: "Read the data, then write again under a new name."),
            ErrorRow(
                "rules_invalid", "…:…: …",
                cause: "The rules, or the definition of a feed, have mistakes at these lines and columns.",
                fix: "Correct them; `pathmirror rules check` prints all mistakes of rules."),
            ErrorRow(
                "rules_not_stored", "The rules could not be stored. Try again later.",
                cause: "PostgreSQL is unavailable; the previous rules are in force.", fix: "Retry after `Retry-After`."),
        ])

    private static let queries = ErrorSection(
        title: "Queries",
        introduction: "[Queries](rest.md#queries) of REST and event streams.",
        rows: [
            ErrorRow(
                "order_invalid", "orderBy must be a valid JSON encoded path", "orderBy may be given only once",
                "orderBy must be defined when other query parameters are defined",
                cause: "`orderBy` is missing, repeated or not JSON.",
                fix: "Send `orderBy=\"name\"`, with the quotes percent-encoded."),
            ErrorRow(
                "bound_invalid", "Constraint index field must be a JSON primitive",
                "Provided key index type is invalid, must be string", "Constraint key field must be a valid key name",
                cause: "A bound is not JSON, or not of the type that the index needs.",
                fix: "Send a JSON primitive; for `$key` a string in quotes."),
            ErrorRow(
                "bounds_conflict",
                "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore",
                "Only one of startAt and startAfter may be specified",
                "Only one of endAt and endBefore may be specified",
                cause: "The bounds contradict each other.", fix: "Omit one of them."),
            ErrorRow(
                "limit_invalid", "… must be an integer", "… must be positive",
                "Only one of limitToFirst and limitToLast may be specified",
                cause: "A limit is not a positive whole number, or there are two.", fix: "Send one limit of 1 or more."),
            ErrorRow(
                "index_undefined", "Index not defined, add \".indexOn\": \"…\", for path \"…\", to the rules",
                cause: "The rules declare no such index.", fix: "Add the index to the rules."),
        ])

    private static let realtime = ErrorSection(
        title: "Opening a realtime connection",
        introduction: "Answers at `/.ws` and `/.lp`, before a [realtime connection](websocket.md) is open.",
        rows: [
            ErrorRow(
                "not_websocket", "This path is for WebSocket clients", "The WebSocket version must be 13",
                cause: "The request is no WebSocket handshake, for example because a proxy removed its headers.",
                fix: "Configure the proxy for WebSockets ([proxies](websocket.md#proxies))."),
            ErrorRow(
                "protocol_version", "The protocol version must be 5", cause: "The SDK speaks another version.",
                fix: "Update the SDK."),
            ErrorRow(
                "long_poll_invalid", "cb must be the callback's number", "id and pw are missing",
                cause: "A long-polling request lacks its parameters.", fix: "Use an SDK of Firebase for long polling."),
            ErrorRow(
                "sessions_exhausted", "Too many sessions are open",
                cause: "The gateway has reached its [limit of sessions](limits.md#realtime-clients).",
                fix: "Raise `--max-connections`, or add gateways."),
        ])

    private static let feeds = ErrorSection(
        title: "Feeds",
        introduction: "Answers of [`/.feeds`](feeds.md#requests).",
        rows: [
            ErrorRow(
                "feed_unknown", "There is no feed \"…\" in this namespace",
                cause: "The namespace has no feed of this name.", fix: "`pathmirror feed ls` lists the feeds."),
            ErrorRow(
                "feed_not_running", "No gateway runs this feed at the moment. Try again later.",
                cause: "The gateway that ran the feed has ended, and another takes over.",
                fix: "Retry after `Retry-After`; see [the runbook](../runbook.md#pathmirrorfeednotrunning)."),
            ErrorRow(
                "feed_pushed", "The feed sends its messages to a webhook or sink: consumers can't pull them",
                cause: "The feed's definition has a destination.", fix: "Create a feed without a destination to pull."),
            ErrorRow(
                "feed_pulls_waiting", "Too many requests wait for messages", "Too many requests are waiting",
                cause: "The feed or the gateway has reached its [limit](limits.md#feeds) of waiting requests.",
                fix: "Retry after `Retry-After`, with fewer consumers or a shorter `wait`."),
            ErrorRow(
                "feed_limit", "A namespace has at most … feeds.", cause: "The namespace has too many feeds.",
                fix: "Remove feeds: `pathmirror feed rm`."),
            ErrorRow(
                "feed_paths_differ", "Feed \"…\" has another path than feed \"…\", whose messages it can't deliver.",
                cause: "The definition inherits from a feed with another path.", fix: "Use the path of the other feed."),
            ErrorRow(
                "feed_seq_pruned",
                "Entry … is no longer in the log; the oldest entry is …. {\"seq\":…} begins with the oldest entry, \"snapshot\" with the current tree.",
                "The log was pruned during the read: entry … was removed. Try again.",
                cause: "Retention removed the entry at which the feed was to begin.",
                fix: "Begin with the oldest entry or with `snapshot`."),
            ErrorRow(
                "feed_time_invalid", "\"…\" is not a time such as 2026-01-31T12:00:00Z",
                "Nothing is retained from …: the retained log begins at ….",
                cause: "`time` has another form, or is before the retained log.", fix: "Send a later time in this form."
            ),
            ErrorRow(
                "feed_body_invalid", "The body is not JSON: …", "The body must be a JSON object",
                "\"…\" is unknown here; known are …",
                cause: "The body is not an object with the members of the request.",
                fix: "Correct the body ([requests](feeds.md#requests))."),
            ErrorRow(
                "feed_member_missing", "ids is missing", "delay is missing",
                "Give one of seq, time and to; to is \"beginning\", \"now\" or \"snapshot\"",
                "Give one of ids, key and all; all must be true",
                cause: "The body lacks a member, or has two that exclude each other.",
                fix: "Send the members that the text names."),
            ErrorRow(
                "feed_member_invalid", "… must be a whole number from … to …",
                "… must be a duration such as \"5s\", from … to …", "… must be a string of at most … bytes",
                "… must be a list of at most … strings", "consumer must be a string of at most … bytes",
                "after must be a message's id", "Last-Event-ID must be the id of a message",
                cause: "A member, parameter or header has another type, or is out of range.",
                fix: "Send a value that the text describes."),
            ErrorRow(
                "feed_body_too_large", "A request about feeds has at most … bytes", cause: "The body is too large.",
                fix: "Split the request, for example the ids of an acknowledgement."),
        ])

    private static let functions = ErrorSection(
        title: "Functions",
        introduction: "Answers of `pathmirror dev` to the [Functions emulator](webhooks.md#the-functions-emulator).",
        rows: [
            ErrorRow(
                "function_invalid", "The function can't be registered: …",
                cause: "`dev` does not support the function, or the registration has a mistake.",
                fix: "Correct the member that the text names."),
            ErrorRow(
                "function_without_feed", "The function has no feed: …",
                cause: "`dev` could not create the feed that calls the function.",
                fix: "Remove the cause that the text names, and register the function again."),
        ])

    private static let log = ErrorSection(
        title: "The log",
        introduction:
            "Answers of [`/.log`](log-stream.md). 410 needs a new beginning: `offset=-1`, or a copy of the tree.",
        rows: [
            ErrorRow(
                "log_pruned", "The entries after this offset are no longer in the log, which begins with entry …",
                cause: "Retention removed the entries. `X-Pathmirror-Oldest-Seq` names the oldest.",
                fix: "Begin with a [copy of the tree](log-stream.md#a-copy-of-the-tree), or with `offset=-1`."),
            ErrorRow(
                "log_other_history",
                "The log does not have this offset: it ends with entry …, or entries were lost and others written",
                cause: "The offset is after the head, or a failover or restore replaced entries.",
                fix: "Begin as above; see [lost entries](../runbook.md#pathmirrorentrieslost)."),
            ErrorRow(
                "log_entry_damaged",
                "Entry … is damaged: some of its parts are missing. Begin with a copy of the tree, or continue after the entry, at Stream-Next-Offset",
                cause: "The database has lost parts of an entry.", fix: "Begin as above, or continue at that offset."),
            ErrorRow(
                "log_readers_exhausted", "Too many clients are reading the log",
                cause: "The gateway has reached its [limit of readers](limits.md#readers-of-the-log).",
                fix: "Retry after `Retry-After`, or add gateways."),
            ErrorRow(
                "log_parameter_invalid", "… is not percent-encoded UTF-8", "… may be given only once",
                "path is more than … levels deep", "path has a key that …",
                "live needs an offset: -1 for the beginning",
                "offset must be -1, now, or the Stream-Next-Offset of an answer", "live must be long-poll or sse",
                cause: "A parameter is invalid.", fix: "Correct it ([requests](log-stream.md#requests))."),
        ])

    private static let tokens = ErrorSection(
        title: "Access tokens of service accounts",
        introduction: """
            Answers of [`/.oauth2/token`](security.md#service-accounts). \
            `error` has the code of RFC 6749, and `error_description` has the text.
            """,
        rows: [
            ErrorRow(
                "token_request_invalid",
                "The body must be a form of at most 8192 bytes with one grant_type and one assertion",
                "grant_type must be urn:ietf:params:oauth:grant-type:jwt-bearer",
                cause: "The request is not one for an access token by an assertion.",
                fix: "Use the file with one of Google's libraries, or send the form of RFC 7523."),
            ErrorRow(
                "assertion_not_signed", "The assertion is not signed with a valid key of a service account",
                cause: "The account or its key was removed, or another key has signed the assertion.",
                fix: "`pathmirror service-account ls` shows the ids of the keys; `rotate` makes a new file."),
            ErrorRow(
                "assertion_invalid", "The assertion is signed but not valid: …",
                cause: "Its issuer, audience or times are wrong.",
                fix: "Set the clocks right, and use the file as it was printed. `aud` is its `token_uri`, or Google's."),
            ErrorRow(
                "accounts_unavailable", "The service accounts can't be read at the moment. Try again later.",
                cause:
                    "The gateway does not reach the database, or its user may not read the tables of service accounts.",
                fix: "Retry after `Retry-After`; `pathmirror doctor` names missing rights."),
        ])

    private static let connections = ErrorSection(
        title: "Connections",
        introduction: """
            The HTTP server sends these answers before an endpoint sees the request. \
            It then closes the connection, except after `output_exhausted`.
            """,
        rows: [
            ErrorRow(
                "request_malformed", "Malformed request: ….", cause: "The request is not valid HTTP.",
                fix: "Correct the client or the proxy."),
            ErrorRow(
                "tls_expected", "This port speaks HTTPS. Use https:// in the address.",
                cause: "The client speaks HTTP without TLS.", fix: "Use `https://`."),
            ErrorRow(
                "request_timeout", "The request did not arrive in time.",
                cause: "Headers or body were too [slow](limits.md#requests).", fix: "Retry on a faster network."),
            ErrorRow(
                "body_too_large", "The request's body is too large.",
                cause: "The body exceeds `--max-user-body` (of administrators: `--max-body`).",
                fix: "Split the write, or raise the option ([runbook](../runbook.md#requests-are-refused))."),
            ErrorRow(
                "target_too_long", "The request target is too long.", cause: "Path and parameters exceed 80 KiB.",
                fix: "Shorten them."),
            ErrorRow(
                "headers_too_large", "The request's headers are too large.",
                cause: "The headers exceed 80 KiB or 100 lines.", fix: "Send fewer headers."),
            ErrorRow(
                "http_unsupported", "Only the expectation 100-continue is supported.",
                "Only the transfer encoding chunked is supported.", "Only HTTP/1.1 and HTTP/1.0 are supported.",
                cause: "The client uses a feature of HTTP that the server lacks.", fix: "Configure the client."),
            ErrorRow(
                "connections_exhausted", "The server has no room for another connection. Try again later.",
                cause: "The gateway has reached `--max-connections`.", fix: "Retry; raise the option, or add gateways."),
            ErrorRow(
                "output_exhausted", "Too many responses wait for their readers. Try again later.",
                cause: "Clients have not read responses of `--request-memory` in total.",
                fix: "Retry after `Retry-After`, and read responses faster."),
        ])
}
