import LogStore
import Testing
import Tree

@testable import Feeds

/// Checks that the stored form of failures is small, whatever characters the reason contains.
@Suite struct FeedFailureTests {
    private static func failure(_ reason: String, attempt: Int = 1) -> FeedFailure {
        FeedFailure(time: "2026-01-31T12:00:00.000Z", attempt: attempt, reason: reason)
    }

    @Test(arguments: ["x", "\u{1}", "\"", "\\", "\u{7F}", "é", "€", "😀", "\r\n", "e\u{301}"])
    func reasonsAreBoundedAsTheyAreWritten(_ text: String) {
        for count in [1, 80, 83, 84, 125, 166, 167, 249, 250, 251, 497, 498, 499, 500, 501, 2_000] {
            let reason = String(repeating: text, count: count)
            let kept = Self.failure(reason).reason
            var writer = JSONWriter(form: .plain)
            writer.writeString(kept)
            #expect(writer.bytes.count - 2 <= FeedFailure.maxReasonBytes)
            var whole = JSONWriter(form: .plain)
            whole.writeString(reason)
            if whole.bytes.count - 2 <= 80 { #expect(kept == reason) }
            if kept != reason {
                #expect(kept.hasSuffix("…"))
                #expect(reason.unicodeScalars.starts(with: kept.unicodeScalars.dropLast()))
                #expect(whole.bytes.count - 2 > FeedFailure.maxReasonBytes / 3)
            }
        }
    }

    @Test func theFirstAndTheLastAreKept() {
        var failures: [FeedFailure] = []
        for attempt in 1...1_000 {
            failures = FeedFailure.kept(failures + [Self.failure("no", attempt: attempt)])
            #expect(failures.count == min(attempt, 5))
        }
        #expect(failures.map(\.attempt) == [1, 997, 998, 999, 1_000])
        // Rows of older versions contain more and longer failures.
        let old = (1...20).map {
            "{\"time\":\"t\",\"attempt\":\($0),\"reason\":\"\(String(repeating: "x", count: 2_000))\"}"
        }
        let read = FeedFailure.read(Array("[\(old.joined(separator: ","))]".utf8))
        #expect(read.map(\.attempt) == [1, 17, 18, 19, 20])
        #expect(FeedFailure.json(read).count < 3_000)
    }

    /// Checks that a message that is too large to be stored loses its record first, then its old value, then its value,
    /// and is marked accordingly.
    @Test func largeMessagesAreCut() throws {
        let most = StoredMessage.maxBytes
        func message(value: Int, old: Int, record: Int) -> [UInt8] {
            let text = { (count: Int) in "\"" + String(repeating: "x", count: count) + "\"" }
            return Array(
                """
                {"id":"default:1:0","seq":1,"path":"/a/k","key":"k","captures":{"k":"k"},"op":"set","event":"updated",\
                "value":\(text(value)),"old":\(text(old)),"record":\(text(record)),"time":"t"}
                """.utf8)
        }
        let small = message(value: 1, old: 1, record: most - 1_000)
        #expect(StoredMessage.bounded(small) == small)
        let names = { (json: [UInt8]) in RawJSON(json).members?.map(\.key) ?? [] }
        let all = names(small)
        for (json, left) in [
            (message(value: 1, old: 1, record: 4 * most), ["record"]),
            (message(value: 1, old: most, record: 1), ["record", "old"]),
            (message(value: most, old: 1, record: most), ["record", "old", "value"]),
        ] {
            let cut = StoredMessage.bounded(json)
            #expect(cut.count <= most)
            #expect(RawJSON(cut).isJSON)
            #expect(names(cut) == all.filter { !left.contains($0) } + ["truncated"])
            #expect(StoredMessage.bounded(cut) == cut)
        }
    }

    /// Checks that a page of dead messages is limited by its encoded size.
    @Test func pagesOfDeadLetters() {
        let failedMessages = (0..<10).map { index in
            FeedDeadLetter(
                FailedMessageRecord(
                    position: FeedPosition(seq: Int64(index), index: 0), key: "k", state: "dead", attempts: 1,
                    errors: FeedFailure.json([Self.failure(String(repeating: "\u{1}", count: 2_000))]),
                    message: Array("{\"id\":\"default:\(index):0\"}".utf8)), since: "2026-01-31T12:00:00.000Z")
        }
        let size = failedMessages[0].json.count + 1
        #expect(FeedDeadLetter.page(failedMessages, mostBytes: 10 * size).count == 10)
        #expect(FeedDeadLetter.page(failedMessages, mostBytes: 10 * size - 1).count == 9)
        #expect(FeedDeadLetter.page(failedMessages, mostBytes: 1).count == 1)
        #expect(FeedDeadLetter.page([], mostBytes: 1).isEmpty)
        #expect(RawJSON(failedMessages[3].json).isJSON)
        #expect(failedMessages[3].lastReason.hasSuffix("…"))
    }
}
