import Glibc

enum Processors {
    /// Cores that this process may use.
    static var count: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// `host:process id`: names this program among those of all machines.
    static var hostAndProcess: String {
        var name = utsname()
        uname(&name)
        let host = withUnsafeBytes(of: &name.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return "\(host):\(getpid())"
    }
}
