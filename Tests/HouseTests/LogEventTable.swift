/// The operator's action for each log event. The messages are those of the sources; docs/reference/log-events.md is printed from both.
enum LogEventTable {
    /// By message, with `…` for interpolations.
    static let advice: [String: String] = [
        "a connection that blocked a namespace's writers and waited for its client was ended":
            "None once. Often: find out what kills gateways or cuts their connections.",
        """
        the database has committed a batch without its synchronous standby; the outcome is unknown until a standby \
        has a later commit
        """:
            "Repair the standby ([runbook](../guides/high-availability.md#runbook)).",
        "commit failed": "Act on `error`. The clients of these writes got an error.",
        "the log can't be read":
            "Act on `error`. Listeners of the namespace get no events until the cause is repaired.",
        "connections closed because the database does not answer":
            "Check whether PostgreSQL and the network path to PostgreSQL answer.",
        "database lost": "Act on `error`. Writes get 503 until `database connected`.",
        "database connected": "None.",
        "a namespace takes more memory than --tree-memory and stays in memory": "Raise `--tree-memory`.",
        "the trees in use take more memory than --tree-memory": "Raise `--tree-memory`, or move namespaces.",
        "THE DATABASE HAS LOST ENTRIES that this gateway had: the gateway has reloaded the namespace":
            "Find out what failed over or was restored ([what was lost](../guides/high-availability.md#what-was-lost)).",
        "namespace moved to another database": "None.",
        "namespace removed": "None.",
        "THE DATABASE HAS LOST A NAMESPACE that this gateway had": "Act as for lost entries.",
        "namespace loaded": "None.",
        "the stored rules can't be used; the gateway denies all access":
            "Set rules that compile: `pathmirror rules set`.",
        "a gateway has stopped its heartbeats: its sessions are ended": "Find out what happened to that gateway.",
        "the page file accepts no more pages, and trees stay in memory beyond --tree-memory":
            "Free space on the disk of `--page-directory`.",
        "the database has been migrated by a newer version: update this gateway soon, because it will not start again":
            "Finish the [update](../guides/upgrade.md#updates).",
        "commits can't be announced: other gateways find them by polling the heads":
            "Act on `error`. Other gateways follow up to a second later.",
        "feeds can't read the log": "Act on `error`. Feeds deliver nothing until the cause is repaired.",
        "a feed's tree could not be stored":
            "None: the gateway tries again. Until then a takeover of the feed takes longer.",
        "a feed has reached its limit of dead letters: retry or drop some": "`pathmirror feed dead ls` shows them.",
        "a feed is below its limit of dead letters again": "None.",
        "other gateways have taken over this gateway's feeds because its heartbeats stopped":
            "Find out what stopped this gateway: processor, memory, its connection to PostgreSQL.",
        "a gateway has stopped its heartbeats: its feeds are taken over": "Find out what happened to that gateway.",
        "a feed was not started because the connection to the database was lost: the gateway claims the feed again":
            "None.",
        "THE DATABASE HAS LOST ENTRIES that a feed has delivered: the feed continues with the remaining entries":
            "Consumers have messages of entries that no longer exist: correct the effects of these messages.",
        "feed is broken": "[PathmirrorFeedNotRunning](../runbook.md#pathmirrorfeednotrunning).",
        "the progress of feeds can't be stored":
            "Act on `error`. After a restart messages since then are delivered again.",
        "the last progress of feeds was not stored": "None: some messages are delivered again.",
        "the follower is connected": "None.",
        "the follower's connection ended": "None once: the gateway connects again. Often: act on `reason`.",
        "a part is synchronized": "None.",
        "a part was too large for one listen, and was split":
            "None. Order and atomicity then hold within each part; `pathmirror follow status` shows the number of parts.",
        "the follower renewed its login": "None.",
        "the follower has no credential":
            "Act on `reason`: the file of credentials, the token endpoint, or the clock of the gateway.",
        "the follower has a problem": "Act on `reason`; `pathmirror follow status` shows it too.",
        "the upstream behaved irregularly":
            "None. Report it with `detail` if the namespace differs afterwards (`pathmirror follow verify`).",
        "the upstream's rules were not adopted": "Follow with `--keep-rules`, and set rules of your own.",
        "this gateway follows the upstream": "None.",
        "another gateway follows the upstream now":
            "None, if it happens once. Often: find out what stops the gateways.",
        "the status of a follower can't be stored":
            "Act on `error`. Other followers are not affected; other gateways take this one over if it lasts.",
        "the namespace can't follow its upstream":
            "Act on `reason`. Then: `pathmirror follow pause NS` and `pathmirror follow resume NS`, or `follow rm` and `follow add`.",
        "keys fetched": "None.",
        "access token issued": "None. An unknown `address`: [revoke the key](../guides/revoke-a-token.md).",
        "assertion of a service account refused": "Act on `reason`: the clock of `account`'s server, or its file.",
        "access token of Google refused":
            "Give the server a [service account](../guides/admin-sdks.md#service-accounts) of the gateway.",
        "the issuer's keys can't be fetched":
            "Make `--jwks-url` reachable from here. The gateway checks tokens with the last keys while these are valid.",
        """
        this gateway has lost its lease (its heartbeats stopped, or the database has lost entries): closing all \
        realtime sessions
        """:
            "Find out what stopped this gateway, or what the database lost. Clients connect again.",
        "a realtime message is larger than --max-user-body: its connection is closed":
            "Correct the client, or raise the limit.",
        "the database was promoted": "None, if a failover was meant to happen.",
        "another database cluster answers": "Check the address of the database: it is a different installation.",
        "mirror rebuilt": "None. Create again what `lost` names.",
        "mirror can't be rebuilt now": "Act on `error`. The gateway tries again.",
        "THE DATABASE HAS LOST ENTRIES that a mirror's table has: the table is rebuilt from …":
            "None: the gateway rebuilds the table. Reports may have shown lost entries.",
        "mirrors stopped": "Act on `error`. The gateway starts the mirrors again.",
        "mirrors can't be read": "Act on `error`. Mirrors do not start or change until the cause is repaired.",
        "mirror is broken because its definition can't be used: apply another definition":
            "`pathmirror mirror apply` with a corrected definition.",
        "mirror runs again": "None.",
        "mirror is broken": "Act on `error`; `pathmirror mirror status` shows it too. The gateway tries again.",
        "logs can't be shortened": "Act on `reason`. Logs grow until the cause is repaired.",
        "names of writes can't be deleted": "Act on `reason`.",
        "a log was not shortened": "`pathmirror retention ls` names the reader that needs the log.",
        "log shortened": "None.",
        "one step blocked a thread for too long":
            "Once: none. Often: the machine lacks processor time or memory; `by` names the step.",
        "the rules of a namespace deny requests: sign in, send 'Authorization: Bearer owner', or remove the rules":
            "Run the command in `show` to read the rules, or the command in `remove` to remove them.",
        "a function has no feed": "Act on `error`, and register the function again.",
        "PostgreSQL stopped": "None: `dev` ends.",
        "migrated": "None.",
        "functions applied": "None.",
        "remote clients can only access namespaces that have their own rules, or authenticate as administrators":
            "Set rules for the namespaces that they need.",
        "PostgreSQL ended unexpectedly; starting it again": "Read the file that `log` names.",
        "no --rules file: namespaces without uploaded rules reject all non-admin requests":
            "Give `--rules FILE`, or set rules for each namespace.",
        "certificate loaded": "None.",
        "the new certificate can't be loaded; the previous one stays in use":
            "Act on `error`, before the old certificate expires.",
        "the certificate expires soon, or has expired": "Renew it, and replace its files.",
        """
        a database was removed from the primary database's list: its namespaces are not served, and it can be added \
        again after this gateway is restarted
        """:
            "None, if it was removed on purpose.",
        "a database has a new address: this gateway keeps the old one until it is restarted":
            "Restart this gateway.",
        "a database can't be used": "Act on `error`. Its namespaces are not served.",
        "database added": "None.",
        """
        the connection to PostgreSQL crosses a network and does not verify the server: an attacker on the network \
        can read and change all data
        """:
            "Do what `fix` says.",
        "other users can read or change a file of secrets": "Do what `fix` says.",
        "secrets read": "None.",
        "the secrets can't be read; the previous ones stay in use": "Act on `error`.",
        "environment variables that match no option are ignored":
            "Give them the [new names](renamed.md#renamed-options), or remove them.",
        "constants were changed, which only tests should do": "Start the gateway without `PATHMIRROR_TUNE`.",
        "shutting down": "None.",
        "stopped": "None.",
        "the program ends: a part of a tree can't be read from the page file":
            "Check the disk of `directory`, and start the gateway again. Nothing that was acknowledged is lost.",
        "no page file: trees larger than --tree-memory stay in memory":
            "Make `directory` writable, or name another one by `--page-directory`.",
    ]
}
