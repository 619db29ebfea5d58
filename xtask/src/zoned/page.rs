//! docs/results/zoned.md: results of the suites, by drive and kernel.

use std::fmt::Write;

use super::plan::{DRIVES, SUITES};
use super::{Cost, Outcome, Verdict};

pub(super) const PATH: &str = "docs/results/zoned.md";

/// Table with a row per drive and kernel, and a column per suite.
pub(super) fn table(verdicts: &[Verdict]) -> String {
    let mut text = String::from("| kernel | drive |");
    SUITES.iter().for_each(|suite| text += &format!(" {} |", suite.name));
    text += "\n| --- | --- |";
    text += &" --- |".repeat(SUITES.len());
    text += "\n";
    let mut kernels: Vec<&str> = verdicts.iter().map(|verdict| verdict.kernel.as_str()).collect();
    kernels.dedup();
    for kernel in kernels {
        for drive in &DRIVES {
            let _ = write!(text, "| {kernel} | {} |", drive.name);
            for suite in &SUITES {
                let of = |verdict: &&Verdict| {
                    (verdict.kernel.as_str(), verdict.drive, verdict.suite)
                        == (kernel, drive.name, suite.name)
                };
                let said = match verdicts.iter().find(of) {
                    Some(Verdict { is_good: true, took, .. }) => {
                        format!("passed, {} s", took.as_secs())
                    }
                    Some(_) => "FAILED".to_owned(),
                    None if suite.is_for(drive) => "not run".to_owned(),
                    None => "-".to_owned(),
                };
                let _ = write!(text, " {said} |");
            }
            text += "\n";
        }
    }
    text
}

/// Costs of the guests.
pub(super) fn costs(costs: &[Cost]) -> String {
    let mut text = String::new();
    for Cost { kernel, processor, idle } in costs {
        let (busy, idle) = (processor.as_secs(), idle.as_secs());
        let _ = write!(text, "{kernel} took {busy} s of processor time and waited for {idle} s. ");
    }
    text
}

/// The whole page.
pub(super) fn text(outcome: &Outcome, commit: &str) -> String {
    let mut text = format!(
        "# Zoned drives under real kernels\n\n\
         Written by `make test-zoned` from commit {commit}: each kernel boots in QEMU with all drives, and the suites run on its drives; a dash says that \
         one is not for a drive. Kernels before 6.10 have no zone write plugging. Times are processor time that QEMU took, emulating one: they tell what a \
         suite costs and nothing of drives. What the drives do differently from our models of them stands in [zoned-linux.md](../zoned-linux.md).\n\n",
    );
    text += &table(&outcome.verdicts);
    text += &format!(
        "\nThe guests ran beside each other. {} With a processor for each they are done when the slower one is: its two times together.\n",
        costs(&outcome.costs).trim_end()
    );
    text += "\n| drive | what it is |\n| --- | --- |\n";
    for drive in &DRIVES {
        let _ = writeln!(text, "| {} | {} |", drive.name, drive.what);
    }
    text += "\nZones are 4 MiB apart, and 3 MiB of each can be written.\n\n| suite | what it holds |\n| --- | --- |\n";
    for suite in &SUITES {
        let _ = writeln!(text, "| {} | {} |", suite.name, suite.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_suite_on_every_drive_has_its_verdict() {
        let verdict = |suite, is_good| Verdict {
            kernel: "6.1".into(),
            drive: DRIVES[1].name,
            suite,
            is_good,
            took: Duration::from_millis(2900),
        };
        let text = table(&[verdict(SUITES[0].name, true), verdict(SUITES[1].name, false)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + DRIVES.len());
        assert_eq!(
            lines[2],
            "| 6.1 | zns | not run | not run | not run | not run | not run | not run | - |"
        );
        let begin = "| 6.1 | zns-append | passed, 2 s | FAILED | - | - | ";
        assert_eq!(lines[3], format!("{begin}not run | - | not run |"));
    }
}
