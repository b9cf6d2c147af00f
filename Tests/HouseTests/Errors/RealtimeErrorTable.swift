/// The causes and fixes of the errors that realtime clients receive.
enum RealtimeErrorTable {
    static let sections = [
        ErrorSection(
            title: "Realtime connections",
            introduction: """
                Answers of a [realtime connection](websocket.md): the status is the member `s`, the text is `d`. \
                The gateway also sends a status when it ends a login.
                """,
            rows: [
                ErrorRow(
                    "permission_denied", "Permission denied", cause: "The rules deny the request.",
                    fix: "`pathmirror rules explain` names the rule."),
                ErrorRow(
                    "transaction_stale", "Transaction hash does not match",
                    cause: "The data has changed since the client read it.",
                    fix: "None: SDKs run the transaction again."),
                ErrorRow(
                    "token_invalid", "Could not parse auth token.", "This token is valid only for a feed",
                    "auth_variable_override must be a JSON object or null",
                    "auth_variable_override is for administrators only",
                    cause: "The login is rejected; the gateway's log has the reason at level `debug`.",
                    fix: "Compare the token (`pathmirror token inspect`) with the gateway's options."),
                ErrorRow(
                    "token_expired", "Auth token is expired.", cause: "The login's token has expired.",
                    fix: "None: SDKs fetch another token and log in again."),
                ErrorRow(
                    "token_uncheckable", "The auth token can't be checked at the moment. Try again later.",
                    cause: "The gateway can't fetch the issuer's keys.", fix: "Check the network path to `--jwks-url`."),
                ErrorRow(
                    "listen_not_resumed", "", cause: "The gateway can't resume the listen.",
                    fix: "None: the client library listens again with its hashes."),
                ErrorRow(
                    "namespace_follows",
                    "The namespace follows an upstream database and is read-only. Write to the upstream.",
                    cause:
                        "The namespace [follows](follow.md#read-only-namespaces) another database. Nothing was written.",
                    fix: "Write to the upstream, or end following: `pathmirror follow rm`."),
                ErrorRow(
                    "service_unavailable", "The service is unavailable. Try again later.",
                    cause:
                        "PostgreSQL is unavailable, too many writes wait, the namespace moves, or the gateway is stopping. Nothing was written.",
                    fix: "Retry; see [the runbook](../runbook.md#pathmirrordatabasedown)."),
                ErrorRow(
                    "outcome_unknown",
                    "The connection to the database was lost during the commit: the write may have been committed or not. Read the data before trying again.",
                    cause: "PostgreSQL did not confirm the commit within `--commit-deadline`.",
                    fix: "Read the data, then decide whether to repeat the write."),
                ErrorRow(
                    "connection_busy", "Too many writes are waiting.", "Too many waits are in progress.",
                    cause: "The connection has too many unanswered requests.",
                    fix: "Wait for answers before further requests."),
                ErrorRow(
                    "rate_exceeded", "Too many requests",
                    cause: "The caller exceeds a [rate](limits.md#rates).",
                    fix: "Send fewer messages; after more than 100 refused messages in a row the connection ends."),
                ErrorRow(
                    "seq_not_applied", "This gateway has not applied the entry yet.",
                    cause: "The entry did not arrive in time.",
                    fix: "Retry; see [the runbook](../runbook.md#pathmirrortaillagging)."),
                ErrorRow(
                    "write_too_large",
                    "Data to write exceeds the maximum size that can be modified with a single request.",
                    cause: "The write has too many bytes or values.", fix: "Split the write."),
                ErrorRow(
                    "read_too_large",
                    "Data requested exceeds the maximum size that can be accessed with a single request.",
                    cause: "The value does not fit into one message.", fix: "Listen to a child, or with a limit."),
                ErrorRow(
                    "listens_exhausted", "Too many listens on one connection",
                    cause: "The connection has reached its [limit](limits.md#realtime-clients) of listens.",
                    fix: "Remove listeners that are not needed."),
                ErrorRow(
                    "disconnect_too_large", "Too many onDisconnect operations",
                    "The onDisconnect operations are too large",
                    cause: "The connection has reached its limit of onDisconnect requests.",
                    fix: "Cancel requests that are not needed."),
                ErrorRow(
                    "index_undefined",
                    "Index not defined, add \".indexOn\": \"…\", for path \"…\", to the rules",
                    cause: "The rules declare no such index.", fix: "Add the index to the rules."),
                ErrorRow(
                    "priority_invalid", "There is no value at … that could have a priority.",
                    cause: "The path of the priority has no value.", fix: "Write the value first."),
                ErrorRow(
                    "write_superseded",
                    "The write was refused before, and later writes of the client have been committed.",
                    "The write was not committed.",
                    cause:
                        "A repeated [named write](websocket.md#writes-that-come-again) came after later writes of its writer.",
                    fix: "Read the data, then write again under a new name."),
                ErrorRow(
                    "data_damaged", "Internal server error",
                    cause: "The database has data that Pathmirror never writes; the log has the details.",
                    fix: "`pathmirror log verify`, then restore the namespace from a backup."),
                ErrorRow(
                    "realtime_request_invalid", "Unknown action", "The text is too long", "cred must be a string",
                    "Invalid query: …", "Invalid path: …", "Invalid data: …", "Invalid tag: …", "Invalid hash: …",
                    "Invalid compound hash", "Invalid seq: …", "Invalid name: …",
                    cause: "The request does not follow the protocol. SDKs send none of these.",
                    fix: "Correct the client."),
                ErrorRow(
                    "realtime_message_invalid", "not a protocol message", "a control message without a type",
                    "a data message without a number or an action", "a message of an unknown layer",
                    cause: "The message can't be answered: the gateway closes the connection.",
                    fix: "Correct the client."),
            ])
    ]
}
