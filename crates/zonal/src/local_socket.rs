//! Unix socket: bound before the start changes anything, removed when its owner is dropped.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use zonal_cli::Failure;

/// Backlog of listen(2): connections that wait to be accepted.
const BACKLOG: i32 = 128;

const OTHER_FILE: &str = "a file that is not a socket is there: move it, or name another";
const TOO_LONG: &str = "socket paths are limited to 107 bytes: name another";

/// A bound Unix socket.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    path: PathBuf,
    /// Device and inode number of the socket file: another file may have replaced it.
    file: (u64, u64),
}

impl LocalSocket {
    /// Why no socket can be at this path, if so.
    pub(crate) fn refused_at(path: &Path) -> Option<&'static str> {
        let is_other = path.metadata().is_ok_and(|file| !file.file_type().is_socket());
        match SockAddr::unix(path) {
            Err(_) => Some(TOO_LONG),
            Ok(_) if is_other => Some(OTHER_FILE),
            Ok(_) => None,
        }
    }

    /// Binds the path and listens on it. A socket that a killed process left is replaced. Any other
    /// existing file is refused. `named_with` is the flag that selects another path, for error
    /// messages.
    pub(crate) fn take(path: &Path, named_with: &str) -> Result<(Self, UnixListener), Failure> {
        let taken = || {
            // The lock on the folder serializes check and removal of abandoned sockets among
            // processes.
            let folder = File::open(
                path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new(".")),
            )?;
            folder.lock()?;
            remove_abandoned(path)?;
            let listener = listen(path)?;
            let metadata = fs::symlink_metadata(path)?;
            // An absolute path stays valid when the user runs the printed commands in another
            // directory.
            let path = path.canonicalize()?;
            Ok((Self { path, file: (metadata.dev(), metadata.ino()) }, listener))
        };
        taken().map_err(|error: io::Error| {
            let advice = match error.kind() {
                ErrorKind::AddrInUse => "stop the process that uses it, or name another",
                ErrorKind::NotFound => "create its parent directory, or name another",
                ErrorKind::AlreadyExists => OTHER_FILE,
                ErrorKind::InvalidInput => TOO_LONG,
                _ => "name another",
            };
            let path = path.display();
            let why = format!("cannot listen on {path}: {error}: {advice} with {named_with}");
            match error.kind() {
                ErrorKind::AddrInUse => Failure::work(why),
                _ => Failure::request(why),
            }
        })
    }

    /// Absolute path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket on which no process listens.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A non-blocking connect: a listener with a full backlog still counts as alive.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => Err(ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        let Err(failure) = LocalSocket::take(path, "--socket") else {
            panic!("{} was taken", path.display());
        };
        let why = failure.to_string();
        assert!(why.contains(expected) && why.ends_with("with --socket"), "{why}");
        let is_in_use = expected.starts_with("stop the process");
        assert_eq!(matches!(failure, Failure::Work(_)), is_in_use, "{why}");
    }

    #[test]
    fn a_socket_has_one_owner_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (socket, listener) = LocalSocket::take(&path, "--socket").unwrap();
        check_refused(&path, "stop the process that uses it");
        drop(listener);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (socket, _listener) = LocalSocket::take(&path, "--socket").unwrap();
        // Another process's socket has replaced this one and must not be removed.
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn what_cannot_be_taken_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "of somebody").unwrap();
        check_refused(&file, "a file that is not a socket is there");
        check_refused(&folder.path().join("none/socket"), "create its parent directory");
        check_refused(&folder.path().join("x".repeat(200)), "limited to 107 bytes");
        assert_eq!(fs::read(&file).unwrap(), b"of somebody");
    }
}
