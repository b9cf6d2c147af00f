import Tree

/// The values at one path of the records, and the column type that suits them.
struct ColumnSurvey {
    /// A value and the index of its record.
    struct Found {
        let record: Int
        let value: Node
    }

    let type: ColumnType
    /// The records whose values the column could not hold.
    let conversionErrors: [Int]
    /// More specific types that could hold all values, too.
    let alternatives: [ColumnType]
    /// A more specific type that could hold nearly all values, with the records whose values it could not hold.
    let nearly: (type: ColumnType, conversionErrors: [Int])?
    /// Whether nearly all values are numbers that would be plausible times in seconds.
    let areSeconds: Bool

    /// The years 2001 to 2100. Numbers in this range are probably meant as times.
    private static let moments: ClosedRange<Int64> = 978_307_200_000...4_102_444_800_000
    private static let momentsInSeconds: ClosedRange<Int64> = 978_307_200...4_102_444_800
    /// A finding about nearly all values permits one exception in this many values.
    private static let nearlyAll = 10
    /// If more than one value in this many can't be converted, a type that holds all values is preferred.
    private static let rare = 50
    private static let candidates: [ColumnType] = [
        .boolean, .timestamp, .bigint, .double, .numeric, .uuid, .date, .textArray, .text,
    ]

    /// Returns nil if no type suits most values.
    init?(_ found: [Found]) {
        var counts: [ColumnType: Int] = [:]
        for value in found {
            for type in Self.types(value.value) { counts[type, default: 0] += 1 }
        }
        var best: (type: ColumnType, count: Int)?
        for type in Self.candidates where counts[type] ?? 0 > best?.count ?? 0 { best = (type, counts[type] ?? 0) }
        guard let best, best.count * 2 > found.count else { return nil }
        self.init(found, as: best.type == .numeric && Self.areVersions(found) ? .text : best.type)
    }

    /// Creates the survey for a type that suits most values. Chooses a wider type if too many values can't be converted.
    init(_ found: [Found], as wanted: ColumnType) {
        let unfit = found.count { !Self.fits($0.value, wanted) }
        let type = unfit * Self.rare > found.count ? Self.wide(found) ?? wanted : wanted
        self.type = type
        conversionErrors = found.compactMap { Self.fits($0.value, type) ? nil : $0.record }
        let others: [ColumnType] =
            switch type {
            case .text: [.numeric]
            case .timestamp: [.bigint]
            // Such values are texts, too.
            case .numeric where found.contains { $0.value.withoutPriority.isText }: [.text]
            default: []
            }
        alternatives = others.filter { other in found.allSatisfy { Self.fits($0.value, other) } }
        nearly = alternatives.isEmpty ? Self.nearly(found, type) : nil
        let seconds = found.count { found in
            if case .int(let number) = found.value.withoutPriority {
                Self.momentsInSeconds.contains(number)
            } else {
                false
            }
        }
        areSeconds =
            [.bigint, .double, .numeric].contains(type) && (found.count - seconds) * Self.nearlyAll <= found.count
    }

    private static func nearly(_ found: [Found], _ type: ColumnType) -> (ColumnType, [Int])? {
        let narrower: [ColumnType] =
            switch type {
            case .text: [.uuid, .date, .timestamp, .numeric]
            case .double, .numeric: [.timestamp, .bigint]
            // Finds numbers among times that are probably not meant as times.
            case .bigint, .timestamp: [.timestamp]
            default: []
            }
        for other in narrower {
            let conversionErrors = found.compactMap {
                fits($0.value, other) && isSaid(by: $0.value, other) ? nil : $0.record
            }
            if !conversionErrors.isEmpty, conversionErrors.count * nearlyAll <= found.count {
                return (other, conversionErrors)
            }
        }
        return nil
    }

    /// Returns the narrowest type for values of several kinds that holds all of them unchanged.
    private static func wide(_ found: [Found]) -> ColumnType? {
        let areNumbers = found.allSatisfy { $0.value.isLeaf && types($0.value.withoutPriority).contains(.numeric) }
        if areNumbers, !areVersions(found) { return .numeric }
        return [.text, .jsonb].first { type in found.allSatisfy { fits($0.value, type) } }
    }

    private static func fits(_ value: Node, _ type: ColumnType) -> Bool {
        if case .conversionError = Conversion.convert(value, to: type) { false } else { true }
    }

    /// Whether a value suggests the type. A date column would also accept times, but lose the time of day. A timestamp column
    /// would also accept numbers that are not meant as times.
    private static func isSaid(by value: Node, _ type: ColumnType) -> Bool {
        switch type {
        case .date: types(value).contains(.date)
        case .timestamp: value.withoutPriority.isText || types(value).contains(.timestamp)
        default: true
        }
    }

    /// Returns the types that a value suggests, which are not all the types that could hold it.
    private static func types(_ value: Node) -> [ColumnType] {
        switch value.isLeaf ? value.withoutPriority : value {
        case .bool: return [.boolean]
        case .int(let number):
            return (moments.contains(number) ? [.timestamp] : []) + [.bigint, .double, .numeric]
        case .double: return [.double, .numeric]
        case .string(let text):
            var types: [ColumnType] = [.text]
            if UUIDText.isUUID(text) { types.append(.uuid) }
            if isMoney(text) { types.append(.numeric) }
            if ISO8601.day(text) != nil {
                types.append(.date)
            } else if ISO8601.microseconds(text) != nil {
                types.append(.timestamp)
            }
            return types
        case .branch: return [.textArray]
        default: return []
        }
    }

    /// Whether different texts are the same number. Texts such as `1.1` and `1.10` are then not numbers but, for example,
    /// versions.
    private static func areVersions(_ found: [Found]) -> Bool {
        var texts: [String: String] = [:]
        for case .string(let text) in found.lazy.map(\.value.withoutPriority) where DecimalText.isNumber(text) {
            var shortest = text[...]
            if text.contains(".") {
                while shortest.last == "0" { shortest.removeLast() }
                if shortest.last == "." { shortest.removeLast() }
            }
            if let other = texts.updateValue(text, forKey: String(shortest)), other != text { return true }
        }
        return false
    }

    /// Whether a text is a number with a fraction, such as `12.50`. Whole numbers in texts are often codes with significant
    /// zeros.
    private static func isMoney(_ text: String) -> Bool {
        guard DecimalText.isNumber(text), let point = text.firstIndex(of: ".") else { return false }
        let whole = text[..<point].drop { $0 == "-" || $0 == "+" }
        return whole == "0" || whole.first != "0"
    }
}

extension Node {
    fileprivate var isText: Bool { if case .string = self { true } else { false } }
}
