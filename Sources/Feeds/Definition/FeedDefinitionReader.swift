public import JSONText
import LogStore
import Rules
import Runtime
import Tree

extension FeedDefinition {
    /// Returns the definitions in a file: one object, an array of objects, or `{"feeds": […]}`.
    ///
    /// - Parameter source: The file's name, for error messages.
    /// - Throws: An error that lists every mistake found.
    public static func read(_ bytes: [UInt8], source: String) throws(DefinitionError) -> [FeedDefinition] {
        let root = try SourceText.root(bytes, source: source)
        var values: [SourceValue] = [root]
        if case .array(let elements) = root.kind { values = elements }
        if case .object(let members) = root.kind, members.count == 1, members[0].key == "feeds",
            case .array(let elements) = members[0].value.kind
        {
            values = elements
        }
        var problems: [DefinitionError.Problem] = []
        var definitions: [FeedDefinition] = []
        for value in values {
            var reader = FeedDefinitionReader()
            if let definition = reader.definition(value, named: nil) { definitions.append(definition) }
            problems += reader.problems
        }
        if problems.isEmpty, definitions.isEmpty {
            problems.append(.init(position: root.position, part: "", reason: "there is no feed in this file"))
        }
        guard problems.isEmpty else { throw DefinitionError(source: source, problems: problems) }
        return definitions
    }

    /// Reads the definition in a request, which names the feed in its path.
    ///
    /// - Parameter namespace: The namespace of the request, or nil if the definition may name any namespace.
    public static func read(
        _ bytes: [UInt8], name: String, namespace: String? = nil
    ) throws(DefinitionError) -> FeedDefinition {
        let root = try SourceText.root(bytes, source: "definition")
        var reader = FeedDefinitionReader()
        guard let definition = reader.definition(root, named: name, in: namespace) else {
            throw DefinitionError(source: "definition", problems: reader.problems)
        }
        return definition
    }

    /// Reads a feed definition that is stored in the database.
    public static func read(stored bytes: [UInt8], name: String) throws(DefinitionError) -> FeedDefinition {
        let root = try SourceText.root(bytes, source: "definition")
        var reader = FeedDefinitionReader(form: .stored)
        guard let definition = reader.definition(root, named: name) else {
            throw DefinitionError(source: "definition", problems: reader.problems)
        }
        return definition
    }
}

extension SourceText {
    fileprivate static func root(_ bytes: [UInt8], source: String) throws(DefinitionError) -> SourceValue {
        do throws(SourceTextError) {
            return try read(bytes)
        } catch {
            throw DefinitionError(
                source: source, problems: [.init(position: error.position, part: "", reason: error.reason)])
        }
    }
}

/// Builds a definition from a JSON value and notes every mistake.
struct FeedDefinitionReader: DefinitionNoting {
    var problems: [DefinitionError.Problem] = []
    private let form: DefinitionForm

    init(form: DefinitionForm = .shown) { self.form = form }

    private var members: [String] {
        [
            "name", "namespace", "path", "operations", "events", "filter", "include", "record_depth", "start", "order",
            "max_attempts", "backoff", form.member("ack_deadline"), "on_dead", "retention", "when_retention_ends",
        ] + FeedDestination.members
    }

    mutating func definition(
        _ value: SourceValue, named known: String?, in knownNamespace: String? = nil
    ) -> FeedDefinition? {
        guard let members = object(value, "", allowed: self.members) else { return nil }
        let said = members["name"].flatMap { text($0, "name") }
        if let said, let known, said != known {
            note(value.position, "name", "is \"\(said)\", but the request names the feed \(known)")
        }
        if said == nil, known == nil { note(value.position, "name", "is missing: a feed needs a name") }
        let name = known ?? said ?? ""
        if !name.isEmpty || members["name"] != nil, !Self.isName(name) {
            note(
                members["name"]?.position ?? value.position, "name",
                "a feed's name has 1 to 63 letters, digits, _ and -")
        }
        let pattern = pattern(members["path"], value.position)
        // Without a path the other members are read as well, so that all mistakes are reported at once.
        guard let readPattern = pattern ?? (try? PathPattern("/{key}")) else { return nil }
        var definition = FeedDefinition(name: name, pattern: readPattern)
        definition.namespace = members["namespace"].flatMap { text($0, "namespace") }
        if let said = definition.namespace, let knownNamespace, said != knownNamespace {
            note(
                value.position, "namespace", "is \"\(said)\", but the request is about the namespace \(knownNamespace)")
        }
        readSelection(members, &definition, hasPath: pattern != nil)
        readDelivery(members, &definition)
        return problems.isEmpty ? definition : nil
    }

    /// Returns whether a string is a valid feed name.
    static func isName(_ name: String) -> Bool {
        (1...63).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }

