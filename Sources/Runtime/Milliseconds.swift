/// A span of time, or a moment of `Clock`, in milliseconds. One width everywhere, so that spans and moments add up
/// without conversions; whose moment it is (monotonic, or since 1970) the name of the variable says.
public typealias Milliseconds = Int64
