/// What the engine's connections call themselves: other gateways tell by it what they may do to one.
enum BackendName {
    private static let program = "pathmirror "
    static let committerShort = "committer"
    static let largeWriteShort = "large write"
    static let committer = program + committerShort
    /// While it writes rows. At the head's lock it says so, and is not to be disturbed.
    static let largeWrite = program + largeWriteShort
}
