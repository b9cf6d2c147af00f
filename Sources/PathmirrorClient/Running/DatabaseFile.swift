internal import ClientCore
internal import Foundation
internal import Wire

/// The file that a database keeps itself in: one for each app, server and name.
enum DatabaseFile {
    static func path(of address: DatabaseAddress, app: PathmirrorApp) -> String {
        var folder = app.directory
        if app.name != PathmirrorApp.defaultName { folder.append(component: PercentEncoding.encode(app.name.utf8)) }
        let server = PercentEncoding.encode("\(address.host):\(address.port)".utf8)
        folder.append(component: "\(server)_\(PercentEncoding.encode(address.namespace.utf8)).sqlite")
        return folder.path
    }

    /// Nil where there can be none; why is logged then, and the database works in memory.
    static func open(_ address: DatabaseAddress, of app: PathmirrorApp) -> (any ClientStore)? {
        let report = { (notice: StorageNotice) in ClientLog.warning("\(notice)") }
        do throws(StorageError) {
            return try SQLiteClientStore(path: path(of: address, app: app), report: report)
        } catch {
            report(.unavailable(error))
            return nil
        }
    }
}
