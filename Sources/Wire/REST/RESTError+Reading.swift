import Tree

extension RESTError {
    /// What a client is told of a refusal: the text of `{"error":"…"}`, or the whole body where it is something else
    /// (reference: rtdb-protocol 7.3). Of a long body its beginning.
    public init(status: Int, body: [UInt8]) {
        let most = 16 * 1024
        if let member = RawJSON(body).members?.last(where: { $0.key == "error" }), let text = member.value.string {
            self.init(status, text)
        } else {
            let text = String(decoding: body.prefix(most), as: UTF8.self)
            self.init(status, String(text.prefix { $0 != "\n" && $0 != "\r\n" }))
        }
    }
}
