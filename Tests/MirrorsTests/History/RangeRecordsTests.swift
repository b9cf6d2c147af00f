import LogStore
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Checks that an entry that replaces a path with few records is treated as changes to these records, and that only
/// versions that thinning would keep are stored. Uses fixed paths and answers, and random versions compared with a
/// model of thinning.
@Suite struct RangeRecordsTests {
    private func key(_ text: String) -> [Key] { RecordKey.keys(text) }

    private func replaced(_ keys: [Key], _ value: Node = .null) -> RecordChange { .range(keys, value: value, part: 1) }

    /// Records a/x and a/y exist below a. Records below b are unknown.
    private func someRecords(upTo limit: Int = 2) throws -> RangeRecords {
        var ranges = RangeRecords(upTo: limit)
        ranges.take([(0, "a/x"), (0, "a/y")], of: [key("a")])
        return ranges
    }

    @Test func whatIsKnownAndWhatIsNot() throws {
        let ranges = try someRecords()
        #expect(ranges.reach(of: [replaced(key("a"))]) == .known)
        #expect(ranges.reach(of: [replaced(key("a")), replaced(key("b"))]) == .unknown)
        #expect(
            ranges.unknownPrefixes(of: [[replaced(key("a"))], [replaced(key("b"))], [replaced(key("b"))]]) == [key("b")]
        )
        // Single records need no query.
        #expect(ranges.reach(of: [.record(key("c/x"), path: .root, value: .null)]) == .known)
    }

    @Test func whatIsTooMuch() throws {
        let few = try someRecords(upTo: 1)
        #expect(few.reach(of: [replaced(key("a"))]) == .large)
        #expect(few.unknownPrefixes(of: [[replaced(key("a"))]]).isEmpty)
        #expect(try someRecords().reach(of: [replaced(key("a"), large())]) == .large)
        #expect(RangeRecords().reach(of: (0...50).map { replaced(key("p\($0)")) }) == .large)
    }

    /// Checks that the number of queried paths is bounded, and that the paths of an entry are queried together.
    @Test func prefixesOfOneQuestion() {
        let entries = (0..<30).map { entry in (0..<2).map { replaced(key("p\(entry)-\($0)")) } }
        let prefixes = RangeRecords().unknownPrefixes(of: entries)
        #expect(prefixes.count == 50 && Set(prefixes).count == 50)
        #expect(prefixes.suffix(2).allSatisfy { $0[0].text.hasPrefix("p24-") })
    }

    /// Checks that removed records do not count, but that the number examined is bounded.
    @Test func manyThatAreGone() {
        for (gone, expected) in [(200, RangeRecords.Reach.known), (400, .large)] {
            var ranges = RangeRecords(upTo: 2)
            ranges.take([(0, "a/x"), (0, "a/y")] + (0..<gone).map { _ in (0, nil) }, of: [key("a")])
            #expect(ranges.reach(of: [replaced(key("a"))]) == expected)
        }
    }

    /// Checks that after an entry that is too large only the paths that it affects are queried again.
    @Test func aLargeEntryIsForgottenAround() throws {
        var ranges = RangeRecords(upTo: 2)
        ranges.take([(1, "a/b/x"), (2, "c/y")], of: [[], key("a/b"), key("c")])
        #expect(
            ranges.unknownPrefixes(of: [[replaced(key("d"))], [replaced(key("a"), try large())], [replaced(key("e"))]])
                == [key("d")])
        ranges.forget(around: [replaced(key("a"), try large()), .record(key("c/z"), path: .root, value: .bool(true))])
        #expect(ranges.reach(of: [replaced([])]) == .unknown)
        #expect(ranges.reach(of: [replaced(key("a/b"))]) == .unknown)
        #expect(ranges.remove(below: key("c")) == [key("c/y"), key("c/z")])
    }

    private func large() throws -> Node { try node("{\((0...1_000).map { #""k\#($0)": 1"# }.joined(separator: ","))}") }

    @Test func recordsComeAndGo() throws {
        var ranges = try someRecords()
        ranges.add(key("a/z"))
        ranges.add(key("other/z"))
        #expect(ranges.remove(below: key("a")) == [key("a/x"), key("a/y"), key("a/z")])
        #expect(ranges.remove(below: key("a")).isEmpty)
    }

    /// Checks that nested paths share their knowledge of records.
    @Test func prefixesInPrefixes() {
        var ranges = RangeRecords()
        ranges.take([(0, "a/b/x"), (0, "c/d/y"), (1, "a/b/x")], of: [[], key("a/b")])
        ranges.add(key("a/b/z"))
        #expect(ranges.remove(below: key("a/b")) == [key("a/b/x"), key("a/b/z")])
        ranges.add(key("a/b/w"))
        #expect(ranges.remove(below: []) == [key("a/b/w"), key("c/d/y")])
        #expect(ranges.remove(below: key("a/b")).isEmpty)
    }

    @Test func whatIsForgottenIsAskedAgain() throws {
        var ranges = try someRecords()
        ranges.forget()
        #expect(ranges.reach(of: [replaced(key("a"))]) == .unknown)
    }

    /// Checks that thinning all versions gives the same result as thinning the stored ones.
    @Test(arguments: 0..<200 as Range<UInt64>) func storedVersionsAreThoseThatStay(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        // Earlier versions, as thinning left them.
        let old = (0..<random.below(3)).map { Int64($0) }
        let new = (0..<1 + random.below(8)).map { (seq: Int64(10 + $0), makesRow: random.oneIn(3)) }
        var needed = NeededVersions()
        for version in new {
            needed.take(
                MirrorVersionRecord(key: "k", seq: version.seq, at: nil, author: nil, isBegin: false, record: nil),
                makesRow: version.makesRow)
        }
        let rowSeq = new.last(where: \.makesRow)?.seq
        let all = thinned(old + new.map(\.seq), rowSeq, new.last?.seq)
        #expect(thinned(old + needed.versions.map(\.seq), rowSeq, new.last?.seq) == all)
        #expect(needed.versions.count <= 3)
    }

    /// A model of `Thinning`: removes versions older than the last row and, if the newest gives no row, those between
    /// the two oldest and the newest.
    private func thinned(_ seqs: [Int64], _ rowSeq: Int64?, _ lastSeq: Int64?) -> [Int64] {
        let left = seqs.filter { $0 >= rowSeq ?? 0 }
        guard rowSeq != lastSeq else { return left }
        return left.enumerated().filter { $0.offset < 2 || $0.element == lastSeq }.map(\.element)
    }
}
