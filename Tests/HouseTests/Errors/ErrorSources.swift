import Testing

/// The errors that the sources send, in any form.
enum ErrorSources {
    private static let evaluation = "Sources/Engine/Writes/Evaluation.swift"
    private static let feedErrors = "Sources/Feeds/Administration/FeedAdministration.swift"
    private static let replayErrors = "Sources/LogStore/Replay/ReplayError.swift"
    private static let identity = "Sources/Gateway/Access/Identity.swift"

    /// Returns the texts of some cases of an enum's property.
    private static func texts(_ names: [String], of property: String, of type: String, in file: String) -> [String] {
        SourceTexts.cases(of: property, of: type, in: file).filter { names.contains($0.name) }.map(\.text)
    }

    /// The reasons for which the engine refuses a write.
    private static var refusedWrites: [String] {
        SourceTexts.calls(of: #/return \.refused\(|append\(\.refused\(|return (?=")/#, below: [evaluation]).compactMap {
            guard let argument = $0.arguments.first else { return nil }
            if let text = argument.texts.first { return text }
            return argument.code.hasPrefix("Self.") ? SourceTexts.constant(argument.code, below: evaluation) : nil
        }
    }

    /// The texts of calls whose text is no literal.
    static var variables: [SentErrors.Variable: [String]] {
        let answers = "Sources/Gateway/Feeds/FeedAnswers.swift"
        let engine = texts(
            ["outcomeUnknown", "moving", "overloaded", "stopping"], of: "description", of: "EngineError",
            in: "Sources/Engine/Common/EngineError.swift")
        let readOnly = texts(
            ["readOnly"], of: "description", of: "EngineError", in: "Sources/Engine/Common/EngineError.swift")
        func feed(_ names: String...) -> [String] { texts(names, of: "description", of: "FeedError", in: feedErrors) }
        // The mistakes of rules and definitions name a line and a column.
        let mistakes = "…:…: …"
        return [
            .init(status: "400", file: answers, code: "error.description"): feed("pruned") + [mistakes],
            .init(status: "409", file: answers, code: "error.description"): feed("tooManyFeeds", "differentPaths"),
            .init(status: "503", file: answers, code: "error.description"): ["Too many requests are waiting"],
            .init(status: "400", file: answers, code: ""): texts(
                ["beforeTheLog", "pruned"], of: "description", of: "ReplayError", in: replayErrors),
            .init(status: "400", file: "Sources/Gateway/REST/RESTWrites.swift", code: "reason"): refusedWrites,
            .init(status: "403", file: "Sources/Gateway/Routing/PageGate.swift", code: "text"): [
                // `PageRefusal.text`.
                "Pages of \"…\" may not use this gateway…", "A page without an origin may not use this gateway: …",
                "… is not a name of this machine, and pathmirror dev accepts no other names: …",
            ],
            .init(status: "400", file: "Sources/Gateway/Settings/RulesHandler.swift", code: ""): [mistakes],
            .init(status: "405", file: "Sources/Gateway/Shared/Responder.swift", code: "error.description"): readOnly,
            .init(status: "503", file: "Sources/Gateway/Shared/Responder.swift", code: "publicText(error"):
                engine + ["The database is unavailable. Try again later."],
            .init(
                status: "read_only", file: "Sources/Gateway/Realtime/RealtimeSession+Writes.swift",
                code: "error.description"): readOnly,
            .init(
                status: "read_only", file: "Sources/Gateway/Realtime/RealtimeSession+Disconnect.swift",
                code: "EngineError.readOnly.description"): readOnly,
            .init(
                status: "failure", file: "Sources/Gateway/Realtime/RealtimeSession+Listens.swift",
                code: "RESTError.missingIndex(query.index,at:path.message"): [
                    "Index not defined, add \".indexOn\": \"…\", for path \"…\", to the rules"
                ],
            .init(status: "failure", file: "Sources/Gateway/Realtime/RealtimeSession+Writes.swift", code: "reason"):
                refusedWrites,
            .init(
                status: "failure", file: "Sources/Gateway/Realtime/RealtimeSession+Requests.swift", code: "reason"):
                [],
            .init(
                status: "unavailable", file: "Sources/Gateway/Realtime/RealtimeSession+Writes.swift",
                code: "error.description"): texts(
                    ["outcomeUnknown"], of: "description", of: "EngineError",
                    in: "Sources/Engine/Common/EngineError.swift"),
            .init(
                status: "unavailable", file: "Sources/Gateway/Realtime/RealtimeSession.swift",
                code: "RESTError.tooManyRequests.message"): ["Too many requests"],
        ]
    }

    private static var sent: SentErrors {
        SentErrors(variables: variables) { call in
            Issue.record(
                "\(call.file): \(call.status), \(call.code): the text is a variable: name its values in this table")
        }
    }

    static func http() -> [SentError] {
        sent.http(below: ["Sources/Wire/", "Sources/Gateway/", "Sources/HTTPServer/"])
            + statuses(of: "ParseFailure", in: "Sources/HTTPServer/Parsing/RequestParser.swift")
            + statuses(of: "Refusal", in: "Sources/HTTPServer/Server/SharedBudget.swift")
    }

    /// Returns the errors of an enum of the HTTP server, by its properties `status` and `text`.
    private static func statuses(of type: String, in file: String) -> [SentError] {
        let statuses = SourceTexts.cases(of: "status", of: type, in: file)
        return SourceTexts.cases(of: "text", of: type, in: file).map { text in
            let code = statuses.first { $0.name == text.name }?.code.filter(\.isNumber) ?? ""
            return SentError(status: code, text: text.text)
        }
    }

    /// The status of messages that end the connection.
    static let closed = "connection closed"

    static func realtime() -> [SentError] {
        sent.realtime(below: ["Sources/Gateway/Realtime/"]) + rejectedLogins() + rejectedMessages()
    }

    /// The answers to a login that is rejected: a text of its own, or the text for REST.
    private static func rejectedLogins() -> [SentError] {
        let own = SourceTexts.cases(of: "socketText", of: "AuthFailure", in: identity)
        let others = SourceTexts.cases(of: "restError", of: "AuthFailure", in: identity)
        return SourceTexts.cases(of: "socketStatus", of: "AuthFailure", in: identity).map { status in
            let text = (own + others).first { $0.name == status.name }?.text ?? ""
            return SentError(status: status.text, text: text == "…" ? "Could not parse auth token." : text)
        }
    }

    /// The answers to requests that do not follow the protocol. Other messages end the connection.
    private static func rejectedMessages() -> [SentError] {
        let folder = "Sources/Wire/Realtime/"
        let files = ["ClientMessageParser", "MessageValue", "QueryObject", "MessageFields"].map { folder + $0 }
        let pattern = #/MessageError\(|return \.refused\(|let reason = (?=")/#
        return SourceTexts.calls(of: pattern, below: files).flatMap { _, arguments -> [SentError] in
            guard let argument = arguments.first else { return [] }
            let texts = argument.code.contains("?") ? argument.texts : Array(argument.texts.prefix(1))
            return texts.map(SourceTexts.plain).filter { $0 != "… without its text …" }.map { text in
                SentError(status: text.contains(#/^(not|a) /#) ? closed : "failure", text: text)
            }
        }
    }
}