    // MARK: Selection of changes

    private mutating func pattern(_ value: SourceValue?, _ position: SourcePosition) -> PathPattern? {
        guard let value else {
            note(position, "path", "is missing: name the records of the feed, such as /orders/{order_id}")
            return nil
        }
        guard let text = text(value, "path") else { return nil }
        do throws(PatternError) {
            let pattern = try PathPattern(text)
            for name in pattern.captures where !RuleSet.isVariable(name) {
                note(
                    value.position, "path",
                    "{\(name)} can't be a capture: the name of a capture has letters, digits and _, and does not begin with a digit"
                )
            }
            return pattern
        } catch {
            note(value.position, "path", error.reason)
            return nil
        }
    }

    /// - Parameter hasPath: Whether the definition has the pattern of the file. Otherwise members that depend on the pattern are not checked.
    private mutating func readSelection(
        _ members: [String: SourceValue], _ definition: inout FeedDefinition, hasPath: Bool
    ) {
        if let value = members["operations"] {
            let names = words(value, "operations", of: FeedDefinition.allOperations.map(\.rawValue))
            let operations = Set(names.compactMap { Tree.Operation(rawValue: $0) })
            definition.operations = FeedDefinition.formerOperations.isSubset(of: operations) ? nil : operations
        }
        if let value = members["events"] {
            let names = words(value, "events", of: FeedDefinition.Event.allCases.map(\.rawValue))
            definition.events = Set(names.compactMap { FeedDefinition.Event(rawValue: $0) })
        }
        if let value = members["include"] {
            let names = words(value, "include", of: FeedDefinition.Part.allCases.map(\.rawValue), mayBeEmpty: true)
            definition.include = Set(names.compactMap { FeedDefinition.Part(rawValue: $0) })
        }
        if let value = members["record_depth"] {
            let most = hasPath ? max(1, definition.pattern.depth) : KeyRules.maxDepth
            definition.recordDepth = Int(number(value, "record_depth", 1...Int64(most)))
        }
        if let value = members["filter"], let text = text(value, "filter"), hasPath {
            do throws(RulesError) {
                definition.filter = try FeedFilter(text, for: definition.pattern)
            } catch {
                note(value.position, "filter", error.problems.first.map(\.message) ?? "\(error)")
            }
        }
        if let value = members["start"] { definition.start = start(value) ?? .now }
        if let value = members["order"] {
            definition.order = choice(value, "order", FeedDefinition.Order.self) ?? .key
        }
    }

    private mutating func start(_ value: SourceValue) -> FeedDefinition.Start? {
        switch value.kind {
        case .string("now"): return .now
        case .string("beginning"): return .beginning
        case .string("snapshot"): return .snapshot
        case .object(let members) where members.count == 1 && members[0].key == "seq":
            return .seq(number(members[0].value, "start.seq", 0...(.max)))
        case .object(let members) where members.count == 1 && members[0].key == "time":
            guard let text = text(members[0].value, "start.time") else { return nil }
            do throws(ReplayError) {
                guard case .time = try SeqOrTime(text) else { throw .badPosition(text) }
                return .time(text)
            } catch {
                note(members[0].value.position, "start.time", "\"\(text)\" is not a time such as 2026-11-22T10:00:00Z")
                return nil
            }
        default:
            note(
                value.position, "start",
                "this should be \"now\", \"beginning\", \"snapshot\", {\"seq\": 42} or {\"time\": \"2026-11-22T10:00:00Z\"}"
            )
            return nil
        }
    }

    // MARK: Delivery

    private mutating func readDelivery(_ members: [String: SourceValue], _ definition: inout FeedDefinition) {
        definition.destination = destination(members)
        if case .webhook(let webhook) = definition.destination, webhook.format == .firebase {
            let needed: Set<FeedDefinition.Part> = [.value, .old]
            if let value = members["include"], !definition.include.isSuperset(of: needed) {
                note(value.position, "include", "must have value and old, which the webhook's format firebase sends")
            }
            definition.include.formUnion(needed)
        }
        if let value = members["max_attempts"] {
            definition.maxAttempts = Int(number(value, "max_attempts", 1...1_000))
        }
        readBackoff(members, &definition)
        let deadline = form.member("ack_deadline")
        if let value = members[deadline] {
            definition.ackDeadlineMilliseconds = duration(value, deadline, 10...43_200_000)
        }
        if let value = members["on_dead"] {
            definition.deadPolicy = choice(value, "on_dead", FeedDefinition.DeadPolicy.self) ?? .continue
        }
        if let value = members["retention"], let text = text(value, "retention") {
            if let seconds = Self.retentionSeconds(text) {
                definition.retentionSeconds = seconds
            } else {
                note(
                    value.position, "retention",
                    "\"\(text)\" is not a duration such as 7d, 12h or 45m, from 1s to 999999d and at most 999999 of the unit"
                )
            }
        }
        if let value = members["when_retention_ends"] {
            definition.retentionPolicy =
                choice(value, "when_retention_ends", FeedDefinition.RetentionPolicy.self) ?? .alarm
        }
    }

