extension Logger {
    /// Warns that a thread that others wait for was kept busy for too long.
    ///
    /// - Parameter count: such stretches since the last warning.
    public func longStretch(of thread: String, _ kind: String, _ nanoseconds: UInt64, _ count: Int) {
        self.warning(
            "kept from all else for too long",
            [
                ("thread", thread), ("by", kind), ("milliseconds", "\(nanoseconds / 1_000_000)"),
                ("times", "\(count)"),
            ])
    }
}
