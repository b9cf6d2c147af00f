/// The names of the headers by which REST clients and the server understand one another (reference: rtdb-protocol 7.1, 7.4,
/// 8; the ones that begin with `X-Pathmirror` are this server's own).
public enum RESTHeader {
    /// `true` asks for the tag of the data.
    public static let firebaseETag = "X-Firebase-ETag"
    /// The tag of the data.
    public static let etag = "ETag"
    /// The write is to be made only if the data has this tag.
    public static let ifMatch = "If-Match"
    /// The data is to be sent only if it has another tag.
    public static let ifNoneMatch = "If-None-Match"
    /// The method that a POST stands for.
    public static let methodOverride = "X-HTTP-Method-Override"
    /// The id behind which a stream is to go on.
    public static let lastEventID = "Last-Event-ID"
    /// The seq of the tree that an answer is of.
    public static let seq = "X-Pathmirror-Seq"
    /// The least seq that the tree must have which a request is answered from.
    public static let minSeq = "X-Pathmirror-Min-Seq"
}
