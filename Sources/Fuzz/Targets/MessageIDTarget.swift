import Feeds
import LogStore

extension FuzzTarget {
    /// Ids of messages and of stream events, as consumers send them back. The text before the first line break is the
    /// namespace's name.
    static let messageID = FuzzTarget(
        name: "message-id",
        corpus: [
            "default\ndefault:42:0", "default\ndefault:42:s0", "n\nn:0:0",
            "n\nn:9223372036854775807:9223372036854775806",
            "\n:1:1", "a:b\na:b:1:2", "n\nn:01:0", "n\nn:1:s", "n\nn:-1:0", "n\nn:1:9223372036854775807", "é\né:1:0",
            "n\nn:1:0@1f", "n\nn:1:s2@0", "n\nn:1:0@01", "n\nn:1:0@ffffffffffffffff", "n\nn:1:0@", "n\nn:1:0@+1",
        ],
        tokens: [
            ":", "@", "s", "0", "-", "+", "9223372036854775807", "9223372036854775808", "\n", "default", "default:",
            " ",
            "é",
            "e\u{301}", "٣", "\u{0}", "1e3", "0x1",
        ]
    ) { input, summary in
        let text = String(decoding: input, as: UTF8.self)
        let parts = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2 else { return nil }
        if let event = FeedEventID(parts[1], in: parts[0]) {
            let isMessage = event.delivery == nil
            if isMessage != (FeedPosition(id: parts[1], in: parts[0]) != nil) { return "an event's id is a message's" }
            if parts[0].utf8.allSatisfy({ $0 < 0x80 }), event.text(in: parts[0]) != parts[1] {
                return "an event's id with two spellings"
            }
        }
        guard let position = FeedPosition(id: parts[1], in: parts[0]) else {
            summary.note(1)
            return nil
        }
        summary.note(position.isSnapshot ? 2 : 3)
        summary.noteSize(Int(position.seq))
        if position.seq < 0 || position.index < 0 { return "a position before the first position" }
        // Namespace names are ASCII. With other names, two spellings of é could be equal.
        guard parts[0].utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        // Each id has one spelling, because consumers compare ids.
        guard position.id(in: parts[0]).utf8.elementsEqual(parts[1].utf8) else { return "an id with two spellings" }
        if FeedPosition(id: parts[1], in: parts[0] + "x") != nil { return "another namespace's id is read" }
        let next = FeedPosition(seq: position.seq, index: position.index + 1, isSnapshot: position.isSnapshot)
        return position < next ? nil : "the next position is not after the position"
    }.measuring { _ = FeedPosition(id: String(decoding: $0, as: UTF8.self), in: "default") }
}
