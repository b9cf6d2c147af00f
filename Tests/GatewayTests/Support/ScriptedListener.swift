import Engine
import Rules

@testable import Gateway

/// A listener that writes down what it is told.
final class ScriptedListener: Listener {
    enum Told: Equatable {
        case events([Int64], shared: Int)
        case restart(Int64)
        case shutOut
        case ended
    }

    /// What a pass makes for all; counts how many have used it.
    struct Delivery {
        let events: EncodedEvents
        var users = 0
    }

    static func delivery(of events: EncodedEvents) -> Delivery { Delivery(events: events) }

    let id: UInt64
    let group: ListenerGroup
    var reader: AuthContext
    var loginNumber = 0
    var admission = Admission()
    private(set) var told: [Told] = []
    /// Called when the listener is told something.
    var onTold: (() -> Void)?

    init(_ id: UInt64, _ group: ListenerGroup, _ reader: AuthContext = .unauthenticated) {
        self.id = id
        self.group = group
        self.reader = reader
    }

    func deliver(_ delivery: inout Delivery, bufferBytes: Int) {
        delivery.users += 1
        note(.events(delivery.events.events.map(\.seq), shared: delivery.users))
    }

    func restart(from snapshot: Snapshot) { note(.restart(snapshot.seq)) }
    func shutOut() { note(.shutOut) }
    func namespaceEnded() { note(.ended) }

    private func note(_ what: Told) {
        told.append(what)
        onTold?()
    }

    /// What it was told since it was last asked.
    func take() -> [Told] {
        defer { told = [] }
        return told
    }
}

/// A group's news as a loop gets them, without a loop.
final class ScriptedOutlet: GroupOutlet {
    private let told = MutexNotes()

    func tell(_ news: GroupNews, of group: ObjectIdentifier) { told.add(news, group) }

    /// The news since they were last asked for.
    func take() -> [GroupNews] { told.take().map(\.0) }
    var groups: Set<ObjectIdentifier> { Set(told.all.map(\.1)) }
}
