#pragma once
#include <sqlite3.h>

// What a file brings with it is not run: its triggers and views (settings that Swift can't make, as their number of
// arguments varies). SQLITE_OK, or why not.
static inline int pathmirror_sqlite_distrust(sqlite3 *database) {
    const int settings[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW};
    int code = sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
    for (unsigned i = 0; code == SQLITE_OK && i < sizeof settings / sizeof *settings; i++) {
        code = sqlite3_db_config(database, settings[i], 0, (int *)0);
    }
    return code;
}
