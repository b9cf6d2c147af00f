import Tree

/// What the values at one place of records are like, and what a column of them would be.
struct ColumnSurvey {
    /// A value, and the record that it is of.
    struct Found {
        let record: Int
        let value: Node
    }

    let type: ColumnType
    /// Places of values that the column would not take, by their records.
    let misfits: [Int]
    /// Types that would take all values, too, and say more of them.
    let alternatives: [ColumnType]
    /// The type that would take nearly all, and say more of them, with the records of those that it would not take.
    let nearly: (type: ColumnType, misfits: [Int])?
    /// Whether nearly all are numbers that would be moments if they counted seconds.
    let areSeconds: Bool

    /// 2001 to 2100: what people mean by numbers of this size.
    private static let moments: ClosedRange<Int64> = 978_307_200_000...4_102_444_800_000
    private static let momentsInSeconds: ClosedRange<Int64> = 978_307_200...4_102_444_800
    /// One value in so many may be unlike the others for these to be worth a word.
    private static let nearlyAll = 10
    /// More than one value in so many that does not fit is too much where another type takes all of them.
    private static let rare = 50
    private static let candidates: [ColumnType] = [
        .boolean, .timestamp, .bigint, .double, .numeric, .uuid, .date, .textArray, .text,
    ]

    /// Nil where no type is that of most values.
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

    /// For a type that most values have; a wider one where too many do not fit.
    init(_ found: [Found], as wanted: ColumnType) {
        let unfit = found.count { !Self.fits($0.value, wanted) }
        let type = unfit * Self.rare > found.count ? Self.wide(found) ?? wanted : wanted
        self.type = type
        misfits = found.compactMap { Self.fits($0.value, type) ? nil : $0.record }
        let others: [ColumnType] =
            switch type {
            case .text: [.numeric]
            case .timestamp: [.bigint]
            // They are texts, too.
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
            // Numbers that nobody means as a time, among times.
            case .bigint, .timestamp: [.timestamp]
            default: []
            }
        for other in narrower {
            let misfits = found.compactMap { fits($0.value, other) && isSaid(by: $0.value, other) ? nil : $0.record }
            if !misfits.isEmpty, misfits.count * nearlyAll <= found.count { return (other, misfits) }
        }
        return nil
    }

    /// The narrowest of the types for values of several kinds that takes all of them as they are.
    private static func wide(_ found: [Found]) -> ColumnType? {
        let areNumbers = found.allSatisfy { $0.value.isLeaf && types($0.value.withoutPriority).contains(.numeric) }
        if areNumbers, !areVersions(found) { return .numeric }
        return [.text, .jsonb].first { type in found.allSatisfy { fits($0.value, type) } }
    }

    private static func fits(_ value: Node, _ type: ColumnType) -> Bool {
        if case .misfit = Conversion.convert(value, to: type) { false } else { true }
    }

    /// A day takes what has a time of day, too, which nobody would want to lose; a time takes numbers that nobody means as one.
    private static func isSaid(by value: Node, _ type: ColumnType) -> Bool {
        switch type {
        case .date: types(value).contains(.date)
        case .timestamp: value.withoutPriority.isText || types(value).contains(.timestamp)
        default: true
        }
    }

    /// The types that a value suggests: not all that would take it.
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

    /// Whether texts are different that are the same number: `1.1` and `1.10` are of something else.
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

    /// `12.50`: a number with a fraction. Whole numbers in texts are often codes, whose zeros count.
    private static func isMoney(_ text: String) -> Bool {
        guard DecimalText.isNumber(text), let point = text.firstIndex(of: ".") else { return false }
        let whole = text[..<point].drop { $0 == "-" || $0 == "+" }
        return whole == "0" || whole.first != "0"
    }
}

extension Node {
    fileprivate var isText: Bool { if case .string = self { true } else { false } }
}
