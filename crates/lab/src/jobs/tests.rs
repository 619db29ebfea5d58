//! Jobs against what must not depend on the scale.

use super::*;

fn jobs(device: Device, zipf: Option<f64>, smaller: u64) -> Outcome {
    let jobs = Jobs { device, smaller, write: Bytes::kib(4), zipf, read_rate: 0, seed: 1 };
    jobs.run(&|_| ()).unwrap()
}

#[test]
fn what_a_buffer_absorbs_does_not_depend_on_the_scale() {
    let [one, other] = [16_384, 32_768].map(|s| jobs(Device::OptaneAndQlc, Some(1.2), s));
    let ratio = one.amplification() / other.amplification();
    assert!((0.95..1.05).contains(&ratio), "{one:?} {other:?}");
    assert!(one.amplification() < 0.4, "{one:?}");
}

#[test]
fn a_drive_programs_a_whole_unit_for_a_block_and_the_block_device_does_not() {
    let alone = jobs(Device::Qlc, None, 4096);
    assert!(16.0 < alone.flash_amplification(), "{alone:?}");
    let shaped = jobs(Device::OptaneAndQlc, None, 32_768);
    assert!(shaped.flash_amplification() < 5.0, "{shaped:?}");
}

#[test]
fn readers_get_what_they_may_and_equal_jobs_have_equal_outcomes() {
    let jobs = Jobs {
        device: Device::OptaneAndQlc,
        smaller: 65_536,
        write: Bytes::kib(64),
        zipf: None,
        read_rate: Bytes::mib(4).0,
        seed: 1,
    };
    let outcome = jobs.run(&|_| ()).unwrap();
    let rate = outcome.read_rate();
    assert!((3.0..4.5).contains(&rate), "{rate} MiB a second");
    assert_eq!(jobs.run(&|_| ()).unwrap(), outcome);
}

#[test]
fn a_device_may_be_too_small() {
    let jobs = Jobs {
        device: Device::Tlc,
        smaller: 10_000_000,
        write: Bytes::kib(4),
        zipf: None,
        read_rate: 0,
        seed: 1,
    };
    assert!(jobs.run(&|_| ()).unwrap_err().contains("too small"));
}
