//! Timestamps: a second in UTC, in the three formats of S3.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A second in UTC between the years 1970 and 9999. Displays in the format of `x-amz-date`:
/// `20130524T000000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    unix_seconds: u64,
}

/// Seconds in a day. Unix time has no leap seconds.
const DAY_SECONDS: u64 = 86_400;

/// The last second of the year 9999, in Unix seconds. Later years would need a fifth digit.
const LAST_SECOND: u64 = 253_402_300_799;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Timestamp {
    /// The timestamp `unix_seconds` after the start of 1970. Times after the year 9999 saturate at
    /// its end.
    #[must_use]
    pub const fn from_unix_seconds(unix_seconds: u64) -> Self {
        let last = unix_seconds > LAST_SECOND;
        Self { unix_seconds: if last { LAST_SECOND } else { unix_seconds } }
    }

    /// Rounds `time` down to a second. Times before 1970 become the start of 1970.
    #[must_use]
    pub fn from_system_time(time: SystemTime) -> Self {
        Self::from_unix_seconds(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// Seconds since the start of 1970.
    #[must_use]
    pub const fn unix_seconds(self) -> u64 {
        self.unix_seconds
    }

    /// Parses the format of `x-amz-date`; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: &[u8; 16] = text.as_bytes().try_into().ok()?;
        if bytes[8] != b'T' || bytes[15] != b'Z' {
            return None;
        }
        let day = Civil::midnight(&bytes[..8])?;
        let of_day = |from: usize| number(&bytes[from..from + 2]);
        let (hour, minute, second) = (of_day(9)?, of_day(11)?, of_day(13)?);
        Civil { hour, minute, second, ..day }.timestamp()
    }

    /// True if the text is an existing day in the format of `x-amz-date`: `20130524`.
    #[must_use]
    pub fn is_day(text: &str) -> bool {
        text.len() == 8 && Civil::midnight(text.as_bytes()).and_then(Civil::timestamp).is_some()
    }

    /// Format of `Last-Modified` and `Date`: `Fri, 24 May 2013 00:00:00 GMT`.
    #[must_use]
    pub fn http_date(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        let weekday = WEEKDAYS[zonal_base::index(self.unix_seconds / DAY_SECONDS % 7)];
        let month = MONTHS[zonal_base::index(month - 1)];
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    /// Format of S3's XML answers: `2013-05-24T00:00:00.000Z`.
    #[must_use]
    pub fn iso8601(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z")
    }

    /// Converts to the civil calendar. Years begin in March here, so that the leap day is the last
    /// day of a year.
    fn civil(self) -> Civil {
        let second_of_day = self.unix_seconds % DAY_SECONDS;
        let days = self.unix_seconds / DAY_SECONDS + DAYS_TO_1970;
        let era = days / DAYS_IN_ERA;
        let day_of_era = days % DAYS_IN_ERA;
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Civil {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

/// Days in 400 years of the Gregorian calendar.
const DAYS_IN_ERA: u64 = 146_097;

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: u64 = 719_468;

impl Civil {
    /// Midnight of the day in eight digits.
    fn midnight(digits: &[u8]) -> Option<Self> {
        let (year, month) = (number(&digits[..4])?, number(&digits[4..6])?);
        Some(Self { year, month, day: number(&digits[6..])?, hour: 0, minute: 0, second: 0 })
    }

    /// `None` for a date that does not exist: the 13th month, the 30th of February, the 25th hour.
    fn timestamp(self) -> Option<Timestamp> {
        let in_range = (1970..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=31).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60;
        if !in_range {
            return None;
        }
        let year = self.year - u64::from(self.month <= 2);
        let march_month = (self.month + 9) % 12;
        let day_of_year = (153 * march_month + 2) / 5 + self.day - 1;
        let year_of_era = year % 400;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = year / 400 * DAYS_IN_ERA + day_of_era - DAYS_TO_1970;
        let of_day = self.hour * 3600 + self.minute * 60 + self.second;
        let timestamp = Timestamp::from_unix_seconds(days * DAY_SECONDS + of_day);
        // The 31st of a month of 30 days would land in the next month.
        let back = timestamp.civil();
        (back.day == self.day && back.month == self.month).then_some(timestamp)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| digits.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')))
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        write!(f, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_three_spellings() {
        let timestamp = Timestamp::from_unix_seconds(1_369_353_600);
        assert_eq!(timestamp.to_string(), "20130524T000000Z");
        assert_eq!(timestamp.http_date(), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(timestamp.iso8601(), "2013-05-24T00:00:00.000Z");
    }

    #[test]
    fn what_is_printed_can_be_read_back_for_every_day_of_1970_to_2110() {
        for day in 0..51_500 {
            let timestamp = Timestamp::from_unix_seconds(day * DAY_SECONDS + day);
            assert_eq!(Timestamp::parse(&timestamp.to_string()), Some(timestamp));
        }
    }

    #[test]
    fn times_that_no_calendar_has_are_refused() {
        for text in [
            "20130230T000000Z",
            "20131301T000000Z",
            "20130001T000000Z",
            "20130524T240000Z",
            "20130524T006000Z",
            "20130524 000000Z",
            "20130524T000000",
            "2013052AT000000Z",
            "+0130524T000000Z",
            "19691231T235959Z",
            "",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text:?}");
        }
        for text in ["20130230", "2013052", "201305240", "2013052A", "é0130524", ""] {
            assert!(!Timestamp::is_day(text), "{text:?}");
        }
        assert!(Timestamp::is_day("20240229"));
        assert!(Timestamp::parse("20240229T235959Z").is_some());
        assert!(Timestamp::parse("20230229T235959Z").is_none());
    }

    #[test]
    fn the_year_9999_is_the_end_of_time() {
        assert_eq!(Timestamp::from_unix_seconds(u64::MAX).to_string(), "99991231T235959Z");
    }
}
