/// Which feed of a name a caller may consume: another one may have been made under the name since.
public enum FeedAccess: Sendable, Hashable {
    /// Whichever feed has the name.
    case any
    /// The feed with this id, as a UUID's text.
    case id(String)
    /// One that was there at this time, in seconds since 1970.
    case since(Int64)

    /// Whether a feed may be consumed.
    ///
    /// - Parameter createdAt: seconds since 1970.
    public func admits(uid: String, createdAt: Int64) -> Bool {
        switch self {
        case .any: true
        case .id(let id): id == uid
        case .since(let time): createdAt <= time
        }
    }
}
