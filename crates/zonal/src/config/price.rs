//! Validation of the origin's prices, from which the savings of the cache are computed.

use super::ConfigError;
use super::check::{Checked, given};

/// What the origin charges for reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prices {
    /// A million GET and HEAD requests.
    pub(crate) million_reads: f64,
    /// A GiB that is read from the origin.
    pub(crate) gib: f64,
    /// Of both.
    pub(crate) currency: String,
}

/// Highest price: far above any, so that sums have few digits.
const PRICE_MAX: f64 = 1e6;

/// A key and its value.
type Given<'a> = (&'static str, &'a Option<String>);

pub(super) fn checked(reads: Given<'_>, received: Given<'_>) -> Checked<Prices> {
    let (million_reads, currency) = amount(reads)?;
    let (gib, other) = amount(received)?;
    // A price of 0 is 0 in any currency, also the default one that nobody wrote.
    let currency = if million_reads == 0.0 && gib != 0.0 { other } else { currency };
    if currency != other && gib != 0.0 {
        let why = format!("{other} is not the currency of {}, {currency}: set both", reads.0);
        return Err(ConfigError::new(received.0, why));
    }
    Ok(Prices { million_reads, gib, currency: currency.to_owned() })
}

fn amount<'a>((key, value): Given<'a>) -> Checked<(f64, &'a str)> {
    let text = given(key, value)?;
    let parts = text.trim().split_once(' ');
    let amount = parts.and_then(|(number, currency)| {
        let number: f64 = number.parse().ok().filter(|n| (0.0..=PRICE_MAX).contains(n))?;
        let currency = currency.trim();
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\');
        let is_name = (1..=8).contains(&currency.len()) && !currency.contains(is_odd);
        is_name.then_some((number, currency))
    });
    amount.ok_or_else(|| {
        let why =
            format!("{text:?} is not a price: write an amount and a currency, as \"0.40 USD\"");
        ConfigError::new(key, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reads: &str, received: &str, expected: Result<(f64, f64, &str), &str>) {
        let (reads, received) = (Some(reads.to_owned()), Some(received.to_owned()));
        let found = checked(("price.reads", &reads), ("price.received", &received));
        let found = found.map_err(|error| error.to_string());
        match (found, expected) {
            (Ok(found), Ok((million_reads, gib, currency))) => {
                let currency = currency.to_owned();
                assert_eq!(found, Prices { million_reads, gib, currency });
            }
            (Err(found), Err(expected)) => assert_eq!(found, expected),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_price_is_an_amount_and_a_currency() {
        check("0.40 USD", "0 USD", Ok((0.4, 0.0, "USD")));
        check("1  €", "0.09 €", Ok((1.0, 0.09, "€")));
        let advice = "write an amount and a currency, as \"0.40 USD\"";
        for bad in
            ["0.40", "USD 0.40", "-1 USD", "inf USD", "0,40 USD", "1 US D", "1e9 USD", "1 U\"D"]
        {
            let why = format!("price.reads: {bad:?} is not a price: {advice}");
            check(bad, "0 USD", Err(&why));
        }
        check("0.40 EUR", "0 USD", Ok((0.4, 0.0, "EUR")));
        check("0 USD", "0.09 EUR", Ok((0.0, 0.09, "EUR")));
        let why = "price.received: EUR is not the currency of price.reads, USD: set both";
        check("1 USD", "1 EUR", Err(why));
    }
}