    private mutating func readBackoff(_ members: [String: SourceValue], _ definition: inout FeedDefinition) {
        let (firstName, mostName) = (form.member("first"), form.member("max"))
        guard let value = members["backoff"], let inner = object(value, "backoff", allowed: [firstName, mostName])
        else { return }
        if let first = inner[firstName] {
            definition.firstBackoffMilliseconds = duration(first, "backoff.\(firstName)", 0...86_400_000)
        }
        if let most = inner[mostName] {
            definition.maxBackoffMilliseconds = duration(most, "backoff.\(mostName)", 0...86_400_000)
        }
        let (first, most) = (definition.firstBackoffMilliseconds, definition.maxBackoffMilliseconds)
        if let position = inner[mostName]?.position, first > most {
            let origin = inner[firstName] == nil ? ", its default" : ""
            note(
                position, "backoff.\(mostName)",
                "is less than backoff.\(firstName) (\(TimeSpan.text(first))\(origin))")
        }
        definition.maxBackoffMilliseconds = max(first, most)
    }

    private mutating func destination(_ members: [String: SourceValue]) -> FeedDestination? {
        let given = FeedDestination.members.compactMap { name in members[name].map { (name: name, value: $0) } }
        if given.count > 1 {
            note(
                given[0].value.position, given[0].name,
                "messages have one destination: give only one of \(given.map(\.name).joined(separator: ", "))")
        }
        var found: FeedDestination?
        for (name, value) in given {
            let destination = FeedDestination.read(name, value, in: form, problems: &problems)
            found = found ?? destination
        }
        return found
    }

    /// Returns how long a feed may hold back pruning, in seconds, or nil if the text is not a valid duration.
    ///
    /// Also rejects durations whose stored text has more than 999,999 units, because gateways of the previous version cannot read them.
    private static func retentionSeconds(_ text: String) -> Int64? {
        guard let seconds = TimeSpan.seconds(text), seconds > 0, seconds <= 999_999 * 86_400,
            let count = Int64(TimeSpan.text(seconds * 1_000).dropLast()), count <= 999_999
        else { return nil }
        return seconds
    }

    // MARK: Values

    mutating func text(_ value: SourceValue, _ part: String) -> String? {
        guard case .string(let text) = value.kind else {
            note(value.position, part, "this should be a string, but is \(value.kindName)")
            return nil
        }
        guard !text.utf8.contains(0), text.utf8.count <= 10_000 else {
            note(value.position, part, "this is too long, or contains U+0000")
            return nil
        }
        return text
    }

    private mutating func duration(
        _ value: SourceValue, _ part: String, _ range: ClosedRange<Milliseconds>
    ) -> Milliseconds {
        if let time = form.milliseconds(value, in: range) { return time }
        note(value.position, part, form.wanted(in: range))
        return range.lowerBound
    }

    private mutating func number(_ value: SourceValue, _ part: String, _ range: ClosedRange<Int64>) -> Int64 {
        if case .number(let text) = value.kind, let number = Int64(text), range.contains(number) { return number }
        note(value.position, part, "this should be a whole number from \(range.lowerBound) to \(range.upperBound)")
        return range.lowerBound
    }

    private mutating func choice<Value: RawRepresentable & CaseIterable>(
        _ value: SourceValue, _ part: String, _ type: Value.Type
    ) -> Value? where Value.RawValue == String {
        guard let text = text(value, part) else { return nil }
        if let found = Value(rawValue: text) { return found }
        let known = Value.allCases.map(\.rawValue).joined(separator: ", ")
        note(value.position, part, "\"\(text)\" is unknown here; known are \(known)")
        return nil
    }

    /// Returns the words of a string or of an array of strings, and notes unknown words.
    private mutating func words(
        _ value: SourceValue, _ part: String, of known: [String], mayBeEmpty: Bool = false
    ) -> [String] {
        var values = [value]
        if case .array(let elements) = value.kind { values = elements }
        var found: [String] = []
        for value in values {
            guard let word = text(value, part) else { continue }
            if !known.contains(word) {
                note(value.position, part, "\"\(word)\" is unknown here; known are \(known.joined(separator: ", "))")
            }
            found.append(word)
        }
        if values.isEmpty, !mayBeEmpty { note(value.position, part, "is empty: the feed would have no messages") }
        return found
    }
}
