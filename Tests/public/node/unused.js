// For modules that releases of the JavaScript SDK load in Node, and whose work its tests do not need.
module.exports = function () {};
module.exports.XMLHttpRequest = module.exports;
