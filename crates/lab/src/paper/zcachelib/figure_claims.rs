//! Claims of paper 002 about its figures and the spare room, checked against the simulated results.

use super::super::claims::percent;
use super::super::report::short;
use super::super::{Claim, Verdict};
use super::figures::{BOTH, COMPARED, FigureRun, LRU, Shown, Z_DROP, Z_LRU, Z_LRU_TEXT};
use super::{CacheLibOutcome, REGION, Scheme};
use crate::simulated::cachelib::Placing;

type Along<'a> = Vec<(&'a FigureRun, &'a CacheLibOutcome)>;

pub(super) fn of(shown: &Shown<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(region_sizes(shown).into_iter().flatten());
    claims.extend(components(shown).into_iter().flatten());
    claims.extend(dropped_parts(shown));
    claims.extend(spare_room(shown).into_iter().flatten());
    claims.extend(bound(shown));
    claims.extend(sizes(shown).into_iter().flatten());
    claims.extend(zone_sizes(shown).into_iter().flatten());
    claims
}

fn claim(claim: &str, (published, here): (&str, String), verdict: Verdict) -> Claim {
    let (claim, published) = (claim.into(), published.into());
    Claim { claim, published, here, verdict, why: String::new() }
}

/// Verdict when all of a claim holds, some of it, or none.
const fn verdict(all: bool, some: bool) -> Verdict {
    match (all, some) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::HoldsWeaker,
        _ => Verdict::DoesNotHold,
    }
}

fn mopm(along: &Along<'_>) -> Vec<f64> {
    along.iter().map(|(_, outcome)| outcome.mopm()).collect()
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(", ")
}

/// Two values count as equal within this difference.
const ALIKE: f64 = 0.02;

/// True when no value is clearly below the previous one.
fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] * (1.0 - ALIKE) <= pair[1])
}

fn ends<T: Copy>(values: &[T]) -> Option<(T, T)> {
    Some((*values.first()?, *values.last()?))
}

/// Throughput of `scheme` divided by that of `other`, minus one.
fn effect(shown: &Shown<'_>, place: &str, [scheme, other]: [&str; 2]) -> Option<f64> {
    let of = |name| mopm(&shown.along(place, name)).first().copied();
    Some(of(scheme)? / of(other)? - 1.0)
}

fn region_sizes(shown: &Shown<'_>) -> [Option<Claim>; 3] {
    let of = |scheme: Scheme| mopm(&shown.along("figure 2", &scheme.to_string()));
    let (fifo, lru, direct) = (of(Scheme::RegFifo), of(Scheme::RegLru), of(Scheme::ZnsDirect));
    let larger = |lru: &[f64]| {
        let [small, between @ .., zone] = lru else { return None };
        let most = between.iter().copied().fold(0.0, f64::max);
        Some(claim(
            "Figure 2b: with LRU a larger region is faster, but for one of a zone",
            ("up to 512 MiB", format!("{} MOPM", list(lru))),
            verdict(*small < most && *zone < most, *small < most),
        ))
    };
    let drops = |fifo: &[f64]| {
        let ([_, small, rest @ ..], (_, zone)) = (fifo, ends(fifo)?) else { return None };
        let falls = rest.windows(2).all(|pair| pair[1] <= pair[0]) && rest[0] < *small;
        Some(claim(
            "Figure 2b: with FIFO regions beyond 128 MiB are slower, the larger the more",
            ("it drops", format!("{} MOPM", list(fifo))),
            verdict(falls, zone < *small),
        ))
    };
    let alike = |lru: &[f64]| {
        let (zone, direct) = (*lru.last()?, *direct.first()?);
        let off = direct / zone - 1.0;
        Some(claim(
            "Figure 2: ZNS-Direct is about as fast as Reg-LRU with regions of a zone",
            ("similar", percent(off)),
            verdict(off.abs() < 0.15, off.abs() < 0.5),
        ))
    };
    [larger(&lru), drops(&fifo), alike(&lru)]
}

fn components(shown: &Shown<'_>) -> [Option<Claim>; 6] {
    let of = |text, published, pair| {
        Some(Claim::of_effect(text, published, effect(shown, "figure 7", pair)?))
    };
    let first = |name| shown.along("figure 7", name).first().map(|(_, outcome)| *outcome);
    let hits = |name| Some(first(name)?.hit_ratio() * 100.0);
    let against = || {
        let (both, lru) = (hits(BOTH)?, hits(LRU)?);
        let faster = effect(shown, "figure 7", [BOTH, LRU])?;
        Some(claim(
            "Figure 7a: both together are faster than LRU and hit more",
            ("both", format!("{}, {:+.2} points", percent(faster), both - lru)),
            verdict(0.0 < faster && lru < both, 0.0 < faster),
        ))
    };
    let fewer = || {
        let (drop, lru) = (hits(Z_DROP)?, hits(LRU)?);
        Some(claim(
            "Figure 7a: zDrop alone hits less than LRU",
            ("lower", format!("{:+.2} points", drop - lru)),
            verdict(drop < lru, false),
        ))
    };
    [
        of("Figure 7a: throughput of zLRU, as its code has it, against LRU", 2.0, [Z_LRU, LRU]),
        of(
            "Figure 7a: throughput of zLRU, as its text has it, against LRU",
            2.0,
            [Z_LRU_TEXT, LRU],
        ),
        of("Figure 7a: throughput of zDrop against zLRU", 0.38, [Z_DROP, Z_LRU]),
        of("Figure 7a: throughput of zDrop against LRU", 2.59, [Z_DROP, LRU]),
        fewer(),
        against(),
    ]
}

