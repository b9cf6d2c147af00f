import LogStore
import Testing

/// What notifications say.
@Suite struct AnnouncementTests {
    static let payloads: [(channel: String, payload: String, announcement: Announcement?)] = [
        ("pathmirror", "3 17", .commit(namespace: 3, head: 17)),
        ("pathmirror", "9223372036854775807 1", .commit(namespace: .max, head: 1)),
        ("pathmirror", "3", nil), ("pathmirror", "", nil), ("pathmirror", "3 17 1", nil), ("pathmirror", "a 17", nil),
        ("pathmirror", "3 b", nil), ("pathmirror", "3 99999999999999999999", nil),
        ("pathmirror_peer", "me hello all", PeerMessage(sender: "me", text: "hello all").map { .message($0) }),
        ("pathmirror_peer", "me ", PeerMessage(sender: "me", text: "").map { .message($0) }),
        ("pathmirror_peer", "me", nil), ("pathmirror_mirror", "", .mirrors), ("pathmirror_mirror", "x", .mirrors),
        ("other", "3 17", nil), ("", "", nil),
    ]

    @Test(arguments: payloads)
    func payload(channel: String, payload: String, announcement: Announcement?) {
        #expect(Announcement(channel: channel, payload: payload) == announcement)
    }
}
