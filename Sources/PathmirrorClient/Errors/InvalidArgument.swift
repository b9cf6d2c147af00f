/// An argument that the protocol has no place for. Where nobody is there to be told of an error, it is a
/// `Misuse`.
struct InvalidArgument: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
