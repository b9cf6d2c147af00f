internal import Synchronization

/// All databases of the process: each place has one `Database`, as two would not see each other's writes.
final class Databases: Sendable {
    static let shared = Databases()

    private struct Place: Hashable {
        let app: String
        let address: DatabaseAddress
    }

    private let databases = Mutex<[Place: Database]>([:])

    var all: [Database] { databases.withLock { Array($0.values) } }

    func database(of app: PathmirrorApp, at address: DatabaseAddress) -> Database {
        databases.withLock { databases in
            let place = Place(app: app.name, address: address)
            if let database = databases[place] { return database }
            let database = Database(app: app, address: address)
            databases[place] = database
            return database
        }
    }

    func removeAll(of app: PathmirrorApp) -> [Database] {
        databases.withLock { databases in
            let removed = databases.filter { $0.value.app === app }
            for place in removed.keys { databases[place] = nil }
            return Array(removed.values)
        }
    }
}