fn dropped_parts(shown: &Shown<'_>) -> Option<Claim> {
    let along = shown.along("figure 7", Z_DROP).into_iter();
    let is_part = |(run, _): &(&FigureRun, _)| run.settings.placing == Placing::OldDropped;
    let along: Along<'_> = along.filter(is_part).collect();
    let ((_, none), (_, all)) = ends(&along)?;
    let checks = [
        none.mopm() < all.mopm(),
        all.write_amplification() < none.write_amplification(),
        all.hit_ratio() < none.hit_ratio(),
    ];
    let text = |value: fn(&CacheLibOutcome) -> f64| {
        let values: Vec<f64> = along.iter().map(|(_, outcome)| value(outcome)).collect();
        list(&values)
    };
    let here = format!(
        "MOPM {}; WA {}; hits {} %",
        text(CacheLibOutcome::mopm),
        text(CacheLibOutcome::write_amplification),
        text(|outcome| outcome.hit_ratio() * 100.0)
    );
    Some(claim(
        "Figure 7b: the more regions may be dropped, the faster, the less is moved, and the fewer hits",
        ("all three", here),
        verdict(checks == [true; 3], checks[0]),
    ))
}

fn spare_room(shown: &Shown<'_>) -> Vec<Option<Claim>> {
    let along = |scheme: Scheme| shown.along("figure 8", &scheme.to_string());
    let rise = |scheme: Scheme, text: &str, published: f64| {
        let (few, much) = ends(&mopm(&along(scheme)))?;
        Some(Claim::of_effect(text, published, much / few - 1.0))
    };
    let steady = || {
        let values = mopm(&along(Scheme::ZCacheLib));
        let [_, at_15, .., at_25] = values[..] else { return None };
        let here = at_25 / at_15 - 1.0;
        Some(claim(
            "Figure 8a: Z-CacheLib gets a little slower from 15 to 25 % spare",
            ("slightly", percent(here)),
            verdict((-0.15..0.0).contains(&here), here.abs() < 0.05),
        ))
    };
    let falls = || {
        let moved = [Scheme::ZnsF2fs, Scheme::ZnsMiddle];
        let of = |scheme| -> Vec<f64> {
            along(scheme).iter().map(|(_, outcome)| outcome.write_amplification()).collect()
        };
        let values = moved.map(of);
        let is_falling = |values: &Vec<f64>| values.windows(2).all(|pair| pair[1] <= pair[0]);
        ends(&values[0])?;
        let here = format!("ZNS-F2FS {}; ZNS-Middle {}", list(&values[0]), list(&values[1]));
        Some(claim(
            "Figure 8b: write amplification falls with more spare room",
            ("it does", here),
            verdict(values.iter().all(is_falling), values.iter().any(is_falling)),
        ))
    };
    vec![
        rise(Scheme::ZnsF2fs, "Figure 8a: throughput of ZNS-F2FS from 10 to 25 % spare", 1.0),
        middle_rises(&along(Scheme::ZnsMiddle)),
        steady(),
        falls(),
    ]
}

fn middle_rises(along: &Along<'_>) -> Option<Claim> {
    let values = mopm(along);
    let (few, much) = ends(&values)?;
    Some(claim(
        "Figure 8a: ZNS-Middle gets faster with more spare room",
        ("it does", format!("{} MOPM", list(&values))),
        verdict(rises(&values) && few < much, few < much),
    ))
}

