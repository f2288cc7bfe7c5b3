//! Mistakes that whoever validates could make: see [`highwater_core::planted`](mod@highwater_core::planted).

highwater_core::bugs! {
    ScanForgives = "scan-forgives" {
        mistake: "a scan that saw no trace of a key is valid where the key was written and deleted since",
        breaks: "a change of epoch that knows of the insert takes back what was acknowledged",
        shows: Toggled,
        within: 2000,
    }
}
