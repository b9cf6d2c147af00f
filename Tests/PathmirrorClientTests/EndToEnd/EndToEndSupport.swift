import Foundation
import Synchronization
import Testing

@testable import PathmirrorClient

/// A path that only one test uses, and clients of it.
struct Ground {
    private static let count = Atomic<Int>(0)

    let gateway: TestGateway
    let path: String

    init() throws {
        gateway = try #require(TestGateway.current)
        path = "open/t\(Self.count.add(1, ordering: .relaxed).newValue)"
    }

    /// Returns the path as seen by another client.
    func client(directory: String? = nil, tokenProvider: PathmirrorApp.TokenProvider? = nil) -> DatabaseReference {
        let database = gateway.client(directory: directory, tokenProvider: tokenProvider)
        if directory != nil { database.isPersistenceEnabled = true }
        return database.reference(withPath: path)
    }
}

extension DatabaseQuery {
    /// Records child events as short texts: `+b after a`.
    func recordChildren() -> Recorder<String> {
        let recorder = Recorder<String>()
        for (type, sign) in [
            (DataEventType.childAdded, "+"), (.childRemoved, "-"), (.childChanged, "="), (.childMoved, "~"),
        ] {
            observe(
                type,
                andPreviousSiblingKeyWith: { snapshot, previous in
                    recorder.record("\(sign)\(snapshot.key)" + (previous.map { " after \($0)" } ?? ""))
                })
        }
        return recorder
    }

    /// Records values as JSON.
    func recordValues() -> Recorder<String> {
        let recorder = Recorder<String>()
        observe(.value) { recorder.record($0.json) }
        return recorder
    }
}

extension DataSnapshot {
    var json: String { String(description.drop { $0 != " " }.dropFirst()) }
}

/// Runs code of an app without `await` from an asynchronous test.
func atOnce(_ body: () -> Void) { body() }
