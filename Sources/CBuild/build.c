#include "CBuild.h"

// `Package.swift` defines the commit, if the environment of the build names one.
#ifndef PATHMIRROR_COMMIT
#define PATHMIRROR_COMMIT
#endif

#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

const char *pathmirror_build_commit(void) { return TEXT(PATHMIRROR_COMMIT); }
