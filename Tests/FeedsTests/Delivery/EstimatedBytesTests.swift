import Testing
import Tree

@testable import Feeds

/// Tests of the estimated memory use of values.
@Suite struct EstimatedBytesTests {
    private func texts(_ lengths: [Int]) -> Node {
        Node(
            children: lengths.enumerated().map {
                (Key("k\($0.offset + 100_000)"), .string(String(repeating: "x", count: $0.element)))
            })
    }

    @Test func textsAreCounted() {
        #expect(Node.int(1).estimatedBytes == 64)
        #expect(Node.string(String(repeating: "x", count: 1_000)).estimatedBytes == 1_064)
        // Two rows, and two keys of seven bytes.
        #expect(texts([10, 20]).estimatedBytes == 2 * 64 + 30 + 14)
    }

    /// Checks that the estimate of a large value is extrapolated from its first rows.
    @Test func theFirstRowsStandForTheOthers() {
        let node = texts([Int](repeating: 93, count: 2_000))
        #expect(node.estimatedBytes == 2_000 * (64 + 100))
    }

    /// Checks that an estimate is bounded even if long texts come first.
    @Test func anEstimateIsBounded() {
        let long = Node.string(String(repeating: "x", count: 10_000_000))
        let first = (0..<256).map { (Key("a\($0 + 1_000)"), long) }
        let others = (0..<100_000).map { (Key("b\($0 + 100_000)"), Node.int(1)) }
        #expect(Node(children: first + others).estimatedBytes == 1 << 36)
    }
}
