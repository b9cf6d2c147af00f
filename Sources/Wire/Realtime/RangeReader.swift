import Tree

/// Reads the leaves of a range in one pass. It can't build a tree, because a range may contain the priority of a node and
/// none of its leaves.
struct RangeReader {
    private var rows: [LeafRow] = []
    private var path = Path()
    private let mostLevels: Int
    private let bytes: ArraySlice<UInt8>
    private var index: Int

    private init(_ bytes: ArraySlice<UInt8>, mostLevels: Int) {
        self.bytes = bytes
        self.mostLevels = mostLevels
        index = bytes.startIndex
    }

    /// Returns the leaves in order. Throws if a leaf is below another one or occurs twice.
    ///
    /// - Parameter mostLevels: the maximum depth of a leaf, which also limits the recursion.
    static func leaves(of json: RawJSON, mostLevels: Int) throws(MessageError) -> [LeafRow] {
        var reader = RangeReader(json.bytes, mostLevels: mostLevels)
        reader.skipSpace()
        try reader.value()
        reader.skipSpace()
        guard reader.index == reader.bytes.endIndex else { throw malformed }
        let areInOrder = zip(reader.rows, reader.rows.dropFirst()).allSatisfy { RangeMerge.order($0.path, $1.path) < 0 }
        let sorted = areInOrder ? reader.rows : reader.rows.sorted { RangeMerge.order($0.path, $1.path) < 0 }
        for (first, second) in zip(sorted, sorted.dropFirst())
        where first.path == second.path || !first.path.namesPriority && first.path.contains(second.path) {
            throw repeated
        }
        return sorted
    }

    // MARK: Values

    private mutating func value() throws(MessageError) {
        switch peek {
        case UInt8(ascii: "{"): try object()
        case UInt8(ascii: "["): try array()
        default:
            let leaf = try scalar()
            if !leaf.isNull { rows.append(LeafRow(path: path, value: leaf)) }
        }
    }

    private mutating func object() throws(MessageError) {
        index += 1
        skipSpace()
        if take(UInt8(ascii: "}")) { return }
        let first = rows.count
        // Null is no value: the object's other keys then decide, as in the SDKs.
        var own = Node.null
        var priority = Node.null
        repeat {
            skipSpace()
            guard peek == UInt8(ascii: "\""), case .string(let name) = try scalar() else { throw Self.malformed }
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw Self.malformed }
            skipSpace()
            switch name {
            case ".value": own = try scalar()
            case ".priority":
                guard priority.isNull else { throw Self.repeated }
                priority = try priorityValue()
            default:
                let key = Key(name)
                if let violation = KeyRules.violation(in: key) {
                    throw MessageError(reason: "Invalid ranges: a key \(violation.reason)")
                }
                try child(key)
            }
            skipSpace()
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { throw Self.malformed }
        if !own.isNull {
            guard rows.count == first else { throw Self.malformed }
            rows.append(LeafRow(path: path, value: own.withPriority(priority)))
        } else if !priority.isNull {
            rows.append(LeafRow(path: path.appending(.priority), value: priority))
        }
    }

    /// Reads the children with index keys. A part of an array is written as an array, too.
    private mutating func array() throws(MessageError) {
        index += 1
        skipSpace()
        if take(UInt8(ascii: "]")) { return }
        var number = 0
        repeat {
            skipSpace()
            try child(Key(String(number)))
            skipSpace()
            number += 1
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { throw Self.malformed }
    }

    private mutating func child(_ key: Key) throws(MessageError) {
        guard path.depth < mostLevels else {
            throw MessageError(reason: "Invalid ranges: more than \(KeyRules.maxDepth) levels deep")
        }
        path.append(key)
        try value()
        path.removeLast()
    }

    private mutating func priorityValue() throws(MessageError) -> Node {
        let priority = try scalar()
        switch priority {
        case .null, .int, .double, .string: return priority
        default: throw MessageError(reason: "Invalid ranges: a priority must be a number or a string")
        }
    }

    // MARK: Texts

    private mutating func scalar() throws(MessageError) -> Node {
        let start = index
        if peek == UInt8(ascii: "\"") { skipString() } else { skipWord() }
        guard index > start, index <= bytes.endIndex else { throw Self.malformed }
        do throws(JSONError) {
            return try JSONParser.parse(Array(bytes[start..<index])).node
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
    }

    private mutating func skipString() {
        index += 1
        while index < bytes.endIndex, bytes[index] != UInt8(ascii: "\"") {
            index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        index += 1
    }

    /// Advances past a number or a word. Brackets end it, so that the text is no object or array.
    private mutating func skipWord() {
        while let byte = peek {
            switch byte {
            case UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: "}"),
                UInt8(ascii: "]"), UInt8(ascii: "\""), 0x20, 0x0A, 0x0D, 0x09:
                return
            default: index += 1
            }
        }
    }

    private var peek: UInt8? { index < bytes.endIndex ? bytes[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    private static let repeated = MessageError(reason: "Invalid ranges: a leaf is named twice")
    private static let malformed = MessageError(reason: "Invalid ranges: m is not the leaves of a range")
}
