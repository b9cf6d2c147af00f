import CHTTPParser

/// The callbacks of http-parser. Each returns 0 to continue. Any other result stops the parser; the reason is then in
/// `failure`.
extension RequestParser {
    /// Creates the table of callbacks. The caller frees it when no parser uses it any longer.
    static func makeCallbacks() -> UnsafeMutablePointer<http_parser_settings> {
        let table = UnsafeMutablePointer<http_parser_settings>.allocate(capacity: 1)
        table.initialize(to: http_parser_settings())
        table.pointee.on_message_begin = { parser in
            RequestParser.with(parser) { $0.noteBegin() }
            return 0
        }
        table.pointee.on_url = { parser, at, count in RequestParser.with(parser, at, count) { $0.takeTarget($1) } }
        table.pointee.on_header_field = { parser, at, count in
            RequestParser.with(parser, at, count) { $0.takeName($1) }
        }
        table.pointee.on_header_value = { parser, at, count in
            RequestParser.with(parser, at, count) { $0.takeValue($1) }
        }
        table.pointee.on_headers_complete = { parser in
            var isAccepted = false
            RequestParser.with(parser) {
                isAccepted = $0.judgeHead()
                $0.isAtHeadEnd = true
            }
            http_parser_pause(parser, 1)
            // A result of 1 would mean "no body follows" to the parser, so refusals are -1.
            return isAccepted ? 0 : -1
        }
        table.pointee.on_body = { parser, at, count in RequestParser.with(parser, at, count) { $0.takeBody($1) } }
        table.pointee.on_message_complete = { parser in
            RequestParser.with(parser) { $0.isComplete = true }
            http_parser_pause(parser, 1)
            return 0
        }
        return table
    }

    @inline(__always)
    private static func with(_ parser: UnsafeMutablePointer<http_parser>?, _ body: (RequestParser) -> Void) {
        guard let data = parser?.pointee.data else { return }
        Unmanaged<RequestParser>.fromOpaque(data)._withUnsafeGuaranteedRef(body)
    }

    @inline(__always)
    private static func with(
        _ parser: UnsafeMutablePointer<http_parser>?, _ at: UnsafePointer<CChar>?, _ count: Int,
        _ body: (RequestParser, UnsafeBufferPointer<UInt8>) -> Bool
    ) -> Int32 {
        guard let data = parser?.pointee.data, let at else { return -1 }
        let bytes = UnsafeBufferPointer(
            start: UnsafeRawPointer(at).assumingMemoryBound(to: UInt8.self), count: count)
        let isAccepted = Unmanaged<RequestParser>.fromOpaque(data)._withUnsafeGuaranteedRef { body($0, bytes) }
        return isAccepted ? 0 : -1
    }

    private func takeTarget(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard targetLength + bytes.count <= limits.targetBytes else { return refuse(.targetTooLong) }
        guard countHead(bytes.count) else { return false }
        head.append(contentsOf: bytes)
        targetLength += bytes.count
        return true
    }

    private func takeName(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard countHead(bytes.count) else { return false }
        // Trailers are counted and the parser checks them, but they are not kept.
        if isHeadComplete { return true }
        if isInValue || fields.isEmpty {
            finishField()
            guard fields.count < limits.headerCount, countHead(4) else { return refuse(.headersTooLarge) }
            let start = UInt32(truncatingIfNeeded: head.count)
            fields.append(Field(nameStart: start, valueStart: start, valueEnd: start))
        }
        for byte in bytes {
            // The parser as built by Debian accepts blanks in names, which enables request smuggling ("Content-Length :
            // 5").
            guard byte != 0x20 else { return refuse(.malformed("a blank in a header's name")) }
            head.append(byte &- 0x41 < 26 ? byte | 0x20 : byte)
        }
        let end = UInt32(truncatingIfNeeded: head.count)
        fields[fields.count - 1].valueStart = end
        fields[fields.count - 1].valueEnd = end
        return true
    }

    private func takeValue(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard countHead(bytes.count) else { return false }
        if isHeadComplete { return true }
        guard !fields.isEmpty else { return refuse(.malformed("a value without a name")) }
        if !bytes.isEmpty, isFolded(bytes) { return refuse(.malformed("a folded header line")) }
        isInValue = true
        head.append(contentsOf: bytes)
        fields[fields.count - 1].valueEnd = UInt32(truncatingIfNeeded: head.count)
        return true
    }

    private func takeBody(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard body.count + bytes.count <= limits.bodyBytes else { return refuse(.bodyTooLarge) }
        body.append(contentsOf: bytes)
        return true
    }

    /// Returns whether a value begins on a continuation line. The parser joins such lines; RFC 9112 5.2 requires us to
    /// refuse them. Searches backwards over blanks for the byte before the value.
    private func isFolded(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let inputStart, var cursor = bytes.baseAddress else { return false }
        while cursor > inputStart {
            cursor -= 1
            if cursor.pointee == 0x0A { return true }
            if cursor.pointee != 0x20, cursor.pointee != 0x09 { return false }
        }
        return lastInk == 0x0A
    }

    private func countHead(_ count: Int) -> Bool {
        headBytes += count
        return headBytes <= limits.headerBytes ? true : refuse(.headersTooLarge)
    }

    private func refuse(_ reason: ParseFailure) -> Bool {
        if failure == nil { failure = reason }
        return false
    }
}
