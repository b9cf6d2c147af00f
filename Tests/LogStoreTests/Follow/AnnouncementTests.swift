import LogStore
import Testing

/// Tests of how notifications are parsed.
@Suite struct AnnouncementTests {
    static let payloads: [(channel: String, payload: String, announcement: Announcement?)] = [
        ("pathmirror", "3 17", .commit(namespace: 3, head: 17)),
        ("pathmirror", "9223372036854775807 1", .commit(namespace: .max, head: 1)),
        ("pathmirror", "3", nil), ("pathmirror", "", nil), ("pathmirror", "3 17 1", nil), ("pathmirror", "a 17", nil),
        ("pathmirror", "3 b", nil), ("pathmirror", "3 99999999999999999999", nil),
        ("pathmirror_peer", "me 1 2 ab hello all", PeerMessage(payload: "me 1 2 ab hello all").map { .message($0) }),
        ("pathmirror_peer", "me 1 2 ab ", PeerMessage(payload: "me 1 2 ab ").map { .message($0) }),
        ("pathmirror_peer", "me", nil), ("pathmirror_peer", "me 1 2 ab", nil), ("pathmirror_peer", "me a 2 ab x", nil),
        ("pathmirror_peer", "me 1 99999999999999999999 ab x", nil), ("pathmirror_peer", " 1 2 ab x", nil),
        ("pathmirror_mirror", "", .mirrors), ("pathmirror_mirror", "x", .mirrors),
        ("other", "3 17", nil), ("", "", nil),
    ]

    @Test(arguments: payloads)
    func payload(channel: String, payload: String, announcement: Announcement?) {
        #expect(Announcement(channel: channel, payload: payload) == announcement)
    }
}
