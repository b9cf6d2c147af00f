internal import Tree

/// Compiles arguments that name a path. `'rooms/' + $room + '/members'` becomes the keys `rooms`, `$room` and `members`, so
/// that no string is built only to be split again.
extension ExpressionCompiler {
    private enum Piece {
        case constant(String)
        case dynamic(OpRef)
    }

    mutating func pathParts(_ argument: Syntax, _ method: Method) throws(TextError) -> [OpRef] {
        try pathParts(argument, "\(method.rawValue)() expects a string argument.")
    }

    /// Returns the parts of the path, left to right. `message` is the error if the argument is not a string.
    mutating func pathParts(_ argument: Syntax, _ message: String) throws(TextError) -> [OpRef] {
        if case .string(let text) = argument.kind {
            return Path(splitting: text).keys.map { emit(.key(program.append($0)), .string, argument).ref }
        }
        if case .chain(.add, let operands) = argument.kind {
            return try joinedParts(try terms(operands, argument), operands, argument, message)
        }
        let ref = try string(argument, message)
        if case .capture = program[ref] { return [ref] }
        return [emit(.path(ref), .string, argument).ref]
    }

    /// Returns the parts of a sum: keys if the sum is known to be a concatenation, otherwise one path that is computed at run
    /// time.
    private mutating func joinedParts(
        _ terms: [Operand], _ operands: [Syntax], _ argument: Syntax, _ message: String
    ) throws(TextError) -> [OpRef] {
        guard let first = terms.firstIndex(where: { $0.type == .string }) else {
            if terms.allSatisfy({ $0.type == .number }) { throw error(message, argument) }
            let sum = emit(.sum(program.append(terms.map(\.ref))), .value, argument)
            return [emit(.path(sum.ref), .string, argument).ref]
        }
        var pieces: [Piece] = []
        var rest = terms.indices
        if first >= 2 {
            // The terms before the first string are added before they are joined.
            let head = emit(.sum(program.append(terms[..<first].map(\.ref))), .value, argument)
            pieces.append(.dynamic(head.ref))
            rest = first..<terms.count
        }
        for index in rest {
            if case .string(let text) = operands[index].kind {
                pieces.append(.constant(text))
            } else {
                pieces.append(.dynamic(terms[index].ref))
            }
        }
        return segments(pieces, argument)
    }

    private mutating func segments(_ pieces: [Piece], _ argument: Syntax) -> [OpRef] {
        var parts: [OpRef] = []
        var current: [Piece] = []
        for piece in pieces {
            guard case .constant(let text) = piece else {
                current.append(piece)
                continue
            }
            for (index, key) in text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                .enumerated()
            {
                if index > 0 { flush(&current, into: &parts, argument) }
                if !key.isEmpty { current.append(.constant(String(decoding: key, as: UTF8.self))) }
            }
        }
        flush(&current, into: &parts, argument)
        return parts
    }

    /// Creates one part from the pieces between two slashes.
    private mutating func flush(_ pieces: inout [Piece], into parts: inout [OpRef], _ argument: Syntax) {
        defer { pieces = [] }
        switch pieces.first {
        case nil: return
        case .constant(let text) where pieces.count == 1:
            parts.append(emit(.key(program.append(Key(text))), .string, argument).ref)
        case .dynamic(let ref) where pieces.count == 1:
            if case .capture = program[ref] {
                parts.append(ref)
            } else {
                parts.append(emit(.joined(ref), .string, argument).ref)
            }
        default:
            // A string at the beginning makes every + a concatenation.
            var refs: [OpRef] = []
            if case .dynamic = pieces[0] { refs.append(emit(.text(program.append("")), .string, argument).ref) }
            for piece in pieces {
                switch piece {
                case .constant(let text): refs.append(emit(.text(program.append(text)), .string, argument).ref)
                case .dynamic(let ref): refs.append(ref)
                }
            }
            let joined = emit(.sum(program.append(refs)), .string, argument)
            parts.append(emit(.joined(joined.ref), .string, argument).ref)
        }
    }
}
