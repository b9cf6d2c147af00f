import Foundation
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks that purged writes are discarded permanently.
    @Suite(.timeLimit(.minutes(2))) struct Purging {
        @Test(arguments: [false, true]) func purgedWritesAreGone(isPersistent: Bool) async throws {
            let ground = try Ground()
            let folder = TemporaryFolder.path("purging")
            defer { TemporaryFolder.remove(folder) }
            let ref = ground.client(directory: isPersistent ? folder : nil)
            let values = ref.recordValues()
            try await ref.setValue(["kept": 1])
            ref.database.goOffline()
            let ends = Recorder<Int>()
            atOnce {
                ref.child("kept").setValue(2) { error, _ in ends.record((error as? DatabaseError)?.code.rawValue ?? 0) }
                ref.updateChildValues(["new": 3]) { error, _ in
                    ends.record((error as? DatabaseError)?.code.rawValue ?? 0)
                }
                ref.child("count").runTransactionBlock(
                    { data in
                        data.value = 4
                        return .success(withValue: data)
                    },
                    andCompletionBlock: { error, isCommitted, _ in
                        ends.record(isCommitted ? -1 : (error as? DatabaseError)?.code.rawValue ?? 0)
                    })
            }
            try await until("they are shown") { values.events.last == #"{"count":4,"kept":2,"new":3}"# }
            ref.database.purgeOutstandingWrites()
            try await until("they are told") { ends.events.count == 3 }
            #expect(ends.events == [3, 3, 3])
            try await until("they are taken back") { values.events.last == #"{"kept":1}"# }
            let name = ref.database.app?.name ?? ""
            if isPersistent {
                await ref.database.app?.delete()
                let app = PathmirrorApp.configure(
                    url: ground.gateway.url, name: name, directory: URL(fileURLWithPath: folder))
                let again = Database.database(app: app)
                again.callbackQueue = DispatchQueue(label: "again")
                again.isPersistenceEnabled = true
                try await again.reference(withPath: ground.path).child("last").setValue(5)
                await app.delete()
            } else {
                ref.database.goOnline()
                try await ref.child("last").setValue(5)
            }
            #expect(try await ground.client().getData().json == #"{"kept":1,"last":5}"#)
        }
    }
}
