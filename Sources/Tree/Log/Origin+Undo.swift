extension Origin {
    /// The origin of an entry that undoes another one, by an administrator's command.
    public init(undoing seq: Int64) {
        var writer = JSONWriter(form: .plain, reserving: 96)
        writer.beginObject()
        writer.writeKey("uid", isFirst: true)
        writer.raw("null")
        writer.writeKey("admin", isFirst: false)
        writer.raw("true")
        writer.writeKey("via", isFirst: false)
        writer.writeString(Transport.cli.rawValue)
        writer.writeKey("undoes", isFirst: false)
        writer.writeInteger(seq)
        writer.endObject()
        self.init(json: writer.bytes)
    }

    /// The seq of the entry that the entry of this origin undoes; nil for other entries.
    public var undoneSeq: Int64? { RawJSON(json).members?.first { $0.key == "undoes" }?.value.integer }
}
