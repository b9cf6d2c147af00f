public import HTTPClient
import LogStore
import Runtime
import Tree

/// Creates the sinks that feed definitions name.
public struct SinkMaker: Sendable {
    private let client: HTTPClient
    private let exceptions: AddressPolicy.Exceptions
    private let servers: AddressPolicy.Exceptions
    private let environment: [String: String]
    private let producers: SinkProducers

    /// - Parameters:
    ///   - client: Sends webhooks. Remains owned by the caller.
    ///   - exceptions: The private addresses that webhooks may reach.
    ///   - servers: The allowed hosts of NATS and Kafka. Their libraries connect to any address that a definition, and then
    ///     a server, gives them.
    ///   - environment: The gateway's environment variables. Definitions can read only the variables meant for sinks.
    ///   - producers: The clients of NATS and Kafka. They remain owned by the caller.
    public init(
        client: HTTPClient, exceptions: AddressPolicy.Exceptions, servers: AddressPolicy.Exceptions,
        environment: [String: String], producers: SinkProducers = SinkProducers()
    ) {
        self.client = client
        self.exceptions = exceptions
        self.servers = servers
        self.producers = producers
        self.environment = environment.filter { $0.key.hasPrefix(SinkSecret.variablePrefix) }
    }

    /// Returns the sink of a feed, or nil if consumers pull its messages.
    func make(_ definition: FeedDefinition, in namespace: String) throws -> (any Sink)? {
        let isSequential = definition.order == .namespace
        let variable = { (name: String) in self.variable(name, of: namespace) }
        switch definition.destination {
        case nil: return nil
        case .webhook(let webhook):
            return try WebhookSink(
                webhook, kind: definition.functionEvent, isSequential: isSequential, exceptions: exceptions,
                client: client, environment: variable)
        case .nats(let nats):
            try check(nats.hosts)
            return try NATSSink(
                nats, isSequential: isSequential, namespace: namespace, producers: producers, variable: variable)
        case .kafka(let kafka):
            try check(kafka.hosts)
            return try KafkaSink(
                kafka, isSequential: isSequential, namespace: namespace, producers: producers, variable: variable)
        }
    }

    /// The value of an environment variable, if definitions of the namespace may name it.
    private func variable(_ name: String, of namespace: String) -> String? {
        SinkSecret.mayName(name, in: namespace) ? environment[name] : nil
    }

    /// Returns the secrets that this gateway lacks to deliver the feed's messages, as sentences without values.
    ///
    /// These are warnings, and the definition is accepted: another gateway, with an environment of its own, may work the feed.
    func warnings(_ definition: FeedDefinition, in namespace: String) -> [String] {
        (definition.destination?.variables ?? []).compactMap { variable in
            guard let value = self.variable(variable.name, of: namespace), !value.isEmpty else {
                return
                    "\(variable.member): this gateway has no environment variable \(variable.name) for this namespace, or it is empty. The feed is broken on every gateway without it."
            }
            guard variable.isFile, FilePermissions(ofFile: value) == nil else { return nil }
            return
                "\(variable.member): this gateway finds no file of the name that the environment variable \(variable.name) holds. The feed fails on every gateway without it."
        }
    }

    /// A namespace's administrator must not reach other servers in the gateway's network.
    private func check(_ hosts: [String]) throws(SinkError) {
        for host in hosts where !servers.admits(host: host) {
            throw SinkError("\(host) is not among the servers that feeds may deliver to (--sink-allow).")
        }
    }
}

extension SinkMessage {
    init(_ delivery: FeedMachine.Delivery, of feed: FeedName) {
        let message = delivery.message
        let facts = message.facts
        self.init(
            id: message.position.id(in: feed.namespace), namespace: feed.namespace, feed: feed.name, key: message.key,
            path: facts.path, event: facts.event, seq: message.position.seq, time: facts.time,
            attempt: delivery.attempt, json: message.json(namespace: feed.namespace, attempt: delivery.attempt),
            author: message.author, values: message.values)
    }
}

extension FeedMessage {
    /// The record before and after the change, or nil if the message does not have both.
    fileprivate var values: RecordValues? {
        switch content {
        case .change(let change):
            guard let old = change.old, let value = change.value else { return nil }
            return RecordValues(before: old, after: value)
        case .stored(let json):
            let members = RawJSON(json).members ?? []
            guard let old = members.first(where: { $0.key == "old" })?.value.node,
                let value = members.first(where: { $0.key == "value" })?.value.node
            else { return nil }
            return RecordValues(before: old, after: value)
        }
    }
}

extension RawJSON {
    /// The value as a tree, or nil if the text is not valid.
    fileprivate var node: Node? { try? JSONParser.parse(text).node }
}
