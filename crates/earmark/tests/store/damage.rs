//! Disks that are full, read-only or damaged.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use earmark::store::DataFolder;
use earmark::{Error, NewMemory, Scope};
use tempfile::TempDir;

use super::{Fresh, assert_whole, encode, item, open, remember_text, try_open};

const MANY: usize = 9_000;

fn with_segments() -> Fresh {
    let fresh = Fresh::new();
    fresh.store.insert((0..MANY).map(|i| item(NewMemory::new(format!("text {i}")))).collect()).unwrap();
    find(&fresh);
    assert!(!segments(&fresh).is_empty());
    fresh
}

fn find(fresh: &Fresh) {
    check_found(&fresh.store);
}

fn check_found(store: &earmark::store::Store) {
    for i in [0, 1_234, MANY - 1] {
        let hits = store.search(&encode(&format!("text {i}")), 1, &Scope::default()).unwrap();
        assert_eq!((hits[0].row.0, hits[0].score > 0.999), (i as i64 + 1, true));
    }
}

fn segments(fresh: &Fresh) -> Vec<PathBuf> {
    let generations = fs::read_dir(fresh.namespace_folder().join("vectors")).unwrap().flatten();
    generations.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten()).map(|file| file.path()).collect()
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// After `harm` to the first segment, opening again gives all answers and a whole store.
fn check_segment_harm(harm: impl Fn(&Path)) {
    let fresh = with_segments();
    let folder = &fresh.folder;
    let path = segments(&fresh).remove(0);
    drop(fresh.store);
    harm(&path);
    let again = open(folder.path());
    check_found(&again);
    // Vectors are checked when they are scored, so this looks at all of them.
    let everything = again.search(&encode("x"), MANY, &Scope::default()).unwrap();
    assert_eq!(everything.len(), MANY);
    assert!(everything.iter().all(|hit| hit.score.abs() <= 1.0));
    assert_whole(&again);
}

#[test]
fn a_missing_segment_is_made_anew() {
    check_segment_harm(|path| fs::remove_file(path).unwrap());
}

#[test]
fn a_short_segment_is_made_anew() {
    check_segment_harm(|path| OpenOptions::new().write(true).open(path).unwrap().set_len(1_000).unwrap());
    check_segment_harm(|path| fs::write(path, b"").unwrap());
}

#[test]
fn a_segment_of_another_namespace_is_made_anew() {
    let other = with_segments();
    let foreign = segments(&other).remove(0);
    check_segment_harm(|path| assert!(fs::copy(&foreign, path).unwrap() > 0));
}

#[test]
fn changed_bytes_in_a_segment_are_noticed() {
    // In the index, in the codes, in the vectors.
    for part in [0.01, 0.5, 0.999] {
        check_segment_harm(|path| {
            let length = fs::metadata(path).unwrap().len() as f64;
            overwrite(path, (length * part) as u64, b"damaged!");
        });
    }
}

#[test]
fn damage_to_an_open_segment_is_found_and_repaired() {
    let fresh = with_segments();
    let path = segments(&fresh).remove(0);
    overwrite(&path, fs::metadata(&path).unwrap().len() - 8, b"damaged!");
    assert!(fresh.store.check().unwrap()[0].contains("damaged vectors"));
    fresh.store.rebuild_derived().unwrap();
    assert_whole(&fresh.store);
    find(&fresh);
}

