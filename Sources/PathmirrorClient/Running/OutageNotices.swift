/// Which failures to connect are worth telling whoever runs the app. Each is told once while an outage lasts, as the tries go on.
struct OutageNotices {
    /// The reasons of one outage that are told: a server's words may differ with each try.
    static let most = 5

    private var told: Set<String> = []

    /// Whether a try's failure is to be told.
    mutating func isNews(_ reason: String) -> Bool { told.count < Self.most && told.insert(reason).inserted }

    /// The outage is over.
    ///
    /// - Returns: whether that is to be told, as its beginning was.
    mutating func connected() -> Bool {
        defer { told = [] }
        return !told.isEmpty
    }
}
