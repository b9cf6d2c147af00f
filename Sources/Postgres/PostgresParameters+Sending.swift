import CPostgres

/// The most parameters one statement may have, and the most bytes of one message, which bounds their sum.
private let parameterCountMax = 65_535
private let messageBytesMax = 1_073_741_823

extension PostgresParameters {
    /// What `PQsendQueryParams` and `PQsendQueryPrepared` take; valid during the call that receives it.
    struct LibpqArrays {
        var count: Int32
        var types: UnsafePointer<Oid>?
        var values: UnsafePointer<UnsafePointer<CChar>?>?
        var lengths: UnsafePointer<Int32>?
        var formats: UnsafePointer<Int32>?
    }

    /// - Throws: `invalidParameter` with the reason why these parameters cannot be sent.
    func check(_ statement: @autoclosure () -> String) throws(PostgresError) {
        if let problem {
            throw PostgresError(.invalidParameter, problem, statement: statement())
        }
        if count > parameterCountMax {
            throw PostgresError(
                .invalidParameter, "\(count) parameters, but PostgreSQL takes \(parameterCountMax) at most",
                hint: "send arrays and UNNEST them", statement: statement())
        }
        if bytes.count > messageBytesMax {
            throw PostgresError(
                .invalidParameter, "parameters of \(bytes.count) bytes, but PostgreSQL takes less than 1 GiB",
                hint: "send less at once", statement: statement())
        }
    }

    func withLibpqArrays(_ body: (LibpqArrays) -> Int32) -> Int32 {
        let count = slots.count
        guard count > 0 else {
            return body(LibpqArrays(count: 0, types: nil, values: nil, lengths: nil, formats: nil))
        }
        // Three arrays of 32 bits side by side: types, lengths, formats.
        return withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 3 * count) { words in
            withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count) { values in
                bytes.withUnsafeBytes { storage in
                    // An empty value still needs an address: a null pointer would mean NULL.
                    withUnsafeBytes(of: UInt64(0)) { nothing in
                        guard let words = words.baseAddress, let values = values.baseAddress else { return 0 }
                        let base = storage.baseAddress ?? nothing.baseAddress
                        let lengths = UnsafeMutableRawPointer(words + count).assumingMemoryBound(to: Int32.self)
                        let formats = UnsafeMutableRawPointer(words + 2 * count).assumingMemoryBound(to: Int32.self)
                        for (index, slot) in slots.enumerated() {
                            words[index] = slot.type.oid
                            let address = slot.length < 0 ? nil : base?.advanced(by: slot.offset)
                            (values + index).initialize(to: address?.assumingMemoryBound(to: CChar.self))
                            lengths[index] = Int32(max(slot.length, 0))
                            formats[index] = 1
                        }
                        return body(
                            LibpqArrays(
                                count: Int32(count), types: words, values: values, lengths: lengths,
                                formats: formats))
                    }
                }
            }
        }
    }
}
