import LogStore
import Rules
import Runtime
import Tokens
import Tree
import Wire

/// Judges one operation, and shows every evaluated rule with the values of its parts.
struct RulesExplainCommand: Command {
    static let specification = CommandSpecification(
        "rules explain", "shows how the rules judge an operation, with the value of every subexpression",
        options: [
            .init("op", "read|write|update", "the operation; default read"),
            .init("path", "PATH", "where; default /"),
            .init("auth", "JSON", "the auth variable; default null: not signed in"),
            .init("value", "JSON", "the value to write; for update an object of paths; default null"),
            .init("query", "TEXT", "a read's query as in REST, such as 'orderBy=\"age\"&limitToFirst=5'"),
            .init("now", "MS", "the time, in milliseconds since 1970; default now"),
            .init("rules", "FILE", "the rules; default those of --ns"),
            .init("root", "FILE", "the data before the operation, as JSON; without it, and with --ns, the namespace's"),
            .init("ns", "NAME", "the namespace whose rules and data are used"), .json,
            DatabaseLocator.urlOption, DatabaseLocator.fileOption, DatabaseLocator.dataOption,
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let (rules, data) = try surroundings(arguments, console)
        let now = try arguments.integer("now", in: 0...Int(Int64.max)).map(Int64.init) ?? Clock.unixMilliseconds
        let auth = AuthContext(auth: try auth(arguments["auth"] ?? "null"))
        let path = try PathArgument.parse(arguments["path"] ?? "/")
        let explanation: Explanation
        switch arguments["op"] ?? "read" {
        case "read":
            explanation = rules.explainRead(path, query: try query(arguments), root: data, auth: auth, now: now)
        case "write": explanation = try write(arguments, rules, path, data, auth, now)
        case "update": explanation = try update(arguments, rules, path, data, auth, now)
        default: throw UsageError("--op must be read, write or update.")
        }
        if arguments.has("json") { return console.write(json(explanation).line) }
        console.writeBytes(Array(explanation.description.utf8))
    }

    // MARK: The operation

    private static func surroundings(_ arguments: ParsedArguments, _ console: Console) throws -> (RuleSet, Node) {
        var rules = try arguments["rules"].map { file in
            try RulesText.compile(try Files.read(file, standardInput: console.input), file, console)
        }
        var data = try arguments["root"].map { try parse(try Files.read($0, standardInput: console.input), "--root") }
        if let name = arguments["ns"] {
            let connection = try DatabaseLocator.connection(arguments, console, "rules")
            defer { connection.close() }
            let namespace = try DatabaseLocator.namespace(arguments, connection)
            if rules == nil, let stored = try connection.currentRules(namespace.id) {
                rules = try RulesText.compile(stored.source, "rules of \(name)", console)
            }
            if data == nil { data = try connection.loadTree(namespace.id).root }
        } else if arguments.source("data") == .commandLine {
            throw UsageError(
                "--data is the directory of 'pathmirror dev', and needs --ns. The data before the operation is --root.")
        }
        guard let rules else { throw UsageError("--rules is missing (or --ns of a namespace that has rules).") }
        return (rules, data ?? .null)
    }

    private static func auth(_ text: String) throws -> Node {
        guard let value = try? ClaimsReader.value(Array(text.utf8)) else { throw UsageError("--auth must be JSON.") }
        return Node(value)
    }

    private static func parse(_ text: [UInt8], _ option: String) throws -> Node {
        do throws(JSONError) { return try JSONParser.parse(text).node } catch {
            throw CommandFailure("\(option) is not valid data: \(error)")
        }
    }

    private static func query(_ arguments: ParsedArguments) throws -> QueryContext {
        guard let text = arguments["query"] else { return .plain }
        do throws(RESTError) {
            return .overREST(try RESTParameters(ArraySlice(text.utf8)).query)
        } catch {
            throw UsageError("--query: \(error.message)")
        }
    }

    private static func write(
        _ arguments: ParsedArguments, _ rules: RuleSet, _ path: Path, _ data: Node, _ auth: AuthContext, _ now: Int64
    ) throws -> Explanation {
        let value = try parse(Array((arguments["value"] ?? "null").utf8), "--value")
        let new = data.replacing(path, with: value.resolved(existing: data[path], timestamp: now))
        return rules.explainWrite([path], root: data, newRoot: new, auth: auth, now: now)
    }

    private static func update(
        _ arguments: ParsedArguments, _ rules: RuleSet, _ path: Path, _ data: Node, _ auth: AuthContext, _ now: Int64
    ) throws -> Explanation {
        var new = data
        var paths: [Path] = []
        do throws(JSONError) {
            for change in try JSONParser.parseUpdate(Array((arguments["value"] ?? "null").utf8))?.changes ?? [] {
                let target = path.appending(change.path)
                paths.append(target)
                new = new.replacing(target, with: change.node.resolved(existing: data[target], timestamp: now))
            }
        } catch {
            throw CommandFailure("--value is not a valid update: \(error)")
        }
        return rules.explainWrite(paths, root: data, newRoot: new, auth: auth, now: now)
    }

    // MARK: The answer for programs

    private static func json(_ explanation: Explanation) -> JSONOutput {
        .object([
            "allowed": .bool(explanation.decision.isAllowed),
            "deciding": explanation.deciding.map(json) ?? .null,
            "denial": denial(explanation.decision),
            "steps": .list(
                explanation.steps.map { step in
                    .object([
                        "place": .text(step.path.description), "rule": json(step.rule),
                        "result": step.result.map(JSONOutput.bool) ?? .null, "error": .init(step.error),
                        "parts": .list(
                            step.parts.map { part in
                                .object([
                                    "text": .text(part.text), "level": .number(Int64(part.level)),
                                    "value": .text(part.value),
                                ])
                            }),
                    ])
                }),
        ])
    }

    private static func json(_ rule: RuleSet.RuleInfo) -> JSONOutput {
        .object([
            "kind": .text(rule.kind.rawValue), "pattern": .text(rule.pattern), "source": .text(rule.source),
            "line": .number(Int64(rule.position.line)), "column": .number(Int64(rule.position.column)),
        ])
    }

    private static func denial(_ decision: Decision) -> JSONOutput {
        guard case .denied(let denial) = decision else { return .null }
        return .object(["reason": .text("\(denial.reason)"), "path": .text(denial.path.description)])
    }
}
