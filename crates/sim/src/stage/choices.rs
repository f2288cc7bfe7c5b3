//! How often rare choices are made, and were.

use highwater_core::hooks::Site;

/// How often rare choices are made: one in so many times, never if 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buggify(BySite);

impl Buggify {
    /// Sets one site's rate.
    pub fn with(mut self, site: Site, one_in: u64) -> Buggify {
        *self.0.at(site) = one_in;
        self
    }

    /// One site's rate.
    pub(super) fn rate(&self, site: Site) -> u64 {
        self.0.get(site)
    }
}

/// A number for each of a few sites. A search, because sites are many crates' own and have no numbers themselves; the list is
/// short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BySite(Vec<(Site, u64)>);

impl BySite {
    /// A site's number; 0 if none was set.
    pub fn get(&self, site: Site) -> u64 {
        self.0.iter().find(|(known, _)| *known == site).map_or(0, |(_, number)| *number)
    }

    /// The same, to be changed.
    pub fn at(&mut self, site: Site) -> &mut u64 {
        let at = self.0.iter().position(|(known, _)| *known == site).unwrap_or_else(|| {
            self.0.push((site, 0));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}
