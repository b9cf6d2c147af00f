import Wire

/// The parameters of a feed's request that are not those of every request. Pure.
struct FeedQuery {
    private var values: [String: String] = [:]

    init(_ query: ArraySlice<UInt8>?) {
        for pair in (query ?? []).split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = PercentEncoding.decode(parts[0]),
                let value = PercentEncoding.decode(parts[1])
            else { continue }
            values[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
    }

    subscript(_ name: String) -> String? { values[name] }

    func number(_ name: String, _ range: ClosedRange<Int>) throws(RESTError) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw RESTError(400, "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
