import Crypto
import Feeds
import Gateway
import HTTPServer
import LogStore
import Postgres
import Runtime
import Synchronization

/// The database functions that the Functions emulator registers at `dev`. Any thread.
final class DevFunctions: FunctionRegistry {
    static let option = OptionSpecification(
        "functions", "HOST:PORT", "the address of the Functions emulator; default 127.0.0.1:5001")

    /// A registered function.
    fileprivate struct Registration {
        let trigger: FunctionTrigger
        /// Whether the function was registered before some of the namespaces without its feed were created.
        let isOlder: Bool
        /// The namespaces that have the function's feed.
        var namespaces: Set<String> = []
        /// The requests to answer when the feeds exist.
        var completions: [@Sendable (String?) -> Void]
        var isApplied = false
    }

    fileprivate let emulator: String
    /// Signs the events. The Functions emulator does not verify signatures.
    fileprivate let secret: String
    /// The functions by the names of their feeds.
    fileprivate let registrations = Mutex<[String: Registration]>([:])
    private static let mostFunctions = 1_000

    init(_ arguments: ParsedArguments) throws {
        let text = arguments[Self.option.name] ?? "127.0.0.1:5001"
        emulator = try ListenOption.address(text, Self.option.name).description
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        secret = "whsec_" + String(decoding: Base64.encode(bytes), as: UTF8.self)
    }

    func register(_ trigger: FunctionTrigger, _ completion: @escaping @Sendable (String?) -> Void) {
        let isFull = registrations.withLock { registrations -> Bool in
            let former = registrations[trigger.feed]
            guard former != nil || registrations.count < Self.mostFunctions else { return true }
            registrations[trigger.feed] = Registration(
                trigger: trigger, isOlder: former.map { $0.isOlder || $0.isApplied } ?? false,
                completions: (former?.completions ?? []) + [completion])
            return false
        }
        if isFull { completion("at most \(Self.mostFunctions) functions can be registered; restart pathmirror dev") }
    }
}

/// Creates the feeds of registered functions: one in each namespace that a function concerns, with a webhook to the Functions
/// emulator. Namespaces that are created later get theirs soon. Used by one thread.
struct DevFunctionFeeds {
    private let functions: DevFunctions
    private let logger: Logger
    private var connection: LogConnection?

    init(_ functions: DevFunctions, _ logger: Logger) {
        self.functions = functions
        self.logger = logger
    }

    /// Creates the feeds that are missing, and answers the registrations. Blocks its thread. If the database is unavailable, the next
    /// call tries again.
    mutating func apply(_ url: PostgresURL) {
        let due = functions.registrations.withLock { registrations in
            registrations.values.filter { !$0.isApplied || $0.trigger.namespace == nil }
        }
        guard !due.isEmpty else { return }
        do {
            let open = try connection ?? LogConnection(url.withApplicationName("pathmirror dev"))
            connection = open
            let existing = try open.allNamespaces().map(\.name)
            for registration in due { try apply(registration, existing, open) }
        } catch {
            // If the database is unavailable, the log has the reason already.
            connection?.close()
            connection = nil
        }
    }

    private func apply(
        _ registration: DevFunctions.Registration, _ existing: [String], _ connection: LogConnection
    ) throws {
        let trigger = registration.trigger
        let concerned = trigger.namespace.map { [$0] } ?? existing.filter(trigger.concerns)
        var namespaces = registration.namespaces
        var problem: String?
        for namespace in concerned where !namespaces.contains(namespace) {
            let definition = trigger.definition(
                emulator: functions.emulator, secret: functions.secret,
                isNew: registration.isApplied || registration.isOlder)
            do {
                _ = try FeedAdministration(connection).apply(definition, to: namespace, creatingNamespace: true)
            } catch {
                guard connection.isOpen else { throw error }
                problem = "in namespace \"\(namespace)\": \(error)"
                logger.warning("a function has no feed", [("namespace", namespace), ("error", "\(error)")])
            }
            namespaces.insert(namespace)
        }
        let completions = functions.registrations.withLock { registrations -> [@Sendable (String?) -> Void] in
            // If the function was registered again in the meantime, the next call applies the new registration.
            guard registrations[trigger.feed]?.trigger == trigger else { return [] }
            registrations[trigger.feed]?.namespaces = namespaces
            registrations[trigger.feed]?.isApplied = true
            defer { registrations[trigger.feed]?.completions = [] }
            return registrations[trigger.feed]?.completions ?? []
        }
        for completion in completions { completion(problem) }
    }
}
