//! Mistakes that the store could make, to be planted in it: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    ReplayUnordered = "replay-unordered" {
        mistake: "replay installs without comparing timestamps",
        breaks: "older values stay over newer ones; replicas differ",
        shows: Any,
        within: 2000,
    }
    CopyUnordered = "copy-unordered" {
        mistake: "copied records are installed over newer ones from the log",
        breaks: "writes that arrived during the copy are lost",
        shows: Mortal,
        within: 2000,
    }
    StampedLate = "stamped-late" {
        mistake: "a transaction takes its timestamp after its reads are validated",
        breaks: "a follower's snapshot shows who overwrote what it read, but not the transaction itself",
        shows: Observed,
        within: 2000,
    }
    ReadsUnvalidated = "reads-unvalidated" {
        mistake: "what a transaction read is not validated",
        breaks: "write skew and lost updates",
        shows: Contended,
        within: 2000,
    }
    LockIgnored = "lock-ignored" {
        mistake: "validation accepts records that another transaction has locked",
        breaks: "of two that read what the other writes, both commit",
        shows: Contended,
        within: 2000,
    }
    PhantomsAllowed = "phantoms-allowed" {
        mistake: "absent keys and scanned ranges are not validated",
        breaks: "phantoms: rows that a scan should have seen",
        shows: Contended,
        within: 2000,
    }
    GrowthUnpaid = "growth-unpaid" {
        mistake: "writes that make a store grow are charged to nobody's memory",
        breaks: "stores grow beyond their budgets",
        shows: Full,
        within: 2000,
    }
}
