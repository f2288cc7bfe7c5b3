//! Commands about a connection and its transaction: what they do is the [connection](crate::connection)'s.

use crate::command::entry::commands;

commands! {
    control;

    MULTI = 4 {
        run: Multi,
        name: "multi", arity: 1, flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, keys: NO_DATA,
        group: "transactions", since: "1.2.0",
        summary: "Mark the start of a transaction block",
        docs: "
            complexity O(1)
        ",
    }

    EXEC = 5 {
        run: Exec,
        name: "exec", arity: 1, flags: NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG, keys: NO_DATA,
        group: "transactions", since: "1.2.0",
        summary: "Execute all commands issued after MULTI",
        docs: "
            complexity Depends on commands in the transaction
        ",
    }

    WATCH = 6 {
        run: Watch,
        name: "watch", arity: -2, flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, keys: ALL_KEYS,
        group: "transactions", since: "2.2.0",
        summary: "Watch the given keys to determine execution of the MULTI/EXEC block",
        specs: "RO index 1 range -1 1 0",
        docs: "
            complexity O(1) for every key.
            - key: key #0 multiple
        ",
    }

    UNWATCH = 7 {
        run: Unwatch,
        name: "unwatch", arity: 1, flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, keys: NO_DATA,
        group: "transactions", since: "2.2.0",
        summary: "Forget about all watched keys",
        docs: "
            complexity O(1)
        ",
    }

    DISCARD = 8 {
        run: Discard,
        name: "discard", arity: 1, flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, keys: NO_DATA,
        group: "transactions", since: "2.0.0",
        summary: "Discard all commands issued after MULTI",
        docs: "
            complexity O(N), when N is the number of queued commands
        ",
    }

    RESET = 175 {
        run: Reset,
        name: "reset", arity: 1,
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | WHILE_LISTENING, keys: NO_DATA,
        group: "connection", since: "6.2.0",
        summary: "Reset the connection",
        docs: "
            complexity O(1)
        ",
    }

    QUIT = 178 {
        run: Quit,
        name: "quit", arity: -1,
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | WHILE_LISTENING, keys: NO_DATA,
        group: "connection", since: "1.0.0",
        summary: "Close the connection",
        docs: "
            complexity O(1)
        ",
    }

    HW_ONCE = 188 {
        run: Once,
        name: "hw.once", arity: -3, flags: NOSCRIPT | FAST | MOVABLEKEYS, keys: BEHIND, group: "transactions",
        since: "0.1.0",
        summary: "Run a command, or inside MULTI the block, once under a number of a session",
        docs: "
            - session: integer
            - number: integer
            - command: block optional
            -- name: string
            -- arg: string optional multiple
        ",
    }

    HW_CALL = 192 {
        run: Call,
        name: "hw.call", arity: -2, flags: WRITE | DENYOOM | NOSCRIPT, keys: PROCEDURE, group: "transactions",
        since: "0.1.0",
        summary: "Call a procedure by name, as a transaction of its own",
        docs: "
            complexity Depends on the procedure
            - procedure: string
            - arg: string optional multiple
        ",
    }

    HW_BEGIN = 198 {
        run: Begin,
        name: "hw.begin", arity: -1, flags: NOSCRIPT | FAST, keys: NO_DATA, group: "transactions",
        since: "0.1.0",
        summary: "Begin a transaction whose commands are answered one by one",
        docs: "
            complexity O(1)
            - milliseconds: integer 'TIMEOUT' optional
        ",
    }

    HW_COMMIT = 199 {
        run: Commit,
        name: "hw.commit", arity: 1, flags: DENYOOM | NOSCRIPT, keys: NO_DATA, group: "transactions",
        since: "0.1.0",
        summary: "Commit the transaction that HW.BEGIN began, if every reply in it still holds",
        docs: "
            complexity Depends on the commands of the transaction
        ",
    }

    HW_ROLLBACK = 200 {
        run: Rollback,
        name: "hw.rollback", arity: 1, flags: NOSCRIPT | FAST, keys: NO_DATA, group: "transactions",
        since: "0.1.0",
        summary: "End the transaction that HW.BEGIN began, with nothing done",
        docs: "
            complexity O(1)
        ",
    }

    HW_TOKEN = 202 {
        run: Token,
        name: "hw.token", arity: 1, flags: NOSCRIPT | FAST, keys: NO_DATA, group: "cluster", since: "0.1.0",
        summary: "Get the moment up to which this connection has seen everything, for HW.FRESHNESS SINCE",
        docs: "
            complexity O(1)
        ",
    }

    SUBSCRIBE = 210 {
        run: Subscribe,
        name: "subscribe", arity: -2, flags: PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING,
        keys: NO_DATA, group: "pubsub", since: "2.0.0",
        summary: "Listen to channels of Redis's sentinels",
        docs: "
            complexity O(N) where N is the number of channels to subscribe to.
            - channel: string multiple
        ",
    }

    PSUBSCRIBE = 211 {
        run: Psubscribe,
        name: "psubscribe", arity: -2, flags: PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING,
        keys: NO_DATA, group: "pubsub", since: "2.0.0",
        summary: "Listen to channels of Redis's sentinels that match patterns",
        docs: "
            complexity O(N) where N is the number of patterns to subscribe to.
            - pattern: pattern multiple
        ",
    }

    UNSUBSCRIBE = 212 {
        run: Unsubscribe,
        name: "unsubscribe", arity: -1, flags: PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING,
        keys: NO_DATA, group: "pubsub", since: "2.0.0",
        summary: "Stop listening to channels",
        docs: "
            complexity O(N) where N is the number of channels to unsubscribe from.
            - channel: string optional multiple
        ",
    }

    PUNSUBSCRIBE = 213 {
        run: Punsubscribe,
        name: "punsubscribe", arity: -1, flags: PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING,
        keys: NO_DATA, group: "pubsub", since: "2.0.0",
        summary: "Stop listening to channels that match patterns",
        docs: "
            complexity O(N) where N is the number of patterns to unsubscribe from.
            - pattern: pattern optional multiple
        ",
    }
}
