//! Disks that are full, read-only or damaged.

use std::{
    fs::OpenOptions,
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::Home;

fn database(home: &Home) -> PathBuf {
    let folder = home.namespace_folder("default");
    let is_database =
        |path: &PathBuf| path.extension().is_some_and(|e| ["db", "sqlite", "sqlite3"].iter().any(|known| e == *known));
    let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(is_database).expect("a database")
}

#[test]
fn a_damaged_page_is_an_error_not_an_answer() {
    let home = Home::new();
    let texts: Vec<String> = (0..300).map(|i| format!("note {i} {}", "filler ".repeat(30))).collect();
    home.ok(&[&["remember"], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    let file = database(&home);
    let size = std::fs::metadata(&file).unwrap().len();
    let mut damaged = OpenOptions::new().write(true).open(&file).unwrap();
    for page in 1..size / 4096 {
        damaged.seek(SeekFrom::Start(page * 4096)).unwrap();
        damaged.write_all(&[0xA5; 4096]).unwrap();
    }
    drop(damaged);
    for args in [&["recall", "note 7"][..], &["remember", "new"], &["export"]] {
        let error = home.fails(6, args);
        assert!(error.contains("damaged") && error.contains("doctor"), "{error}");
    }
    let run = home.run(&["doctor"]).expect(6, &["doctor"]);
    assert!(run.out.contains("WRONG") && run.out.contains("namespace default"), "{}", run.out);
    home.ok(&["-n", "other", "remember", "another namespace is not touched"]);
}

/// One page anywhere: whatever still answers is right, and `doctor` sees it.
#[test]
fn one_damaged_page_is_seen() {
    let home = Home::new();
    let texts: Vec<String> = (0..300).map(|i| format!("note {i} {}", "filler ".repeat(30))).collect();
    home.ok(&[&["remember"], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    let file = database(&home);
    let whole = std::fs::read(&file).unwrap();
    let pages = whole.len() / 4096;
    let mut seen = 0;
    for page in (1..pages).step_by((pages / 12).max(1)) {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xA5);
        std::fs::write(&file, damaged).unwrap();
        let doctor = home.run(&["doctor"]);
        assert!([0, 6].contains(&doctor.code), "{doctor:?}");
        seen += usize::from(doctor.code == 6);
        let recall = home.run(&["recall", "note 7"]);
        assert!([0, 6].contains(&recall.code), "{recall:?}");
    }
    assert!(seen >= 8, "doctor saw {seen} damaged pages of 12 (a page may be free)");
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(home.exported().len(), 300);
}

#[test]
fn a_file_of_another_kind_is_named() {
    let home = Home::new();
    home.ok(&["remember", "red apple"]);
    std::fs::write(database(&home), "this is no database, but it is long enough to be looked at twice").unwrap();
    assert!(home.fails(6, &["recall", "apple"]).contains("not an Earmark database"));
    std::fs::write(home.path("a-file"), "x").unwrap();
    let file = home.path("a-file");
    assert!(home.fails(6, &["--data-dir", file.to_str().unwrap(), "recall", "x"]).contains("folder"));
}

/// A folder mounted for one test.
struct Mount(PathBuf);

impl Mount {
    /// `None`, with the reason printed, where mounting is not permitted.
    fn new(folder: &Path, args: &[&str]) -> Option<Mount> {
        std::fs::create_dir_all(folder).unwrap();
        let output = Command::new("mount").args(args).arg(folder).output();
        match output {
            Ok(output) if output.status.success() => Some(Mount(folder.to_owned())),
            Ok(output) => skip(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => skip(&error.to_string()),
        }
    }
}

fn skip(reason: &str) -> Option<Mount> {
    eprintln!("skipped: cannot mount ({})", reason.trim());
    None
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let home = Home::new();
    let folder = home.path("small");
    let Some(_mount) = Mount::new(&folder, &["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) else { return };
    let folder = folder.to_str().unwrap();
    let mut stored = 0;
    let failed = (0..40).find_map(|i| {
        let text = format!("note {i} {}", "filler ".repeat(9000));
        let run = home.run(&["--data-dir", folder, "remember", &text]);
        stored += usize::from(run.code == 0);
        (run.code != 0).then_some(run)
    });
    let failed = failed.expect("1 MB is full at some point").expect(6, &["remember"]);
    assert!(failed.err.contains("full"), "{}", failed.err);
    let other = home.path("copy");
    std::fs::create_dir_all(&other).unwrap();
    let copied = Command::new("cp").arg("-a").arg(home.path("small/namespaces")).arg(&other).status().unwrap();
    assert!(copied.success());
    let exported = home.ok(&["--data-dir", other.to_str().unwrap(), "export"]);
    assert_eq!(exported.lines().count(), stored, "what was acknowledged is there, and nothing else");
    home.ok(&["--data-dir", other.to_str().unwrap(), "recall", "note 0"]);
}

#[test]
fn a_read_only_folder_says_so() {
    let home = Home::new();
    home.ok(&["remember", "red apple"]);
    let data = home.path("data");
    let Some(mount) = Mount::new(&data, &["--bind", data.to_str().unwrap()]) else { return };
    let remounted = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&data).status().unwrap();
    if !remounted.success() {
        eprintln!("skipped: cannot mount read-only");
        return;
    }
    for args in [&["remember", "green pear"][..], &["recall", "apple"]] {
        let error = home.fails(6, args);
        assert!(error.contains("read-only") && error.contains("data"), "{error}");
    }
    drop(mount);
    assert_eq!(home.exported().len(), 1);
    home.still_works();
}
