import LogStore
import Postgres
import Tree

/// Rows of tables with unique indexes. The tree has no such rule, so a record whose values another row has makes no row: it waits,
/// and is recorded as an error. Where the other row goes or changes, the first of those that wait gets its row in the same
/// transaction.
///
/// As long as nobody waits, rows are written as in any other table; the table's refusal is what leads here.
extension TableWriter {
    /// Values that are looked at in one round, and rounds of a step. What is left is done by the next one.
    private static let valuesAtOnce = 1_000
    private static let maxRounds = 16

    // MARK: Before rows change

    /// Notes the values that these records' rows have, and lets them wait no more: they are written anew.
    mutating func release(_ keys: [[Key]], _ mirror: inout ActiveMirror) throws {
        guard let unique = mirror.unique else { return }
        if mirror.isCareful { mirror.hasWaiting = true }
        guard mirror.hasWaiting, let count = keys.first?.count else { return }
        var parameters = mirror.asGeneration.parameters
        RowEncoder.append(keys: keys, of: mirror.table, to: &parameters)
        try add(.prepared(unique.free(keyCount: count), parameters), mirror)
        try add(MirrorWaiting.removeStep(keys.map { RecordKey.text($0) }, of: mirror.asGeneration), mirror)
    }

    /// The same for all records that begin with these captured keys.
    mutating func release(ranges: [[Key]], _ mirror: inout ActiveMirror) throws {
        guard let unique = mirror.unique else { return }
        if mirror.isCareful { mirror.hasWaiting = true }
        guard mirror.hasWaiting else { return }
        for (count, some) in Dictionary(grouping: ranges, by: \.count) {
            var parameters = mirror.asGeneration.parameters
            RowEncoder.append(keys: some, of: mirror.table, to: &parameters)
            try add(.prepared(unique.free(keyCount: count), parameters), mirror)
            for keys in some {
                let key = keys.isEmpty ? nil : RecordKey.text(keys)
                try add(MirrorWaiting.removeStep(below: key, of: mirror.asGeneration), mirror)
            }
        }
    }

    // MARK: Writing

    /// Whether rows have to be written one beside the other.
    func isUnique(_ mirror: ActiveMirror) -> Bool { mirror.unique != nil && (mirror.isCareful || mirror.hasWaiting) }

    /// Writes rows whose records were released.
    mutating func writeUnique(
        _ rows: [ProjectedRow], _ misfits: inout [ConversionError], _ mirror: inout ActiveMirror
    ) throws {
        guard let unique = mirror.unique else { return }
        // Who came first has the row, where they come together.
        let rows = rows.sorted { one, other in
            one.stamp.seq != other.stamp.seq
                ? one.stamp.seq < other.stamp.seq
                : Self.bytes(one.keys).lexicographicallyPrecedes(Self.bytes(other.keys))
        }
        try add(.prepared(mirror.table.deleteRows, RowEncoder.keys(mirror.table, rows.map(\.keys))), mirror)
        try flush()
        var kept: [ProjectedRow] = []
        let inserted = try insert(rows[...], unique, &kept, &misfits, mirror)
        let left = kept.filter { !inserted.contains(Self.bytes($0.keys)) }
        guard !left.isEmpty else { return }
        mirror.hasWaiting = true
        var parameters = RowEncoder.upsert(mirror.table, left)
        parameters.append(mirror.asGeneration)
        let found = try run(.prepared(unique.file, parameters), mirror)
        var slots: [[UInt8]: Int] = [:]
        for row in 0..<found.rowCount { slots[try found.bytes(row, 0)] = Int(try found.int64(row, 1)) }
        for row in left {
            let reason = slots[Self.bytes(row.keys)].map { unique.reason($0) } ?? UniqueStatements.foreignReason
            misfits.append(refusal(RecordKey.text(row.keys), row.stamp.seq, reason, mirror))
        }
    }

    /// Inserts what may be there, and returns the keys of it. With care, rows that the table refuses for what they have are found
    /// by halving, and recorded; `kept` has the others.
    private func insert(
        _ rows: ArraySlice<ProjectedRow>, _ unique: UniqueStatements, _ kept: inout [ProjectedRow],
        _ misfits: inout [ConversionError], _ mirror: ActiveMirror
    ) throws -> Set<[UInt8]> {
        let step = PipelineStep.prepared(unique.insert, RowEncoder.upsert(mirror.table, rows))
        do throws(PostgresError) {
            let found = try mirror.isCareful ? guarded(step) : connection.pipeline([step])[0]
            kept += rows
            return try Self.keys(found)
        } catch {
            guard mirror.isCareful, error.isAboutRow(of: mirror.definition), let first = rows.first else {
                throw error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
            }
            try connection.executeScript("rollback to savepoint careful; release savepoint careful")
            guard rows.count == 1 else {
                let middle = rows.startIndex + rows.count / 2
                let before = try insert(rows[..<middle], unique, &kept, &misfits, mirror)
                return before.union(try insert(rows[middle...], unique, &kept, &misfits, mirror))
            }
            misfits.append(
                refusal(
                    RecordKey.text(first.keys), first.stamp.seq, mirror.refusal(error), mirror))
            return []
        }
    }

    // MARK: Settling

    /// Gives rows to records that have waited for values that came free, at the end of a step.
    mutating func settle(_ mirror: inout ActiveMirror) throws {
        guard let unique = mirror.unique, mirror.hasWaiting else { return }
        try flush()
        for _ in 0..<Self.maxRounds {
            let freed = try MirrorWaiting.freed(connection, mirror.asGeneration, limit: Self.valuesAtOnce)
            guard !freed.isEmpty else {
                mirror.hasFreed = false
                mirror.hasWaiting = try MirrorWaiting.isAnyone(connection, mirror.asGeneration)
                return
            }
            try settle(freed, unique, mirror)
        }
        mirror.hasFreed = true
    }