/// The paper's bound: spare room below which writes wait for garbage collection.
///
/// The bound depends on the write rate of the cache, the rate of garbage collection, and `k`. `k`
/// is the garbage in a victim zone divided by the average.
fn bound(shown: &Shown<'_>) -> Option<Claim> {
    let middle = shown.along("figure 8", &Scheme::ZnsMiddle.to_string());
    let full = shown.along("figure 8", &Scheme::ZCacheLib.to_string());
    let ((run, least), (_, wanted)) = (middle.first()?, full.first()?);
    let room = f64::from(run.settings.zones) * run.settings.zone.0 as f64;
    let regions = f64::from(run.settings.regions) * REGION.0 as f64;
    let emptied = least.emptied_mib_per_s(run.settings.zone);
    let given = least.window_written + least.window_moved;
    let cleaned = least.window_written as f64 / given.max(1) as f64;
    let k = cleaned / (1.0 - regions / room);
    let cache = wanted.written_mib_per_s();
    let bound = cache / (k * emptied - cache);
    let reached: Vec<f64> = middle
        .iter()
        .zip(&full)
        .map(|((_, middle), (_, full))| middle.mopm() / full.mopm())
        .collect();
    let most = reached.iter().copied().fold(0.0, f64::max);
    let enough = if 0.0 < bound { percent(bound) } else { "none is enough".into() };
    Some(Claim {
        claim: "Section 5.7: spare room of 5.8 % is enough that writes do not wait for cleaning".into(),
        published: "200 MiB/s written, 600 emptied, k 6: 5.8 %".into(),
        here: format!(
            "{} MiB/s wanted, {} emptied, k {k:.1}: {enough}; ZNS-Middle reaches {} of Z-CacheLib's throughput with 10, 15, 20 and 25 % spare",
            short(cache),
            short(emptied),
            list(&reached)
        ),
        verdict: verdict(reached.first().is_some_and(|part| 0.9 < *part), 0.9 < most),
        why: "wanted is what Z-CacheLib writes; the bound takes the emptying for as fast beside writes as it is by itself, and k for a constant".into(),
    })
}

fn sizes(shown: &Shown<'_>) -> [Option<Claim>; 4] {
    let of: Vec<Along<'_>> =
        COMPARED.iter().map(|scheme| shown.along("figure 9", &scheme.to_string())).collect();
    if of.iter().any(Vec::is_empty) {
        return [None, None, None, None];
    }
    let throughputs: Vec<Vec<f64>> = of.iter().map(mopm).collect();
    let rising = throughputs.iter().filter(|values| rises(values)).count();
    let text: Vec<String> = COMPARED
        .iter()
        .zip(&throughputs)
        .map(|(scheme, values)| format!("{scheme} {}", list(values)))
        .collect();
    let [.., ours] = &throughputs[..] else { unreachable!("four schemes") };
    let is_best = |at: usize| throughputs.iter().all(|values| values[at] <= ours[at]);
    let best = (0..ours.len()).filter(|at| is_best(*at)).count();
    let hits = |at: usize| of.iter().map(move |along| along[at].1.hit_ratio() * 100.0);
    let spread = |at: usize| hits(at).fold(0.0, f64::max) - hits(at).fold(100.0, f64::min);
    let widest = (0..ours.len()).map(spread).fold(0.0, f64::max);
    let last = ours.len() - 1;
    let [low, high] = [0, last].map(|at| of[COMPARED.len() - 1][at].1.hit_ratio() * 100.0);
    [
        Some(claim(
            "Figure 9a: the more zones, the faster, in all four schemes",
            ("all", text.join("; ")),
            verdict(rising == COMPARED.len(), 1 < rising),
        )),
        Some(claim(
            "Figure 9a: Z-CacheLib is the fastest at any size",
            ("at all", format!("at {best} of {}", ours.len())),
            verdict(best == ours.len(), 0 < best),
        )),
        Some(claim(
            "Figure 9b: hits with 200 and with 800 zones",
            ("68 and 86 %", format!("{low:.1} and {high:.1} %")),
            verdict((high - low) / 18.0 >= 0.5, low < high),
        )),
        Some(claim(
            "Figure 9b: the four schemes hit alike",
            ("within 0.2 points", format!("within {widest:.2} points")),
            verdict(widest < 0.5, widest < 2.0),
        )),
    ]
}

fn zone_sizes(shown: &Shown<'_>) -> [Option<Claim>; 3] {
    let of = |scheme: Scheme| mopm(&shown.along("figure 10", &scheme.to_string()));
    let (direct, ours) = (of(Scheme::ZnsDirect), of(Scheme::ZCacheLib));
    let Some(((small, large), (_, _))) = ends(&direct).zip(ends(&ours)) else {
        return [None, None, None];
    };
    let gains = ours.iter().zip(&direct).map(|(ours, direct)| ours / direct - 1.0);
    let most = gains.fold(f64::MIN, f64::max);
    let highest = ours.iter().copied().fold(0.0, f64::max);
    let lowest = ours.iter().copied().fold(f64::MAX, f64::min);
    [
        Some(Claim::of_effect("Figure 10a: Z-CacheLib against ZNS-Direct, at most", 1.2, most)),
        Some(claim(
            "Figure 10a: ZNS-Direct gets slower beyond 256 MiB",
            ("it does", format!("{} MOPM", list(&direct))),
            verdict(direct[1..].windows(2).all(|pair| pair[1] < pair[0]), large < small),
        )),
        Some(claim(
            "Figure 10a: Z-CacheLib is as fast with zones of any size",
            ("stable", format!("{} MOPM", list(&ours))),
            verdict(highest / lowest < 1.1, highest / lowest < 1.3),
        )),
    ]
}
