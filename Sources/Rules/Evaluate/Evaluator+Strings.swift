internal import Tree

/// Evaluates strings. Work that grows with the data is charged by the byte.
extension Evaluator {
    mutating func string(_ operand: OpRef, _ ref: OpRef) throws(EvaluationError) -> String {
        guard case .string(let text) = try value(operand) else { throw EvaluationError(reason: .notAString, ref: ref) }
        return text
    }

    /// Adds two or more terms from the left: numbers are added up to the first string, from which on all terms are joined.
    mutating func sum(_ list: OpList, _ ref: OpRef) throws(EvaluationError) -> Value {
        var total = try value(program.references[Int(list.start)])
        for index in (list.start + 1)..<(list.start + list.count) {
            switch (total, try value(program.references[Int(index)])) {
            case (.number(let first), .number(let second)): total = .number(first + second)
            case (.string(let first), .string(let second)): total = .string(try join(first, second, ref))
            case (.string(let first), .number(let second)):
                total = .string(try join(first, NumberText.string(second), ref))
            case (.number(let first), .string(let second)):
                total = .string(try join(NumberText.string(first), second, ref))
            default: throw EvaluationError(reason: .notJoinable, ref: ref)
            }
        }
        return total
    }

    private mutating func join(_ first: String, _ second: String, _ ref: OpRef) throws(EvaluationError) -> String {
        try spend(bytes: first.utf8.count + second.utf8.count, ref)
        return first + second
    }

    /// Returns the length in UTF-16 code units.
    mutating func length(_ operand: OpRef, _ ref: OpRef) throws(EvaluationError) -> Value {
        var text = try string(operand, ref)
        try spend(bytes: text.utf8.count, ref)
        let count = text.withUTF8 { bytes in
            var count = 0
            for byte in bytes { count += (byte & 0xC0 == 0x80 ? 0 : 1) + (byte >= 0xF0 ? 1 : 0) }
            return count
        }
        return .number(Double(count))
    }

    mutating func beginsWith(_ operand: OpRef, _ part: OpRef, _ ref: OpRef) throws(EvaluationError) -> Bool {
        let text = try string(operand, ref)
        let prefix = try string(part, ref)
        try spend(bytes: prefix.utf8.count, ref)
        return text.utf8.starts(with: prefix.utf8)
    }

    mutating func endsWith(_ operand: OpRef, _ part: OpRef, _ ref: OpRef) throws(EvaluationError) -> Bool {
        let text = try string(operand, ref)
        let suffix = try string(part, ref)
        try spend(bytes: suffix.utf8.count, ref)
        return text.utf8.count >= suffix.utf8.count && text.utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
    }

    mutating func contains(_ operand: OpRef, _ part: OpRef, _ ref: OpRef) throws(EvaluationError) -> Bool {
        let text = try string(operand, ref)
        let part = try string(part, ref)
        return try find(part, in: text, from: 0, ref) != nil
    }

    /// Returns the offset of the part in bytes. The search is simple and its comparisons are charged, so that a text made to be
    /// searched slowly ends the rule instead of blocking the gateway.
    private mutating func find(
        _ part: String, in text: String, from start: Int, _ ref: OpRef
    ) throws(EvaluationError) -> Int? {
        var text = text
        var part = part
        var compared = 0
        let budget = remainingBytes
        let found = text.withUTF8 { text in
            part.withUTF8 { part -> Int? in
                guard let first = part.first else { return start }
                guard text.count >= part.count else { return nil }
                var index = start
                while index <= text.count - part.count, compared < budget {
                    compared += 1
                    if text[index] == first {
                        var length = 1
                        while length < part.count, text[index + length] == part[length] { length += 1 }
                        compared += length
                        if length == part.count { return index }
                    }
                    index += 1
                }
                return nil
            }
        }
        try spend(bytes: compared, ref)
        return found
    }

    /// Replaces every occurrence, from the left. An empty search text is found before each character and at the end.
    mutating func replace(
        _ operand: OpRef, _ search: OpRef, _ replacement: OpRef, _ ref: OpRef
    ) throws(EvaluationError) -> Value {
        let text = try string(operand, ref)
        let search = try string(search, ref)
        let replacement = try string(replacement, ref)
        try spend(bytes: text.utf8.count, ref)
        var result: [UInt8] = []
        let bytes = Array(text.utf8)
        if search.isEmpty {
            // The whole cost is charged in advance: one short replacement costs less than a step, but many cost more.
            let gaps = bytes.count { $0 & 0xC0 != 0x80 } + 1
            try spend(bytes: gaps * (replacement.utf8.count + 16), ref)
            for byte in bytes {
                if byte & 0xC0 != 0x80 { result.append(contentsOf: replacement.utf8) }
                result.append(byte)
            }
            result.append(contentsOf: replacement.utf8)
            return .string(String(decoding: result, as: UTF8.self))
        }
        var index = 0
        while let found = try find(search, in: text, from: index, ref) {
            try spend(bytes: replacement.utf8.count + 256, ref)
            result.append(contentsOf: bytes[index..<found])
            result.append(contentsOf: replacement.utf8)
            index = found + search.utf8.count
        }
        if index == 0 { return .string(text) }
        result.append(contentsOf: bytes[index...])
        return .string(String(decoding: result, as: UTF8.self))
    }

    mutating func lowercase(_ operand: OpRef, _ ref: OpRef) throws(EvaluationError) -> Value {
        let text = try string(operand, ref)
        try spend(bytes: text.utf8.count * 8, ref)
        return .string(text.lowercased())
    }

    mutating func uppercase(_ operand: OpRef, _ ref: OpRef) throws(EvaluationError) -> Value {
        let text = try string(operand, ref)
        try spend(bytes: text.utf8.count * 8, ref)
        return .string(text.uppercased())
    }

    mutating func matches(_ operand: OpRef, _ regex: Regex, _ ref: OpRef) throws(EvaluationError) -> Bool {
        let text = try string(operand, ref)
        try spend(regex.steps(units: text.utf16.count), ref)
        return regex.matches(text)
    }
}
