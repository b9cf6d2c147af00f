/// What other programs ask of how far a mirror has come.
public enum MirrorFreshness {
    /// A query, for programs that take no parameters: as of when a mirror's table has all that was written.
    ///
    /// - Parameters:
    ///   - namespace: the namespace's name.
    ///   - mirror: the mirror's name.
    public static func query(namespace: String, mirror: String) -> String {
        """
        select now() - coalesce(lag, interval '0') from pathmirror.mirror_status \
        where namespace = \(literal(namespace)) and name = \(literal(mirror))
        """
    }

    private static func literal(_ name: String) -> String {
        "'" + name.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
    }
}
