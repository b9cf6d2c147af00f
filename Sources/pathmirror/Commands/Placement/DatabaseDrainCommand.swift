import LogStore

/// Keeps new namespaces out of a database, and moves those that are there.
struct DatabaseDrainCommand: Command {
    static let specification = CommandSpecification(
        "database drain", "places no new namespaces in a database; those that live there go on, or move",
        positionals: ["NAME"],
        options: [
            .init("undo", nil, "lets namespaces be placed there again"),
            .init("move", nil, "moves the namespaces that live there, one after another; again: goes on"),
            .init("to", "DB", "where they move; default home"), .json,
        ] + DatabaseOptions.home)
    static let whenInterrupted = "Namespaces that have moved stay where they are; the same command goes on."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = arguments.positionals[0]
        let isDraining = !arguments.has("undo")
        guard isDraining || !arguments.has("move") else { throw UsageError("Give either --undo or --move.") }
        guard arguments["to"] == nil || arguments.has("move") else { throw UsageError("--to takes --move.") }
        let homeURL = try Database.home(arguments)
        let home = try Database.open(homeURL, console, "database drain")
        defer { home.close() }
        guard name != DatabaseRecord.home else {
            throw CommandFailure("The home can't be drained: namespaces that nobody places anywhere are made there.")
        }
        let target = arguments["to"] ?? DatabaseRecord.home
        guard target != name else { throw UsageError("--to names the database that is drained.") }
        if target != DatabaseRecord.home, try Database.record(target, home).isDraining {
            throw CommandFailure("\(target) takes no new namespaces either: name another one with --to.")
        }
        guard try home.drainDatabase(name, isDraining) else {
            throw Database.unknown(name, try home.databases())
        }
        if !arguments.has("json") {
            console.write(isDraining ? "\(name) takes no new namespaces." : "\(name) takes new namespaces.")
        } else if !arguments.has("move") {
            console.write(
                JSONOutput.object(["name": .text(name), "state": .text(isDraining ? "draining" : "open")]).line)
        }
        guard arguments.has("move") else { return }
        try moveAll(
            from: name, to: target, NamespaceMoving(arguments, console, home, homeURL), home, arguments, console)
    }

    /// Those that can't be moved are named at the end, and the others moved.
    private static func moveAll(
        from name: String, to target: String, _ moving: NamespaceMoving, _ home: LogConnection,
        _ arguments: ParsedArguments, _ console: Console
    ) throws {
        var left: [String] = []
        for namespace in try home.namespaces(in: name) {
            try console.interruption.check()
            do {
                let interrupted = try home.move(of: namespace)?.target
                var moved = try moving.move(namespace, to: interrupted ?? target)
                // One that was on its way to the database comes there first, and goes on from it.
                if interrupted == name { moved = try moving.move(namespace, to: target) }
                console.write(arguments.has("json") ? moved.json(namespace) : moved.text(namespace))
            } catch {
                try console.interruption.check()
                console.error("\(namespace): \(error)")
                left.append(namespace)
            }
        }
        guard left.isEmpty else {
            throw CommandFailure("Not moved: \(left.joined(separator: ", ")). The same command tries them again.")
        }
    }
}
