import Testing
import Tree

struct EntryTests {
    private func overlap(_ paths: [String]) -> [String]? {
        let changes = paths.map { Change(path: path($0), value: .int(1)) }
        return Change.overlap(in: changes).map { [$0.ancestor.description, $0.path.description] }
    }

    @Test func `paths of one write must not lie within one another`() {
        #expect(overlap([]) == nil)
        #expect(overlap(["a"]) == nil)
        #expect(overlap(["a", "b", "c/d", "c/e"]) == nil)
        #expect(overlap(["a", "ab", "a b", "a-/x"]) == nil)
        #expect(overlap(["a/b", "a"]) == ["/a", "/a/b"])
        #expect(overlap(["x", "a", "y", "a"]) == ["/a", "/a"])
        #expect(overlap(["a/b/c", "b", "a"]) == ["/a", "/a/b/c"])
        #expect(overlap(["b", ""]) == ["/", "/b"])
        // In any order of texts, other paths stand between the overlapping ones.
        #expect(overlap(["a", "a b", "a!", "a/z", "a-"]) == ["/a", "/a/z"])
        #expect(overlap(["a/.priority", "a"]) == ["/a", "/a/.priority"])
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `an overlap is found where there is one`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<60 {
            let paths = (0..<(1 + generator.random.below(8))).map { _ in generator.path(maxDepth: 3) }
            let changes = paths.map { Change(path: $0, value: .int(1)) }
            let isThere = paths.indices.contains { first in
                paths.indices.contains { $0 != first && paths[first].contains(paths[$0]) }
            }
            let found = Change.overlap(in: changes)
            #expect((found != nil) == isThere, "seed \(seed), \(paths)")
            if let found { #expect(found.ancestor.contains(found.path)) }
        }
    }

    @Test func `an origin says which entry is undone`() {
        let origin = Origin(undoing: 12)
        #expect(String(decoding: origin.json, as: UTF8.self) == #"{"uid":null,"admin":true,"via":"cli","undoes":12}"#)
        #expect(origin.undoneSeq == 12)
        #expect(Origin(uid: "undoes", isAdmin: true, via: .cli, address: nil).undoneSeq == nil)
    }

    @Test func `an origin is the text that the log keeps`() {
        func text(_ origin: Origin) -> String { String(decoding: origin.json, as: UTF8.self) }
        #expect(
            text(Origin(uid: nil, isAdmin: false, via: .rest, address: nil))
                == #"{"uid":null,"admin":false,"via":"rest"}"#)
        #expect(
            text(Origin(uid: "u\"1", isAdmin: true, via: .ws, address: "::1"))
                == #"{"uid":"u\"1","admin":true,"via":"ws","ip":"::1"}"#)
        #expect(
            text(Origin(uid: "u", isAdmin: true, isOverride: true, via: .cli, address: nil))
                == #"{"uid":"u","admin":true,"override":true,"via":"cli"}"#)
        let origin = Origin(uid: "u", isAdmin: false, via: .sse, address: "1.2.3.4")
        #expect(Origin(json: origin.json) == origin)
        #expect(RawJSON(origin.json).isJSON)
    }

    @Test func `operations are named as the log names them`() {
        #expect(
            Operation.allCases.map(\.rawValue)
                == [
                    "set", "update", "remove", "push", "transaction", "import", "onDisconnect", "rules", "upstream",
                    "resync",
                ])
    }
}
