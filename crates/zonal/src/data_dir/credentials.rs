//! Generated access key: created by the first start, in the AWS credentials file format.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::rollback::CreatedFiles;
use super::unfinished;
use crate::config::KeyPair;

/// Alphabet that needs no quoting in shells, URLs and configuration files.
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Length of AWS access keys; some clients check it.
const ACCESS_KEY_LETTERS: usize = 20;

/// Length of AWS secret keys. 40 letters of 5 bits give 200 bits.
const SECRET_KEY_LETTERS: usize = 40;

pub(super) fn load_or_make(path: &Path, made: &mut CreatedFiles) -> io::Result<KeyPair> {
    match load(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keys = make()?;
            made.note(unfinished(path));
            made.note(path.into());
            keep(&keys, path)?;
            Ok(keys)
        }
        loaded => loaded,
    }
}

pub(super) fn load(path: &Path) -> io::Result<KeyPair> {
    let text = std::fs::read_to_string(path)?;
    parse(&text)
        .ok_or_else(|| io::Error::other("the file contains no key pair: repair or delete it"))
}

fn make() -> io::Result<KeyPair> {
    let mut bytes = [0; ACCESS_KEY_LETTERS + SECRET_KEY_LETTERS];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let letters: String =
        bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    let (access_key, secret_key) = letters.split_at(ACCESS_KEY_LETTERS);
    Ok(KeyPair { access_key: access_key.to_owned(), secret_key: secret_key.to_owned() })
}

fn keep(keys: &KeyPair, path: &Path) -> io::Result<()> {
    let beside = unfinished(path);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    write!(
        file,
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        keys.access_key, keys.secret_key
    )?;
    file.sync_all()?;
    std::fs::rename(beside, path)
}

fn parse(text: &str) -> Option<KeyPair> {
    let value = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let (access_key, secret_key) = (value("aws_access_key_id")?, value("aws_secret_access_key")?);
    Some(KeyPair { access_key, secret_key })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_pair_is_made_once_and_kept_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        let mut made = CreatedFiles::default();
        let keys = load_or_make(&path, &mut made).unwrap();
        assert_eq!((keys.access_key.len(), keys.secret_key.len()), (20, 40));
        assert_eq!(load_or_make(&path, &mut made).unwrap(), keys);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_without_a_key_pair_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        std::fs::write(&path, "aws_access_key_id = A\n").unwrap();
        assert!(load_or_make(&path, &mut CreatedFiles::default()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "aws_access_key_id = A\n");
    }
}