    private mutating func settle(
        _ freed: [(value: UniqueValue, key: String?)], _ unique: UniqueStatements, _ mirror: ActiveMirror
    ) throws {
        let table = mirror.asGeneration
        let keys = freed.compactMap(\.key)
        var errors: [ConversionError] = []
        let inserted = try insert(waiting: keys[...], unique, &errors, mirror)
        var gone = keys.filter { inserted.contains(Array($0.utf8)) }
        let left = keys.filter { !inserted.contains(Array($0.utf8)) }
        var blocked: [[UInt8]: UniqueValue] = [:]
        if !left.isEmpty {
            let found = try run(.prepared(unique.refile, table.parameters(with: left)), mirror)
            for row in 0..<found.rowCount {
                let value = UniqueValue(slot: try found.int64(row, 1), hash: try found.int64(row, 2))
                let key = try found.string(row, 0)
                blocked[Array(key.utf8)] = value
                errors.append(refusal(key, try found.int64(row, 3), unique.reason(Int(value.slot)), mirror))
            }
        }
        // An index that is not the definition's keeps them out: they don't wait for anything that is known here.
        for key in left where blocked[Array(key.utf8)] == nil {
            gone.append(key)
            let path = Self.path(key, mirror)
            guard !errors.contains(where: { Array($0.record.utf8) == Array(path.utf8) }) else { continue }
            errors.append(refusal(key, mirror.seq, UniqueStatements.foreignReason, mirror))
        }
        let settled = freed.filter { value, key in
            guard let bytes = key.map({ Array($0.utf8) }) else { return true }
            // Who waits for something else now leaves the value to the next one.
            return inserted.contains(bytes) || blocked[bytes] == value
        }
        try add(MirrorWaiting.removeStep(gone, of: table), mirror)
        try add(
            MirrorErrors.removeRefusalsStep(
                keys.filter { inserted.contains(Array($0.utf8)) }.map { Self.path($0, mirror) }, of: table), mirror)
        try add(MirrorWaiting.settledStep(settled.map(\.value), of: table), mirror)
        if !errors.isEmpty { try add(mirror.storing(errors), mirror) }
        try flush()
    }

    /// Inserts the rows of records that wait, by their keys, with care one by one where the table refuses some.
    private func insert(
        waiting keys: ArraySlice<String>, _ unique: UniqueStatements, _ errors: inout [ConversionError],
        _ mirror: ActiveMirror
    ) throws -> Set<[UInt8]> {
        guard !keys.isEmpty else { return [] }
        let step = PipelineStep.prepared(unique.settle, mirror.asGeneration.parameters(with: Array(keys)))
        do throws(PostgresError) {
            return try Self.keys(try mirror.isCareful ? guarded(step) : connection.pipeline([step])[0])
        } catch {
            guard mirror.isCareful, error.isAboutRow(of: mirror.definition), let first = keys.first else {
                throw error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
            }
            try connection.executeScript("rollback to savepoint careful; release savepoint careful")
            guard keys.count == 1 else {
                let middle = keys.startIndex + keys.count / 2
                let before = try insert(waiting: keys[..<middle], unique, &errors, mirror)
                return before.union(try insert(waiting: keys[middle...], unique, &errors, mirror))
            }
            errors.append(refusal(first, mirror.seq, mirror.refusal(error), mirror))
            return []
        }
    }

    // MARK: Parts

    private func guarded(_ step: PipelineStep) throws(PostgresError) -> PostgresResult {
        try connection.pipeline([.query("savepoint careful"), step, .query("release savepoint careful")])[1]
    }

    private func run(_ step: PipelineStep, _ mirror: ActiveMirror) throws -> PostgresResult {
        do throws(PostgresError) {
            return try connection.pipeline([step])[0]
        } catch {
            throw error.endsConnection ? MirrorError(error) : MirrorError.table(mirror: mirror.name, error)
        }
    }

    /// As bytes: to texts, two spellings of é are one.
    private static func keys(_ found: PostgresResult) throws(PostgresError) -> Set<[UInt8]> {
        var keys: Set<[UInt8]> = []
        for row in 0..<found.rowCount { keys.insert(try found.bytes(row, 0)) }
        return keys
    }

    private static func bytes(_ keys: [Key]) -> [UInt8] { Array(RecordKey.text(keys).utf8) }

    private static func path(_ key: String, _ mirror: ActiveMirror) -> String {
        mirror.definition.pattern.path(of: RecordKey.keys(key)).description
    }

    private func refusal(_ key: String, _ seq: Int64, _ reason: String, _ mirror: ActiveMirror) -> ConversionError {
        let path = Self.path(key, mirror)
        return ConversionError(record: path, column: "", path: path, seq: seq, value: nil, reason: reason)
    }
}

extension MirrorGeneration {
    fileprivate func parameters(with texts: [String]) -> PostgresParameters {
        var array = PostgresArray(of: .text)
        for text in texts { array.appendText(text) }
        var parameters = parameters
        parameters.append(array)
        return parameters
    }
}

extension PostgresParameters {
    fileprivate mutating func append(_ table: MirrorGeneration) {
        appendInt8(table.namespace)
        appendUUID(table.mirror)
        appendInt8(table.generation)
    }
}

extension RowEncoder {
    /// Beginnings of keys behind other parameters.
    fileprivate static func append(keys: [[Key]], of table: MirrorTable, to parameters: inout PostgresParameters) {
        for array in arrays(table, keys) { parameters.append(array) }
    }
}
