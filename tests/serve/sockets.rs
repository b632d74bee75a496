use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use tokio::net::UnixStream;
use wicketgate::serve::{Error, listener};

#[tokio::test]
async fn the_kernel_says_who_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let listener = listener::socket(&path).await.unwrap();
    let (client, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
    let (_, peer, _) = accepted.unwrap();
    client.unwrap();
    assert_eq!(peer.listener, "uds");
    assert_eq!(peer.uid, Some(rustix::process::getuid().as_raw()));
}

#[tokio::test]
async fn only_owner_and_group_may_connect_and_a_made_folder_is_the_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/agent.sock");
    let listener = listener::socket(&path).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o660);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_left_over_socket_is_replaced_and_a_living_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "std leaves the file behind");
    let listener = listener::socket(&path).await.unwrap();
    assert!(matches!(listener::socket(&path).await, Err(Error::Taken(_))));
    let (client, _) = tokio::join!(UnixStream::connect(&path), listener.accept());
    client.unwrap();
}

#[tokio::test]
async fn what_is_no_socket_is_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let link = folder.path().join("link");
    symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        assert!(matches!(listener::socket(path).await, Err(Error::NotASocket(_))));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    for path in ["@abstract", "\0abstract", "relative.sock", "/", ""] {
        let refused = listener::socket(Path::new(path)).await;
        assert!(matches!(refused, Err(Error::NotASocket(_))), "{path}");
    }
}

#[tokio::test]
async fn a_socket_that_took_our_place_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let listener = listener::socket(&path).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
    drop(other);
}
