/// The sections of docs/runbook.md for the events of level `warning` and `error`.
enum LogEventSections {
    /// Parts of messages with the anchor of their section. The first part that a message contains applies.
    private static let anchors: [(part: String, anchor: String)] = [
        ("LOST ENTRIES that a feed", "pathmirrorentrieslost"), ("LOST ENTRIES that a mirror", "pathmirrorentrieslost"),
        ("DATABASE HAS LOST", "pathmirrorentrieslost"), ("has lost its lease", "pathmirrorgatewaydown"),
        ("without its synchronous standby", "pathmirrorcommitsunanswered"),
        ("commit failed", "pathmirrorwritesrefusedbydatabase"), ("database lost", "pathmirrordatabasedown"),
        ("the database does not answer", "pathmirrordatabasedown"), ("was promoted", "pathmirrordatabasedown"),
        ("another database cluster", "another-server-answers"), ("a database", "another-server-answers"),
        ("blocked a namespace's writers", "pathmirrorgatewaydown"), ("heartbeats", "pathmirrorgatewaydown"),
        ("the log can't be read", "pathmirrortaillagging"), ("can't be announced", "pathmirrortaillagging"),
        ("can't be read from the page file", "a-gateway-ends"), ("the page file", "pathmirrorpagefilefull"),
        ("no page file", "pathmirrortreesovermemory"),
        ("--tree-memory", "pathmirrortreesovermemory"), ("newer version", "a-gateway-does-not-start"),
        ("another gateway follows the upstream", "pathmirrorfollowerdoesnotfollow"),
        ("status of a follower", "pathmirrorfollowerdoesnotfollow"),
        ("can't follow its upstream", "pathmirrorfollowerdoesnotfollow"),
        ("the follower has a problem", "pathmirrorfollowerdoesnotfollow"),
        ("the follower has no credential", "the-follower-is-not-authenticated"),
        ("the upstream's rules", "the-upstreams-rules-are-not-adopted"),
        ("too large for one listen", "the-upstreams-tree-is-too-large"),
        ("dead letters", "pathmirrorfeeddeadletters"), ("feed", "pathmirrorfeednotrunning"),
        ("mirror", "pathmirrormirrornotrunning"), ("shortened", "pathmirrorretentionfailing"),
        ("names of writes", "pathmirrorretentionfailing"), ("blocked a thread", "pathmirrorslowcommits"),
        ("certificate", "pathmirrorcertificateexpires"), ("rules can't be used", "rules-refuse-clients"),
        ("issuer's keys", "rules-refuse-clients"), ("--max-user-body", "requests-are-refused"),
        ("PostgreSQL ended", "pathmirrordatabasedown"),
        ("does not verify the server", "configuration-warnings"), ("secrets", "configuration-warnings"),
        ("environment variables", "configuration-warnings"), ("constants were changed", "configuration-warnings"),
    ]

    /// Returns the anchor of the section about a message; nil if there is none.
    static func anchor(of message: String) -> String? {
        anchors.first { message.contains($0.part) }?.anchor
    }

    /// Returns the anchors of the headings of a page without code in them.
    static func headings(_ page: String) -> Set<String> {
        let lines = page.split(separator: "\n").filter { $0.hasPrefix("#") }
        return Set(
            lines.map { line in
                let words = line.drop { $0 == "#" }.lowercased().filter { $0.isLetter || $0.isNumber || $0 == " " }
                return words.split(separator: " ").joined(separator: "-")
            })
    }
}
