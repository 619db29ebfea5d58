//! Plausibility of binary traces: any bytes are records, also those of another format.

use zonal_base::index;

use super::super::input::Input;
use super::super::{Format, TraceError};
use super::{oracle_general, plain};

/// Records that are looked at, at the beginning of a file.
const LOOKED_AT: usize = 4096;

/// Records below which nothing is concluded from all of them having something in common.
const ENOUGH: usize = 16;

/// Refuses a file whose first records are no records of the format.
pub(super) fn check(format: Format, each: usize, input: &mut Input) -> Result<(), TraceError> {
    let head = input.head(LOOKED_AT * each)?;
    let records = head.chunks_exact(each);
    let wrong = if is_text(head) {
        Some((0, format!("this is text, not records of {format}: write --format")))
    } else if format == Format::OracleGeneral {
        of_oracle_general(records)
    } else if records.len() < ENOUGH {
        None
    } else {
        of_numbers(format, records).map(|why| (0, why))
    };
    match wrong {
        None => Ok(()),
        Some((record, why)) => Err(input.at_byte((record * each) as u64, why)),
    }
}

fn is_text(head: &[u8]) -> bool {
    ENOUGH <= head.len()
        && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Times of a trace rarely run backwards; those of other bytes do in every second record.
fn of_oracle_general<'a>(records: impl Iterator<Item = &'a [u8]>) -> Option<(usize, String)> {
    let (mut backwards, mut first, mut count, mut last) = (0, None, 0, 0);
    for (number, request) in records.map(oracle_general::parse).enumerate() {
        if request.time_s < last {
            backwards += 1;
            first.get_or_insert(number);
        }
        (count, last) = (count + 1, request.time_s);
    }
    let is_wrong = ENOUGH <= count && count / 10 < backwards;
    is_wrong.then(|| {
        let why = format!(
            "these are no records of oracleGeneral: time runs backwards in {backwards} of the \
             first {count}"
        );
        (first.unwrap_or(0), why)
    })
}

/// Numbers in the wrong byte order are all multiples of a large power of two.
fn of_numbers<'a>(format: Format, mut records: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let (parse, unit, other): (fn(&[u8]) -> _, u64, Format) = match format {
        Format::U32Le => (plain::u32le, 1 << 16, Format::U32Be),
        Format::U32Be => (plain::u32be, 1 << 16, Format::U32Le),
        Format::U64Le => (plain::u64le, 1 << 32, Format::U64Be),
        Format::U64Be => (plain::u64be, 1 << 32, Format::U64Le),
        _ => return None,
    };
    let mut is_any = false;
    let all = records.all(|record| {
        let id = parse(record).id;
        is_any |= id != 0;
        id.is_multiple_of(unit)
    });
    (all && is_any).then(|| {
        let bits = index(unit.trailing_zeros().into());
        format!("every number is a multiple of 2^{bits}: is this {other}?")
    })
}