#[test]
fn a_damaged_database_is_said_to_be() {
    let fresh = Fresh::new();
    (0..300).for_each(|i| drop(remember_text(&fresh.store, &format!("text {i}"))));
    fresh.store.compact().unwrap();
    let database = fresh.namespace_folder().join("earmark.db");
    drop(fresh.store);
    let length = fs::metadata(&database).unwrap().len();
    for page in (2..length / 4_096).step_by(3) {
        overwrite(&database, page * 4_096, &[0x5A; 4_096]);
    }
    let found = try_open(fresh.folder.path()).and_then(|store| store.check());
    match found {
        Ok(wrong) => assert!(!wrong.is_empty()),
        Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
    }
    fs::write(&database, "this is a letter to a friend, not a database").unwrap();
    assert!(matches!(try_open(fresh.folder.path()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_newer_schema_is_refused() {
    let fresh = Fresh::new();
    fresh.store.compact().unwrap();
    let database = fresh.namespace_folder().join("earmark.db");
    drop(fresh.store);
    // The user version is at byte 60 of the file, big-endian.
    overwrite(&database, 60, &99u32.to_be_bytes());
    match try_open(fresh.folder.path()) {
        Err(Error::SchemaTooNew { received, expected, .. }) => assert_eq!((received, expected), (99, 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_older_copy_of_the_database_brings_no_wrong_vectors() {
    let fresh = with_segments();
    fresh.store.compact().unwrap();
    let database = fresh.namespace_folder().join("earmark.db");
    let backup = fresh.folder.path().join("backup");
    fs::copy(&database, &backup).unwrap();
    fresh.store.insert((0..5_000).map(|i| item(NewMemory::new(format!("lost {i}")))).collect()).unwrap();
    find(&fresh);
    let folder = fresh.folder;
    drop(fresh.store);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(database.with_file_name(format!("earmark.db{suffix}")));
    }
    fs::copy(&backup, &database).unwrap();
    let again = open(folder.path());
    again.insert((0..5_000).map(|i| item(NewMemory::new(format!("new {i}")))).collect()).unwrap();
    let again = open(folder.path());
    assert_eq!(again.search(&encode("lost 1"), 100, &Scope::default()).unwrap().len(), 100);
    assert!(again.search(&encode("new 4999"), 1, &Scope::default()).unwrap()[0].score > 0.999);
    check_found(&again);
    assert_whole(&again);
}

#[test]
fn a_file_is_no_folder() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(DataFolder::open(&file), Err(Error::Io { .. })));
    assert!(matches!(DataFolder::open(file.join("below")), Err(Error::Io { .. })));
}

#[test]
fn namespaces_are_apart() {
    let folder = TempDir::new().unwrap();
    let data = DataFolder::open(folder.path()).unwrap();
    assert!(matches!(data.open_namespace("a", false), Err(Error::NotFound { .. })));
    assert!(matches!(data.open_namespace("", true), Err(Error::InvalidInput { .. })));
    assert!(matches!(data.open_namespace(&"x".repeat(129), true), Err(Error::InvalidInput { .. })));
    for name in ["A", "a", "../a"] {
        let store = data.open_namespace(name, true).unwrap();
        store.stamp_encoder(&super::stamp(name)).unwrap();
        remember_text(&store, name);
        assert_eq!(store.count().unwrap(), 1);
    }
    assert_eq!(data.namespaces().unwrap(), ["../a", "A", "a"]);
    assert!(data.remove_namespace("A").unwrap());
    assert!(!data.remove_namespace("A").unwrap());
    assert_eq!(data.namespaces().unwrap(), ["../a", "a"]);
}

/// Mounts at `folder`; `None` (and says why) where that is not allowed.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(folder: &'a Path, arguments: &[&str]) -> Option<Self> {
        let mounted = Command::new("mount").args(arguments).arg(folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Mounted(folder));
        }
        println!("skipped: mounting is not permitted here");
        None
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).output();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let Some(_mounted) = Mounted::new(folder.path(), &["-t", "tmpfs", "-o", "size=3m", "none"]) else { return };
    let store = open(folder.path());
    let mut stored = Vec::new();
    let error = loop {
        let text = format!("{} {}", stored.len(), "many words about nothing ".repeat(2_000));
        match store.insert(vec![item(NewMemory::new(text))]) {
            Ok(mut remembered) => stored.push(remembered.remove(0).id),
            Err(error) => break error,
        }
        assert!(stored.len() < 1_000, "the disk does not fill");
    };
    assert!(error.to_string().contains("nothing was stored"), "{error}");
    assert!(!stored.is_empty());
    assert_eq!(store.count().unwrap() as usize, stored.len());
    assert!(stored.iter().all(|id| store.get(id).unwrap().is_some()));
    assert_whole(&store);
    drop(store);
    assert_eq!(open(folder.path()).count().unwrap() as usize, stored.len());
}

#[test]
fn a_read_only_folder_is_said_to_be() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    let path = folder.path().display().to_string();
    let Some(_mounted) = Mounted::new(folder.path(), &["-o", "bind,ro", &path]) else { return };
    match DataFolder::open(folder.path()) {
        Err(Error::Io { reason, .. }) => {
            assert!(reason.contains("read-only") || reason.contains("permission"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}
