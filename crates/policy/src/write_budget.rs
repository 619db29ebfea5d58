//! Flash write budget: bounds flash wear by a share of the bytes asked for, by a byte rate, or by drive writes per day.
//!
//! Rewrites count, too: a policy that rewrites much admits little. The budget has a reserve for chunks that were asked
//! for twice, so that they never lack budget. Other chunks are admitted only while the reserve is left. Without a
//! reserve, early chunks would use up the budget of more valuable ones.
//!
//! The budget is a token bucket without a cap: all counts begin at the start, so a rate is a mean. A busy day may write
//! what a quiet night leaves. The budget bounds the wear of the drive, and not its load.

use zonal_base::{Bytes, Nanos};

use crate::share::Share;

/// Flash write budget of a cache.
#[derive(Clone, Copy, Debug)]
pub struct WriteBudget {
    allowance: Allowance,
    room: Bytes,
    reserve: Bytes,
}

/// Rule that earns budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// A share of the bytes that readers ask for.
    Share(Share),
    /// Bytes per second.
    Rate(Bytes),
    /// Drive writes per day (DWPD): a share of the whole room per day.
    Daily(Share),
}

/// Counters since the start, from which the budget follows.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Bytes that readers asked for.
    pub asked_for: Bytes,
    /// Time since the start.
    pub elapsed: Nanos,
    /// Bytes written to flash, for whatever reason.
    pub written: Bytes,
}

/// State of the budget: how much more may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The reserve is left: any chunk may be admitted.
    Ample,
    /// Less than the reserve is left: admit only chunks that are known to be worth it.
    Short,
}

/// Reserve for chunks that were asked for twice, as a share of the whole room. In replays of five traces, anything from
/// half of it to seven times as much made no difference of 0.1 points on the mean.
const RESERVE: Share = Share::percent(2);

const SECOND: Nanos = Nanos::secs(1);
const DAY: Nanos = Nanos::secs(24 * 60 * 60);

impl WriteBudget {
    /// A budget for a cache of `room` bytes.
    pub(crate) fn new(allowance: Allowance, room: Bytes) -> Self {
        Self { allowance, room, reserve: RESERVE.of_bytes(room) }
    }

    /// Bytes that may be written in a day. `None`: the budget is a share of the bytes asked for.
    #[must_use]
    pub fn per_day(&self) -> Option<Bytes> {
        match self.allowance {
            Allowance::Share(_) => None,
            Allowance::Rate(rate) => Some(Bytes(rate.0.saturating_mul(DAY.0 / SECOND.0))),
            Allowance::Daily(share) => Some(share.of_bytes(self.room)),
        }
    }

    /// Whether `len` bytes may be written now.
    #[must_use]
    pub fn affords(&self, len: Bytes, account: Account) -> bool {
        account.written + len <= self.earned(account)
    }

    /// Whether the reserve is left.
    #[must_use]
    pub fn means(&self, account: Account) -> Means {
        match self.affords(self.reserve, account) {
            true => Means::Ample,
            false => Means::Short,
        }
    }

    fn earned(&self, account: Account) -> Bytes {
        match self.allowance {
            Allowance::Share(share) => share.of_bytes(account.asked_for),
            Allowance::Rate(bytes) => in_time(bytes, account.elapsed, SECOND),
            Allowance::Daily(share) => in_time(share.of_bytes(self.room), account.elapsed, DAY),
        }
    }
}

/// Bytes earned in `elapsed`, when each `period` earns `bytes`.
fn in_time(bytes: Bytes, elapsed: Nanos, period: Nanos) -> Bytes {
    let earned = u128::from(bytes.0) * u128::from(elapsed.0) / u128::from(period.0);
    Bytes(u64::try_from(earned).unwrap_or(u64::MAX))
}

impl Allowance {
    /// Parses `20%`, `50MiB/s` or `0.5dwpd`. `None` for any other text, and for a rate of zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(rate) = text.strip_suffix("/s") {
            return rate.parse().ok().filter(|rate| *rate != Bytes(0)).map(Self::Rate);
        }
        match text.strip_suffix("dwpd") {
            Some(times) => Share::parse_times(times, DAILY_MAX)
                .filter(|share| *share != Share::NOTHING)
                .map(Self::Daily),
            None => Share::parse(text, SHARE_MAX).map(Self::Share),
        }
    }
}

/// Highest rate in drive writes per day (100): the endurance of write-intensive drives.
const DAILY_MAX: Share = Share::percent(10_000);

const SHARE_MAX: Share = Share::percent(1000);

#[cfg(test)]
mod tests {
    use super::*;

    fn account(asked_for: u64, elapsed: Nanos, written: u64) -> Account {
        Account { asked_for: Bytes(asked_for), elapsed, written: Bytes(written) }
    }

    #[track_caller]
    fn check(text: &str, room: u64, account: Account, left: u64) {
        let budget = WriteBudget::new(Allowance::parse(text).unwrap(), Bytes(room));
        assert!(budget.affords(Bytes(left), account), "{text}: {left}");
        assert!(!budget.affords(Bytes(left + 1), account), "{text}: {left} and one more");
    }

    #[test]
    fn what_is_asked_for_is_earned_in_part() {
        check("25%", 100, account(0, DAY, 0), 0);
        check("25%", 100, account(8, DAY, 0), 2);
        check("25%", 100, account(8, DAY, 1), 1);
    }

    #[test]
    fn time_earns_too() {
        check("1KiB/s", 100, account(0, Nanos(SECOND.0 / 2), 0), 512);
        check("1KiB/s", 100, account(1 << 40, Nanos(SECOND.0 * 3), 1024), 2048);
        check("2dwpd", 1000, account(0, DAY, 500), 1500);
        check("0.125dwpd", 8000, account(0, Nanos(DAY.0 / 2), 0), 500);
        // Twenty years of the largest drives at 10 drive writes per day: no overflow.
        check("10dwpd", 1 << 46, account(0, Nanos(DAY.0 * 7300), 0), (1 << 46) * 73_000);
    }

    #[test]
    fn two_hundredths_of_the_room_are_kept() {
        let budget = WriteBudget::new(Allowance::Share(Share::percent(25)), Bytes(100));
        assert_eq!(budget.means(account(40, DAY, 8)), Means::Ample);
        assert_eq!(budget.means(account(40, DAY, 9)), Means::Short);
    }

    #[test]
    fn what_is_no_allowance_is_refused() {
        for text in [
            "",
            "5",
            "1001%",
            "0B/s",
            "50XB/s",
            "50MiB",
            "MiB/s",
            "0dwpd",
            "101dwpd",
            "1.2345dwpd",
            "dwpd",
            "-1dwpd",
        ] {
            assert_eq!(Allowance::parse(text), None, "{text}");
        }
    }
}
