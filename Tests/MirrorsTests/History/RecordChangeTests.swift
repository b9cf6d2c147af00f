import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Checks that the effects of entries on records, computed without the tree, equal those computed from whole trees.
/// Tests single changes with exact results, then random trees, patterns and entries.
@Suite struct RecordChangeTests {
    private func text(_ change: RecordChange?, _ pattern: PathPattern) -> String {
        switch change {
        case nil: return "nothing"
        case .record(let keys, let path, let value):
            let json = String(decoding: JSONWriter.encode(value, form: .export), as: UTF8.self)
            return "\(RecordKey.text(keys)) \(path) = \(json)"
        case .range(let keys, let value, let part):
            var found: [String] = []
            RecordChange.each(in: value, pattern, part: part, keys) { keys, record in
                found.append(
                    "\(RecordKey.text(keys)) = \(String(decoding: JSONWriter.encode(record, form: .export), as: UTF8.self))"
                )
            }
            return "all of \(RecordKey.text(keys)): \(found.joined(separator: ", "))"
        }
    }

    @Test(
        arguments: [
            ("/r/x/m/y", #"{"a": 1}"#, #"x/y / = {"a":1}"#),
            ("/r/x/m/y", "null", "x/y / = null"),
            ("/r/x/m/y/a/b", "1", "x/y /a/b = 1"),
            ("/r/x/m/y/.priority", "1", "x/y /.priority = 1"),
            ("/r/x/m", #"{"y": 1, "z": {"a": 2}}"#, #"all of x: x/y = 1, x/z = {"a":2}"#),
            ("/r/x/m", "5", "all of x: "),
            ("/r/x", #"{"m": {"y": 1}, "n": 2}"#, "all of x: x/y = 1"),
            ("/r/x/m/.priority", "1", "nothing"), ("/r/x/.priority", "1", "nothing"), ("/.priority", "1", "nothing"),
            ("/r", #"{"x": {"m": {"y": 1}}, "w": {"n": 1}}"#, "all of : x/y = 1"),
            ("/", "null", "all of : "), ("/r/x/n/y", "1", "nothing"), ("/q/x/m/y", "1", "nothing"),
        ] as [(String, String, String)])
    func oneChange(path: String, value: String, expected: String) throws {
        let change = Change(path: Path(splitting: path), value: try node(value))
        let pattern = try PathPattern("/r/{j}/m/{k}")
        #expect(text(RecordChange(change, pattern), pattern) == expected)
    }

    /// Checks that a record with a fixed name below its key is found in values written above it.
    @Test func aFixedNameBelow() throws {
        let pattern = try PathPattern("/users/{id}/profile")
        for (value, wanted) in [
            (#"{"profile": {"a": 1}, "b": 2}"#, #"{"a":1}"#), (#"{"b": 2}"#, "null"), ("5", "null"),
        ] {
            let change = Change(path: Path(splitting: "/users/u"), value: try node(value))
            guard case .record(let keys, .root, let record)? = RecordChange(change, pattern) else {
                Issue.record("\(value)")
                continue
            }
            #expect(RecordKey.text(keys) == "u")
            #expect(String(decoding: JSONWriter.encode(record, form: .export), as: UTF8.self) == wanted)
        }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func entriesAgainstTheTree(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        let patterns = ["/{k}", "/a/{k}", "/{j}/{k}", "/a/{k}/b", "/{k}/a"]
        let pattern = try PathPattern(generator.random.pick(patterns))
        var root = generator.tree(depth: 4)
        var known = records(of: root, pattern)
        for seq in 1...60 as ClosedRange<Int64> {
            let changes = ApplicationOrder.sorted(generator.changes(atMost: 5, below: .root))
            for change in changes { root = root.replacing(change.path, with: change.value) }
            let stamp = EntryStamp(seq: seq, at: nil, author: nil)
            for change in changes.compactMap({ RecordChange($0, pattern) }) {
                switch change {
                case .record(let keys, let path, let value):
                    var writes = RecordWrites()
                    writes.add(keys, path, value, stamp)
                    writes[keys].forEachVersion(of: "", after: known[keys] ?? .null) { _, version in
                        known[keys] = version.value == .null ? nil : version.value
                    }
                case .range(let keys, let value, let part):
                    known = known.filter { !$0.key.starts(with: keys) }
                    RecordChange.each(in: value, pattern, part: part, keys) { known[$0] = $1 }
                }
            }
            #expect(known == records(of: root, pattern), "\(pattern) after \(changes.map(\.path))")
        }
    }
}
