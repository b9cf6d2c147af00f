import Dispatch
import Foundation
import Synchronization

@testable import PathmirrorClient

/// Databases of apps that only one test uses.
enum TestDatabases {
    private static let count = Atomic<Int>(0)

    /// Returns a database that never connects.
    static func offline() -> Database {
        let database = make(url: "http://127.0.0.1:1")
        database.goOffline()
        return database
    }

    static func make(
        url: String, directory: String? = nil, authorities: String? = nil,
        tokenProvider: PathmirrorApp.TokenProvider? = nil
    ) -> Database {
        let number = count.add(1, ordering: .relaxed).newValue
        let app = PathmirrorApp.configure(
            url: url, name: "test \(number)", directory: directory.map { URL(fileURLWithPath: $0) },
            certificateAuthorities: authorities.map { URL(fileURLWithPath: $0) }, tokenProvider: tokenProvider)
        let database = Database.database(app: app)
        // The test program's main queue does not run.
        database.callbackQueue = DispatchQueue(label: "test \(number)")
        return database
    }
}
