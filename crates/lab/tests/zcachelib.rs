//! Paper 002 on whole drives: fitted values, and results that do not depend on the item size.
//!
//! Slow: runs only with `SLOW_TESTS=1`.

use zonal_lab::CachePool;
use zonal_lab::experiment::Run;
use zonal_lab::paper::{Paper, Published, Scheme, ZCacheLib};

fn is_slow() -> bool {
    std::env::var_os("SLOW_TESTS").is_some_and(|value| value == "1")
}

#[test]
fn a_request_costs_what_makes_reg_fifo_as_fast_as_published() {
    if !is_slow() {
        return;
    }
    for workload in CachePool::ALL {
        let outcome = ZCacheLib::new(Scheme::RegFifo, workload).settings().run(&|_| ());
        let here = outcome.expect("it can be run").mopm();
        let published = Published::of(Paper::ZCacheLib).into_iter().find(|figure| {
            (figure.row, figure.column, figure.unit) == ("Reg-FIFO", workload.name(), "MOPM")
        });
        let theirs = published.expect("it is in Table 1").value;
        println!("{workload}: {here:.3} of {theirs} MOPM");
        assert!((here / theirs - 1.0).abs() < 0.03, "{workload}: {here} of {theirs} MOPM");
    }
}

/// Hits and write amplification of one workload, with as many objects per item as in the tables,
/// with one, and with four times as many.
#[test]
fn tables_are_alike_whatever_an_item_stands_for() {
    if !is_slow() {
        return;
    }
    for scheme in Scheme::ALL {
        let run = ZCacheLib::new(scheme, CachePool::L2Wc);
        let of = |objects_per_item| {
            let touches_per_change = objects_per_item - 1;
            let run = ZCacheLib { objects_per_item, touches_per_change, ..run };
            run.settings().run(&|_| ()).expect("it can be run")
        };
        let reference = of(run.objects_per_item);
        for objects_per_item in [1, 4 * run.objects_per_item] {
            let other = of(objects_per_item);
            println!("{scheme} {objects_per_item}: {other:?}\n{reference:?}");
            let off = (other.hit_ratio() - reference.hit_ratio()).abs();
            assert!(off < 0.003, "{scheme}, {objects_per_item}: {off}");
            let off = other.write_amplification() / reference.write_amplification() - 1.0;
            assert!(off.abs() < 0.05, "{scheme}, {objects_per_item}: {off}");
        }
    }
}
