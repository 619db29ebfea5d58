//! The built-in workloads match the files that they come from.

use std::collections::HashSet;

use super::*;

/// Mean sizes of the files in bytes, and the share of gets in all requests.
#[test]
fn sizes_and_operations_are_those_of_the_files() {
    for (workload, key, mean, gets) in [
        (CachePool::L2Wc, 12, 92_422.5, 0.7407),
        (CachePool::L2Reg, 12, 33_112.8, 0.8798),
        (CachePool::Flat, 136, 335.2, 1.0),
    ] {
        let mut requests = workload.requests(1.0);
        let bytes = requests.sizes.iter().map(|bytes| f64::from(bytes - key)).sum::<f64>();
        let off = bytes / requests.sizes.len() as f64 - mean;
        assert!(off.abs() < 1.0, "{workload}: {off} bytes off");
        let mut rng = Rng::new(1);
        let drawn: Vec<PoolRequest> = (0..100_000).map(|_| requests.next(&mut rng)).collect();
        let got = drawn.iter().filter(|request| request.operation == Operation::Get).count();
        assert!((got as f64 / 1e5 - gets).abs() < 0.005, "{workload}: {got} gets of 100,000");
    }
}

#[test]
fn fewer_keys_are_as_popular_together_as_all() {
    let different = |one_in: f64| {
        let (mut requests, mut rng) = (CachePool::L2Wc.requests(one_in), Rng::new(1));
        let draws = 400_000.0 / one_in;
        let keys: HashSet<u64> = (0..wide(draws))
            .map(|_| requests.next(&mut rng).key)
            .filter(|key| *key < LONE)
            .collect();
        keys.len() as f64 / draws
    };
    let (all, one_in_8) = (different(1.0), different(8.0));
    assert!((one_in_8 / all - 1.0).abs() < 0.03, "{all} and {one_in_8} keys for each draw");
}

#[test]
fn a_workload_goes_by_its_name() {
    for workload in CachePool::ALL {
        assert_eq!(workload.name().parse(), Ok(workload));
    }
    let why = "flap".parse::<CachePool>().expect_err("there is none");
    assert!(why.contains("l2_reg"), "{why}");
}
