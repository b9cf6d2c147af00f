internal import Tree

/// The compiled expressions of one set of rules: all operations in one array, and what they refer to.
struct Program: Sendable {
    var operations: ContiguousArray<Op> = []
    /// Where each operation stands in the document.
    var spans: ContiguousArray<Range<Int32>> = []
    /// Operands of the operations that take any number.
    var references: ContiguousArray<OpRef> = []
    var texts: [String] = []
    var keys: [Key] = []
    var regexes: [Regex] = []
    /// What further ones may cost.
    var regexBudget = RuleSet.maxRegexCost

    @inline(__always)
    subscript(ref: OpRef) -> Op { operations[Int(ref.index)] }

    mutating func append(_ operation: Op, at span: Range<Int32>) -> OpRef {
        operations.append(operation)
        spans.append(span)
        return OpRef(index: Int32(operations.count - 1))
    }

    mutating func append(_ list: [OpRef]) -> OpList {
        let start = references.count
        references.append(contentsOf: list)
        return OpList(start: Int32(start), count: Int32(list.count))
    }

    mutating func append(_ text: String) -> Int32 {
        texts.append(text)
        return Int32(texts.count - 1)
    }

    mutating func append(_ key: Key) -> Int32 {
        keys.append(key)
        return Int32(keys.count - 1)
    }

    mutating func append(_ regex: Regex) -> Int32 {
        regexes.append(regex)
        return Int32(regexes.count - 1)
    }
}
