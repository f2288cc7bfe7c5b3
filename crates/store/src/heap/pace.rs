//! How much memory should stand ready: what was asked for lately, times the calls that it shall last.

/// Chunks that stand ready while the store grows, at least.
pub(super) const LEAST: u64 = 2;
const MOST: u64 = 64;
/// And at most this part of what is used, if that is more than the least.
const USED_PART: u64 = 8;
/// So many calls' demand stands ready.
const AHEAD: u64 = 8;
/// After so many calls without demand the store counts as idle.
pub(super) const IDLE: u32 = 200;

/// How fast chunks are asked for.
#[derive(Default)]
pub(super) struct Pace {
    /// The pool's demand at the last call.
    seen: u64,
    /// Chunks a call, the most that was seen lately, in 64ths.
    peak: u64,
    /// Calls since there was any demand.
    pub quiet: u32,
    pub calls: u32,
}

impl Pace {
    /// How many chunks should stand ready, of a store that uses so many: a small one gets little, however fast it grows, so that what stands
    /// ready is never most of what it takes.
    pub fn want(&mut self, demand: u64, used: u64) -> u64 {
        let now = (demand - self.seen) * 64;
        self.seen = demand;
        self.quiet = if now > 0 { 0 } else { self.quiet.saturating_add(1) };
        self.peak = now.max(self.peak - self.peak.div_ceil(64));
        if self.quiet >= IDLE || demand == 0 {
            return 0;
        }
        (self.peak * AHEAD / 64).clamp(LEAST, MOST.min(LEAST.max(used / USED_PART)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_ready_follows_the_demand_and_ends_with_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.want(0, 0), 0, "nothing was ever asked for");
        assert_eq!(pace.want(1, 1000), AHEAD);
        assert_eq!(pace.want(5, 1000), 4 * AHEAD);
        for _ in 0..IDLE - 1 {
            assert!(pace.want(5, 1000) >= LEAST);
        }
        assert_eq!(pace.want(5, 1000), 0, "idle");
        assert_eq!(pace.want(1000, 1000), MOST);
        assert_eq!((pace.want(2000, 5), pace.want(3000, 80)), (LEAST, 10), "an eighth of what is used");
    }
}
