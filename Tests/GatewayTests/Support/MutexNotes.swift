import Synchronization

@testable import Gateway

/// The news of groups, in order of arrival. Any thread may use it.
final class MutexNotes: Sendable {
    private let notes = Mutex<[(GroupNews, ObjectIdentifier)]>([])

    func add(_ news: GroupNews, _ group: ObjectIdentifier) { notes.withLock { $0.append((news, group)) } }

    var all: [(GroupNews, ObjectIdentifier)] { notes.withLock { $0 } }

    func take() -> [(GroupNews, ObjectIdentifier)] {
        notes.withLock { notes in
            defer { notes = [] }
            return notes
        }
    }
}
