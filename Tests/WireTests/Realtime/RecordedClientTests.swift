import Testing
import Tree
import Wire

/// Checks that recorded messages of SDKs (rtdb-protocol 2.3, 10.1) are read, and written again as the same bytes.
@Suite struct RecordedClientTests {
    static let session = [
        #"{"t":"d","d":{"r":1,"a":"s","b":{"c":{"sdk.node.12-18-0":1}}}}"#,
        #"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/a","d":{"x":1,"y":{".value":2,".priority":5}}}}}"#,
        #"{"t":"d","d":{"r":3,"a":"q","b":{"p":"/a","q":{"sp":1,"sin":true,"l":2,"vf":"r","i":"k"},"t":1,"h":""}}}"#,
        #"{"t":"d","d":{"r":4,"a":"g","b":{"p":"/a","q":{}}}}"#,
        #"{"t":"d","d":{"r":5,"a":"g","b":{"p":"/a","q":{"sp":"x","sin":true,"ep":"x","ein":true,"i":".key"}}}}"#,
        #"{"t":"d","d":{"r":6,"a":"q","b":{"p":"/b","q":{"sp":3,"sn":"[MAX_NAME]","sin":false,"i":".value"},"t":3,"h":""}}}"#,
        #"{"t":"d","d":{"r":7,"a":"q","b":{"p":"/b","q":{"ep":"m","ein":false,"i":".key"},"t":4,"h":""}}}"#,
        #"{"t":"d","d":{"r":8,"a":"q","b":{"p":"/c","h":""}}}"#,
        #"{"t":"d","d":{"r":9,"a":"p","b":{"p":"/c","d":1,"h":""}}}"#,
        #"{"t":"d","d":{"r":10,"a":"m","b":{"p":"/","d":{"p/q":1,"r":{".sv":{"increment":2}},"s":{".sv":"timestamp"}}}}}"#,
        #"{"t":"d","d":{"r":11,"a":"o","b":{"p":"/pres","d":{".sv":"timestamp"}}}}"#,
        #"{"t":"d","d":{"r":12,"a":"om","b":{"p":"/pres2","d":{"a":1,"b/c":null}}}}"#,
        #"{"t":"d","d":{"r":13,"a":"oc","b":{"p":"/pres","d":null}}}"#,
        #"{"t":"d","d":{"r":15,"a":"p","b":{"p":"/a/.priority","d":3}}}"#,
        #"{"t":"d","d":{"r":16,"a":"p","b":{"p":"/w","d":{".value":"v",".priority":"hi"}}}}"#,
        #"{"t":"d","d":{"r":18,"a":"n","b":{"p":"/a","q":{"sp":1,"sin":true,"l":2,"vf":"r","i":"k"},"t":1}}}"#,
        #"{"t":"d","d":{"r":2,"a":"auth","b":{"cred":"a.b.c"}}}"#,
        #"{"t":"d","d":{"r":3,"a":"gauth","b":{"cred":"owner","authvar":{"uid":"x"}}}}"#,
        #"{"t":"d","d":{"r":3,"a":"gauth","b":{"cred":"owner","noauth":true}}}"#,
        #"{"t":"d","d":{"r":4,"a":"unauth","b":{}}}"#,
        #"{"t":"d","d":{"r":5,"a":"appcheck","b":{"token":"t"}}}"#,
        #"{"t":"d","d":{"r":6,"a":"unappeck","b":{}}}"#,
        #"{"t":"d","d":{"r":7,"a":"q","b":{"p":"/x","h":"h","ch":{"hs":["a","b",""],"ps":["bar/deep","foo/other-deep"]}}}}"#,
        #"{"t":"d","d":{"r":8,"a":"q","b":{"p":"/x","h":"h","ch":{"hs":["a",""],"ps":["/"]}}}}"#,
        #"{"t":"c","d":{"t":"p","d":{}}}"#,
        #"{"t":"c","d":{"t":"a","d":{}}}"#,
        #"{"t":"c","d":{"t":"n","d":{}}}"#,
    ]

    @Test(arguments: session) func comesBackAsItWas(text: String) throws {
        let message = try ClientMessageParser.parse(Array(text.utf8))
        #expect(message.text.map { string($0) } == text)
        #expect(try ClientMessageParser.parse(Array(text.utf8)) == message)
    }

    /// Other spellings of SDKs have the same meaning: without leading slashes, or with members in another order.
    @Test(arguments: [
        (
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"a/b","h":""}}}"#,
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a/b","h":""}}}"#
        ),
        (#"{"d":{"b":{},"a":"unappcheck","r":6},"t":"d"}"#, #"{"t":"d","d":{"r":6,"a":"unappeck","b":{}}}"#),
        (#"{"t":"d","d":{"r":1,"a":"l","b":{"p":"/"}}}"#, #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/","h":""}}}"#),
        (#"{"t":"d","d":{"r":1,"a":"u","b":{"p":"/a"}}}"#, #"{"t":"d","d":{"r":1,"a":"n","b":{"p":"/a"}}}"#),
        (
            #"{"t":"d","d":{"r":1,"a":"g","b":{"q":null,"p":"a"}}}"#,
            #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/a","q":{}}}}"#
        ),
        (#"{"t":"d","d":{"r":1,"a":"s"}}"#, #"{"t":"d","d":{"r":1,"a":"s","b":{}}}"#),
        (#"{"t":"c","d":{"t":"p"}}"#, #"{"t":"c","d":{"t":"p","d":{}}}"#),
    ]) func otherSpellings(text: String, written: String) throws {
        let message = try ClientMessageParser.parse(Array(text.utf8))
        #expect(message.text.map { string($0) } == written)
    }

    @Test func keepAlivesAreNoMessages() {
        var assembler = SegmentAssembler(maxBytes: 100)
        #expect(assembler.take(ClientMessage.keepAlive) == .nothing)
        #expect(throws: MessageError.self) { try ClientMessageParser.parse(ClientMessage.keepAlive) }
    }
}
