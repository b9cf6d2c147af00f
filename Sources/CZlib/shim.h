#pragma once
#include <zlib.h>

// zlib's own names for these are macros, which Swift does not see.
static inline int pathmirror_deflate_init_gzip(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}

static inline int pathmirror_inflate_init_gzip(z_stream *stream) {
    return inflateInit2(stream, 15 + 32);
}
