internal import ClientCore
public import Foundation
internal import Wire

/// Why a database did not do what it was asked for.
///
/// As an `NSError` it has the domain `com.firebase` and the code's raw value, as apps that were written for the vendor's
/// SDK may compare them.
public struct DatabaseError: Error, Sendable, Equatable {
    /// The kinds of errors. docs/guides/client.md has the table of them.
    public enum Code: Int, Sendable, CaseIterable {
        /// The rules don't allow it.
        case permissionDenied = 1
        /// The server can't be reached, or can't do it now, and the client has no data of its own to answer with.
        case unavailable = 2
        /// The write was taken back by `purgeOutstandingWrites`, or by `goOffline` in the case of a transaction.
        case writeCanceled = 3
        /// The value, the path or the query breaks the protocol's rules.
        case invalidArgument = 4
        /// The transaction was refused again and again, because others changed the data meanwhile.
        case maxRetries = 5
        /// A plain write to the same place took the transaction's.
        case overriddenBySet = 6
        /// The connection ended after a transaction was sent, or the app was deleted before the answer came: whether the
        /// server has done it is not known.
        case disconnected = 7
        /// The user's login has expired or was revoked.
        case expiredToken = 8
        /// What was waited for did not come in time.
        case timedOut = 9
        /// The server does not know what it was asked for: it is no Pathmirror gateway, or an older one.
        case unsupported = 10
        /// Any other answer of the server's.
        case unknown = 9999
    }

    /// What kind of error it is.
    public let code: Code
    /// What happened, where, and what to do about it.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension DatabaseError: LocalizedError, CustomNSError, CustomStringConvertible {
    /// The message.
    public var errorDescription: String? { message }
    /// The message.
    public var description: String { message }
    /// `com.firebase`.
    public static var errorDomain: String { "com.firebase" }
    /// The code's raw value.
    public var errorCode: Int { code.rawValue }
    /// The message, as the localized description.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
}

extension DatabaseError {
    init(_ argument: InvalidArgument, in function: String) {
        self.init(.invalidArgument, "\(function): \(argument.description)")
    }

    /// Nil where it was done.
    ///
    /// - Parameter what: what the outcome is of: `the write at /a`.
    init?(_ outcome: RequestOutcome, of what: String) {
        switch outcome {
        case .done: return nil
        case .refused(let failure): self.init(failure, what)
        case .lost: self.init(.disconnected, "The connection ended before an answer came: \(what).")
        case .purged: self.init(.writeCanceled, "It was taken back by purgeOutstandingWrites(): \(what).")
        }
    }

    /// - Parameter what: what was refused: `setting /a`.
    init(_ failure: RequestFailure, _ what: String) {
        let reason = failure.explanation ?? failure.status.rawValue
        switch failure.status.rawValue {
        case "permission_denied": self.init(.permissionDenied, "The rules don't allow \(what).")
        case "expired_token", "invalid_token": self.init(.expiredToken, "The login was refused for \(what): \(reason)")
        case "unavailable": self.init(.unavailable, "The server can't do it now: \(what): \(reason)")
        default: self.init(.unknown, "The server refused \(what): \(reason)")
        }
    }
}
