//! The data folder: one folder per namespace inside it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Store;
use super::errors::io_error;
use crate::error::{Error, Result};

const NAMESPACES: &str = "namespaces";
const MAX_NAME_BYTES: usize = 128;

/// A folder that holds namespaces.
#[derive(Debug, Clone)]
pub struct DataFolder {
    path: PathBuf,
}

impl DataFolder {
    /// Opens `path`, making it if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] if it is not a folder or not writable. A full disk shows when something is stored.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let namespaces = path.join(NAMESPACES);
        if path.exists() && !path.is_dir() {
            return Err(Error::Io { path, reason: "is a file, a folder is needed".to_owned() });
        }
        fs::create_dir_all(&namespaces).map_err(|e| io_error(&path, &e))?;
        check_writable(&path)?;
        Ok(DataFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all namespaces, sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let folder = self.path.join(NAMESPACES);
        let entries = fs::read_dir(&folder).map_err(|e| io_error(&folder, &e))?;
        let named = |entry: fs::DirEntry| decode(entry.file_name().to_str()?);
        let exists = |name: &String| self.folder_of(name).join(Store::DATABASE).is_file();
        let mut names: Vec<String> = entries.flatten().filter_map(named).filter(exists).collect();
        names.sort();
        Ok(names)
    }

    /// Opens the namespace `name`, making it if it is missing and `create` says so.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty or overlong name, [`Error::NotFound`], or what [`Store::open`] says.
    pub fn open_namespace(&self, name: &str, create: bool) -> Result<Store> {
        check_name(name)?;
        let folder = self.folder_of(name);
        if !create && !folder.join(Store::DATABASE).is_file() {
            return Err(Error::not_found("namespace", name));
        }
        fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
        Store::open(name, &folder)
    }

    /// Removes the namespace `name` with everything in it; `false` if there is none.
    /// Nobody may have it open: a store that is open elsewhere would go on with files that are gone.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty or overlong name, [`Error::Io`].
    pub fn remove_namespace(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        let folder = self.folder_of(name);
        if !folder.exists() {
            return Ok(false);
        }
        // Under a name that `namespaces` does not list, so that a crash in between leaves no half namespace.
        let leaving = self.path.join(NAMESPACES).join(format!("{}.removed", uuid::Uuid::now_v7().simple()));
        fs::rename(&folder, &leaving).map_err(|e| io_error(&folder, &e))?;
        fs::remove_dir_all(&leaving).map_err(|e| io_error(&leaving, &e))?;
        Ok(true)
    }

    fn folder_of(&self, name: &str) -> PathBuf {
        self.path.join(NAMESPACES).join(encode(name))
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let reason = format!("must have 1 to {MAX_NAME_BYTES} bytes, has {}", name.len());
        return Err(Error::invalid("namespace", reason));
    }
    Ok(())
}

fn check_writable(folder: &Path) -> Result<()> {
    let probe = folder.join(format!(".write-test-{}", uuid::Uuid::now_v7().simple()));
    let written = fs::write(&probe, b"earmark");
    let removed = fs::remove_file(&probe);
    match written.and(removed) {
        // What is there can still be read, and forgotten.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(()),
        other => other.map_err(|e| io_error(folder, &e)),
    }
}

/// A folder name for any namespace; upper case is encoded too, since some file systems do not tell it from lower.
fn encode(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    name.bytes().map(encode).collect()
}

/// Inverse of [`encode`]; `None` for a folder that is no namespace.
fn decode(folder: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = folder.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (encode(&name) == folder).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_come_back() {
        for name in ["default", "Default", "a/../b", "..", "Ünï", "con.", "%2e", "x y"] {
            assert_eq!(decode(&encode(name)).as_deref(), Some(name));
            assert!(!encode(name).contains(['/', '.', '\\']));
        }
        assert_eq!(encode("A-b"), "%41-b");
        assert_eq!(decode("Upper"), None);
        assert_eq!(decode("%4"), None);
    }
}
