/// What a database says, once each, when its store can't do what it should.
package enum StorageNotice: Sendable, Equatable, CustomStringConvertible {
    /// The file was damaged: it has another name now, and the store began anew with the writes that could be read.
    case setAside(file: String, newName: String, rescuedWrites: Int, reason: String)
    /// Some pending writes were damaged, and are not sent.
    case writesDamaged(file: String, count: Int)
    /// There is no store from the beginning: the database works in memory.
    case unavailable(StorageError)
    /// Nothing is kept from now on: the database goes on in memory. Writes are lost if the process ends before they are
    /// sent.
    case stopped(file: String, reason: String)

    package var description: String {
        switch self {
        case .setAside(let file, let newName, let rescuedWrites, let reason):
            "The database file \(file) is damaged (\(reason)). It was renamed to \(newName), and a new one was made with "
                + "\(rescuedWrites) pending writes of it; other data is loaded from the server again"
        case .writesDamaged(let file, let count):
            "\(count) pending writes in \(file) are damaged and can't be sent"
        case .unavailable(let error):
            "\(error). The database works in memory: what it has not sent when the process ends is lost"
        case .stopped(let file, let reason):
            "Nothing more can be kept in \(file): \(reason). The database goes on in memory: what it has not sent when "
                + "the process ends is lost. Make space or repair the device, and start the program again"
        }
    }
}
