import Crypto
import LogStore
import Runtime

/// Creates a service account.
struct ServiceAccountCreateCommand: Command {
    static let specification = CommandSpecification(
        "service-account create",
        "creates a service account, and prints its file, with the only copy of its private key",
        positionals: ["NAME"],
        options: [
            .init("role", "admin|viewer", "what it may do: everything, or only read everything; default admin"),
            .init("ns", "NAME[,NAME…]", "the namespaces that it may use; default all"),
            .init(
                "gateway", "URL",
                "the gateway's address, from which servers fetch access tokens; default http://127.0.0.1:9000"),
        ] + DatabaseOptions.primary,
        notes: [
            "An Admin SDK reads the file as it reads one of Google's: see docs/guides/admin-sdks.md. The database keeps the public key only."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let grant = try ServiceAccountOptions.grant(arguments)
        let tokenURI = try ServiceAccountOptions.tokenURI(arguments)
        let connection = try ServiceAccountOptions.open(arguments, console, "service-account create")
        defer { connection.close() }
        let records = try connection.serviceAccountRecords()
        guard !records.contains(where: { $0.grant.name == grant.name }) else {
            throw CommandFailure(
                "There is a service account \"\(grant.name)\" already: 'pathmirror service-account rotate \(grant.name)' makes a new file for it."
            )
        }
        guard records.count < ServiceAccountRecord.most else {
            throw CommandFailure(
                "There are \(ServiceAccountRecord.most) service accounts already: remove one by 'pathmirror service-account rm'."
            )
        }
        let file = try ServiceAccountFile()
        let uid = ServiceAccountFile.newUID()
        try file.write(name: grant.name, uid: uid, tokenURI: tokenURI, console)
        guard
            try connection.createServiceAccount(
                grant, uid: uid, tokenURI: tokenURI, keyID: file.keyID, publicKey: file.publicKey)
        else {
            throw CommandFailure("Another command has created \(grant.name) meanwhile. The file's key is not valid.")
        }
        console.error(
            "pathmirror: \(grant.name) is \(ServiceAccountOptions.words(grant)). Its key can't be shown again.")
    }
}

/// Lists the service accounts.
struct ServiceAccountListCommand: Command {
    static let specification = CommandSpecification(
        "service-account ls", "lists the service accounts with their rights and keys",
        options: [.json] + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try ServiceAccountOptions.open(arguments, console, "service-account ls")
        defer { connection.close() }
        let now = Clock.unixMilliseconds
        var table = TextTable(["NAME", "ROLE", "NAMESPACES", "KEY", "CREATED", "VALID UNTIL"])
        for record in try connection.serviceAccountRecords() {
            let grant = record.grant
            guard !arguments.has("json") else {
                console.write(line(record).line)
                continue
            }
            for (index, key) in record.keys.enumerated() {
                let until = key.endsAt.map { $0 <= now ? "ended" : time($0) } ?? ""
                let rights =
                    index == 0
                    ? [grant.name, grant.role.rawValue, grant.namespaces?.joined(separator: ", ") ?? "all"]
                    : ["", "", ""]
                table.add(rights + [String(key.id.prefix(12)), time(key.createdAt), until])
            }
        }
        table.write(to: console)
    }

    private static func time(_ milliseconds: Int64) -> String { Timestamp.iso8601(unixMilliseconds: milliseconds) }

    private static func line(_ record: ServiceAccountRecord) -> JSONOutput {
        .object([
            "name": .text(record.grant.name), "role": .text(record.grant.role.rawValue),
            "namespaces": record.grant.namespaces.map { .list($0.map { .text($0) }) } ?? .null,
            "email": .text(record.email), "tokenUri": .text(record.tokenURI),
            "createdAt": .text(time(record.createdAt)),
            "keys": .list(
                record.keys.map { key in
                    .object([
                        "id": .text(key.id), "createdAt": .text(time(key.createdAt)),
                        "validUntil": JSONOutput(key.endsAt.map(time)),
                    ])
                }),
        ])
    }
}

/// Gives a service account a new key.
struct ServiceAccountRotateCommand: Command {
    private static let longestOverlap: Int64 = 30 * 86_400

    static let specification = CommandSpecification(
        "service-account rotate",
        "gives a service account a new key, and prints its new file; the old key and its tokens become invalid",
        positionals: ["NAME"],
        options: [
            .init(
                "overlap", "TIME",
                "how long the old key stays valid, so that servers can be changed one after another; at most 30d, default 0s"
            )
        ] + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try ServiceAccountOptions.name(arguments)
        guard let overlap = TimeSpan.seconds(arguments["overlap"] ?? "0s"), (0...longestOverlap).contains(overlap)
        else { throw UsageError("--overlap must be a duration such as 15m, 24h or 7d, and at most 30d.") }
        let connection = try ServiceAccountOptions.open(arguments, console, "service-account rotate")
        defer { connection.close() }
        let records = try connection.serviceAccountRecords()
        guard let record = records.first(where: { $0.grant.name == name }) else {
            throw ServiceAccountOptions.unknown(name, records)
        }
        let file = try ServiceAccountFile()
        try file.write(name: name, uid: record.uid, tokenURI: record.tokenURI, console)
        guard
            try connection.rotateServiceAccount(
                record.uid, keyID: file.keyID, publicKey: file.publicKey, overlapSeconds: overlap)
        else { throw CommandFailure("\(name) was removed meanwhile. The file's key is not valid.") }
        let old =
            overlap == 0 ? "The old key is invalid." : "The old key is valid for another \(arguments["overlap"] ?? "")."
        console.error("pathmirror: \(name) has a new key, which can't be shown again. \(old)")
    }
}

/// Removes a service account.
struct ServiceAccountRemoveCommand: Command {
    static let specification = CommandSpecification(
        "service-account rm", "removes a service account; its keys and tokens become invalid",
        positionals: ["NAME"], options: DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try ServiceAccountOptions.name(arguments)
        let connection = try ServiceAccountOptions.open(arguments, console, "service-account rm")
        defer { connection.close() }
        guard try connection.removeServiceAccount(name) else {
            throw ServiceAccountOptions.unknown(name, try connection.serviceAccountRecords())
        }
        console.write("\(name) was removed. Gateways refuse its tokens within three seconds.")
    }
}
