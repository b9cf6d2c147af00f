import Glibc

enum Processors {
    /// Cores that this process may use.
    static var count: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
}
