// The HTTP/1.1 parser (Debian package libhttp-parser-dev), with accessors for the bit fields that Swift cannot see.
#ifndef PATHMIRROR_CHTTPPARSER_SHIM_H
#define PATHMIRROR_CHTTPPARSER_SHIM_H

#include <http_parser.h>

static inline int pathmirror_http_errno(const http_parser *parser) { return (int)parser->http_errno; }
static inline int pathmirror_http_method(const http_parser *parser) { return (int)parser->method; }
static inline int pathmirror_http_is_upgrade(const http_parser *parser) { return (int)parser->upgrade; }
static inline int pathmirror_http_is_chunked(const http_parser *parser) { return (parser->flags & F_CHUNKED) != 0; }
static inline int pathmirror_http_has_length(const http_parser *parser) {
    return (parser->flags & F_CONTENTLENGTH) != 0;
}

#endif
