import Testing
import Tree

/// Checks the hashes of rtdb-protocol 4.1, and some more; expected values were computed independently of this code.
struct NodeHashTests {
    @Test(arguments: [
        ("true", "E5z61QM0lN/U2WsOnusszCTkR8M="),
        ("false", "aSSNoqcS4oQwJ2xxH20rvpp3zP0="),
        ("0", "7ysMph9WPitGP7poMnMHMVPtUlI="),
        ("-0.0", "m/gA365Q5OBo06Bg8wdybAAiMSQ="),
        ("1", "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="),
        ("1.0", "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="),
        ("-1", "dMw8oUBNk57KCeIcgAKXVS2BfB0="),
        ("1.5", "4MftviR9Z/2MQCMkjh2RNbvlLJc="),
        ("0.1", "wtQjBi5TBE+ZcdekL6INiSeCSQI="),
        ("500", "Ajg9bohDwTVmqR14o1bVJnneryM="),
        ("9007199254740993", "m4qsp/5BbIWTdjthNlnOX+WCTB0="),
        ("9223372036854775807", "32bocnbu4EgM2BqL/q++g0AWEbw="),
        ("-9223372036854775808", "t8Zsu6QlM7Q4staTHVsgiTYxyUs="),
        ("1.7976931348623157e308", "8R+ekVQmxs6ZWP0fdzFHxVeGnWo="),
        ("5e-324", "AVzIJwC869iLHq/DQh6bzLDrVO4="),
        (#""""#, "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
        (#""Hello World""#, "B8HWXc7zXMjrsnJxPRj7wrNGqt4="),
        (#""a\"b\\c:d""#, "QjTL3AVIHxY1M5u39OD3NurWBZ8="),
        (#""café""#, "OUWKdxYnelyYt/fL1X/jyd4ucWc="),
        (#""😀""#, "MK8AFmo8GmKyFMO+8POk61hHbOQ="),
    ])
    func `a leaf's hash`(text: String, expected: String) throws {
        #expect(try node(text).hash == expected)
    }

    @Test(arguments: [
        (#"{"foo":"bar"}"#, "XnLeTeWQmzTHImTbSMDLg/qMrKY="),
        (#"{"a":1,"b":2}"#, "AUZnXhNqrfbznYVxcCvNpzpjvTU="),
        (#"{"z":1,"a":"2","b":"true","c":false}"#, "8qk5vmuZGXWJx+77SGwjYRM0yPA="),
        (#"{"2":"two","10":"ten","a":"x","-1":"neg"}"#, "5uuUFOv/OSacB5uRWDO0NFbnV0Y="),
        (#"{"x":{"y":{"z":true}}}"#, "IQO886LoZQFgunzsOy1l9f65+cA="),
        (#"{"😀":1,"～":2,"z":3}"#, "wiNWLtYMsslmVEph5pP/qlxRTPM="),
        (#"{"\u00e9":1,"e\u0301":2}"#, "f5OAY1ls26/X5sd7kM/+A9WHPFQ="),
    ])
    func `a branch's hash`(text: String, expected: String) throws {
        #expect(try node(text).hash == expected)
    }

    @Test(arguments: [
        (#"{".value":"primitive",".priority":200}"#, "R9u8hs9fhRzuQ2M/3BQ0uhxz5ys="),
        (#"{".value":42,".priority":"high"}"#, "d/2FMFWchvDsa06RLXZhzvM9aQc="),
        (#"{"someKey":"value",".priority":128.256}"#, "WYR8kBGna+a7E5x75zvhPhzACOQ="),
        (#"{"someKey":"value",".priority":"high"}"#, "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
        (#"{"a":{".value":1,".priority":2},"b":{".value":2,".priority":1},"c":3}"#, "fD8tomCWiUTqGMwgZ4szaEG2I6U="),
        (
            #"{"a":{".value":1,".priority":"x"},"b":{".value":2,".priority":-1.5},"c":3,"d":{".value":4,".priority":"X"},"#
                + #""10":{".value":5,".priority":-1.5},"9":{"q":1,".priority":-1.5}}"#,
            "hKe2Gg3x9KQRBCbCwaRi+qyr1Qo="
        ),
    ])
    func `priorities are hashed and order the children`(text: String, expected: String) throws {
        #expect(try node(text).hash == expected)
    }

    @Test func `nothing hashes to nothing`() throws {
        #expect(Node.null.hash == "")
        #expect(try node("{}").hash == "")
    }

    @Test func `an integer hashes as the double nearest to it`() {
        #expect(Node.int(9_007_199_254_740_993).hash == Node.double(9_007_199_254_740_992).hash)
        #expect(Node.int(.max).hash == Node.double(9_223_372_036_854_775_808).hash)
    }
}
